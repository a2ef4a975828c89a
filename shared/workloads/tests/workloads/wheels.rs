//! Parts of the published wheels of vLLM and SGLang, fetched from the package registry and kept in the target folder.
//! Without network, the tests that need them are skipped, and the run says so.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use diode_workloads::file_body::Body;
use diode_workloads::file_names::{Consumer, FileName};

pub(crate) const REQUIREMENTS: [(Consumer, &str); 2] =
    [(Consumer::Vllm, "vllm==0.33.0"), (Consumer::Sglang, "sglang==0.5.23")];

/// Fetches members of both wheels that match patterns. `None` says that they are not to be had.
pub(crate) fn members(name: &str, patterns: [&[&str]; 2]) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("wheels-{name}"));
    if folder.is_dir() {
        return Some(folder);
    }
    let unfinished = folder.with_extension(std::process::id().to_string());
    for ((_, requirement), patterns) in REQUIREMENTS.into_iter().zip(patterns) {
        let mut python = Command::new("python3");
        python.arg(script("wheel_members.py")).arg(requirement).arg(&unfinished).args(patterns);
        let output = python.output().expect("python3 runs");
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            let why = why.trim().lines().last().unwrap_or_default();
            println!("SKIPPED: parts of {requirement} could not be fetched: {why}");
            return None;
        }
    }
    // Another test may have fetched them meanwhile.
    if std::fs::rename(&unfinished, &folder).is_err() {
        std::fs::remove_dir_all(&unfinished).unwrap();
    }
    Some(folder)
}

pub(crate) fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workloads").join(name)
}

/// All files below a folder, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> =
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect();
    found.sort();
    found
}

/// How a file's text differs from the one that we write of its body.
fn difference(text: &str, ours: &str) -> &'static str {
    let halved = |line: &str| {
        let rest = line.trim_start();
        format!("{}{rest}", " ".repeat((line.len() - rest.len()) / 2))
    };
    let by_two: Vec<String> = ours.lines().map(halved).collect();
    match text {
        _ if text == ours => "none",
        _ if text.contains('\r') => "ends its lines as Windows does",
        _ if text == ours.trim_end() => "has no newline at its end",
        _ if text.trim_end() == ours.trim_end() => "has several newlines at its end",
        _ if text.trim_end() == by_two.join("\n") => "indents by 2",
        _ => "is formatted by hand",
    }
}

#[test]
fn published_files_are_written_again_byte_for_byte() {
    let Some(folder) = members("files", [&["vllm/model_executor/*/configs/*.json"], &["sglang/*.json"]])
    else {
        return;
    };
    let mut differences: BTreeMap<(Consumer, &str), u32> = BTreeMap::new();
    for (consumer, _) in REQUIREMENTS {
        for path in files(&folder.join(consumer.as_str())) {
            let name = path.file_name().unwrap().to_str().unwrap();
            if matches!(FileName::parse(name), Err(_) | Ok(FileName::Other { .. })) {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let ours = Body::parse(&text).unwrap().to_text();
            *differences.entry((consumer, difference(&text, &ours))).or_default() += 1;
        }
    }
    let counted: Vec<((Consumer, &str), u32)> = differences.into_iter().collect();
    assert_eq!(
        counted,
        [
            ((Consumer::Vllm, "has no newline at its end"), 223),
            ((Consumer::Vllm, "has several newlines at its end"), 2),
            ((Consumer::Vllm, "indents by 2"), 30),
            ((Consumer::Vllm, "is formatted by hand"), 4),
            ((Consumer::Vllm, "none"), 357),
            ((Consumer::Sglang, "ends its lines as Windows does"), 6),
            ((Consumer::Sglang, "indents by 2"), 33),
            ((Consumer::Sglang, "none"), 531),
        ]
    );
}
