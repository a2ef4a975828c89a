//! Findings about files of tuned configs: names that are never found, configs that fail or compute wrong sums, and
//! gaps that cost time.

use diode_core::hardware::Hardware;
use diode_core::named_enum;
use serde::Serialize;

use crate::collisions::collision;
use crate::entry_check::Entries;
use crate::file_body::{BATCH_SIZES, Body};
use crate::file_names::{Consumer, DtypeWord, FileName, device_name, triton_of};

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

/// The project that files are for, by their names and folders. vLLM's do not tell.
pub fn consumer_of<'a>(mut paths: impl Iterator<Item = &'a str>) -> Option<Consumer> {
    let is_sglang = |path: &str| {
        path.contains("block_shape=[") && path.contains(", ")
            || path.contains("per_channel_quant=")
            || path.ends_with("_down.json")
            || path.split('/').any(|part| triton_of(part).is_some())
    };
    let mut is_vllm = false;
    let found = paths.any(|path| {
        is_vllm |= path.contains("block_shape=[") && !path.contains(", ");
        is_sglang(path)
    });
    if found { Some(Consumer::Sglang) } else { is_vllm.then_some(Consumer::Vllm) }
}

/// Findings about the files of a folder, file by file, the worst of a file first.
pub fn check_folder(files: &[Judged<'_>], reader: Reader<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = files.iter().flat_map(|&file| check_file(file, reader)).collect();
    findings.extend(check_pairs(files, reader.consumer));
    findings.sort_by(|a, b| (&a.file, a.severity, a.rule).cmp(&(&b.file, b.severity, b.rule)));
    findings
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
                "judge the configs by the model that you serve",
            );
        }
        let device = parsed.device().unwrap_or_default();
        let wanted = hardware.map(|hardware| device_name(hardware, consumer, is_dense));
        let folds = consumer == Consumer::Vllm && matches!(parsed, FileName::Experts(_));
        if device.is_empty() {
            self.add(Severity::Unread, Rule::Device, "the name has no device", NEVER, "remove the file");
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
mod tests {
    use diode_core::Tile;
    use diode_core::hardware::find;

    use super::*;
    use crate::file_body::Entry;

    fn text(change: impl Fn(u64, &mut Entry)) -> String {
        let mut body = Body::default();
        for batch in BATCH_SIZES {
            let mut entry = Entry::of(&Tile::new(16, 64, 128, 3, 4));
            change(batch, &mut entry);
            body.insert(batch, entry);
        }
        body.to_text()
    }

    fn said(path: &str, text: &str, consumer: Consumer) -> Vec<String> {
        let reader = Reader { consumer, hardware: None };
        let line = |finding: Finding| format!("{} {}: {}", finding.severity, finding.rule, finding.what);
        check_folder(&[Judged { path, text }], reader).into_iter().map(line).collect()
    }

    const BLOCK: &str = "E=8,N=256,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json";

    #[test]
    fn names_that_are_never_found_are_named() {
        let good = text(|_, _| ());
        for (consumer, path, expected) in [
            (Consumer::Vllm, "E=8,N=256,device_name=NVIDIA_H200.json", &[][..]),
            (Consumer::Vllm, "config.json", &["unread name"]),
            (Consumer::Vllm, "nvidia_h100.json", &["note name: a table for Helion kernels of vLLM"]),
            (
                Consumer::Sglang,
                "configs/triton_3_8_0/E=8,N=256,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json",
                &["unread spelling: the name is not spelled as SGLang spells it"],
            ),
            (
                Consumer::Sglang,
                "E=8,N=256,device_name=NVIDIA_H200.json",
                &["unread place: the file is in no folder"],
            ),
            (Consumer::Vllm, "E=8,N=256,device_name=NVIDIA_H200,dtype=bf16.json", &["unread dtype-word"]),
            (
                Consumer::Vllm,
                "E=8,N=256,device_name=NVIDIA_H200,dtype=int8_w8a8.json",
                &["unread dtype-word"],
            ),
            (Consumer::Vllm, "E=8,N=256,device_name=NVIDIA_H200_down.json", &["unread dtype-word"]),
            (
                Consumer::Vllm,
                "E=8,N=192,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json",
                &["unread block-shape: blocks of 128 do not divide 192, so vLLM refines them"],
            ),
            (Consumer::Vllm, "E=8,N=256,device_name=.json", &["unread device: the name has no device"]),
            (
                Consumer::Vllm,
                "E=8,N=256,device_name=NVIDIA_H200_NVL.json",
                &["unread device: vLLM calls NVIDIA_H200_NVL"],
            ),
            (Consumer::Vllm, "E=8,N=256,device_name=NVIDIA_H100.json", &["note device"]),
            (
                Consumer::Vllm,
                "N=256,K=256,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json",
                &[
                    "note place: vLLM reads such files only from vllm/model_executor/layers/quantization/utils/configs",
                ],
            ),
        ] {
            let said = said(path, &good, consumer);
            assert_eq!(said.len(), expected.len(), "{path}: {said:?}");
            assert!(
                said.iter().zip(expected).all(|(said, begins)| said.starts_with(begins)),
                "{path}: {said:?}"
            );
        }
        let h100 = find("nvidia-h100").unwrap();
        let judged = Judged { path: "E=8,N=256,device_name=NVIDIA_H200.json", text: &good };
        let found = check_file(judged, Reader { consumer: Consumer::Vllm, hardware: Some(&h100) });
        assert_eq!(
            found[0].what,
            "the file is for NVIDIA_H200, and vLLM calls this device NVIDIA_H100_80GB_HBM3"
        );
    }

    /// Changes an entry.
    type Change = fn(u64, &mut Entry);

    #[test]
    fn configs_that_fail_are_named() {
        let cases: [(Consumer, &str, Change, &str); 10] = [
            (
                Consumer::Vllm,
                BLOCK,
                |_, entry| entry.set("USE_TMA", true),
                "crash parameter: USE_TMA is no parameter of vLLM",
            ),
            (
                Consumer::Vllm,
                BLOCK,
                |_, entry| entry.set("kpack", 2),
                "crash parameter: kpack is known to AMD's GPUs only",
            ),
            (Consumer::Vllm, BLOCK, |_, entry| entry.set("BLOCK_SIZE_M", 24), "crash tile: block_m: got 24"),
            (
                Consumer::Vllm,
                BLOCK,
                |_, entry| entry.set("BLOCK_SIZE_M", "16"),
                "crash tile: BLOCK_SIZE_M: got \"16\"",
            ),
            (
                Consumer::Vllm,
                BLOCK,
                |_, entry| entry.set("BLOCK_SIZE_N", 8),
                "crash tile: blocks of 16×8×128 are smaller",
            ),
            (
                Consumer::Vllm,
                BLOCK,
                |batch, entry| {
                    if batch == 8 {
                        *entry = Entry::of(&Tile::new(256, 256, 128, 6, 8));
                    }
                },
                "crash shared-memory: the tile needs 327680 bytes of shared memory of 232448",
            ),
            (
                Consumer::Vllm,
                BLOCK,
                |_, entry| entry.set("BLOCK_SIZE_K", 256),
                "note alias: BLOCK_SIZE_K 256 runs as 128",
            ),
            (
                Consumer::Vllm,
                "E=8,N=256,device_name=NVIDIA_H200,dtype=int4_w4a16.json",
                |_, _| (),
                "crash parameter: SPLIT_K is missing",
            ),
            (
                Consumer::Sglang,
                "triton_3_8_0/E=8,N=256,device_name=NVIDIA_H200.json",
                |_, entry| entry.set("SPLIT_K", 1),
                "crash parameter: SPLIT_K is no parameter of SGLang",
            ),
            (
                Consumer::Sglang,
                "triton_3_8_0/E=8,N=256,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128].json",
                |batch, entry| entry.set("BLOCK_SIZE_K", if batch >= 4096 { 256 } else { 128 }),
                "wrong sums: BLOCK_SIZE_K 256 spans several blocks of 128 that have a scale each, for batches of 3585 and more",
            ),
        ];
        for (consumer, path, change, begins) in cases {
            let said = said(path, &text(change), consumer);
            assert!(said.len() == 1 && said[0].starts_with(begins), "{begins}: {said:?}");
        }
    }

    #[test]
    fn bodies_that_a_server_cannot_read_are_named() {
        let name = "E=8,N=256,device_name=NVIDIA_H200.json";
        for (text, begins) in [
            ("{", "crash body: file of tuned configs: got EOF while parsing an object"),
            ("{}", "note batch-sizes: there is no config"),
            ("{\"1\": null}", "crash parameter: there is `null` for a config"),
            ("{\"1\": {\"BLOCK_SIZE_M\": 16}}", "crash parameter: BLOCK_SIZE_K is missing"),
        ] {
            let said = said(name, text, Consumer::Vllm);
            assert!(said[0].starts_with(begins), "{text}: {said:?}");
        }
        let version = text(|_, _| ()).replacen('{', "{\"triton_version\": \"3.8.0\",", 1);
        assert_eq!(said(name, &version, Consumer::Vllm), Vec::<String>::new());
        let sglang = format!("triton_3_8_0/{name}");
        assert_eq!(said(&sglang, &version, Consumer::Sglang), ["crash body: there is a `triton_version`"]);
    }

    #[test]
    fn gaps_in_batch_sizes_are_named() {
        let tile = Entry::of(&Tile::new(16, 64, 128, 3, 4));
        let mut body = Body::default();
        for batch in [4096, 2048, 3072] {
            body.insert(batch, tile.clone());
        }
        let judged = Judged { path: "E=8,N=256,device_name=NVIDIA_H200.json", text: &body.to_text() };
        let found = check_file(judged, Reader { consumer: Consumer::Vllm, hardware: None });
        let [slow, order] = &found[..] else { panic!("{found:?}") };
        assert_eq!(slow.what, "13 of the 18 usual batch sizes, from 1 to 512, have no config near them");
        assert_eq!((slow.severity, slow.batches.len()), (Severity::Slow, 13));
        assert_eq!(order.what, "the batch sizes are not in order");
    }

    #[test]
    fn both_files_of_a_layer_must_have_equal_rows() {
        let (up, down) =
            ("triton_3_8_0/E=8,N=1,device_name=D.json", "triton_3_8_0/E=8,N=1,device_name=D_down.json");
        let usual = text(|_, _| ());
        let other = text(|batch, entry| entry.set("BLOCK_SIZE_M", if batch == 8 { 32 } else { 16 }));
        let reader = Reader { consumer: Consumer::Sglang, hardware: None };
        let found =
            check_folder(&[Judged { path: up, text: &usual }, Judged { path: down, text: &other }], reader);
        let [pair] = &found[..] else { panic!("{found:?}") };
        assert_eq!((pair.rule, &pair.batches[..]), (Rule::Pair, &[8][..]));
        let alone = check_folder(&[Judged { path: down, text: &usual }], reader);
        assert_eq!(alone[0].what, "the file for the first multiplication is missing");
    }

    #[test]
    fn names_tell_for_whom_files_are() {
        for (paths, consumer) in [
            (&["E=8,N=1,device_name=D.json"][..], None),
            (&["E=8,N=1,device_name=D.json", BLOCK], Some(Consumer::Vllm)),
            (&["configs/triton_3_8_0/E=8,N=1,device_name=D.json"], Some(Consumer::Sglang)),
            (&["E=8,N=1,device_name=D_down.json"], Some(Consumer::Sglang)),
            (&["E=8,N=1,device_name=D,dtype=fp8_w8a8,block_shape=[128, 128].json"], Some(Consumer::Sglang)),
        ] {
            assert_eq!(consumer_of(paths.iter().copied()), consumer, "{paths:?}");
        }
    }
}
