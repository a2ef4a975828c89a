//! Real collections on the CPU.

use std::process::Stdio;

use crate::predecessor_models::H200;
use crate::sandbox::{Sandbox, assert_sound, content, stderr, wait_until};
use diode_core::{Op, OutputLayout};

/// Small problems, so that a debug build can time them quickly.
const SMALL: [&str; 8] =
    ["--min-size", "16", "--max-size", "96", "--dtypes", "float32,float16,bfloat16", "--backend", "cpu"];

fn collect<'a>(output: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["collect", "--output", output], &SMALL[..], more].concat()
}

#[test]
fn a_small_set_is_measured_and_resuming_adds_only_what_is_new() {
    let sandbox = Sandbox::new();
    let first = collect("a.msgpack.zst", &["--num-shapes", "4", "--ops", "mm,addmm,bmm,baddbmm"]);
    let output = sandbox.run(&first);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(output.stdout.is_empty());
    let text = stderr(&output);
    assert!(text.contains("measured 4 problems") && text.contains("roofline"), "{text}");
    let dataset = sandbox.dataset("a.msgpack.zst");
    assert_sound(&dataset);
    assert_eq!(dataset.solutions.len(), 4);
    let promising = dataset.solutions.iter().flat_map(|s| s.repeats.clone().unwrap()).max();
    assert!(promising.unwrap() >= 7, "the best configs are repeated: {promising:?}");

    let before = content(&sandbox.path("a.msgpack.zst"));
    assert!(sandbox.fails(1, &first).contains("--resume"));
    let resumed = [&first[..], &["--resume"]].concat();
    let output = sandbox.run(&resumed);
    assert!(stderr(&output).contains("4 problems: already in the file"), "{}", stderr(&output));
    assert_eq!(content(&sandbox.path("a.msgpack.zst")), before, "nothing new, nothing written");

    let more = collect("a.msgpack.zst", &["--num-shapes", "5", "--ops", "mm,addmm,bmm,baddbmm", "--resume"]);
    sandbox.ok(&more);
    let grown = sandbox.dataset("a.msgpack.zst");
    assert_sound(&grown);
    assert_eq!(grown.solutions.len(), 5);
    assert_eq!(grown.solutions[..4], dataset.solutions[..]);
}

/// An agent that was to measure a GPU does not measure the CPU instead.
#[test]
fn an_agent_without_a_gpu_says_so() {
    let said = Sandbox::new().fails(2, &["agent", "--server", "http://127.0.0.1:9"]);
    assert_eq!(said, "error: this node has no GPU that can be used; to measure its CPU, add --backend cpu");
}

#[cfg(unix)]
#[test]
fn an_interrupt_keeps_what_was_measured() {
    let sandbox = Sandbox::new();
    let arguments = collect("a.msgpack.zst", &["--num-shapes", "5000"]);
    let mut child = sandbox.command(&arguments).stderr(Stdio::piped()).spawn().unwrap();
    wait_until(&mut child, || sandbox.path("a.msgpack.zst").exists());
    let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(
        said.contains("stopping: ") && said.contains("interrupted") && !said.contains("error:"),
        "{said}"
    );
    let dataset = sandbox.dataset("a.msgpack.zst");
    assert_sound(&dataset);
    assert!((1..5000).contains(&dataset.solutions.len()), "{}", dataset.solutions.len());
}

#[cfg(unix)]
#[test]
fn a_second_collection_is_told_of_the_first_and_both_end_as_they_should() {
    let sandbox = Sandbox::new();
    let arguments = collect("a.msgpack.zst", &["--num-shapes", "5000"]);
    let mut first = sandbox.command(&arguments).stderr(Stdio::piped()).spawn().unwrap();
    let journal = sandbox.path("a.msgpack.zst.journal");
    wait_until(&mut first, || journal.metadata().is_ok_and(|journal| journal.len() > 0));
    for more in [&[][..], &["--resume"]] {
        let error = sandbox.fails(1, &[&arguments[..], more].concat());
        assert!(error.contains("another diode writes this") && !error.contains("remove"), "{error}");
    }
    let killed =
        std::process::Command::new("kill").args(["-TERM", &first.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(first.wait_with_output().unwrap().status.code(), Some(143));
    assert!(!sandbox.dataset("a.msgpack.zst").solutions.is_empty());
}

#[test]
fn what_no_kernel_exists_for_is_neither_measured_nor_made_up() {
    let sandbox = Sandbox::new();
    sandbox.write("p.json", r#"[{"op":"mm","b":1,"m":64,"n":64,"k":64,"dtype":"bool"}]"#);
    let line = ["collect", "--problems", "p.json", "--backend", "simulated", "--output", "a.msgpack.zst"];
    let error = sandbox.fails(2, &line);
    assert!(error.contains("mm 64×64×64: kernels exist for") && error.contains("not for bool"), "{error}");
    assert!(!sandbox.path("a.msgpack.zst").exists());
    let both = r#"[{"op":"mm","b":1,"m":64,"n":64,"k":64,"dtype":"bool"},
        {"op":"mm","b":1,"m":64,"n":64,"k":64,"dtype":"float16"}]"#;
    sandbox.write("p.json", both);
    let output = sandbox.run(&line);
    assert!(output.status.success() && stderr(&output).contains("not for bool"), "{}", stderr(&output));
    assert_eq!(sandbox.dataset("a.msgpack.zst").solutions.len(), 1);
}

/// Of a list, only the best configs are timed. Of a named space, the default configs are, too.
#[test]
fn a_model_chooses_what_to_time() {
    let sandbox = Sandbox::new();
    sandbox.write("p.json", r#"[{"op":"mm","b":1,"m":1024,"n":1024,"k":1024,"dtype":"bfloat16"}]"#);
    let config = |side: u32, warps: u32| {
        format!(
            r#"{{"template":"triton::mm","block_m":{side},"block_n":{side},"block_k":64,"group_m":8,"num_stages":4,
                "num_warps":{warps},"even_k":true,"allow_tf32":false,"use_fast_accum":false,"acc_type":"tl.float32"}}"#
        )
    };
    sandbox.write("s.json", &format!("[{},{},{}]", config(16, 8), config(64, 4), config(128, 8)));
    let model = format!("{H200}/matmul-nvidia-h200.safetensors");
    let usual =
        ["collect", "--backend", "simulated", "--problems", "p.json", "--model", &model, "--top", "2"];
    let timed = |name: &str, space: &str| {
        sandbox.ok(&[&usual[..], &["--space", space, "--output", name]].concat());
        let configs = sandbox.dataset(name).configs;
        configs.iter().filter_map(|config| config.tile().copied()).collect::<Vec<_>>()
    };
    let of_list: Vec<u32> = timed("list.msgpack.zst", "s.json").iter().map(|tile| tile.block_m).collect();
    assert!(of_list.len() == 2 && !of_list.contains(&16), "{of_list:?}");
    assert!(timed("named.msgpack.zst", "full").len() > 10);
}

#[test]
fn a_budget_ends_the_run() {
    let sandbox = Sandbox::new();
    let output = sandbox.run(&collect("a.msgpack.zst", &["--num-shapes", "5000", "--budget", "1s"]));
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("the budget is spent"), "{}", stderr(&output));
    assert!(sandbox.dataset("a.msgpack.zst").solutions.len() < 5000);
}

#[test]
fn a_shape_set_keeps_ops_batches_and_outputs() {
    let sandbox = Sandbox::new();
    let shape = |b: u64, dtype: &str, size: [u64; 3]| {
        format!(
            r#"{{"version":1,"B":{b},"M":24,"M_dtype":"{dtype}","N":40,"K":33,"K_dtype":"{dtype}",
                "out_dtype":"{dtype}","out_size":{size:?},"out_stride":[960,{},1]}}"#,
            size[2]
        )
    };
    let set = format!(
        r#"{{"operations":{{"mm":{{"shapes":[{},{}]}},"bmm":{{"shapes":[{}]}},"addmm":{{"shapes":[{}]}}}}}}"#,
        shape(1, "float16", [1, 40, 24]),
        shape(1, "int8", [1, 24, 40]),
        shape(3, "bfloat16", [3, 24, 40]),
        shape(1, "float32", [1, 24, 40]),
    );
    sandbox.write("set.json", &set);
    let output =
        sandbox.run(&["collect", "--output", "a.msgpack.zst", "--shapeset", "set.json", "--ops", "mm,bmm"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("int8"), "what is skipped is said: {}", stderr(&output));
    let dataset = sandbox.dataset("a.msgpack.zst");
    assert_sound(&dataset);
    let problems: Vec<_> =
        dataset.solutions.iter().map(|s| (s.problem.op, s.problem.b, s.problem.out_layout)).collect();
    let transposed = Some(OutputLayout::dense(1, 40, 24));
    assert_eq!(problems, [(Op::Mm, 1, transposed), (Op::Bmm, 3, None)]);
}

#[test]
fn what_cannot_be_done_is_refused_before_measuring() {
    let sandbox = Sandbox::new();
    let error = sandbox.fails(1, &["collect", "--output", "a.msgpack.zst", "--backend", "hip"]);
    let known = ["no AMD driver", "the AMD driver", "no kernels for gfx"];
    assert!(known.iter().any(|words| error.contains(words)), "{error}");
    let error = sandbox.fails(1, &collect("nowhere/a.msgpack.zst", &[]));
    assert!(error.contains("no such folder"), "{error}");
    let error = sandbox.fails(1, &["collect", "--output", "a.msgpack.zst", "--shapeset", "missing.json"]);
    assert!(error.contains("missing.json"), "{error}");
    sandbox.write("broken.msgpack.zst", "not a dataset");
    sandbox.fails(1, &collect("broken.msgpack.zst", &["--resume"]));
    assert_eq!(content(&sandbox.path("broken.msgpack.zst")), b"not a dataset");
}
