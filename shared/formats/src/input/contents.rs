//! Recognises the kind of a file by its beginning, so that an error can say which kind was given.

use std::io::Read as _;

use crate::FormatError;
use crate::input::without_mark;
use crate::input::{is_zstd, zstd_decoder};

/// How many bytes of a file are searched. Real files name their parts within the first hundreds of bytes.
const HEAD: usize = 8192;

/// The first bytes of a Parquet file.
pub(crate) const PARQUET_MAGIC: &[u8] = b"PAR1";

/// The kinds of files of Diode and torch-diode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    Timings,
    Table,
    LookupTable,
    InductorTable,
    ShapeSet,
    ReferenceConfigs,
    Model,
    TorchCheckpoint,
}

impl FileKind {
    /// What an error message calls this kind.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timings => "a dataset of timings",
            Self::Table => "a table of `diode table`",
            Self::LookupTable => "a lookup table (configs without times)",
            Self::InductorTable => "a lookup table of Inductor (for `torch_diode.install` or torch itself)",
            Self::ShapeSet => "a shape set (problems without timings)",
            Self::ReferenceConfigs => "a solution (a list of configs without timings)",
            Self::Model => "a model (safetensors)",
            Self::TorchCheckpoint => "a torch checkpoint or another ZIP archive",
        }
    }
}

impl std::fmt::Display for FileKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// The beginning of the content, unpacked if it is compressed.
fn unpacked_head(bytes: &[u8]) -> Vec<u8> {
    let mut head = Vec::new();
    if !is_zstd(bytes) {
        head.extend_from_slice(&bytes[..bytes.len().min(HEAD)]);
    } else if let Ok(frame) = zstd_decoder(bytes) {
        // An error is ignored: the beginning of a truncated frame can still be read.
        let _ = frame.take(HEAD as u64).read_to_end(&mut head);
    }
    head
}

/// The kind of the file that begins with these bytes, or `None` if it is unknown.
pub fn recognise(bytes: &[u8]) -> Option<FileKind> {
    let head = unpacked_head(bytes);
    let head = without_mark(&head);
    match head {
        _ if head.starts_with(PARQUET_MAGIC) => return Some(FileKind::Timings),
        [b'P', b'K', 3, 4, ..] => return Some(FileKind::TorchCheckpoint),
        [_, _, _, _, _, _, 0, 0, b'{', ..] => return Some(FileKind::Model),
        _ => {}
    }
    let has = |word: &str| has_bytes(head, word.as_bytes());
    if has("timed_configs") || has("diode-columnar") {
        return Some(FileKind::Timings);
    }
    if has("\"diode-table/") {
        return Some(FileKind::Table);
    }
    let first = head.iter().copied().find(|byte| !byte.is_ascii_whitespace())?;
    if !matches!(first, b'{' | b'[' | 0x80..=0x8f | 0xde | 0xdf) {
        return columns(head);
    }
    if has("\"template_id\"") {
        return Some(FileKind::InductorTable);
    }
    if has("hardware") {
        return list_follows(head, "\"config\"").then_some(FileKind::LookupTable);
    }
    // JSON has the key in quotes. MessagePack puts a marker with the key's length before it.
    if ["\"shapes\"", "\"operations\""].into_iter().any(has) || has_bytes(head, b"\xa6shapes") {
        return Some(FileKind::ShapeSet);
    }
    let is_reference_configs = ["\"config\"", "\"configs\""].into_iter().any(|key| list_follows(head, key));
    is_reference_configs.then_some(FileKind::ReferenceConfigs)
}

/// Whether a file that begins with these bytes may be a dataset, perhaps a damaged one. A folder of
/// datasets may hold other files too.
pub fn may_be_timings(bytes: &[u8]) -> bool {
    let Some(kind) = recognise(bytes) else {
        let head = unpacked_head(bytes);
        let has = |word: &str| has_bytes(&head, word.as_bytes());
        return head.is_empty() || (has("hardware") && has("operation"));
    };
    kind == FileKind::Timings
}

fn has_bytes(head: &[u8], word: &[u8]) -> bool {
    head.windows(word.len()).any(|window| window == word)
}

/// Whether a JSON key has a list as its value.
fn list_follows(head: &[u8], key: &str) -> bool {
    head.windows(key.len()).enumerate().any(|(at, window)| {
        let after = head[at + key.len()..].iter().filter(|byte| !byte.is_ascii_whitespace());
        window == key.as_bytes() && after.take(2).eq(b":[")
    })
}

/// The kind of file that has the columns of this header.
fn columns(head: &[u8]) -> Option<FileKind> {
    let line = head.split(|&byte| byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let names: Vec<&str> = line.split([',', ';', '\t']).map(|name| name.trim().trim_matches('"')).collect();
    let has = |name: &str| names.contains(&name);
    if has("Transposed") {
        Some(FileKind::ShapeSet)
    } else if has("time_ns") || has("time_ms") {
        Some(FileKind::Timings)
    } else {
        (has("block_m") && has("num_warps")).then_some(FileKind::ReferenceConfigs)
    }
}

/// Decodes a file. If that fails and the file is of another kind, the error says so.
pub fn expect<T>(
    expected: FileKind,
    bytes: &[u8],
    decode: impl FnOnce() -> Result<T, FormatError>,
) -> Result<T, FormatError> {
    decode().map_err(|error| match recognise(bytes) {
        Some(found) if found != expected => {
            FormatError::Unexpected { found: found.to_string(), expected: expected.as_str() }
        }
        _ => error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_called_by_their_names() {
        for (head, kind) in [
            ("{\"shapes\": []}", Some(FileKind::ShapeSet)),
            ("{\"operations\": {}}", Some(FileKind::ShapeSet)),
            ("name,B,M,K,N,Transposed,\n", Some(FileKind::ShapeSet)),
            ("{\"config\": []}", Some(FileKind::ReferenceConfigs)),
            ("name;grid;block_m;num_warps\n", Some(FileKind::ReferenceConfigs)),
            ("{\"hardware\": {\"solution\": {\"config\" : [", Some(FileKind::LookupTable)),
            ("{\"hardware\": {\"timed_configs\": [{\"config\": {", Some(FileKind::Timings)),
            ("{\"NVIDIA H200+mm\": [{\"template_id\": \"aten::mm\"}]}", Some(FileKind::InductorTable)),
            ("{\"hardware\": {\"config\": {", None),
            ("{\"format\": \"diode-table/1\", \"hardware\": {", Some(FileKind::Table)),
            ("op,M,time_ns,time_ms\n", Some(FileKind::Timings)),
            ("PAR1", Some(FileKind::Timings)),
            ("PK\u{3}\u{4}", Some(FileKind::TorchCheckpoint)),
            ("\u{8}\0\0\0\0\0\0\0{}", Some(FileKind::Model)),
            ("{\"problems\": 3, \"configs\": 8, \"shapes_analyzed\": 3}", None),
            ("hello", None),
            ("", None),
        ] {
            assert_eq!(recognise(head.as_bytes()), kind, "{head}");
        }
        assert_eq!(recognise(b"\x81\xa6shapes\x90"), Some(FileKind::ShapeSet));
        assert_eq!(recognise(b"\xef\xbb\xbf{\"shapes\": []}"), Some(FileKind::ShapeSet));
        let packed = zstd::encode_all(&b"{\"shapes\": []}"[..], 3).unwrap();
        assert_eq!(recognise(&packed), Some(FileKind::ShapeSet));
    }

    #[test]
    fn damaged_datasets_are_told_from_other_files() {
        for mine in [
            "",
            "{\"hardware\": {\"NVIDIA H100\": {\"operation\": {",
            "{\"hardware\": {\"timed_configs\": [{\"config\": {",
            "PAR1",
        ] {
            assert!(may_be_timings(mine.as_bytes()), "{mine}");
        }
        for other in [
            "phase,epoch,loss\n",
            "{\"shapes\": []}",
            "{\"config\": []}",
            "{\"per_op\": {}}",
            "[1]",
            "PK\u{3}\u{4}",
        ] {
            assert!(!may_be_timings(other.as_bytes()), "{other}");
        }
        assert!(may_be_timings(&[0x28, 0xb5, 0x2f, 0xfd]), "a frame that breaks off at once");
    }
}
