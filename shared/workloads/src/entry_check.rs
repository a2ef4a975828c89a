//! Findings about single configs of a file: what crashes, computes wrong sums, or is not what it says.

use std::collections::BTreeMap;

use diode_core::hardware::Vendor;

use crate::file_body::{Body, Entry};
use crate::file_check::{Finding, Rule, Severity};
use crate::file_names::{Backend, Consumer, DtypeWord, FileName, hardware_of};

/// A file whose entries are judged.
pub(crate) struct Entries<'a> {
    pub(crate) path: &'a str,
    pub(crate) name: &'a FileName,
    pub(crate) consumer: Consumer,
    pub(crate) body: &'a Body,
}

/// A remark on one entry.
struct Remark {
    rule: Rule,
    severity: Severity,
    what: String,
    why: &'static str,
    todo: &'static str,
}

const CRASHES: &str = "the first forward pass with such a batch fails";

impl Entries<'_> {
    /// Equal remarks on several batch sizes become one finding.
    pub(crate) fn judge(&self) -> Vec<Finding> {
        let mut found: BTreeMap<(Severity, Rule, String), (Remark, Vec<u64>)> = BTreeMap::new();
        for (batch, entry) in self.body.entries() {
            for remark in self.remarks(entry) {
                let key = (remark.severity, remark.rule, remark.what.clone());
                found.entry(key).or_insert_with(|| (remark, Vec::new())).1.push(batch);
            }
        }
        let finding = |(remark, batches): (Remark, Vec<u64>)| {
            let hit = if remark.rule == Rule::Sums { self.hit_by(&batches) } else { None };
            Finding {
                severity: remark.severity,
                rule: remark.rule,
                file: self.path.to_owned(),
                what: hit.map_or(remark.what.clone(), |hit| format!("{}, for {hit}", remark.what)),
                batches,
                why: remark.why.to_owned(),
                todo: remark.todo.to_owned(),
            }
        };
        found.into_values().map(finding).collect()
    }

    /// The batch sizes that take one of these entries, as ranges.
    fn hit_by(&self, batches: &[u64]) -> Option<String> {
        const SCANNED: u64 = 1 << 15;
        let takes = |batch| self.body.nearest(batch).is_some_and(|(nearest, _)| batches.contains(&nearest));
        let mut ranges: Vec<[u64; 2]> = Vec::new();
        for batch in (1..=SCANNED).filter(|&batch| takes(batch)) {
            match ranges.last_mut() {
                Some([_, last]) if *last + 1 == batch => *last = batch,
                _ => ranges.push([batch, batch]),
            }
        }
        let text = |[first, last]: &[u64; 2]| match last {
            &SCANNED => format!("{first} and more"),
            _ => format!("{first} to {last}"),
        };
        let texts: Vec<String> = ranges.iter().map(text).collect();
        (!texts.is_empty()).then(|| format!("batches of {} tokens", texts.join(" and of ")))
    }

    fn remarks(&self, entry: Option<&Entry>) -> Vec<Remark> {
        let crash =
            |rule, what: String, todo| Remark { rule, severity: Severity::Crash, what, why: CRASHES, todo };
        let (word, block, is_dense) = match self.name {
            FileName::Experts(key) if key.backend == Backend::Triton => (key.word, key.block, false),
            FileName::Dense(key) => (key.word, key.block, true),
            _ => return Vec::new(),
        };
        let channelwise = word == DtypeWord::Fp8Channelwise;
        let Some(entry) = entry else {
            let what = "there is `null` for a config".to_owned();
            return if channelwise { Vec::new() } else { vec![crash(Rule::Key, what, "remove the entry")] };
        };
        let mut remarks = Vec::new();
        let group = (!channelwise).then_some("GROUP_SIZE_M");
        for key in ["BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K"].into_iter().chain(group) {
            if entry.get(key).is_none() {
                remarks.push(crash(Rule::Key, format!("{key} is missing"), "add it"));
            }
        }
        let vendor = vendor_of(self.name.device().unwrap_or_default());
        for key in entry.keys() {
            if let Some(why) = self.refuses(key, entry, vendor, is_dense) {
                remarks.push(crash(Rule::Key, format!("{key} {why}"), "remove it"));
            }
        }
        let needs_split = !is_dense && self.consumer == Consumer::Vllm && word == DtypeWord::Int4W4A16;
        if needs_split && entry.get("SPLIT_K").is_none() {
            remarks.push(crash(
                Rule::Key,
                "SPLIT_K is missing, which int4 needs".to_owned(),
                "add \"SPLIT_K\": 1",
            ));
        }
        let tile = match entry.tile(vendor) {
            Ok(tile) => tile,
            Err(invalid) => {
                if remarks.is_empty() {
                    remarks.push(crash(Rule::Tile, invalid.to_string(), "tune this batch size again"));
                }
                return remarks;
            }
        };
        let least = if word.tile_bytes() == 1 { 32 } else { 16 };
        if tile.block_m < 8 || tile.block_n < 16 || tile.block_k < least {
            let [m, n, k] = [tile.block_m, tile.block_n, tile.block_k];
            let what = format!("blocks of {m}×{n}×{k} are smaller than 8×16×{least}");
            remarks.push(crash(Rule::Tile, what, "tune this batch size again"));
        }
        let mut depth = tile.block_k;
        if let Some([rows, columns]) = block {
            if self.consumer == Consumer::Vllm && !is_dense {
                let clamped = depth.min(rows).min(columns);
                if clamped < depth {
                    remarks.push(Remark {
                        rule: Rule::Alias,
                        severity: Severity::Note,
                        what: format!("BLOCK_SIZE_K {depth} runs as {clamped}"),
                        why: "vLLM lowers it to a block of scales",
                        todo: "nothing",
                    });
                }
                depth = clamped;
            }
            // SGLang's dense kernel raises what is less than a block, unless it divides it.
            let raised = self.consumer == Consumer::Sglang && is_dense && depth < columns;
            let one_block = matches!(self.name, FileName::Dense(key) if key.k <= u64::from(columns));
            if !raised && !one_block && !columns.is_multiple_of(depth) {
                remarks.push(Remark {
                    rule: Rule::Sums,
                    severity: Severity::Wrong,
                    what: format!(
                        "BLOCK_SIZE_K {depth} spans several blocks of {columns} that have a scale each"
                    ),
                    why: "one scale is applied to all of them, so the sums are wrong",
                    todo: "remove the file, or tune it again",
                });
            }
        }
        if vendor == Vendor::Nvidia
            && let Some(limit) = shared_memory(self.name.device().unwrap_or_default())
        {
            let [a, b] = operand_halves(word);
            let stages = u64::from(tile.num_stages.saturating_sub(1));
            let rows = u64::from(tile.block_m) * a + u64::from(tile.block_n) * b;
            let needed = stages * rows * u64::from(depth) / 2;
            if needed > limit {
                let what = format!("the tile needs {needed} bytes of shared memory of {limit}");
                remarks.push(crash(Rule::SharedMemory, what, "tune this batch size again"));
            }
        }
        remarks
    }

    /// Why a launch refuses a parameter.
    fn refuses(&self, key: &str, entry: &Entry, vendor: Vendor, is_dense: bool) -> Option<String> {
        const USUAL: [&str; 6] =
            ["BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "num_warps", "num_stages"];
        let sglang = self.consumer == Consumer::Sglang;
        let title = self.consumer.title();
        let is_unknown = self.name.device().is_none_or(str::is_empty);
        match key {
            _ if USUAL.contains(&key) => None,
            "num_ctas" | "maxnreg" if vendor == Vendor::Nvidia => None,
            "waves_per_eu" | "matrix_instr_nonkdim" | "kpack" => {
                (vendor != Vendor::Amd && !is_unknown).then(|| "is known to AMD's GPUs only".to_owned())
            }
            "grf_mode" => {
                (!is_intel(self.name.device()?)).then(|| "is known to Intel's GPUs only".to_owned())
            }
            "USE_TMA" if sglang && !is_dense => None,
            "SPLIT_K" if !sglang && !is_dense => None,
            "SWAP_AB" | "SPLIT_K" if sglang && is_dense => {
                let swaps = entry.get("SWAP_AB").and_then(serde_json::Value::as_bool) == Some(true);
                let active = swaps || entry.number("SPLIT_K").is_some_and(|splits| splits > 1);
                (!active)
                    .then(|| "is refused by the kernel that runs, which neither swaps nor splits".to_owned())
            }
            _ => Some(format!("is no parameter of {title}'s kernel")),
        }
    }
}

/// Half bytes of an element of each operand in shared memory.
const fn operand_halves(word: DtypeWord) -> [u64; 2] {
    let a = 2 * word.tile_bytes();
    match word {
        DtypeWord::Int8W8A16 | DtypeWord::Fp8W8A16 => [a, 2],
        DtypeWord::Int4W4A16 => [a, 1],
        _ => [a, a],
    }
}

fn is_intel(device: &str) -> bool {
    device.starts_with("Intel")
}

/// The maker of a device by its name. Intel's have Triton's defaults of NVIDIA.
pub(crate) fn vendor_of(device: &str) -> Vendor {
    if device.starts_with("AMD") || device.starts_with("Radeon") {
        Vendor::Amd
    } else if is_intel(device) {
        Vendor::Cpu
    } else {
        Vendor::Nvidia
    }
}

/// Bytes of shared memory of a block on an NVIDIA device.
pub(crate) fn shared_memory(device: &str) -> Option<u64> {
    const DATA_CENTRE: [&str; 8] = ["H20", "H20-3e", "H800", "B200", "GB200", "B300", "GB300", "H100"];
    if let Some(facts) = hardware_of(device).and_then(|hardware| hardware.facts) {
        return Some(facts.smem_per_block.into());
    }
    let words: Vec<&str> = device.split('_').collect();
    if words.iter().any(|word| DATA_CENTRE.contains(word)) {
        return Some(232_448);
    }
    if words.iter().any(|word| word.starts_with("A800")) {
        return Some(166_912);
    }
    let small = ["L20", "L40", "L40S", "RTX", "GB10"];
    words.iter().any(|word| small.contains(word)).then_some(101_376)
}
