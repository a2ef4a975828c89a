//! Faults on the host: a full disk, a killed process, a damaged pack. In one test, one of two GPUs
//! breaks.

use std::process::{Command, Stdio};

use diode_standin::{Effect, Rule, Script};

use crate::sandbox::{content, stderr, wait_until};
use crate::standin::node::{Node, Vendor};

/// Problems of different sizes.
fn problems(count: u64) -> String {
    let problem = |number: u64| {
        let n = 8 * (1 + number);
        format!(r#"{{"op": "mm", "b": 1, "m": 32, "n": {n}, "k": 32, "dtype": "bfloat16"}}"#)
    };
    format!("[{}]", (0..count).map(problem).collect::<Vec<_>>().join(","))
}

/// Resumes the collection on a sound node. Returns how many problems were in it before.
fn resume(node: &Node, count: usize) -> usize {
    let output = node.collect(&node.sound(), &["--resume"]);
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    let dataset = node.sandbox.dataset("a.msgpack.zst");
    assert_eq!(dataset.solutions.len(), count, "{said}");
    let there =
        said.lines().find_map(|line| line.split_once(" problem")?.1.contains("already").then_some(line));
    there.map_or(0, |line| line.split(' ').next().unwrap().parse().unwrap())
}

/// Runs the same command in a shell that runs `first` before it.
fn in_shell(first: &str, diode: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &format!("{first}; exec \"$0\" \"$@\"")])
        .arg(diode.get_program())
        .args(diode.get_args());
    shell.current_dir(diode.get_current_dir().unwrap());
    for (name, value) in diode.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

#[test]
fn a_full_disk_costs_what_does_not_fit_and_no_more() {
    let node = Node::new(Vendor::Nvidia, &problems(60));
    // No file may exceed some kilobytes, so further writes fail as on a full disk.
    let mut full = in_shell("trap '' XFSZ; ulimit -f 16", &node.command(&node.sound(), &[]));
    let output = full.output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("for --resume") || said.contains("journal"), "{said}");
    let there = resume(&node, 60);
    assert!((1..60).contains(&there), "{there} were kept; {said}");
}

#[test]
fn a_killed_collection_goes_on() {
    let node = Node::new(Vendor::Nvidia, &problems(3));
    let mut script = node.sound();
    // The second problem hangs when its reference is computed.
    script.rules.push(Rule::of_kernel("reference;", Effect::Hang).from(2));
    let mut command = node.command(&script, &[]);
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let journal = node.sandbox.path("a.msgpack.zst.journal");
    wait_until(&mut child, || std::fs::metadata(&journal).is_ok_and(|file| file.len() > 0));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(resume(&node, 3), 1);
}

#[test]
fn a_damaged_pack_ends_the_collection_where_it_is_needed() {
    let node = Node::new(Vendor::Nvidia, &problems(2));
    let (pack, whole) = (node.sandbox.path("test.pack"), node.sandbox.path("whole.pack"));
    let bytes = content(&pack);
    diode_formats::write_atomically(&whole, &bytes).unwrap();
    let mut damaged = bytes.clone();
    *damaged.last_mut().unwrap() ^= 1;
    diode_formats::write_atomically(&pack, &damaged).unwrap();
    // The stand-in takes the kernels from the undamaged pack, so it knows them all the same.
    let output = node.collect(&Script { pack: whole, ..node.sound() }, &[]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("build the pack again, or copy it again from where it is whole"), "{said}");
    diode_formats::write_atomically(&pack, &bytes).unwrap();
    assert_eq!(resume(&node, 2), 0);
}

#[test]
fn of_two_gpus_one_breaks() {
    let node = Node::new(Vendor::Nvidia, &problems(60));
    let mut script = node.sound();
    // There are enough problems that some are left when GPU 1 breaks for the second time.
    script.gpus.push(script.gpus[0].clone());
    script.rules.push(Rule::of_kernel("fill;", Effect::Break(999)).on_gpu(1));
    let output = node.collect(&script, &["--device", "0,1"]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("the GPU broke down before a config was launched, on 2 problems in a row"),
        "{said}"
    );
    resume(&node, 60);
}
