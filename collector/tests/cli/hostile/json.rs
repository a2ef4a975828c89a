//! Bad datasets in torch-diode's JSON.

use super::Bad;
use crate::datasets::DATASET;

pub(super) fn json() -> Vec<Bad> {
    let edit = |from: &str, to: &str| {
        assert!(DATASET.contains(from), "{from}");
        DATASET.replacen(from, to, 1).into_bytes()
    };
    let time = |to: &str| edit("\"time\": 0.0123", &format!("\"time\": {to}"));
    let block = |to: &str| edit("\"block_m\": 64", to);
    let size = |to: &str| edit("\\\"M\\\": 64", &format!("\\\"M\\\": {to}"));
    let mut latin = DATASET.as_bytes().to_vec();
    let name = DATASET.find("NVIDIA").unwrap();
    latin[name] = 0xe9;
    vec![
        Bad("empty.json", Vec::new(), "no bytes at all"),
        Bad("blank.json", b"  \n ".to_vec(), "truncated JSON"),
        Bad("half.json", DATASET.as_bytes()[..DATASET.len() / 2].to_vec(), "truncated JSON"),
        Bad("brace.json", DATASET.as_bytes()[..DATASET.len() - 1].to_vec(), "truncated JSON"),
        Bad("object.json", b"{}".to_vec(), "missing field `hardware`"),
        Bad("list.json", b"[]".to_vec(), "expected a map with the field `hardware`"),
        Bad("null.json", b"null".to_vec(), "got text that is no table"),
        Bad("trailing.json", [DATASET.as_bytes(), b"x"].concat(), "trailing characters"),
        Bad("hardware.json", b"{\"hardware\": [1]}".to_vec(), "a map from a hardware name"),
        Bad("op.json", edit("\"mm\"", "\"conv\""), "op: got `conv`"),
        Bad("latin.json", latin, "invalid unicode"),
        Bad("surrogate.json", edit("NVIDIA", "\\ud800"), "JSON at line"),
        Bad("nan.json", time("Nan"), "JSON at line"),
        Bad("time-bool.json", time("true"), "boolean `true`"),
        Bad("time-text.json", time("\"1\""), "expected f64"),
        Bad("time-list.json", time("[1]"), "expected f64"),
        Bad("time-negative.json", time("-1"), "time: got -1 ms"),
        Bad("time-zero.json", time("0"), "time: got 0 ms"),
        Bad("time-huge.json", time("1e300"), "at most one hour"),
        Bad("time-range.json", time("1e999"), "number out of range"),
        Bad("time-twice.json", time("1, \"time\": 1"), "duplicate field `time`"),
        Bad("time-missing.json", edit("\"time\"", "\"thyme\""), "missing field `time`"),
        Bad("block-odd.json", block("\"block_m\": 48"), "block_m: got 48"),
        Bad("block-negative.json", block("\"block_m\": -64"), "expected u32"),
        Bad("block-huge.json", block("\"block_m\": 1099511627776"), "expected u32"),
        Bad("block-real.json", block("\"block_m\": 64.5"), "expected u32"),
        Bad("block-bool.json", block("\"block_m\": true"), "boolean `true`"),
        Bad("block-zero.json", block("\"block_m\": 0"), "block_m: got 0"),
        Bad("block-twice.json", block("\"block_m\": 64, \"block_m\": 64"), "duplicate field `block_m`"),
        Bad("block-missing.json", block("\"block\": 64"), "missing field `block_m`"),
        Bad("flag-number.json", edit("\"EVEN_K\": false", "\"EVEN_K\": 0"), "expected a boolean"),
        Bad("acc.json", edit("tl.float32", "tl.float8"), "tl.float8"),
        Bad("warps.json", edit("\"num_warps\": 4", "\"num_warps\": 3"), "num_warps: got 3"),
        Bad("stages.json", edit("\"num_stages\": 2", "\"num_stages\": 0"), "num_stages: got 0"),
        Bad("config-list.json", edit("\"config\": {", "\"config\": [1], \"x\": {"), "a config: a map"),
        Bad("config-text.json", edit("\"config\": {", "\"config\": \"{\", \"x\": {"), "config text"),
        Bad("size-zero.json", size("0"), "M: got 0"),
        Bad("size-negative.json", size("-64"), "expected u64"),
        Bad("size-huge.json", size("1099511627776"), "M: got 1099511627776"),
        Bad("size-beyond.json", size("99999999999999999999999"), "problem key"),
        Bad("size-bool.json", size("true"), "boolean `true`"),
        Bad("size-symbol.json", size("\\\"s0\\\""), "expected u64"),
        Bad("size-twice.json", size("64, \\\"M\\\": 64"), "duplicate field `M`"),
        Bad("dtype.json", edit("bfloat16", "float17"), "dtype: got `float17`"),
        Bad("layout.json", edit("[1, 64, 128]", "[1, 64, 128, 1]"), "more than three"),
        Bad("key-text.json", edit("\"{\\\"version", "\"[\\\"version"), "problem key"),
        Bad(
            "key-long.json",
            edit("\"{\\\"version", &format!("\"{{{}\\\"version", " ".repeat(5000))),
            "expected at most 4096",
        ),
        Bad("version.json", edit("\"version\": 1", "\"version\": true"), "boolean `true`"),
        Bad(
            "op-twice.json",
            edit("\"mm\": {", "\"mm\": {\"solution\": {}}, \"mm\": {"),
            "duplicate key \"mm\"",
        ),
        Bad("json-in.msgpack", DATASET.as_bytes()[..700].to_vec(), "truncated JSON"),
        Bad(
            "long-text.json",
            format!("{{\"x\": \"{}\"", "a".repeat(4 << 20)).into_bytes(),
            "a text of more than",
        ),
    ]
}

pub(super) fn nesting() -> Vec<Bad> {
    let deep = |open: &str, times: usize| ["{\"x\": ", &open.repeat(times)].concat().into_bytes();
    let msgpack = |marker: &[u8]| [b"\x81\xa1x".as_slice(), &marker.repeat(100_000)].concat();
    vec![
        Bad("lists.json", deep("[", 1_000_000), "truncated JSON"),
        Bad("maps.json", deep("{\"x\":", 1_000_000), "truncated JSON"),
        Bad("lists.msgpack", msgpack(b"\x91"), "more than 32 levels"),
        Bad("maps.msgpack", msgpack(b"\x81\xa1x"), "more than 32 levels"),
    ]
}
