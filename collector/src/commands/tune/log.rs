//! The files that a server's log says are missing.

use std::path::Path;

use diode_core::hardware::Hardware;
use diode_workloads::file_names::hardware_of;
use diode_workloads::files::{Files, FilesError};
use diode_workloads::named::Named;
use diode_workloads::server_log::{Log, Mention};

use crate::commands::tune::report::Report;
use crate::commands::tune::{Tune, predicting, write_all};
use crate::failure::Usage;
use crate::input::models;
use crate::output;

/// No log of one start is as large.
const MAX_LOG: u64 = 256 << 20;

impl Tune {
    /// Writes what the log says is missing, as far as it is known for which model.
    pub(super) fn answer_log(&self, path: &Path, named: Option<&Named>) -> anyhow::Result<()> {
        let bytes =
            diode_formats::read_bounded(path, MAX_LOG).map_err(|error| Usage::new(format!("{error:#}")))?;
        let log = Log::read(&String::from_utf8_lossy(&bytes));
        let missing: Vec<&Mention> = log.missing().collect();
        Usage::refuse_if(
            missing.is_empty(),
            format_args!(
                "{}: got a log that names no missing file{}{}, expected one of vLLM or SGLang with `Config file not found`",
                path.display(),
                if log.mentions.is_empty() { "" } else { ", since the server found all of them" },
                log.not_understood.first().map_or_else(String::new, |line| {
                    format!(", and has a line that is not understood ({}: {})", line.line, line.text)
                })
            ),
        )?;
        let hardware = self.hardware_of(&missing)?;
        let (model, id) = predicting(Some(hardware.slug.as_str()))?;
        let told = log.told().filter(|_| named.is_none());
        let name =
            named.or(told.as_ref()).map_or_else(|| path.display().to_string(), |named| named.name.clone());
        let mut report = Report::new(&name, None, &model.metadata().hardware, id);
        let (files, left) = Files::of_log(&model, &log, named);
        report.take(files, &self.out);
        let left: Vec<String> =
            left.iter().map(|(file, why)| format!("{file}: {why}{}", advice(why))).collect();
        let doubts = log.not_understood.iter();
        report.notes.extend(
            doubts.map(|line| format!("line {} is not understood: {}: {}", line.line, line.why, line.text)),
        );
        if report.written.is_empty() {
            return Err(Usage::new(format!("{}: {}", path.display(), left.join("; "))).into());
        }
        write_all(&mut report.written, self.force)?;
        report.print(self.format)?;
        if left.is_empty() {
            return Ok(());
        }
        anyhow::bail!("{} not written: {}", output::count(left.len(), "file"), left.join("; "))
    }

    /// The hardware that the missing files are for, which --hardware may name as well.
    fn hardware_of(&self, missing: &[&Mention]) -> anyhow::Result<Hardware> {
        let mut named: Option<Hardware> = None;
        for mention in missing {
            let Some(device) = mention.name.device() else { continue };
            let Some(hardware) = hardware_of(device) else {
                return Err(Usage::new(format!(
                    "the log names {device}, which Diode doesn't know; expected NVIDIA_H200 or other hardware that --hardware \
                     takes"
                ))
                .into());
            };
            let known = named.get_or_insert_with(|| hardware.clone());
            Usage::refuse_if(
                known.slug != hardware.slug,
                format_args!(
                    "the log names files for {} and {}, expected those of one device",
                    known.slug, hardware.slug
                ),
            )?;
        }
        let given = self.hardware.as_deref().map(|name| predicting(Some(name))).transpose()?;
        let given = given.map(|(model, _)| model.metadata().hardware.clone());
        if let (Some(given), Some(named)) = (&given, &named) {
            Usage::refuse_if(
                given.slug != named.slug,
                format_args!("--hardware: got {}, expected {}, which the log names", given.slug, named.slug),
            )?;
        }
        given.or(named).map_or_else(models::this_gpu, Ok)
    }
}

/// What helps against it.
fn advice(why: &FilesError) -> &'static str {
    match why {
        FilesError::Unknown => "; name the model or its config.json before --log",
        FilesError::Several(_) => "; name one of them before --log",
        _ => "",
    }
}
