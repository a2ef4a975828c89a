//! torch-diode's commands that measure or convert datasets.

use diode_core::Method;
use serde_json::Value;

use crate::predecessor::SMALL;
use crate::sandbox::{Sandbox, stderr};

fn shapeset() -> String {
    let shape = |b: u64| {
        format!(
            r#"{{"version":1,"B":{b},"M":72,"M_dtype":"float32","N":80,"K":66,"K_dtype":"float32",
                "out_dtype":"float32","out_size":[{b},72,80],"out_stride":[5760,80,1]}}"#
        )
    };
    format!(r#"{{"operations":{{"mm":{{"shapes":[{}]}},"bmm":{{"shapes":[{}]}}}}}}"#, shape(1), shape(2))
}

#[test]
fn a_shape_set_becomes_messagepack_and_says_what_is_not_kept() {
    let sandbox = Sandbox::new();
    sandbox.write("set.json", &shapeset());
    let line =
        ["collect-shapeset", "--shapeset", "set.json", "--search-space", "DEFAULT", "--backend", "cpu"];
    let output = sandbox.run(&line);
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stderr(&output);
    assert_eq!(said.matches("will not hold").count(), 1, "{said}");
    assert!(said.contains("operation_shapeset_data.msgpack will not hold minimum"), "{said}");
    let dataset = sandbox.dataset("operation_shapeset_data.msgpack");
    let problems: Vec<String> =
        dataset.solutions.iter().map(|s| format!("{} {}", s.problem.op, s.problem.dims())).collect();
    assert_eq!(problems, ["mm 72×80×66", "bmm 2×72×80×66"], "ops and batches stay");
    assert_eq!(dataset.solutions[0].method, Method::Unspecified);

    assert!(sandbox.fails(1, &line).contains("--resume"));
    let again = [&line[..], &["--resume"]].concat();
    assert!(stderr(&sandbox.run(&again)).contains("2 problems: already in the file"));
    let only_bmm =
        [&["--format", "json"], &line[..], &["--operations", "bmm", "--output", "b.msgpack"]].concat();
    assert!(stderr(&sandbox.run(&only_bmm)).contains("writing b.json"));
    assert_eq!(sandbox.dataset("b.json").solutions.len(), 1);
}

#[test]
fn validation_has_a_seed_of_its_own_and_chunks() {
    let sandbox = Sandbox::new();
    let validation = ["create-validation", "--search-space", "DEFAULT", "--operations", "mm"];
    let validation = [&validation[..], &SMALL].concat();
    sandbox.ok(&[&validation[..], &["--num-shapes", "2", "--output", "v.msgpack.zst"]].concat());
    let drawn = |seed: &str| {
        let shapes = ["shapes", "--json", "--num-shapes", "2", "--ops", "mm", "--seed", seed];
        let shapes: Value = serde_json::from_str(&sandbox.ok(&[&shapes[..], &SMALL].concat())).unwrap();
        shapes.as_array().unwrap().iter().map(|s| s["m"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let measured: Vec<u64> =
        sandbox.dataset("v.msgpack.zst").solutions.iter().map(|solution| solution.problem.m).collect();
    assert_eq!(measured, drawn("43"));
    assert_ne!(measured, drawn("42"));

    let chunked =
        [&validation[..], &["--num-shapes", "3", "--chunk-size", "2", "--output", "held_out"]].concat();
    let said = stderr(&sandbox.run(&chunked));
    assert_eq!(said.matches("will not hold").count(), 1, "once, not once per chunk: {said}");
    assert_eq!(sandbox.dataset("held_out/validation_dataset_1.json").solutions.len(), 2);
    assert_eq!(sandbox.dataset("held_out/validation_dataset_2.json").solutions.len(), 1);
    assert!(sandbox.fails(1, &chunked).contains("validation_dataset_1.json exists"));
    std::fs::remove_file(sandbox.path("held_out/validation_dataset_2.json")).unwrap();
    sandbox.ok(&[&chunked[..], &["--resume"]].concat());
    assert_eq!(sandbox.dataset("held_out/validation_dataset_2.json").solutions.len(), 1);
}

#[test]
fn layers_of_a_model_are_trained_on_or_judged_by_and_never_both() {
    let sandbox = Sandbox::new();
    let model = ["--transformer", "hidden=64,intermediate=96,heads=2", "--prefill-tokens", "16,24"];
    let quick = ["--decode-batches", "1,2", "--search-space", "DEFAULT", "--backend", "cpu"];
    let rest = ["--validation-shapes", "3", "--skip-training"];
    let output = sandbox.run(&[&["collect-and-train"], &model[..], &quick, &rest].concat());
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("3 problems of the model held out to judge by, 9 left to train on"), "{said}");
    let drawn: Vec<Value> =
        serde_json::from_str(&sandbox.ok(&[&["shapes", "--json"], &model[..], &quick[..2]].concat()))
            .unwrap();
    let (trained, held_out) =
        (sandbox.dataset("matmul_dataset.json"), sandbox.dataset("matmul_validation_dataset.json"));
    let mut sizes: Vec<[u64; 3]> = [&trained, &held_out]
        .into_iter()
        .flat_map(|dataset| &dataset.solutions)
        .map(|solution| [solution.problem.m, solution.problem.n, solution.problem.k])
        .collect();
    let mut expected: Vec<[u64; 3]> =
        drawn.iter().map(|shape| ["m", "n", "k"].map(|size| shape[size].as_u64().unwrap())).collect();
    sizes.sort_unstable();
    expected.sort_unstable();
    assert_eq!(sizes, expected);

    let one = ["--convolution", "in=8,out=8,kernel=1,size=8", "--images", "1", "--backend", "cpu"];
    let error = Sandbox::new().fails(2, &[&["collect-and-train"], &one[..]].concat());
    assert!(error.contains("got 1, expected at least 4"), "{error}");
}

#[test]
fn what_shapes_prints_is_measured() {
    let sandbox = Sandbox::new();
    let model = ["--transformer", "hidden=64,intermediate=96,heads=2", "--prefill-tokens", "16"];
    let printed = sandbox.ok(&[&["shapes", "--json", "--decode-batches", "1"], &model[..]].concat());
    sandbox.write("problems.json", &printed);
    sandbox.ok(&["collect", "--problems", "problems.json", "--output", "a.msgpack.zst", "--backend", "cpu"]);
    let measured = sandbox.dataset("a.msgpack.zst");
    assert!(measured.solutions.iter().all(|s| s.problem.b_layout == diode_core::Layout::Column));
    let drawn: Vec<Value> = serde_json::from_str(&printed).unwrap();
    assert_eq!(measured.solutions.len(), drawn.len());
}

#[test]
fn json_files_are_converted_one_by_one() {
    let sandbox = Sandbox::new();
    sandbox.write("set.json", &shapeset());
    let collect =
        ["collect-shapeset", "--shapeset", "set.json", "--search-space", "DEFAULT", "--output", "a.json"];
    sandbox.ok(&collect);
    let line = ["convert-json-to-msgpack", "--input-files", "set.json", "a.json", "--output-dir", "packed"];
    let output = sandbox.run(&line);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("not converted: set.json") && said.contains("1 of 2 files"), "{said}");
    assert_eq!(sandbox.dataset("packed/a.msgpack"), sandbox.dataset("a.json"));

    let again = ["convert-json-to-msgpack", "--input-files", "a.json", "--output-dir", "packed"];
    assert!(sandbox.fails(1, &again).contains("not converted"));
    sandbox.ok(&[&again[..], &["--overwrite"]].concat());
    let packed = ["convert-json-to-msgpack", "--input-files", "packed/a.msgpack", "--output-dir", "more"];
    let output = sandbox.run(&packed);
    assert!(stderr(&output).contains("expected JSON; use `diode convert`"), "{}", stderr(&output));
}
