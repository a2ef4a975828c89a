//! Judges files of tuned configs that exist.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use diode_core::hardware::{Hardware, find};
use diode_model::Model;
use diode_workloads::file_check::{
    Finding, Judged, Reader as For, Rule, Severity, check_folder, consumer_of, note_model,
};
use diode_workloads::file_names::{Consumer, FileName, hardware_of};
use diode_workloads::named::Named;
use diode_workloads::served::Reader;
use diode_workloads::slower::slower_than_default;

use crate::commands::tune::Format;
use crate::failure::Usage;
use crate::input::models::shipped_for;
use crate::output;

/// Both projects together ship 1,246 files, of at most 20 kB.
const MAX_FILES: usize = 20_000;
const MAX_FILE: u64 = 4 << 20;

/// Prints what is wrong with the files of a folder, for a served model if one is named. It fails if a server would compute wrong sums, fail, or not find a
/// file.
pub(super) fn run(
    folder: &Path,
    named: Option<&Named>,
    reader: Option<Reader>,
    hardware: Option<&str>,
    format: Format,
) -> anyhow::Result<()> {
    let hardware = hardware.map(|name| {
        find(name).ok_or_else(|| {
            Usage::new(format!("--hardware: got `{name:.100}`, expected hardware of the catalogue"))
        })
    });
    let hardware = hardware.transpose()?;
    Usage::refuse_if(
        folder.is_file(),
        format_args!("--check: got the file {}, expected a folder of tuned configs", folder.display()),
    )?;
    let (mut paths, mut odd) = (Vec::new(), Vec::new());
    collect(folder, &mut paths, &mut odd)?;
    Usage::refuse_if(
        paths.is_empty() && odd.is_empty(),
        format_args!(
            "{}: got a folder without files that end in .json, expected tuned configs",
            folder.display()
        ),
    )?;
    let mut files = Vec::new();
    for path in &paths {
        let bytes = diode_formats::read_bounded(path, MAX_FILE)?;
        files.push((shown(folder, path), String::from_utf8_lossy(&bytes).into_owned()));
    }
    files.sort();
    let judged: Vec<Judged<'_>> = files.iter().map(|(path, text)| Judged { path, text }).collect();
    let consumer = match reader {
        Some(reader) => reader
            .server()
            .ok_or_else(|| Usage::new("--for: got inductor with --check, expected vllm or sglang"))?,
        None => {
            let guessed = consumer_of(judged.iter().map(|file| file.path));
            say!("judged for {}, by the names of most files; --for says otherwise", guessed.title());
            guessed
        }
    };
    let mut findings = check_folder(&judged, For { consumer, hardware: hardware.as_ref() });
    findings.extend(odd.iter().map(|(path, what)| what.finding(shown(folder, path))));
    for model in models_of(&judged) {
        findings.extend(slower_than_default(&judged, consumer, &model, named)?);
    }
    if let Some(named) = named {
        note_model(&mut findings, &judged, consumer, named);
    }
    findings.sort_by(|a, b| (&a.file, a.severity, a.rule).cmp(&(&b.file, b.severity, b.rule)));
    match format {
        Format::Json => output::json(&findings)?,
        Format::Table => output::text_out(&in_words(&findings, consumer, judged.len()))?,
    }
    let bad =
        |finding: &&Finding| matches!(finding.severity, Severity::Wrong | Severity::Crash | Severity::Unread);
    match findings.iter().filter(bad).count() {
        0 => Ok(()),
        number => bail!(
            "{}: with these, {} fails, computes wrong sums or does not open the file",
            output::count(number, "finding"),
            consumer.title()
        ),
    }
}

/// The models that come with the program and have learnt experts, for the devices of the files.
fn models_of(files: &[Judged<'_>]) -> Vec<Model> {
    let mut found: Vec<Hardware> = Vec::new();
    for file in files {
        let name = FileName::parse(file.path.rsplit('/').next().unwrap_or_default());
        let hardware = name.ok().and_then(|name| hardware_of(name.device()?));
        if let Some(hardware) =
            hardware.filter(|hardware| found.iter().all(|known| known.slug != hardware.slug))
        {
            found.push(hardware);
        }
    }
    let knows_experts = |model: &Model| {
        model.metadata().stands_in_from.is_none()
            && model.serving().is_some_and(|serving| serving.about.stands_in_from.is_none())
    };
    found.iter().filter_map(|hardware| shipped_for(hardware).ok()).filter(knows_experts).collect()
}

fn in_words(findings: &[Finding], consumer: Consumer, files: usize) -> String {
    let mut text = format!("{} for {}\n", output::count(files, "file"), consumer.title());
    for finding in findings {
        let at: Vec<String> = finding.batches.iter().map(ToString::to_string).collect();
        let at = if at.is_empty() { String::new() } else { format!(" at batch size {}", at.join(", ")) };
        let Finding { severity, file, what, why, todo, .. } = finding;
        text += &format!("\n{file}{at}\n  {severity}: {what}: {why}\n  {todo}\n");
    }
    if findings.is_empty() {
        text += "nothing to say against them\n";
    }
    text
}

/// A path below a folder, with `/` between its parts.
fn shown(folder: &Path, path: &Path) -> String {
    let below = path.strip_prefix(folder).unwrap_or(path);
    let parts: Vec<_> = below.iter().map(|part| part.to_string_lossy()).collect();
    parts.join("/")
}

/// What ends in `.json` and is no file.
enum Odd {
    DeadLink,
    NoFile,
}

impl Odd {
    fn finding(&self, file: String) -> Finding {
        let (severity, what, why) = match self {
            Self::DeadLink => (Severity::Unread, "a link that leads nowhere", "the server cannot open it"),
            Self::NoFile => (Severity::Note, "no regular file", "it is not judged"),
        };
        Finding {
            severity,
            rule: Rule::Name,
            file,
            batches: Vec::new(),
            what: what.to_owned(),
            why: why.to_owned(),
            todo: "remove it".to_owned(),
        }
    }
}

/// The files below a folder that end in `.json`, and what else does.
fn collect(folder: &Path, paths: &mut Vec<PathBuf>, odd: &mut Vec<(PathBuf, Odd)>) -> anyhow::Result<()> {
    let entries =
        fs::read_dir(folder).map_err(|error| Usage::new(format!("{}: {error}", folder.display())))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if path.extension().is_some_and(|ending| ending == "json") {
            match fs::metadata(&path) {
                Ok(there) if there.is_file() => paths.push(path),
                Err(_) if kind.is_symlink() => odd.push((path, Odd::DeadLink)),
                _ => odd.push((path, Odd::NoFile)),
            }
        } else if kind.is_dir() {
            collect(&path, paths, odd)?;
        }
        Usage::refuse_if(
            paths.len() > MAX_FILES,
            format_args!(
                "{}: got more than {MAX_FILES} files, expected a folder of tuned configs",
                folder.display()
            ),
        )?;
    }
    Ok(())
}
