//! The files that a server's log says are missing.

use std::path::Path;

use diode_core::hardware::Hardware;
use diode_workloads::catalogue::users;
use diode_workloads::file_body::BATCH_SIZES;
use diode_workloads::file_names::{Consumer, DenseKey, DtypeWord, FileKey, FileName, hardware_of};
use diode_workloads::layers::{DenseLayer, ExpertsLayer};
use diode_workloads::server_log::{Log, Mention};
use diode_workloads::tuning::Tuned;

use crate::commands::tune::model::Named;
use crate::commands::tune::report::{Report, Written};
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
        let told = log.model.as_deref().filter(|_| named.is_none()).and_then(Named::of_log);
        let name =
            named.or(told.as_ref()).map_or_else(|| path.display().to_string(), |named| named.name.clone());
        let mut report = Report::new(&name, None, &model.metadata().hardware, id);
        let mut left = Vec::new();
        for mention in &missing {
            let consumer = mention.consumer;
            match &mention.name {
                FileName::Experts(key) => match layer_of(key, consumer, named, told.as_ref()) {
                    Ok(layer) => {
                        let tuned =
                            Tuned::experts(&model, &layer, consumer, &BATCH_SIZES).map_err(Usage::new)?;
                        let triton = mention.triton.as_deref().unwrap_or(consumer.triton());
                        let key = FileKey { down: false, ..key.clone() };
                        self.add_experts(&layer, &key, &tuned, consumer, triton, &mut report);
                    }
                    Err(why) => left.push(format!("{}: {why}", key.name(consumer))),
                },
                FileName::Dense(key) if is_block_fp8(key) => {
                    let layer = DenseLayer::of_sizes(key.n, key.k);
                    let tuned = Tuned::dense(&model, &layer, consumer, &BATCH_SIZES).map_err(Usage::new)?;
                    report.layer(format!("{}×{}", key.n, key.k), &tuned);
                    let path = self.out.join(key.name(consumer));
                    report.written.push(Written::new(path, tuned.body().to_text()));
                    report.dense_files_go_to(consumer);
                }
                other => left.push(format!("{}: no kernel of this kind is known here", other.name(consumer))),
            }
        }
        if let Some(told) = &told {
            let split = log.tensor_parallel.map_or_else(String::new, |tp| format!(", TP {tp}"));
            report.notes.insert(format!("the log is of {}{split}", told.name));
        }
        if log.reads_no_files() {
            report
                .notes
                .insert("the log says that the server chose another kernel, which reads no files".to_owned());
        }
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
                return Err(Usage::new(format!("the log names {device}, which Diode doesn't know")).into());
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

/// Whether a file is for a multiplication by fp8 in blocks of 128×128.
fn is_block_fp8(key: &DenseKey) -> bool {
    key.word == DtypeWord::Fp8W8A8 && key.block == Some([128, 128])
}

/// The layer that looks for a file: the named model's, or that of the model that the log tells, or that of the only model
/// of the catalogue that does.
fn layer_of(
    key: &FileKey,
    consumer: Consumer,
    named: Option<&Named>,
    told: Option<&Named>,
) -> Result<ExpertsLayer, String> {
    let of = |named: &Named| named.architecture.serving_for(key, consumer).map(|(_, layer)| layer);
    if let Some(named) = named {
        return of(named).ok_or_else(|| format!("{} does not look for it", named.name));
    }
    // A server may load a second model, which drafts.
    if let Some(layer) = told.and_then(of) {
        return Ok(layer);
    }
    let mut found: Vec<(&str, ExpertsLayer)> = Vec::new();
    for user in users(key, consumer) {
        let same = |(_, known): &(&str, ExpertsLayer)| known.problems(64) == user.layer.problems(64);
        if !found.iter().any(same) {
            found.push((user.model, user.layer));
        }
    }
    match found.len() {
        0 => Err("no model of the catalogue looks for it; name the model or its config.json before --log"
            .to_owned()),
        1 => Ok(found.remove(0).1),
        _ => {
            let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
            Err(format!("{} look for it; name one of them before --log", names.join(" and ")))
        }
    }
}
