//! Bad files for the commands that read datasets.

use super::binary::{columnar, compressed, msgpack};
use super::json::{json, nesting};
use super::rows::{csv, parquet};
use super::{Bad, judge, limited};
use crate::datasets::DATASET;
use crate::sandbox::Sandbox;

#[test]
fn bad_datasets_are_refused_in_one_line_and_little_memory() {
    let cases: Vec<Bad> =
        [json(), nesting(), msgpack(), columnar(), compressed(), csv(), parquet(), other_kinds()]
            .into_iter()
            .flatten()
            .collect();
    assert!(cases.len() >= 80, "{}", cases.len());
    let sandbox = Sandbox::new();
    let mut wrong = Vec::new();
    for Bad(name, bytes, words) in &cases {
        diode_formats::write_atomically(&sandbox.path(name), bytes).unwrap();
        let output = limited(&sandbox, &["convert", "--force", name, "out.msgpack.zst"]);
        wrong.extend(judge(name, words, &output));
        assert!(!sandbox.path("out.msgpack.zst").exists(), "{name} was converted");
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn other_kinds() -> Vec<Bad> {
    let config = r#"{"block_k": 16, "block_m": 64, "block_n": 32, "grid": 1, "group_m": 8, "name": "x", "num_stages": 2, "num_warps": 4}"#;
    let solution = format!("{{\"config\": [{config}]}}").into_bytes();
    let start = DATASET.find("{\n              \"timed_configs\"").unwrap();
    let table = format!("{}{{\"config\": [{config}]}}}}}}}}}}}}", &DATASET[..start]).into_bytes();
    vec![
        Bad("shapes.json", b"{\"shapes\": []}".to_vec(), "got a shape set"),
        Bad("ops.json", b"{\"operations\": {}}".to_vec(), "got a shape set"),
        Bad("shapes.txt", b"name,B,M,K,N,Transposed,\n".to_vec(), "got a shape set"),
        Bad("solution.json", solution, "got a solution"),
        Bad("solution.csv", b"name,grid,block_m,num_warps\n".to_vec(), "got a solution"),
        Bad("table.json", table, "got a lookup table"),
        Bad("model.safetensors", b"\x08\0\0\0\0\0\0\0{}      ".to_vec(), "got a model"),
        Bad("model.pt", b"PK\x03\x04aaaaaaaaaaaa".to_vec(), "got a torch checkpoint"),
    ]
}
