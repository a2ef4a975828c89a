//! Making, editing and looking up tables.

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// Two problems of one hardware in torch-diode's JSON, with one failure.
pub(crate) fn old_dataset(hardware: &str) -> String {
    let solution = |m: u64, n: u64, k: u64, times: &[(u64, f64)]| {
        let shape = format!(
            r#"{{"version": 1, "B": 1, "M": {m}, "M_dtype": "bfloat16", "N": {n}, "K": {k}, "K_dtype": "bfloat16", "out_dtype": "bfloat16", "out_size": [1, {m}, {n}], "out_stride": [{}, {n}, 1]}}"#,
            m * n
        );
        let timed: Vec<Value> = times
            .iter()
            .map(|&(block_m, time)| {
                json!({"config": {"ACC_TYPE": "tl.float32", "ALLOW_TF32": false, "EVEN_K": false,
                    "USE_FAST_ACCUM": false, "block_k": 32, "block_m": block_m, "block_n": 64, "grid": 1,
                    "group_m": 8, "name": "mm_config", "num_stages": 3, "num_warps": 4, "version": 1},
                    "time": time, "version": 1})
            })
            .collect();
        (shape, json!({"timed_configs": timed, "version": 1}))
    };
    let solutions: serde_json::Map<String, Value> = [
        solution(512, 1024, 256, &[(128, 0.02), (64, 0.01), (32, 0.03)]),
        solution(4096, 4096, 4096, &[(128, 0.4), (64, 0.6)]),
    ]
    .into_iter()
    .collect();
    let operation = json!({"mm": {"solution": solutions, "version": 1}});
    json!({"hardware": {hardware: {"operation": operation, "version": 1}}, "version": 1}).to_string()
}

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("h200.json", &old_dataset("NVIDIA H200"));
    sandbox
}

fn read(sandbox: &Sandbox, name: &str) -> Value {
    serde_json::from_slice(&crate::sandbox::content(&sandbox.path(name))).unwrap()
}

const ASKED: [&str; 10] = ["--op", "mm", "--m", "512", "--n", "1024", "--k", "256", "--dtype", "bfloat16"];

#[test]
fn a_table_holds_the_best_configs_of_each_problem() {
    let sandbox = sandbox();
    let said = sandbox.ok(&["table", "h200.json", "--output", "t.json", "--top", "2"]);
    assert_eq!(said, "t.json: 2 problems, 4 configs on nvidia-h200 (unspecified)\n");
    let table = read(&sandbox, "t.json");
    let blocks: Vec<&Value> =
        table["entries"][0]["configs"].as_array().unwrap().iter().map(|c| &c["block_m"]).collect();
    assert_eq!(blocks, [64, 128]);
    assert!(sandbox.fails(1, &["table", "h200.json", "--output", "t.json"]).contains("--force"));

    let asked = sandbox.ok(&[&["table", "lookup", "t.json", "--json"], &ASKED[..]].concat());
    let answer: Value = serde_json::from_str(&asked).unwrap();
    assert_eq!((&answer["exact"], &answer["configs"][0]["time_us"]), (&true.into(), &10.0.into()));
    let words = sandbox.ok(&[&["table", "lookup", "t.json"], &ASKED[..]].concat());
    assert!(words.contains("64×64×32 s3 w4") && words.contains("10.0 µs"), "{words}");
}

#[test]
fn an_edited_table_is_looked_up_and_exported_as_it_stands() {
    let sandbox = sandbox();
    sandbox.ok(&["table", "h200.json", "--output", "t.json"]);
    let mut table = read(&sandbox, "t.json");
    let configs = table["entries"][0]["configs"].as_array_mut().unwrap();
    configs.insert(0, json!({"template": "aten"}));
    configs[1]["num_warps"] = 8.into();
    sandbox.write("t.json", &serde_json::to_string(&table).unwrap());

    let asked = sandbox.ok(&[&["table", "lookup", "t.json", "--json"], &ASKED[..]].concat());
    let answer: Value = serde_json::from_str(&asked).unwrap();
    assert_eq!(answer["configs"][0]["template"], "aten");

    sandbox.ok(&["table", "t.json", "--output", "i.json", "--format", "inductor", "--top", "2"]);
    let key =
        "NVIDIA H200+((torch.bfloat16, [512, 256], [256, 1]), (torch.bfloat16, [256, 1024], [1024, 1]))+mm";
    assert_eq!(
        read(&sandbox, "i.json")[key],
        json!([
            {"template_id": "aten::mm"},
            {"template_id": "triton::mm", "EVEN_K": true, "USE_FAST_ACCUM": false, "ACC_TYPE": "tl.float32",
             "num_stages": 3, "num_warps": 8, "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32,
             "hint_override": null, "GROUP_M": 8}
        ])
    );

    table["entries"][0]["configs"][1]["block_n"] = 65.into();
    sandbox.write("t.json", &serde_json::to_string(&table).unwrap());
    let error = sandbox.fails(1, &["table", "t.json", "--output", "x.json"]);
    assert!(
        error.contains("t.json: entry 1 (mm B=1 M=512 N=1024 K=256): config 2: block_n: got 65"),
        "{error}"
    );
}

#[test]
fn inductors_keys_can_leave_the_device_out_and_its_entries_name_a_torch() {
    let sandbox = sandbox();
    let arguments = ["table", "h200.json", "--output", "i.json", "--top", "1", "--format", "inductor"];
    sandbox.ok(&[&arguments[..], &["--device-agnostic", "--torch", "2.11.0"]].concat());
    let table = read(&sandbox, "i.json");
    let key = "((torch.bfloat16, [512, 256], [256, 1]), (torch.bfloat16, [256, 1024], [1024, 1]))+mm";
    assert_eq!(
        table[key][0]["template_hash"],
        "d4b90a54b960e7b3fb3abb24be0d43fc9b3c4d64c53ecd44187508e096498238"
    );
    assert_eq!(table.as_object().unwrap().len(), 2);
}

#[test]
fn similar_problems_advise_where_the_table_has_none() {
    let sandbox = sandbox();
    sandbox.ok(&["table", "h200.json", "--output", "t.json"]);
    let other = ["--op", "mm", "--m", "600", "--n", "1024", "--k", "250", "--dtype", "half"];
    let exact = [&["table", "lookup", "t.json"], &other[..]].concat();
    assert!(sandbox.fails(1, &exact).contains("not in the table; add --nearest"));
    let answer: Value =
        serde_json::from_str(&sandbox.ok(&[&exact[..], &["--nearest", "--json"]].concat())).unwrap();
    assert_eq!(answer["exact"], false);
    assert_eq!(answer["neighbours"][0]["problem"]["m"], 512);
    let best = &answer["configs"][0];
    assert_eq!((&best["block_m"], &best["even_k"]), (&64.into(), &false.into()));
    let words = sandbox.ok(&[&exact[..], &["--nearest"]].concat());
    assert!(words.contains("advised by its nearest problems: 512×1024×256"), "{words}");
    assert!(words.contains("expected over best") && !words.contains(" -"), "{words}");
    assert!(answer["configs"][0]["expected_loss"].as_f64().unwrap() >= 0.0);

    // The output names what is unlike in the neighbour: its type, and B in columns.
    let table =
        read(&sandbox, "t.json").to_string().replace("\"b_layout\":\"row\"", "\"b_layout\":\"column\"");
    sandbox.write("nt.json", &table);
    let words = sandbox.ok(&[&["table", "lookup", "nt.json", "--nearest"], &other[..]].concat());
    assert!(words.contains("512×1024×256 bfloat16 (B in columns)"), "{words}");
    let error =
        sandbox.fails(1, &[&["table", "lookup", "nt.json", "--a-layout", "column"], &other[..]].concat());
    assert!(error.contains("mm 600×1024×250 float16 (A in columns): not in the table"), "{error}");

    let batched = ["--op", "bmm", "--b", "4", "--m", "64", "--n", "64", "--k", "64", "--dtype", "half"];
    let error = sandbox.fails(1, &[&["table", "lookup", "t.json", "--nearest"], &batched[..]].concat());
    assert!(error.contains("nothing in it runs the same kernels"), "{error}");
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let sandbox = sandbox();
    sandbox.write("h100.json", &old_dataset("NVIDIA H100"));
    let both = ["table", "h200.json", "h100.json", "--output", "t.json"];
    assert!(sandbox.fails(1, &both).contains("choose with --hardware"));
    let said = sandbox.ok(&[&both[..], &["--hardware", "nvidia-h100"]].concat());
    assert!(said.contains("on nvidia-h100"), "{said}");
    let unknown = [&both[..], &["--hardware", "nvidia-a100", "--force"]].concat();
    assert!(sandbox.fails(1, &unknown).contains("hardware: got `nvidia-a100`"));
    let mixed = ["table", "h200.json", "t.json", "--output", "x.json"];
    assert!(sandbox.fails(2, &mixed).contains("expected it alone"));
    let method = ["table", "h200.json", "--output", "x.json", "--method", "median-cold-event"];
    assert!(sandbox.fails(1, &method).contains("unspecified, as there is"));
    sandbox.write("broken.json", r#"{"format": "diode-table/1", "#);
    assert!(
        sandbox.fails(1, &[&["table", "lookup", "broken.json"], &ASKED[..]].concat()).contains("broken.json")
    );
    sandbox.fails(1, &["table", "missing.json", "--output", "x.json"]);
    assert!(!sandbox.path("x.json").exists());
}

/// A lookup table of torch-diode. Under a problem's key, it has configs without times.
pub(crate) fn old_table(hardware: &[&str], configs: &[(u64, bool)]) -> String {
    let configs: Vec<String> = configs
        .iter()
        .map(|(block_m, even_k)| {
            format!(
                r#"{{"ACC_TYPE": "tl.float32", "ALLOW_TF32": false, "EVEN_K": {even_k}, "USE_FAST_ACCUM": false,
                "block_k": 32, "block_m": {block_m}, "block_n": 64, "grid": 1, "group_m": 8, "name": "mm_config",
                "num_stages": 3, "num_warps": 4, "version": 1}}"#
            )
        })
        .collect();
    let key = r#"{\"version\": 1, \"B\": 1, \"M\": 512, \"M_dtype\": \"bfloat16\", \"N\": 1024, \"K\": 250, \"K_dtype\": \"bfloat16\", \"out_dtype\": \"bfloat16\", \"out_size\": [1, 512, 1024], \"out_stride\": [524288, 1024, 1]}"#;
    let table = |name: &&str| {
        format!(
            r#""{name}": {{"operation": {{"mm": {{"solution": {{"{key}": {{"config": [{}], "version": 1}}}}, "version": 1}}}}, "version": 1}}"#,
            configs.join(", ")
        )
    };
    let tables: Vec<String> = hardware.iter().map(table).collect();
    format!(r#"{{"hardware": {{{}}}, "version": 1}}"#, tables.join(", "))
}

#[test]
fn tables_of_torch_diode_are_taken_over() {
    let sandbox = Sandbox::new();
    // The second config has a wrong `EVEN_K`, and the last one repeats the first.
    let configs = [(128, false), (64, true), (32, false), (128, false)];
    sandbox.write("old.json", &old_table(&["NVIDIA H200"], &configs));
    let asked = ["--op", "mm", "--m", "512", "--n", "1024", "--k", "250", "--dtype", "bfloat16", "--json"];
    let blocks = |table: &str| -> Vec<u64> {
        let answer = sandbox.ok(&[&["table", "lookup", table], &asked[..]].concat());
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["exact"], true);
        assert_eq!(answer["configs"][0].get("time_us"), None);
        answer["configs"].as_array().unwrap().iter().map(|c| c["block_m"].as_u64().unwrap()).collect()
    };
    assert_eq!(blocks("old.json"), [128, 32]);
    let said = sandbox.ok(&["table", "old.json", "--output", "new.json"]);
    assert_eq!(said, "new.json: 1 problem, 2 configs on nvidia-h200 (unspecified)\n");
    assert_eq!(read(&sandbox, "new.json")["format"], "diode-table/1");
    assert_eq!(blocks("new.json"), [128, 32]);
    sandbox.ok(&["table", "old.json", "--output", "i.json", "--format", "inductor", "--top", "1"]);
    let entries = read(&sandbox, "i.json");
    let entries: Vec<&Value> = entries.as_object().unwrap().values().collect();
    assert_eq!((entries.len(), &entries[0][0]["BLOCK_M"]), (1, &128.into()));

    sandbox.write("two.json", &old_table(&["NVIDIA H200", "NVIDIA H100"], &configs));
    let two = ["table", "two.json", "--output", "one.json"];
    assert!(sandbox.fails(1, &two).contains("nvidia-h100 and nvidia-h200, expected one"));
    let lookup = [&["table", "lookup", "two.json"], &asked[..]].concat();
    assert!(sandbox.fails(1, &lookup).contains("`diode table two.json --hardware SLUG"));
    sandbox.ok(&[&two[..], &["--hardware", "nvidia-h100"]].concat());
    assert_eq!(blocks("one.json"), [128, 32]);

    sandbox.write("false.json", &old_table(&["NVIDIA H200"], &[(64, true)]));
    let error = sandbox.fails(1, &["table", "false.json", "--output", "x.json"]);
    assert!(error.contains("false.json: no problem has a config that can compute it"), "{error}");
}
