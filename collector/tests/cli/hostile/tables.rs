//! Bad files for the commands that read tables.

use super::{Bad, judge, limited};
use crate::sandbox::Sandbox;
use crate::tables::old_table;

/// Two commands read tables: one edits a table, the other looks a problem up.
#[test]
fn bad_tables_are_refused_likewise() {
    let sandbox = Sandbox::new();
    let old = old_table(&["NVIDIA H200"], &[(64, false)]);
    sandbox.write("old.json", &old);
    sandbox.ok(&["table", "old.json", "--output", "good.json"]);
    let good = std::fs::read_to_string(sandbox.path("good.json")).unwrap();
    let edit = |from: &str, to: &str| {
        assert!(good.contains(from), "{from} in {good}");
        good.replacen(from, to, 1).into_bytes()
    };
    let time = |to: &str| edit("\"tl.float32\"", &format!("\"tl.float32\", \"time_us\": {to}"));
    let tree = |edit: &dyn Fn(&mut serde_json::Value)| {
        let mut tree: serde_json::Value = serde_json::from_str(&good).unwrap();
        edit(&mut tree["entries"]);
        tree.to_string().into_bytes()
    };
    let old_edit = |from: &str, to: &str| {
        assert!(old.contains(from), "{from} in {old}");
        old.replacen(from, to, 1).into_bytes()
    };
    let mut latin = good.as_bytes().to_vec();
    latin[good.find("NVIDIA").unwrap()] = 0xe9;
    let cases = [
        Bad("cut.json", good.as_bytes()[..good.len() / 2].to_vec(), "EOF"),
        Bad("format.json", edit("diode-table/1", "diode-table/2"), "table format: got `diode-table/2`"),
        Bad("format-twice.json", edit("{", "{\"format\": \"diode-table/1\","), "duplicate field `format`"),
        Bad("misspelt.json", edit("\"entries\"", "\"entires\""), "unknown field `entires`"),
        Bad("m-zero.json", edit("\"m\": 512", "\"m\": 0"), "entry 1 (mm B=1 M=0 N=1024 K=250): M: got 0"),
        Bad("m-negative.json", edit("\"m\": 512", "\"m\": -1"), "integer `-1`"),
        Bad("m-huge.json", edit("\"m\": 512", "\"m\": 99999999999"), "M: got 99999999999"),
        Bad("m-bool.json", edit("\"m\": 512", "\"m\": true"), "boolean `true`"),
        Bad("m-twice.json", edit("\"m\": 512", "\"m\": 512, \"m\": 512"), "duplicate field `m`"),
        Bad("op.json", edit("\"mm\"", "\"conv\""), "conv"),
        Bad("dtype.json", edit("bfloat16", "bfloat17"), "bfloat17"),
        Bad("block.json", edit("\"block_m\": 64", "\"block_m\": 48"), "config 1: block_m: got 48"),
        Bad("block-real.json", edit("\"block_m\": 64", "\"block_m\": 64.5"), "floating point `64.5`"),
        Bad(
            "block-text.json",
            edit("\"block_m\": 64", "\"block_m\": \"64\""),
            "entry 1 (mm B=1 M=512 N=1024 K=250): config 1: invalid type: string \"64\"",
        ),
        Bad("m-text.json", edit("\"m\": 512", "\"m\": \"512\""), "entry 1: problem: invalid type: string"),
        Bad("latin.json", latin, "bytes that are not UTF-8 text (byte "),
        Bad(
            "library.json",
            tree(&|entries| entries[0]["configs"][0]["template"] = "aten".into()),
            "entry 1 (mm B=1 M=512 N=1024 K=250): config 1: block_m: got 64, expected none, since the template is aten",
        ),
        Bad("block-none.json", edit("\"block_m\": 64,", ""), "block_m"),
        Bad("even-k.json", edit("\"even_k\": false", "\"even_k\": true"), "even_k: got true, expected false"),
        Bad("time-nan.json", time("NaN"), "expected value"),
        Bad("time-range.json", time("1e999"), "number out of range"),
        Bad("time-negative.json", time("-10.0"), "time_us: got -10"),
        Bad("time-zero.json", time("0.0"), "time_us: got 0"),
        Bad("time-text.json", time("\"1\""), "expected f64"),
        Bad(
            "configs.json",
            tree(&|entries| entries[0]["configs"] = serde_json::json!([])),
            "configs: got none",
        ),
        Bad(
            "config-twice.json",
            tree(&|entries| {
                let config = entries[0]["configs"][0].clone();
                entries[0]["configs"].as_array_mut().unwrap().push(config);
            }),
            "each config once",
        ),
        Bad(
            "problem-twice.json",
            tree(&|entries| {
                let entry = entries[0].clone();
                entries.as_array_mut().unwrap().push(entry);
            }),
            "a second entry, the other is number 1",
        ),
        Bad("trailing.json", [good.as_bytes(), b"[[["].concat(), "trailing characters"),
        Bad(
            "deep.json",
            edit("\"entries\": [", &format!("\"entries\": {}", "[".repeat(100_000))),
            "table deep.json",
        ),
        Bad("old-cut.json", old.as_bytes()[..old.len() - 9].to_vec(), "truncated JSON"),
        Bad("old-block.json", old_edit("\"block_m\": 64", "\"block_m\": -64"), "expected u32"),
        Bad("old-nan.json", old_edit("\"block_m\": 64", "\"block_m\": NaN"), "expected u32"),
        Bad(
            "old-twice.json",
            old_edit("\"block_m\": 64", "\"block_m\": 64, \"block_m\": 64"),
            "duplicate field `block_m`",
        ),
        Bad("old-size.json", old_edit("M\\\": 512", "M\\\": 0"), "M: got 0"),
        Bad("old-warps.json", old_edit("\"num_warps\": 4", "\"num_warps\": 3"), "num_warps: got 3"),
    ];
    let mut wrong = Vec::new();
    for Bad(name, bytes, words) in &cases {
        diode_formats::write_atomically(&sandbox.path(name), bytes).unwrap();
        let asked = ["--op", "mm", "--m", "512", "--n", "1024", "--k", "250", "--dtype", "bfloat16"];
        for arguments in
            [&["table", name, "--output", "out.json"][..], &[&["table", "lookup", name], &asked[..]].concat()]
        {
            wrong.extend(judge(name, words, &limited(&sandbox, arguments)));
            assert!(!sandbox.path("out.json").exists(), "{name} was taken");
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
