//! Findings about files of tuned configs: names that are never found, configs that fail or compute wrong sums, and
//! gaps that cost time.

use diode_core::hardware::Hardware;
use diode_core::named_enum;
use serde::Serialize;

use crate::catalogue::collision;
use crate::entry_check::{Entries, shared_memory};
use crate::file_body::{BATCH_SIZES, Body};
use crate::file_names::{Consumer, DtypeWord, FileName, device_name, hardware_of, triton_of};
use crate::layers::Serving;
use crate::named::Named;

named_enum! {
    /// How bad a finding is, the worst first.
    Severity("severity") {
        /// The server computes wrong numbers.
        Wrong = "wrong",
        /// The server fails when it starts or at such a batch.
        Crash = "crash",
        /// The server never opens the file.
        Unread = "unread",
        /// The server takes a config that is likely slower than another, or than its default.
        Slow = "slow",
        Note = "note",
    }
}

named_enum! {
    /// The rule that a file breaks.
    Rule("rule") {
        Name = "name",
        Spelling = "spelling",
        Place = "place",
        Word = "dtype-word",
        Block = "block-shape",
        Device = "device",
        Body = "body",
        Key = "parameter",
        Tile = "tile",
        Sums = "sums",
        SharedMemory = "shared-memory",
        BatchSizes = "batch-sizes",
        Alias = "alias",
        Pair = "pair",
        Collision = "collision",
        Default = "default",
    }
}

/// Something to know about a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub severity: Severity,
    pub rule: Rule,
    /// The file's path in the folder.
    pub file: String,
    /// The batch sizes concerned. Empty if it is the file as a whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub batches: Vec<u64>,
    pub what: String,
    pub why: String,
    pub todo: String,
}

/// A file to judge.
#[derive(Debug, Clone, Copy)]
pub struct Judged<'a> {
    /// The path in the folder, with `/` between its parts.
    pub path: &'a str,
    pub text: &'a str,
}

/// For whom files are judged.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    pub consumer: Consumer,
    /// The hardware that should find them. `None` accepts any.
    pub hardware: Option<&'a Hardware>,
}

/// The project that most of the files are for, by their names and folders. SGLang finds none without its signs, and vLLM
/// none with them.
pub fn consumer_of<'a>(paths: impl Iterator<Item = &'a str>) -> Consumer {
    let is_sglang = |path: &str| {
        path.contains("block_shape=[") && path.contains(", ")
            || path.contains("per_channel_quant=")
            || path.ends_with("_down.json")
            || path.split('/').any(|part| triton_of(part).is_some())
    };
    let (sglang, vllm): (Vec<&str>, Vec<&str>) = paths.partition(|path| is_sglang(path));
    if !sglang.is_empty() && sglang.len() >= vllm.len() { Consumer::Sglang } else { Consumer::Vllm }
}

/// Findings about the files of a folder, file by file, the worst of a file first.
pub fn check_folder(files: &[Judged<'_>], reader: Reader<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = files.iter().flat_map(|&file| check_file(file, reader)).collect();
    findings.extend(check_pairs(files, reader.consumer));
    findings.sort_by(|a, b| (&a.file, a.severity, a.rule).cmp(&(&b.file, b.severity, b.rule)));
    findings
}

/// Notes that say how a model is served when it looks for each file of experts. They replace those on other models that look
/// for it.
pub fn note_model(findings: &mut Vec<Finding>, files: &[Judged<'_>], consumer: Consumer, named: &Named) {
    findings.retain(|finding| finding.rule != Rule::Collision);
    for file in files {
        let name = FileName::parse(file.path.rsplit('/').next().unwrap_or(file.path));
        let Ok(FileName::Experts(key)) = name else { continue };
        let mut found = Found { path: file.path, findings: Vec::new() };
        let (what, why, todo) = match named.user(&key, consumer) {
            Some(user) => {
                let Serving { tensor_parallel, expert_parallel, .. } = user.serving;
                let split =
                    format!("{} looks for it at --tp {tensor_parallel} --ep {expert_parallel}", named.name);
                (
                    split,
                    "served otherwise, it looks for another name",
                    "nothing, if you serve it so".to_owned(),
                )
            }
            None => {
                let what = format!("{} never looks for it, on 1 to 64 GPUs", named.name);
                let why = "its experts are of another number or width, or their weights of another form";
                (what, why, format!("write its own files with `diode tune {}`", named.name))
            }
        };
        found.add(Severity::Note, Rule::Name, what, why, todo);
        findings.append(&mut found.findings);
    }
}

/// Findings about one file.
pub fn check_file(file: Judged<'_>, reader: Reader<'_>) -> Vec<Finding> {
    let name = file.path.rsplit('/').next().unwrap_or(file.path);
    let mut found = Found { path: file.path, findings: Vec::new() };
    let parsed = match FileName::parse(name) {
        Ok(FileName::Other { about, .. }) => {
            found.add(
                Severity::Note,
                Rule::Name,
                format!("a table for {about}"),
                "it is not judged",
                "nothing",
            );
            return found.findings;
        }
        Ok(parsed) => parsed,
        Err(invalid) => {
            let todo = "rename the file as the server's log spells it";
            found.add(Severity::Unread, Rule::Name, invalid.to_string(), NEVER, todo);
            return found.findings;
        }
    };
    found.name(name, &parsed, reader);
    match Body::parse(file.text) {
        Err(invalid) => {
            let why = "the server fails when it reads the file";
            found.add(
                Severity::Crash,
                Rule::Body,
                invalid.to_string(),
                why,
                "remove the file, or tune it again",
            );
        }
        Ok(body) => {
            found.body(&body, &parsed, reader.consumer);
            let entries = Entries { path: file.path, name: &parsed, consumer: reader.consumer, body: &body };
            found.findings.extend(entries.judge());
        }
    }
    found.findings.sort_by_key(|finding| (finding.severity, finding.rule));
    found.findings
}

const NEVER: &str = "the server never looks for this name";

struct Found<'a> {
    path: &'a str,
    findings: Vec<Finding>,
}

impl Found<'_> {
    fn add(
        &mut self,
        severity: Severity,
        rule: Rule,
        what: impl Into<String>,
        why: &str,
        todo: impl Into<String>,
    ) {
        self.findings.push(Finding {
            severity,
            rule,
            file: self.path.to_owned(),
            batches: Vec::new(),
            what: what.into(),
            why: why.to_owned(),
            todo: todo.into(),
        });
    }

    fn name(&mut self, name: &str, parsed: &FileName, reader: Reader<'_>) {
        let Reader { consumer, hardware } = reader;
        let title = consumer.title();
        let expected = parsed.name(consumer);
        if expected != name {
            let what = format!("the name is not spelled as {title} spells it");
            self.add(Severity::Unread, Rule::Spelling, what, NEVER, format!("rename it to `{expected}`"));
        }
        let is_dense = matches!(parsed, FileName::Dense(_));
        if let Some(what) = unread_word(parsed, consumer) {
            self.add(Severity::Unread, Rule::Word, what, NEVER, "remove the file");
        }
        if let Some(what) = misfit_block(parsed, consumer) {
            self.add(Severity::Unread, Rule::Block, what, NEVER, "remove the file");
        }
        if let FileName::Experts(key) = parsed
            && let Some(what) = collision(key, consumer)
        {
            let why = "the name says neither hidden size nor experts of a token";
            self.add(
                Severity::Note,
                Rule::Collision,
                what,
                why,
                "write it with `diode tune MODEL` for the model that you serve",
            );
        }
        let device = parsed.device().unwrap_or_default();
        let wanted = hardware.map(|hardware| device_name(hardware, consumer, is_dense));
        let folds = consumer == Consumer::Vllm && matches!(parsed, FileName::Experts(_));
        if device.is_empty() {
            self.add(Severity::Unread, Rule::Device, "the name has no device", NEVER, "remove the file");
        } else if device.contains(char::is_whitespace) {
            let what = format!("the device `{device:.100}` has a space, where {title} writes `_`");
            self.add(Severity::Unread, Rule::Device, what, NEVER, "rename it");
        } else if let Some(wanted) = wanted.filter(|wanted| wanted != device) {
            let what = format!("the file is for {device}, and {title} calls this device {wanted}");
            self.add(Severity::Unread, Rule::Device, what, NEVER, "nothing, if it is for another machine");
        } else if folds && device != "NVIDIA_H200" && device.split('_').any(|word| word == "H200") {
            let what = format!("vLLM calls {device} NVIDIA_H200");
            self.add(Severity::Unread, Rule::Device, what, NEVER, "rename it");
        } else if device == "NVIDIA_H100" || device.ends_with("_OAM") {
            let what = format!("no driver that we know calls a device {device}");
            self.add(
                Severity::Note,
                Rule::Device,
                what,
                "the server looks for the driver's name",
                "compare the server's log",
            );
        } else if hardware_of(device).is_none() {
            let what = format!("Diode doesn't know the device {device:.100}");
            let why = match shared_memory(device) {
                Some(_) => "its speed was not judged",
                None => "its tiles and its speed were not judged",
            };
            self.add(Severity::Note, Rule::Device, what, why, "measure it on such a device");
        }
        let bundled = self
            .path
            .contains(consumer.dense_folder().trim_start_matches("vllm/").trim_start_matches("sglang/"));
        if is_dense && !bundled {
            let what = format!("{title} reads such files only from {}", consumer.dense_folder());
            let why = "no variable names another folder";
            self.add(Severity::Note, Rule::Place, what, why, "copy it there");
        }
        if consumer == Consumer::Sglang && matches!(parsed, FileName::Experts(_)) {
            let folder = self.path.rsplit('/').nth(1);
            if folder.is_none_or(|folder| triton_of(folder).is_none()) {
                let what = "the file is in no folder of a version of Triton";
                let todo = format!("move it to {}", consumer.folder(consumer.triton()));
                self.add(Severity::Unread, Rule::Place, what, NEVER, todo);
            }
        }
    }

    fn body(&mut self, body: &Body, parsed: &FileName, consumer: Consumer) {
        let takes_version = consumer == Consumer::Vllm && !matches!(parsed, FileName::Dense(_));
        if body.triton_version.is_some() && !takes_version {
            let why = "the server reads it as a batch size and fails";
            self.add(Severity::Crash, Rule::Body, "there is a `triton_version`", why, "remove it");
        }
        let zero = body.entries().any(|(batch, _)| batch == 0).then_some("0");
        let below: Vec<&str> = body.negative.iter().map(String::as_str).chain(zero).collect();
        if !below.is_empty() {
            let what = format!("no batch has {} tokens", below.join(" or "));
            let why = "the server asks for no such batch size";
            self.add(Severity::Unread, Rule::BatchSizes, what, why, "remove the entry");
        }
        if body.entries().len() == 0 {
            self.add(
                Severity::Note,
                Rule::BatchSizes,
                "there is no config",
                "the server takes its default",
                "remove the file",
            );
            return;
        }
        if matches!(parsed, FileName::StateSpace(_)) {
            return;
        }
        let batches: Vec<u64> = body.entries().map(|(batch, _)| batch).collect();
        if !batches.is_sorted() {
            let why = "of two equally near batch sizes, the server takes the first";
            self.add(Severity::Note, Rule::BatchSizes, "the batch sizes are not in order", why, "sort them");
        }
        let far: Vec<u64> = BATCH_SIZES.into_iter().filter(|&batch| is_far(body, batch)).collect();
        if let (Some(first), Some(last)) = (far.first(), far.last()) {
            let what = format!(
                "{} of the {} usual batch sizes, from {first} to {last}, have no config near them",
                far.len(),
                BATCH_SIZES.len()
            );
            let why = "the server takes the nearest one at any distance";
            self.add(Severity::Slow, Rule::BatchSizes, what, why, "tune these batch sizes");
            if let Some(finding) = self.findings.last_mut() {
                finding.batches = far;
            }
        }
    }
}

/// Whether a batch size takes the config of one that is less than half or more than twice as large.
pub fn is_far(body: &Body, batch: u64) -> bool {
    body.nearest(batch)
        .is_none_or(|(nearest, _)| nearest > batch.saturating_mul(2) || nearest.saturating_mul(2) < batch)
}

/// Why no server asks for a name with this word.
fn unread_word(name: &FileName, consumer: Consumer) -> Option<String> {
    let title = consumer.title();
    match name {
        FileName::Experts(key) => {
            let by_channel = key.per_channel || key.block.is_some();
            match (key.word, consumer) {
                (DtypeWord::Bf16 | DtypeWord::Float8 | DtypeWord::Fp8Channelwise, _) => {
                    Some(format!("{title} has no dtype word `{}`", key.word))
                }
                (DtypeWord::Int8W8A8, Consumer::Vllm) => {
                    Some("vLLM names int8 weights with int8 activations by no word".to_owned())
                }
                (DtypeWord::Fp8W8A16, Consumer::Sglang) => {
                    Some("SGLang has no dtype word `fp8_w8a16`".to_owned())
                }
                (DtypeWord::Int8W8A8, Consumer::Sglang) if !by_channel => {
                    Some("SGLang's int8 has `per_channel_quant=True` or a block shape".to_owned())
                }
                (DtypeWord::None, _) if key.block.is_some() => {
                    Some("there is a block shape, and no dtype word".to_owned())
                }
                _ if consumer == Consumer::Vllm && (key.per_channel || key.down) => {
                    Some("vLLM names neither channels nor the second multiplication".to_owned())
                }
                _ => None,
            }
        }
        FileName::Dense(key) => match (key.word, key.block, consumer) {
            (DtypeWord::Fp8W8A8, Some(_), _) => None,
            (DtypeWord::Int8W8A8, Some(_), Consumer::Sglang) => None,
            (DtypeWord::Fp8Channelwise, None, Consumer::Sglang) => None,
            _ => Some(format!("{title} has no reader for such dense files")),
        },
        FileName::StateSpace(_) | FileName::Other { .. } => None,
    }
}

/// Why no layer of this width has these blocks of scales.
fn misfit_block(name: &FileName, consumer: Consumer) -> Option<String> {
    let FileName::Experts(key) = name else { return None };
    let [rows, _] = key.block.filter(|[rows, _]| !key.n.is_multiple_of(u64::from(*rows)))?;
    let n = key.n;
    Some(match consumer {
        Consumer::Vllm => {
            format!("blocks of {rows} do not divide {n}, so vLLM refines them and looks for another name")
        }
        Consumer::Sglang => {
            format!("SGLang refuses experts of width {n}, which blocks of {rows} do not divide")
        }
    })
}

/// SGLang's files for the second multiplication beside those for the first.
fn check_pairs(files: &[Judged<'_>], consumer: Consumer) -> Vec<Finding> {
    let mut findings = Vec::new();
    if consumer != Consumer::Sglang {
        return findings;
    }
    for down in files {
        let Some(stem) = down.path.strip_suffix("_down.json") else { continue };
        let up = format!("{stem}.json");
        let mut found = Found { path: down.path, findings: Vec::new() };
        let Some(up) = files.iter().find(|file| file.path == up) else {
            let what = "the file for the first multiplication is missing";
            let why = "its BLOCK_SIZE_M replaces this file's";
            found.add(Severity::Slow, Rule::Pair, what, why, "tune both");
            findings.extend(found.findings);
            continue;
        };
        let (Ok(up), Ok(down)) = (Body::parse(up.text), Body::parse(down.text)) else { continue };
        let rows =
            |body: &Body, batch| body.nearest(batch).and_then(|(_, entry)| entry?.number("BLOCK_SIZE_M"));
        let asked = up.entries().chain(down.entries()).map(|(batch, _)| batch);
        let mut differ: Vec<u64> = asked.filter(|&batch| rows(&up, batch) != rows(&down, batch)).collect();
        differ.sort_unstable();
        differ.dedup();
        if !differ.is_empty() {
            let what = "BLOCK_SIZE_M differs from the file for the first multiplication";
            found.add(
                Severity::Slow,
                Rule::Pair,
                what,
                "SGLang takes the first one for both",
                "tune both together",
            );
            found.findings[0].batches = differ;
        }
        findings.extend(found.findings);
    }
    findings
}

#[cfg(test)]
mod tests;
