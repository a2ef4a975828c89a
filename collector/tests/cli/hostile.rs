//! Files that are broken, forged or of another kind: one line says what is
//! wrong, and no file makes the command take more than 256 MiB.

use std::process::{Command, Output};

use diode_core::{Dataset, TimeColumn};
use diode_formats::{Format, encode};

use crate::datasets::OLD;
use crate::sandbox::{Sandbox, stderr};
use crate::tables::old_table;

/// What the address space of the command is limited to, in KiB: more than it may keep in memory.
const MEMORY: u32 = 256 << 10;

/// A file, the bytes in it and words of the error that they must lead to.
struct Bad(&'static str, Vec<u8>, &'static str);

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
        Bad("none.json", br#"{"shapes": []}"#.to_vec(), "none of its 0 shapes"),
        Bad("top.json", b"{}".to_vec(), "expected either `operations` or `shapes`"),
        Bad("columns.csv", b"name,B,M,K,N\nmm,1,2,3,4\n".to_vec(), "no column `Transposed`"),
        Bad("word.csv", b"name,B,M,K,N,Transposed\nmm,1,two,3,4,True\n".to_vec(), "line 2: M: got \"two\""),
        Bad("ragged.csv", b"name,B,M,K,N,Transposed\nmm,1,2,3,4\n".to_vec(), "5 fields, expected 6"),
        Bad("latin.csv", b"name,B,M,K,N,Transposed\nm\xe9,1,2,3,4,True\n".to_vec(), "not UTF-8"),
        Bad("old.json", OLD.as_bytes().to_vec(), "got a dataset of timings, expected a shape set"),
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

/// What reads tables: both the command that edits one and the one that looks it up.
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
        Bad("timings.json", OLD.as_bytes().to_vec(), "got a dataset of timings"),
        Bad("shapes.json", b"{\"shapes\": []}".to_vec(), "got a shape set"),
        Bad("latin.json", [b"{\"config\": [".as_slice(), b"\"\xe9\"]}"].concat(), "unicode"),
        Bad("bomb.json.zst", bomb(b"{\"config\": [\""), "bytes unpacked"),
    ];
    let sandbox = Sandbox::new();
    sandbox.write("data.json", OLD);
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

#[test]
fn bad_lists_of_problems_are_refused_likewise() {
    let short = r#"{"op":"mm","b":1,"m":4,"n":8,"k":2,"dtype":"float16"}"#;
    let with = |from: &str, to: &str| {
        assert!(short.contains(from), "{from}");
        format!("[{}]", short.replacen(from, to, 1)).into_bytes()
    };
    let neither = "problem 1: expected {op, b, m, n, k, dtype}";
    let cases = [
        Bad("empty.json", Vec::new(), "expected a JSON list of problems"),
        Bad("none.json", b"[]".to_vec(), "expected at least one problem"),
        Bad("object.json", b"{}".to_vec(), "expected a JSON list of problems"),
        Bad("cut.json", with("", "")[..30].to_vec(), "expected a JSON list of problems"),
        Bad("zero.json", with("\"m\":4", "\"m\":0"), "problem 1: M: got 0"),
        Bad("huge.json", with("\"m\":4", "\"m\":4294967296"), "problem 1: M: got 4294967296"),
        Bad("batch.json", with("\"b\":1", "\"b\":2"), "problem 1: B: got 2"),
        Bad("negative.json", with("\"m\":4", "\"m\":-4"), neither),
        Bad("real.json", with("\"m\":4", "\"m\":4.5"), neither),
        Bad("bool.json", with("\"m\":4", "\"m\":true"), neither),
        Bad("nan.json", with("\"m\":4", "\"m\":NaN"), "expected a JSON list of problems"),
        Bad("dtype.json", with("float16", "float17"), neither),
        Bad("op.json", with("\"mm\"", "\"conv\""), neither),
        Bad("layout.json", with("}", ",\"b_layout\":\"diagonal\"}"), neither),
        Bad("unknown.json", with("}", ",\"colour\":\"red\"}"), neither),
        Bad("missing.json", with("\"k\":2,", ""), neither),
        Bad("latin.json", b"[\"\xe9\"]".to_vec(), "UTF-8"),
        Bad("deep.json", b"[".repeat(100_000), "expected a JSON list of problems"),
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

/// Runs the command with bounded memory: what asks for more is killed, and not with code 1.
fn limited(sandbox: &Sandbox, arguments: &[&str]) -> Output {
    let command = sandbox.command(arguments);
    let mut limited = if cfg!(target_os = "linux") {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -v {MEMORY} && exec \"$@\""), "sh"]).arg(command.get_program());
        shell
    } else {
        Command::new(command.get_program())
    };
    limited.args(command.get_args()).current_dir(sandbox.path("")).output().unwrap()
}

/// What is wrong with an answer, if anything.
fn judge(name: &str, words: &str, output: &Output) -> Option<String> {
    let text = stderr(output);
    let errors = text.lines().filter(|line| line.starts_with("error: ") && line.contains(words)).count();
    let good = output.status.code() == Some(1) && errors == 1 && text.lines().count() == 1;
    (!good).then(|| format!("{name}: {}: expected {words:?}, got {:.400}", output.status, text.trim()))
}

fn json() -> Vec<Bad> {
    let edit = |from: &str, to: &str| {
        assert!(OLD.contains(from), "{from}");
        OLD.replacen(from, to, 1).into_bytes()
    };
    let time = |to: &str| edit("\"time\": 0.0123", &format!("\"time\": {to}"));
    let block = |to: &str| edit("\"block_m\": 64", to);
    let size = |to: &str| edit("\\\"M\\\": 64", &format!("\\\"M\\\": {to}"));
    let mut latin = OLD.as_bytes().to_vec();
    let name = OLD.find("NVIDIA").unwrap();
    latin[name] = 0xe9;
    vec![
        Bad("empty.json", Vec::new(), "no bytes at all"),
        Bad("blank.json", b"  \n ".to_vec(), "truncated JSON"),
        Bad("half.json", OLD.as_bytes()[..OLD.len() / 2].to_vec(), "truncated JSON"),
        Bad("brace.json", OLD.as_bytes()[..OLD.len() - 1].to_vec(), "truncated JSON"),
        Bad("object.json", b"{}".to_vec(), "missing field `hardware`"),
        Bad("list.json", b"[]".to_vec(), "expected a map with the field `hardware`"),
        Bad("null.json", b"null".to_vec(), "no column `hardware`"),
        Bad("trailing.json", [OLD.as_bytes(), b"x"].concat(), "trailing characters"),
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
        Bad("json-in.msgpack", OLD.as_bytes()[..700].to_vec(), "truncated JSON"),
        Bad(
            "long-text.json",
            format!("{{\"x\": \"{}\"", "a".repeat(4 << 20)).into_bytes(),
            "a text of more than",
        ),
    ]
}

fn nesting() -> Vec<Bad> {
    let deep = |open: &str, times: usize| ["{\"x\": ", &open.repeat(times)].concat().into_bytes();
    let msgpack = |marker: &[u8]| [b"\x81\xa1x".as_slice(), &marker.repeat(100_000)].concat();
    vec![
        Bad("lists.json", deep("[", 1_000_000), "truncated JSON"),
        Bad("maps.json", deep("{\"x\":", 1_000_000), "truncated JSON"),
        Bad("lists.msgpack", msgpack(b"\x91"), "more than 32 levels"),
        Bad("maps.msgpack", msgpack(b"\x81\xa1x"), "more than 32 levels"),
    ]
}

fn old() -> Vec<Dataset> {
    diode_formats::decode(OLD.as_bytes()).unwrap().datasets
}

fn msgpack() -> Vec<Bad> {
    let good = encode(Format::TorchDiodeMsgpack, &old()).unwrap();
    let edit = |from: &[u8], to: &[u8]| {
        let at = good.windows(from.len()).position(|window| window == from).expect("what is to be replaced");
        [&good[..at], to, &good[at + from.len()..]].concat()
    };
    let time = |to: &[u8]| edit(b"\xa4time\xcb\x3f\x89\x30\xbe\x0d\xed\x28\x8d", &[b"\xa4time", to].concat());
    vec![
        Bad("half.msgpack", good[..good.len() / 2].to_vec(), "truncated MessagePack"),
        Bad("end.msgpack", good[..good.len() - 1].to_vec(), "truncated MessagePack"),
        Bad("trailing.msgpack", [&good[..], b"\xc0"].concat(), "found more bytes"),
        Bad("map-claim.msgpack", b"\xdf\xff\xff\xff\xff\xa8hardware".to_vec(), "truncated MessagePack"),
        Bad("text-claim.msgpack", b"\x81\xa1x\xdb\xff\xff\xff\xff".to_vec(), "truncated MessagePack"),
        Bad("binary-claim.msgpack", b"\x81\xa1x\xc6\xff\xff\xff\xff".to_vec(), "truncated MessagePack"),
        Bad(
            "list-claim.msgpack",
            edit(b"\x91\x83\xa6config", b"\xdd\xff\xff\xff\xff\x83\xa6config"),
            "MessagePack at byte",
        ),
        Bad("key-claim.msgpack", b"\x81\xdb\xff\xff\xff\xff".to_vec(), "a field name of 4294967295 bytes"),
        Bad("reserved.msgpack", b"\x81\xa1x\xc1".to_vec(), "reserved marker"),
        Bad("key-number.msgpack", edit(b"\xa4time", b"\x07time"), "expected a field name"),
        Bad("key-latin.msgpack", edit(b"\xa4time", b"\xa4tim\xe9"), "not UTF-8"),
        Bad("list.msgpack", edit(b"\x82\xa8hardware", b"\x92\xa8hardware"), "MessagePack at byte"),
        Bad("time-bool.msgpack", time(b"\xc3"), "got the boolean true, expected a time"),
        Bad("time-text.msgpack", time(b"\xa11"), "expected a time"),
        Bad("time-zero.msgpack", time(b"\x00"), "time: got 0 ms"),
        Bad("time-negative.msgpack", time(b"\xff"), "time: got -1 ms"),
        Bad("block-bool.msgpack", edit(b"\xa7block_m\x40", b"\xa7block_m\xc3"), "boolean `true`"),
        Bad(
            "block-huge.msgpack",
            edit(b"\xa7block_m\x40", b"\xa7block_m\xcf\xff\xff\xff\xff\xff\xff\xff\xff"),
            "expected u32",
        ),
        Bad(
            "block-twice.msgpack",
            edit(b"\x8d\xa8ACC_TYPE", b"\x8e\xa7block_m\x40\xa8ACC_TYPE"),
            "duplicate field `block_m`",
        ),
        Bad("op.msgpack", edit(b"\xa2mm", b"\xa2mn"), "op: got `mn`"),
        Bad(
            "version.msgpack",
            edit(b"\x83\xa6config", b"\x84\xa7version\xc3\xa6config"),
            "expected a version number",
        ),
        Bad("number.msgpack", vec![7], "expected a map"),
    ]
}

fn columnar() -> Vec<Bad> {
    let good = encode(Format::Columnar, &old()).unwrap();
    let plain = unpacked(&good);
    let edit = |from: &[u8], to: &[u8]| {
        let at = plain.windows(from.len()).position(|window| window == from).expect("what is to be replaced");
        [&plain[..at], to, &plain[at + from.len()..]].concat()
    };
    let mut flipped = good.clone();
    *flipped.last_mut().unwrap() ^= 1;
    // The same time a million times takes no space, in as many problems as one likes.
    let mut repeated = old().remove(0);
    repeated.solutions[0].configs = vec![diode_core::ConfigIndex(0); 1 << 20];
    repeated.solutions[0].times = TimeColumn::Nanos(vec![1; 1 << 20]);
    repeated.solutions = vec![repeated.solutions[0].clone(); 8];
    vec![
        Bad("half.msgpack.zst", good[..good.len() / 2].to_vec(), "truncated"),
        Bad("checksum.msgpack.zst", flipped, "checksum"),
        Bad(
            "repeated.msgpack.zst",
            encode(Format::Columnar, &[repeated]).unwrap(),
            "from a file of its size",
        ),
        Bad("cut.columnar", plain[..plain.len() - 3].to_vec(), "truncated columnar"),
        Bad("trailing.columnar", [&plain[..], b"\xc0"].concat(), "found more bytes"),
        Bad("schema.columnar", edit(b"\xa6schema\x01", b"\xa6schema\x02"), "update diode"),
        Bad(
            "datasets.columnar",
            edit(b"\xa8datasets\x01", b"\xa8datasets\xcf\x10\0\0\0\0\0\0\0"),
            "expected at most 256",
        ),
        Bad(
            "rows.columnar",
            edit(b"\xa4rows\x01", b"\xa4rows\xcf\x10\0\0\0\0\0\0\0"),
            "timings of one problem",
        ),
        Bad("blob.columnar", edit(b"\xa5times\xc4", b"\xa5times\xc6\xff\xff\xff"), "columnar MessagePack"),
        Bad("size.columnar", edit(b"\xa1m\x40", b"\xa1m\x00"), "M: got 0"),
        Bad("bool.columnar", edit(b"\xa1m\x40", b"\xa1m\xc3"), "boolean `true`"),
        Bad("dtype.columnar", edit(b"\xa8bfloat16", b"\xa8bfloat17"), "bfloat17"),
        Bad("list.columnar", edit(b"\xa4list\x00", b"\xa4list\x01"), "config list 1"),
    ]
}

fn unpacked(frame: &[u8]) -> Vec<u8> {
    zstd::decode_all(frame).unwrap()
}

/// A file of some tens of kilobytes that unpacks to 256 MiB.
fn bomb(head: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
    std::io::Write::write_all(&mut encoder, head).unwrap();
    let piece = vec![b'a'; 1 << 20];
    for _ in 0..256 {
        std::io::Write::write_all(&mut encoder, &piece).unwrap();
    }
    encoder.finish().unwrap()
}

fn compressed() -> Vec<Bad> {
    let packed = zstd::encode_all(OLD.as_bytes(), 3).unwrap();
    let mut wide = zstd::Encoder::new(Vec::new(), 3).unwrap();
    wide.window_log(27).unwrap();
    std::io::Write::write_all(&mut wide, OLD.as_bytes()).unwrap();
    vec![
        Bad("bomb-json.zst", bomb(b"{\"x\": 1, \""), "a text of more than"),
        Bad("bomb-list.zst", bomb(b"{\"x\": [\"\"], \"hardware\": a"), "JSON"),
        Bad("bomb-msgpack.zst", bomb(b"\x81\xa1x\xdb\x0f\xff\xff\xff"), "unpacks to more than"),
        Bad("bomb-columnar.zst", bomb(b"\x81\xa6format\xdb\x0f\xff\xff\xff"), "more than"),
        Bad("bomb-csv.zst", bomb(b"hardware,op,m,n,k,a_dtype,time_ms\n"), "in one record"),
        Bad("cut.zst", packed[..packed.len() / 2].to_vec(), "truncated"),
        Bad("garbage.zst", [&b"\x28\xb5\x2f\xfd"[..], &[0xff; 100]].concat(), "invalid"),
        Bad("window.zst", wide.finish().unwrap(), "memory"),
    ]
}

fn csv() -> Vec<Bad> {
    let good = String::from_utf8(encode(Format::Csv, &old()).unwrap()).unwrap();
    let edit = |from: &str, to: &str| {
        assert!(good.contains(from), "{from} in {good}");
        good.replacen(from, to, 1).into_bytes()
    };
    let row = good.lines().nth(1).unwrap();
    let partial = format!("{good}{}\n", row.replacen(",0.0123,,", ",0.0123,5,", 1));
    vec![
        Bad("header.csv", edit("hardware,", "hard,"), "no column `hardware`"),
        Bad("untimed.csv", edit("time_ns,time_ms", "ns,ms"), "expected a dataset"),
        Bad("twice.csv", edit("b,m,n", "m,m,n"), "duplicate column `m`"),
        Bad("ragged.csv", edit("mm,1,64", "mm,64"), "line 2: 39 fields, expected 40"),
        Bad("zero.csv", edit("mm,1,64", "mm,1,0"), "line 2: M: got 0"),
        Bad("negative.csv", edit("mm,1,64", "mm,1,-64"), "line 2: m: got \"-64\""),
        Bad("huge.csv", edit("mm,1,64", "mm,1,6400000000"), "M: got 6400000000"),
        Bad("word.csv", edit("mm,1,64", "mm,1,many"), "m: got \"many\""),
        Bad("dtype.csv", edit("bfloat16", "bfloat17"), "bfloat17"),
        Bad("op.csv", edit(",mm,", ",mn,"), "op: got `mn`"),
        Bad("template.csv", edit("triton::mm", "triton::mn"), "template: got `triton::mn`"),
        Bad("flag.csv", edit("false", "maybe"), "got \"maybe\", expected true or false"),
        Bad("method.csv", edit("unspecified", "guessed"), "method: got `guessed`"),
        Bad("time-zero.csv", edit("12300,0.0123", ",0"), "time: got 0 ms"),
        Bad("time-negative.csv", edit("12300,0.0123", ",-1"), "time: got -1 ms"),
        Bad("time-differs.csv", edit("12300,0.0123", "12300,0.0124"), "since time_ns says so"),
        Bad("time-none.csv", edit("12300,0.0123", ","), "no time and no failure"),
        Bad("time-both.csv", edit("12300,0.0123,,,,", "12300,0.0123,,,,timeout"), "a time and a failure"),
        Bad("reason.csv", edit("12300,0.0123,,,,", ",,,,,tired"), "failure reason: got `tired`"),
        Bad("spread.csv", partial.into_bytes(), "expected all or none"),
        Bad("quote.csv", edit("NVIDIA", "\"NVIDIA"), "quoted field"),
        Bad("latin.csv", [good.as_bytes(), b"\xe9\n"].concat(), "not UTF-8"),
        Bad("long.csv", format!("{good}{}", "a".repeat(1 << 20)).into_bytes(), "in one record"),
    ]
}

fn parquet() -> Vec<Bad> {
    let good = encode(Format::Parquet, &old()).unwrap();
    let length = good.len();
    let mut claim = good.clone();
    claim[length - 8..length - 4].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut metadata = good.clone();
    metadata[length - 60..length - 8].fill(0xff);
    let mut pages = good.clone();
    pages[4..200].fill(0x55);
    vec![
        Bad("magic.parquet", b"PAR1".to_vec(), "invalid Parquet"),
        Bad("half.parquet", good[..length / 2].to_vec(), "invalid Parquet"),
        Bad("end.parquet", good[..length - 1].to_vec(), "invalid Parquet"),
        Bad("claim.parquet", claim, "expected at most"),
        Bad("metadata.parquet", metadata, "invalid Parquet"),
        Bad("pages.parquet", pages, "invalid Parquet"),
        Bad("packed.parquet.zst", zstd::encode_all(&good[..], 3).unwrap(), "unpack it first"),
    ]
}

fn other_kinds() -> Vec<Bad> {
    let config = r#"{"block_k": 16, "block_m": 64, "block_n": 32, "grid": 1, "group_m": 8, "name": "x", "num_stages": 2, "num_warps": 4}"#;
    let solution = format!("{{\"config\": [{config}]}}").into_bytes();
    let start = OLD.find("{\n              \"timed_configs\"").unwrap();
    let table = format!("{}{{\"config\": [{config}]}}}}}}}}}}}}", &OLD[..start]).into_bytes();
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
