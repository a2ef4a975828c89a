//! All files that vLLM 0.33.0 and SGLang 0.5.23 ship. They are not in the repository, so these tests run only if
//! `DIODE_DATA_DIR` names the folder that holds them.

use std::collections::BTreeMap;
use std::path::Path;

use diode_workloads::file_body::{BATCH_SIZES, Body};
use diode_workloads::file_check::{Judged, Reader, Rule, Severity, check_folder};
use diode_workloads::file_names::{Consumer, FileName};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Collection {
    files: Vec<Published>,
}

/// A published file.
#[derive(Deserialize)]
pub(crate) struct Published {
    pub(crate) project: Consumer,
    pub(crate) kind: String,
    pub(crate) folder: String,
    pub(crate) name: String,
    body: Box<RawValue>,
}

impl Published {
    pub(crate) fn path(&self) -> String {
        format!("{}/{}", self.folder, self.name)
    }

    /// Whether the file has a config for each of some batch sizes.
    pub(crate) fn has_batch_sizes(&self) -> bool {
        ["fused_moe", "fused_moe_flydsl", "dense_block", "dense_channelwise", "mamba_ssu"]
            .contains(&self.kind.as_str())
    }
}

/// All 1,246 files. `None` says that they are not at hand.
pub(crate) fn published() -> Option<Vec<Published>> {
    let Some(folder) = std::env::var_os("DIODE_DATA_DIR") else {
        println!("not asked to run: DIODE_DATA_DIR names no folder");
        return None;
    };
    let packed = std::fs::read(Path::new(&folder).join("serving_configs.json.zst")).unwrap();
    let text = zstd::decode_all(&packed[..]).unwrap();
    let collection: Collection = serde_json::from_slice(&text).unwrap();
    assert_eq!(collection.files.len(), 1246);
    Some(collection.files)
}

#[test]
fn every_published_name_is_read_and_printed_as_it_was() {
    let Some(files) = published() else { return };
    let mut kinds: BTreeMap<&str, u32> = BTreeMap::new();
    for file in &files {
        let name = FileName::parse(&file.name).unwrap();
        assert_eq!(name.name(file.project), file.name);
        let kind = match name {
            FileName::Experts(_) => "experts",
            FileName::Dense(_) => "dense",
            FileName::StateSpace(_) => "state space",
            FileName::Other { .. } => "other",
        };
        assert_eq!(file.has_batch_sizes(), kind != "other", "{}", file.name);
        *kinds.entry(kind).or_default() += 1;
    }
    assert_eq!(Vec::from_iter(kinds), [("dense", 424), ("experts", 728), ("other", 60), ("state space", 34)]);
}

#[test]
fn every_published_body_is_read_and_written_again() {
    let Some(files) = published() else { return };
    let (mut entries, mut short) = (0, BTreeMap::<Vec<u64>, u32>::new());
    for file in files.iter().filter(|file| file.has_batch_sizes()) {
        let body = Body::parse(file.body.get()).unwrap_or_else(|error| panic!("{}: {error}", file.name));
        assert_eq!(Body::parse(&body.to_text()).unwrap(), body, "{}", file.name);
        entries += body.entries().len();
        let batches: Vec<u64> = body.entries().map(|(batch, _)| batch).collect();
        if (2..=3).contains(&batches.len()) {
            *short.entry(batches).or_default() += 1;
        }
        for batch in BATCH_SIZES {
            assert!(body.nearest(batch).is_some(), "{}", file.name);
        }
    }
    assert_eq!(entries, 20_132);
    // In 44 files, each process of the tuner has overwritten what the others had found.
    let short: Vec<(Vec<u64>, u32)> = short.into_iter().collect();
    assert_eq!(
        short,
        [(vec![1, 2], 4), (vec![4, 8], 1), (vec![256, 512, 1024], 4), (vec![2048, 3072, 4096], 43)]
    );
}

#[test]
fn the_check_finds_in_published_files_what_is_wrong_with_them() {
    let Some(files) = published() else { return };
    use {Rule::*, Severity::*};
    let vllm: &[(Severity, Rule, usize)] = &[
        (Crash, SharedMemory, 4),
        (Unread, Word, 49),
        (Slow, BatchSizes, 41),
        (Note, Device, 338),
        (Note, BatchSizes, 3),
        (Note, Alias, 54),
    ];
    let sglang: &[(Severity, Rule, usize)] = &[
        (Wrong, Sums, 1),
        (Unread, Word, 10),
        (Unread, Device, 2),
        (Slow, BatchSizes, 60),
        (Note, Device, 286),
        (Note, BatchSizes, 5),
    ];
    for (consumer, counts) in [(Consumer::Vllm, vllm), (Consumer::Sglang, sglang)] {
        let paths: Vec<(String, &str)> = files
            .iter()
            .filter(|file| file.project == consumer && file.has_batch_sizes())
            .map(|file| (file.path(), file.body.get()))
            .collect();
        let judged: Vec<Judged<'_>> = paths.iter().map(|(path, text)| Judged { path, text }).collect();
        let findings = check_folder(&judged, Reader { consumer, hardware: None });
        let mut found: BTreeMap<(Severity, Rule), usize> = BTreeMap::new();
        // How many names are shared depends on the catalogue.
        let (shared, findings): (Vec<_>, Vec<_>) =
            findings.into_iter().partition(|finding| finding.rule == Collision);
        assert!(
            shared.iter().any(|finding| {
                finding.file.contains("E=128,N=768,device_name=NVIDIA_H200")
                    && finding.what.contains("Qwen3-30B-A3B at tensor parallel 1")
                    && finding.what.contains("Qwen3-235B-A22B at tensor parallel 2")
            }),
            "{shared:?}"
        );
        for finding in &findings {
            *found.entry((finding.severity, finding.rule)).or_default() += 1;
            println!("{finding:?}");
        }
        let found: Vec<(Severity, Rule, usize)> =
            found.into_iter().map(|((severity, rule), count)| (severity, rule, count)).collect();
        assert_eq!(found, counts, "{consumer}");
        let wrong = findings.iter().filter(|finding| finding.severity == Wrong);
        let wrong: Vec<(&str, &str)> =
            wrong.map(|finding| (finding.file.rsplit('/').next().unwrap(), finding.what.as_str())).collect();
        let spans = "BLOCK_SIZE_K 256 spans several blocks of 128 that have a scale each, for batches of 57 to 80 \
                     and of 113 to 768 tokens";
        let name = "E=512,N=256,device_name=NVIDIA_H100_80GB_HBM3,dtype=fp8_w8a8,block_shape=[128, 128].json";
        let expected: &[_] = if consumer == Consumer::Sglang { &[(name, spans)] } else { &[] };
        assert_eq!(wrong, expected);
    }
}
