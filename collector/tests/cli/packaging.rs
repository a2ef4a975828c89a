//! Checks that the examples for schedulers, which people copy, use only flags that exist.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::sandbox::{Sandbox, stderr};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/agents")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap()
}

/// The flags that an example gives to `diode agent`. Comments and everything before the command are
/// left out.
fn flags(text: &str) -> BTreeSet<String> {
    let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    let code = code.join("\n");
    let marks = ["diode agent", "[diode, agent]", r#""diode", "agent""#];
    let begin = marks.iter().find_map(|mark| Some(code.find(mark)? + mark.len())).unwrap();
    let words = code[begin..].split(|c: char| c.is_whitespace() || matches!(c, '=' | '"' | ',' | '[' | ']'));
    words.filter(|word| word.starts_with("--")).map(str::to_owned).collect()
}

#[test]
fn examples_use_flags_that_there_are() {
    let help = Sandbox::new().ok(&["agent", "--help"]);
    let known: BTreeSet<&str> =
        help.split(|c: char| c.is_whitespace() || c == ',').filter(|word| word.starts_with("--")).collect();
    let mut examples = 0;
    for file in std::fs::read_dir(folder()).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let used = flags(&read(&name));
        assert!(used.contains("--home"), "{name}: {used:?}");
        for flag in &used {
            assert!(known.contains(flag.as_str()), "{name}: {flag} is no flag of `diode agent`");
        }
        examples += 1;
    }
    assert_eq!(examples, 5);
}

#[test]
fn what_the_examples_give_is_taken() {
    // Everything is right except the server's address, which is read first.
    let slurm = read("diode-agent.slurm");
    let given = slurm.split("--max-hours").nth(1).unwrap();
    let given: Vec<&str> = std::iter::once("--max-hours").chain(given.split_whitespace()).collect();
    let output = Sandbox::new().run(&[&["agent", "--server", "nowhere"], &given[..]].concat());
    assert_eq!(output.status.code(), Some(2));
    let said: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(said["level"], "error");
    assert!(said["message"].as_str().unwrap().contains("got `nowhere`"), "{said}");
    let checked = Command::new("bash").arg("-n").arg(folder().join("diode-agent.slurm")).output().unwrap();
    assert!(checked.status.success(), "{}", stderr(&checked));
}

/// The number that follows a mark.
fn number(text: &str, mark: &str) -> f64 {
    let after = text.split(mark).nth(1).unwrap_or_else(|| panic!("no {mark}"));
    let digits: String = after.trim_start().chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    digits.parse().unwrap()
}

#[test]
fn schedulers_wait_longer_than_an_agent_takes_to_end() {
    const USUAL_GRACE: f64 = 20.0;
    assert!(number(&read("diode-agent.service"), "TimeoutStopSec=") > USUAL_GRACE);
    for name in ["daemonset.yaml", "job.yaml"] {
        assert!(number(&read(name), "terminationGracePeriodSeconds:") > USUAL_GRACE, "{name}");
    }
    let slurm = read("diode-agent.slurm");
    let (warned, grace) = (number(&slurm, "--signal=TERM@"), number(&slurm, "--grace "));
    assert!(warned > grace);
    let hours = number(&slurm, "--time=");
    assert!(number(&slurm, "--max-hours ") * 3600.0 + grace < hours * 3600.0);
}

#[test]
fn limits_that_a_device_cannot_keep_are_refused() {
    let sandbox = Sandbox::new();
    let usual = ["agent", "--backend", "simulated", "--home", "home", "--server", "http://127.0.0.1:9"];
    for (more, words) in [
        (["--idle-only", "--once"], "--idle-only: the device does not say who computes on it"),
        (["--max-celsius", "80"], "--max-celsius: the device does not say how hot it is"),
    ] {
        let error = sandbox.fails(2, &[&usual[..], &more].concat());
        assert!(error.contains(words), "{error}");
    }
    for (flag, value, words) in [
        ("--hours", "22", "such as 22:00-06:00"),
        ("--share", "0", "from 0.01 to 1"),
        ("--max-hours", "0", "above zero"),
        ("--max-celsius", "8", "from 30 to 120"),
    ] {
        let output = sandbox.run(&[&usual[..], &[flag, value]].concat());
        assert_eq!(output.status.code(), Some(2), "{flag}");
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
}
