//! Bad files for the commands that read shape sets and lists of problems.

use super::{Bad, bomb, judge, limited};
use crate::datasets::DATASET;
use crate::sandbox::Sandbox;

#[test]
fn bad_shape_sets_are_refused_likewise() {
    let shape = r#"{"version":1,"B":1,"M":4,"M_dtype":"float16","N":8,"K":2,"K_dtype":"float16","out_dtype":"float16","out_size":[1,4,8],"out_stride":[32,8,1]}"#;
    let with = |from: &str, to: &str| {
        assert!(shape.contains(from), "{from}");
        format!(r#"{{"shapes": [{}]}}"#, shape.replacen(from, to, 1)).into_bytes()
    };
    let cases = [
        Bad("cut.json", with("", "")[..90].to_vec(), "truncated JSON"),
        Bad("zero.json", with("\"M\":4", "\"M\":0"), "shape 1 (mm): M: got 0"),
        Bad("negative.json", with("\"M\":4", "\"M\":-4"), "expected u64"),
        Bad("huge.json", with("\"M\":4", "\"M\":4000000000"), "M: got 4000000000"),
        Bad("bool.json", with("\"M\":4", "\"M\":true"), "boolean `true`"),
        Bad("dtype.json", with("float16", "float17"), "float17"),
        Bad("strides.json", with("[32,8,1]", "[32,8,1,1]"), "more than three"),
        Bad("twice.json", with("\"M\":4", "\"M\":4,\"M\":4"), "duplicate field `M`"),
        Bad("missing.json", with("\"M\":4,", ""), "missing field `M`"),
        Bad("op.json", br#"{"operations": {"conv": {"shapes": []}}}"#.to_vec(), "conv"),
        Bad(
            "ops.json",
            br#"{"operations": {"mm": {"shapes": []}, "mm": {"shapes": []}}}"#.to_vec(),
            "duplicate key",
        ),
        Bad("none.json", br#"{"shapes": []}"#.to_vec(), "expected at least one problem"),
        Bad("top.json", b"{}".to_vec(), "problem 1: sizes: got none, expected M×N×K"),
        Bad(
            "word.csv",
            b"name,B,M,K,N\nmm,1,two,3,4\n".to_vec(),
            "line 2: M: got two, expected a size from 1",
        ),
        Bad(
            "columns.csv",
            b"name,B,M,K,N,Transposed\nmm,1,two,3,4,True\n".to_vec(),
            "line 2: M: got \"two\"",
        ),
        Bad("ragged.csv", b"name,B,M,K,N,Transposed\nmm,1,2,3,4\n".to_vec(), "5 fields, expected 6"),
        Bad("latin.csv", b"name,B,M,K,N,Transposed\nm\xe9,1,2,3,4,True\n".to_vec(), "not UTF-8"),
        Bad("deep.json", [b"{\"x\": ".as_slice(), &[b'['; 100_000]].concat(), "JSON"),
        Bad("bomb.json.zst", bomb(b"{\"shapes\": [\""), "bytes unpacked"),
    ];
    let sandbox = Sandbox::new();
    let mut wrong = Vec::new();
    for Bad(name, bytes, words) in &cases {
        diode_formats::write_atomically(&sandbox.path(name), bytes).unwrap();
        for command in ["collect", "create-validation"] {
            let arguments = [command, "--shapeset", name, "--output", "out.msgpack.zst"];
            wrong.extend(judge(name, words, &limited(&sandbox, &arguments)));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn bad_lists_of_problems_are_refused_likewise() {
    let short = r#"{"op":"mm","b":1,"m":4,"n":8,"k":2,"dtype":"float16"}"#;
    let with = |from: &str, to: &str| {
        assert!(short.contains(from), "{from}");
        format!("[{}]", short.replacen(from, to, 1)).into_bytes()
    };
    let cases = [
        Bad("empty.json", Vec::new(), "expected at least one problem"),
        Bad("none.json", b"[]".to_vec(), "expected at least one problem"),
        Bad("object.json", b"{\"problems\": 7}".to_vec(), "`problems` is no list"),
        Bad("cut.json", with("", "")[..30].to_vec(), "or JSON: EOF while parsing"),
        Bad("zero.json", with("\"m\":4", "\"m\":0"), "problem 1: M: got 0"),
        Bad("huge.json", with("\"m\":4", "\"m\":4294967296"), "problem 1: M: got 4294967296"),
        Bad("batch.json", with("\"b\":1", "\"b\":2"), "problem 1: B: got 2"),
        Bad(
            "negative.json",
            with("\"m\":4", "\"m\":-4"),
            "problem 1: M: got -4, expected a size from 1 to 2147483648",
        ),
        Bad("real.json", with("\"m\":4", "\"m\":4.5"), "problem 1: M: got 4.5, expected a size"),
        Bad(
            "bool.json",
            with("\"m\":4", "\"m\":true"),
            "problem 1: m: got true, expected a text or a number",
        ),
        Bad("nan.json", with("\"m\":4", "\"m\":NaN"), "or JSON: expected value"),
        Bad(
            "dtype.json",
            with("float16", "float17"),
            "problem 1: dtype: got `float17`, expected one of float16 ",
        ),
        Bad(
            "op.json",
            with("\"mm\"", "\"conv\""),
            "problem 1: op: got `conv`, expected one of mm addmm bmm baddbmm",
        ),
        Bad(
            "layout.json",
            with("}", ",\"b_layout\":\"diagonal\"}"),
            "problem 1: b_layout: got `diagonal`, expected one of row column",
        ),
        Bad(
            "unknown.json",
            with("}", ",\"colour\":\"red\"}"),
            "problem 1: field: got `colour`, expected one of op b m n k",
        ),
        Bad("missing.json", with("\"k\":2,", ""), "problem 1: K: got none, expected a size from 1"),
        Bad("twice.json", with("}", ",\"m\":4}"), "problem 1: m: got it twice, expected it once"),
        Bad("text.json", b"[\"mm\"]".to_vec(), "problem 1: sizes: got none, expected M×N×K"),
        Bad(
            "latin.json",
            b"[\"\xe9\"]".to_vec(),
            "bytes that are not UTF-8 text (byte 2), expected a list of problems",
        ),
        Bad(
            "model.json",
            b"\x08\0\0\0\0\0\0\0{}\xff".to_vec(),
            "got a model (safetensors), expected a list of problems",
        ),
        Bad("deep.json", b"[".repeat(100_000), "or JSON: EOF while parsing a list"),
        Bad("number.json", b"[7]".to_vec(), "problem 1: got 7, expected a text such as 16x4096x4096"),
    ];
    let sandbox = Sandbox::new();
    let mut wrong = Vec::new();
    for Bad(name, bytes, words) in &cases {
        diode_formats::write_atomically(&sandbox.path(name), bytes).unwrap();
        let output = limited(&sandbox, &["collect", "--problems", name, "--output", "out.msgpack.zst"]);
        wrong.extend(judge(name, words, &output));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn bad_lists_of_configs_are_refused_likewise() {
    let config = r#"{"template":"triton::mm","block_m":64,"block_n":64,"block_k":32,"group_m":8,"num_stages":3,"num_warps":4,"even_k":false}"#;
    let with = |from: &str, to: &str| {
        assert!(config.contains(from), "{from}");
        format!("[{config},{}]", config.replacen(from, to, 1)).into_bytes()
    };
    let cases = [
        Bad("empty.json", Vec::new(), "expected a JSON list of configs"),
        Bad("none.json", b"[]".to_vec(), "expected at least one config"),
        Bad("object.json", b"{\"configs\": []}".to_vec(), "missing field `candidates`"),
        Bad(
            "number.json",
            b"7".to_vec(),
            "or the output of `diode predict --json`: invalid type: integer `7`",
        ),
        Bad("block.json", with("64", "48"), "config 2: block_m: got 48"),
        Bad("text.json", with("64", "\"64\""), "config 2: invalid type: string \"64\""),
        Bad(
            "template.json",
            with("triton::mm", "triton::mn"),
            "config 2: template: got `triton::mn`, expected one of triton::mm triton::bmm",
        ),
        Bad("foreign.json", with("triton::mm", "aten"), "config 2: block_m: got 64, expected none"),
        Bad("latin.json", b"[\"\xe9\"]".to_vec(), "not UTF-8 text"),
        Bad("deep.json", b"[".repeat(100_000), "expected a JSON list of configs"),
    ];
    let sandbox = Sandbox::new();
    let mut wrong = Vec::new();
    for Bad(name, bytes, words) in &cases {
        diode_formats::write_atomically(&sandbox.path(name), bytes).unwrap();
        let output = limited(&sandbox, &["collect", "--space", name, "--output", "out.msgpack.zst"]);
        wrong.extend(judge(name, words, &output));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// A file with a hole takes no bytes on the disk, but reading all of it takes memory for each byte.
#[test]
fn a_huge_file_takes_no_memory() {
    let sandbox = Sandbox::new();
    sandbox.write("data.json", DATASET);
    std::fs::File::create(sandbox.path("huge.json")).unwrap().set_len(600 << 20).unwrap();
    let mut wrong = Vec::new();
    for (line, words) in [
        ("collect-shapeset --shapeset huge.json --output out.msgpack.zst", "got more than 16777216 bytes"),
        ("collect --problems huge.json --output out.msgpack.zst", "got more than 16777216 bytes"),
        ("collect --space huge.json --output out.msgpack.zst", "got more than 16777216 bytes"),
        (
            "validate-max-autotune --model m --dataset data.json --max-autotune-solution huge.json",
            "got more than 67108864 bytes",
        ),
        (
            "table lookup huge.json --op mm --m 1 --n 1 --k 1 --dtype half",
            "expected value at line 1 column 1",
        ),
        ("table huge.json --output out.json", "got bytes that begin no dataset"),
        ("upload huge.json", "expected at most"),
    ] {
        let output = limited(&sandbox, &line.split(' ').collect::<Vec<_>>());
        wrong.extend(judge(line, words, &output));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
