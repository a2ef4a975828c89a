//! Bad files for the commands that read solution files.

use super::{Bad, bomb, judge, limited};
use crate::datasets::DATASET;
use crate::sandbox::Sandbox;

#[test]
fn bad_solutions_are_refused_likewise() {
    let config = r#"{"block_k": 16, "block_m": 64, "block_n": 32, "grid": 1, "group_m": 8, "name": "x", "num_stages": 2, "num_warps": 4}"#;
    let with = |from: &str, to: &str| {
        assert!(config.contains(from), "{from}");
        format!(r#"{{"config": [{}]}}"#, config.replacen(from, to, 1)).into_bytes()
    };
    let per_problem =
        |sizes: &str| format!(r#"{{"name": "s", "configs": [{{{sizes}, {}]}}"#, &config[1..]).into_bytes();
    let csv = |row: &str| {
        format!("name,grid,block_m,block_n,block_k,group_m,num_stages,num_warps\n{row}\n").into_bytes()
    };
    let cases = [
        Bad("empty.json", Vec::new(), "no column `name`"),
        Bad("cut.json", with("", "")[..60].to_vec(), "truncated JSON"),
        Bad("none.json", b"{\"config\": []}".to_vec(), "no configs under"),
        Bad("list.json", b"[]".to_vec(), "expected a map with `config`"),
        Bad("twice.json", with("}", &format!("}}], \"config\": [{config}")), "duplicate key \"config\""),
        Bad("block.json", with("64", "48"), "config 1 of \"config\": block_m: got 48"),
        Bad("negative.json", with("64", "-64"), "expected u32"),
        Bad("nan.json", with("64", "NaN"), "JSON at line"),
        Bad("bool.json", with("64", "true"), "boolean `true`"),
        Bad("huge.json", with("64", "1099511627776"), "expected u32"),
        Bad(
            "block-twice.json",
            with("\"block_m\": 64", "\"block_m\": 64, \"block_m\": 64"),
            "duplicate field",
        ),
        Bad("missing.json", with("\"block_m\": 64, ", ""), "missing field `block_m`"),
        Bad("warps.json", with("\"num_warps\": 4", "\"num_warps\": 3"), "num_warps: got 3"),
        Bad("op.json", format!(r#"{{"conv": {{"config": [{config}]}}}}"#).into_bytes(), "no configs under"),
        Bad("size.json", per_problem(r#""M": 0, "N": 1, "K": 1"#), "M"),
        Bad("size-negative.json", per_problem(r#""M": -1, "N": 1, "K": 1"#), "expected u64"),
        Bad("ragged.csv", csv("x,1,64,32"), "4 fields, expected 8"),
        Bad("word.csv", csv("x,1,many,32,16,8,2,4"), "block_m: got \"many\""),
        Bad("column.csv", b"name,grid,block_m,num_warps\nx,1,64,4\n".to_vec(), "no column"),
        Bad("deep.json", [b"{\"x\": ".as_slice(), &b"[".repeat(100_000)].concat(), "JSON"),
        Bad("timings.json", DATASET.as_bytes().to_vec(), "got a dataset of timings"),
        Bad("shapes.json", b"{\"shapes\": []}".to_vec(), "got a shape set"),
        Bad("latin.json", [b"{\"config\": [".as_slice(), b"\"\xe9\"]}"].concat(), "unicode"),
        Bad("bomb.json.zst", bomb(b"{\"config\": [\""), "bytes unpacked"),
    ];
    let sandbox = Sandbox::new();
    sandbox.write("data.json", DATASET);
    let mut wrong = Vec::new();
    for Bad(name, bytes, words) in &cases {
        diode_formats::write_atomically(&sandbox.path(name), bytes).unwrap();
        let rest = ["--model", "m.safetensors", "--dataset", "data.json", "--max-autotune-solution", name];
        wrong.extend(judge(
            name,
            words,
            &limited(&sandbox, &[&["validate-max-autotune"], &rest[..]].concat()),
        ));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
