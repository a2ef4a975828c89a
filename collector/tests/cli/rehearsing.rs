//! `diode upload --dry-run`: what a server would do with a file.

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// Two times of one problem. The floor of a 4096³ bf16 product on an H200 is 128.3 µs, so the
/// second is too short.
const TIMES: &str = "\
hardware,op,m,n,k,a_dtype,block_m,block_n,block_k,group_m,num_stages,num_warps,time_ns
nvidia-h200,mm,4096,4096,4096,bfloat16,128,128,64,8,3,8,250000
nvidia-h200,mm,4096,4096,4096,bfloat16,128,256,64,8,3,8,12800
";

#[test]
fn a_dry_run_names_what_cannot_be_true_and_sends_nothing() {
    let sandbox = Sandbox::new();
    sandbox.write("t.csv", TIMES);
    sandbox.ok(&["convert", "t.csv", "t.msgpack.zst"]);
    // A script may have computed the milliseconds with another rounding.
    let both =
        TIMES.replace("time_ns\n", "time_ns,time_ms\n").replace(",250000\n", ",250000,0.25000000000000006\n");
    sandbox.write("both.csv", &both.replace(",12800\n", ",12800,0.0128\n"));
    // No server listens at this address.
    let nobody = ["--server", "http://127.0.0.1:9"];
    for file in ["t.msgpack.zst", "t.csv", "both.csv"] {
        let said = sandbox.ok(&[&["upload", "--dry-run", file][..], &nobody].concat());
        assert!(said.contains(&format!("{file}: not sent")), "{said}");
        assert!(said.contains("nvidia-h200: 1 problem, 2 timings, 0 failures"), "{said}");
        assert!(said.contains("1 of them would be set apart, below-floor: time of mm"), "{said}");
    }
    let listed = sandbox.ok(&[&["upload", "--dry-run", "--json", "t.msgpack.zst"][..], &nobody].concat());
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed[0]["file"], json!("t.msgpack.zst"));
    let of = &listed[0]["hardware"][0];
    assert_eq!((&of["timings"], &of["set_apart"][0]["timings"]), (&json!(2), &json!(1)));
}

#[test]
fn a_dry_run_refuses_what_a_server_would_not_store() {
    let sandbox = Sandbox::new();
    let impossible: Vec<&str> = TIMES.lines().filter(|line| !line.ends_with(",250000")).collect();
    sandbox.write("t.csv", &(impossible.join("\n") + "\n"));
    sandbox.ok(&["convert", "t.csv", "t.msgpack.zst"]);
    let said = sandbox.fails(1, &["upload", "--dry-run", "t.msgpack.zst"]);
    assert!(said.contains("no time that can be true"), "{said}");
}

#[test]
fn a_dry_run_refuses_what_is_no_dataset() {
    let sandbox = Sandbox::new();
    sandbox.write("t.msgpack", "no dataset");
    assert!(sandbox.fails(1, &["upload", "--dry-run", "t.msgpack"]).contains("t.msgpack"));
}

#[test]
fn a_dry_run_tells_of_every_file_whatever_is_wrong_with_others() {
    let sandbox = Sandbox::new();
    sandbox.write("t.csv", TIMES);
    sandbox.ok(&["convert", "t.csv", "t.msgpack.zst"]);
    sandbox.write("no.msgpack", "no dataset");
    let output = sandbox.run(&["upload", "--dry-run", "no.msgpack", "t.msgpack.zst", "gone.json"]);
    let [said, faults] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert_eq!(output.status.code(), Some(1), "{faults}");
    assert!(said.contains("t.msgpack.zst: not sent") && said.contains("2 timings"), "{said}");
    assert!(faults.contains("2 of 3 files cannot be sent"), "{faults}");
    assert!(faults.contains("no.msgpack") && faults.contains("gone.json"), "{faults}");
}
