//! What was timed so far, kept in the folder of the files. So nothing is lost if the program ends, and it can go on.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use diode_core::ids::ModelId;
use diode_workloads::layers::Serving;
use serde::{Deserialize, Serialize};

use crate::commands::tune::timer::{Launch, Outcome};
use crate::failure::Usage;

/// The file's name. No server looks for such a file.
const NAME: &str = "measured.jsonl";
const FORMAT: &str = "diode-tune/1";
/// All batch sizes of a model need a thousandth of it.
const MOST: u64 = 256 << 20;

/// What is measured. Only times of one question belong together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Question {
    pub(super) model: String,
    #[serde(flatten)]
    pub(super) serving: Serving,
    /// What reads the files.
    pub(super) reader: String,
    pub(super) hardware: String,
    /// The model that named the first picks.
    pub(super) predicted_by: ModelId,
    pub(super) picks: usize,
}

#[derive(Serialize, Deserialize)]
struct Head {
    format: String,
    #[serde(flatten)]
    question: Question,
}

/// The times of one batch size of a layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// The name of the layer's file.
    pub(super) file: String,
    pub(super) batch: u64,
    /// Whose kernel was timed.
    pub(super) kernel: String,
    pub(super) launches: Vec<(Launch, Outcome)>,
}

impl Entry {
    /// The rounds of a launch.
    pub(super) fn rounds(&self, wanted: &Launch) -> Option<&[f64]> {
        self.launches.iter().find_map(|(launch, outcome)| match outcome {
            Outcome::Us(rounds) if launch == wanted => Some(rounds.as_slice()),
            _ => None,
        })
    }
}

pub(super) struct Journal {
    path: PathBuf,
    file: File,
    pub(super) entries: Vec<Entry>,
    /// Whether it holds nothing but its head, and goes with this value.
    is_new: bool,
}

impl Drop for Journal {
    fn drop(&mut self) {
        if self.is_new && self.entries.is_empty() {
            // Nothing was timed, so nobody needs it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Journal {
    /// Opens the journal of a folder for this process alone. `resume` goes on with one of the same question; `force`
    /// begins anew.
    pub(super) fn open(
        folder: &Path,
        question: &Question,
        resume: bool,
        force: bool,
    ) -> anyhow::Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        let path = folder.join(NAME);
        let shown = path.display().to_string();
        let opened = OpenOptions::new().read(true).append(true).create(true).open(&path);
        let file = opened.with_context(|| format!("cannot write {shown}"))?;
        match file.try_lock() {
            // Some file systems have no locks. There, two processes are not kept apart.
            Ok(()) | Err(TryLockError::Error(_)) => {}
            Err(TryLockError::WouldBlock) => {
                bail!(
                    "{shown}: another diode measures into this folder; wait for its end or choose another --out"
                )
            }
        }
        let bytes = diode_formats::read_bounded(&path, MOST)?;
        let mut journal = Self { path, file, entries: Vec::new(), is_new: false };
        let text = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        if text.is_empty() || !resume && force {
            journal.begin(question)?;
            return Ok(journal);
        }
        Usage::refuse_if(
            !resume,
            format_args!(
                "{shown}: got an earlier measurement; go on with --resume, or replace it with --force"
            ),
        )?;
        let mut lines = text.lines();
        let head = lines.next().and_then(|line| serde_json::from_str::<Head>(line).ok());
        let Some(head) = head.filter(|head| head.format == FORMAT) else {
            return Err(Usage::new(format!(
                "{shown}: got a file that `diode tune --measure` did not write; move it away, or choose another --out"
            ))
            .into());
        };
        if head.question != *question {
            let (given, expected) = different(&head.question, question);
            return Err(Usage::new(format!(
                "{shown}: got a measurement of {given}, expected {expected}; leave out --resume and add --force, or \
                 choose another --out"
            ))
            .into());
        }
        // A line is cut short if the disk was full or the node went down. Its batch size is measured again.
        let Some(end) = text.find('\n') else {
            journal.begin(question)?;
            return Ok(journal);
        };
        let mut whole = end + 1;
        for line in text[whole..].split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let Ok(entry) = serde_json::from_str(line) else { break };
            journal.entries.push(entry);
            whole += line.len();
        }
        journal.file.set_len(whole as u64).with_context(|| journal.cannot())?;
        Ok(journal)
    }

    fn begin(&mut self, question: &Question) -> anyhow::Result<()> {
        self.file.set_len(0).with_context(|| self.cannot())?;
        self.is_new = true;
        let head = Head { format: FORMAT.to_owned(), question: question.clone() };
        self.write(&head)
    }

    /// Keeps the times of a batch size.
    pub(super) fn add(&mut self, entry: Entry) -> anyhow::Result<()> {
        self.write(&entry)?;
        self.entries.push(entry);
        Ok(())
    }

    fn write(&mut self, line: &impl Serialize) -> anyhow::Result<()> {
        let line = serde_json::to_string(line)? + "\n";
        self.file.write_all(line.as_bytes()).with_context(|| self.cannot())
    }

    fn cannot(&self) -> String {
        format!("cannot write {}", self.path.display())
    }

    /// The times of a layer's batch size.
    pub(super) fn find(&self, file: &str, batch: u64) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.file == file && entry.batch == batch)
    }
}

/// The first difference of two questions, in words.
fn different(given: &Question, expected: &Question) -> (String, String) {
    let words = |question: &Question| {
        let Serving { tensor_parallel, expert_parallel, quantization } = question.serving;
        [
            question.model.clone(),
            format!("{quantization}, TP {tensor_parallel}, EP {expert_parallel}"),
            format!("files for {}", question.reader),
            question.hardware.clone(),
            format!("the picks of model {}", question.predicted_by),
            format!("the first {} picks", question.picks),
        ]
    };
    let pairs = words(given).into_iter().zip(words(expected));
    pairs.into_iter().find(|(a, b)| a != b).unwrap_or_default()
}
