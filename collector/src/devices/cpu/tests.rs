use std::path::Path;
use std::time::Instant;

use diode_core::{DType, Op, ProblemFields, Tile};

use super::*;

const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(20);

/// A meter that asks a shell script, which gets a path as `$0`.
fn meter(script: &'static str, argument: &Path) -> CpuMeter {
    let argument = argument.to_owned();
    let process = MeasuringProcess::new(move || {
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(&argument);
        command
    });
    CpuMeter { process, seed: 1 }
}

/// A process that dies once, at its first timing. Started again, it takes 100 ns for everything.
fn dies_once() -> (CpuMeter, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"while read -r line; do case "$line" in
        *load*) echo '"loaded"';;
        *) if [ -e "$0" ]; then echo '{"timed":{"nanos":[100]}}'; else : > "$0"; exit 1; fi;;
        esac; done"#;
    (meter(script, &folder.path().join("died")), folder)
}

fn problem() -> Problem {
    Problem::new(ProblemFields::plain(Op::Mm, 1, 16, 16, 16, DType::Float32)).unwrap()
}

#[test]
fn a_death_costs_one_config() {
    let (mut meter, _folder) = dies_once();
    let configs = [16, 32, 64].map(|block| Config::Mm(Tile::new(block, 16, 16, 1, 1)));
    let measured = meter.time_all(&problem(), &configs, &|| false).unwrap().unwrap();
    assert_eq!(measured.failed, [(configs[0], FailureReason::Launch)]);
    let timed: Vec<Config> = measured.timed.iter().map(|(config, _)| *config).collect();
    assert_eq!(timed, configs[1..]);
    assert!(measured.timed.iter().all(|(_, samples)| samples.count() >= 7));
}

#[test]
fn an_abandoned_problem_has_no_result() {
    let (mut meter, _folder) = dies_once();
    let configs = [Config::Mm(Tile::new(16, 16, 16, 1, 1))];
    assert!(meter.time_all(&problem(), &configs, &|| true).unwrap().is_none());
}

fn time() -> Request {
    Request::Time { config: Config::Library, repeats: 1, check: false, give_up_ns: None }
}

fn shell(script: &'static str) -> CpuMeter {
    meter(script, Path::new("sh"))
}

#[test]
fn a_process_that_hangs_is_ended() {
    let start = Instant::now();
    assert_eq!(shell("exec sleep 100").load(&problem(), SHORT).unwrap(), Err(Lost::TimedOut));
    assert!(start.elapsed() < LONG);
}

#[test]
fn a_process_that_dies_is_replaced_and_loaded_again() {
    // The process answers one load and one question, then ends during the next question.
    let mut meter =
        shell(r#"read l; echo '"loaded"'; read l; echo '{"timed":{"nanos":[5]}}'; read l; exit 1"#);
    meter.load(&problem(), LONG).unwrap().unwrap();
    for answer in [Ok(vec![5]), Err(FailureReason::Launch), Ok(vec![5])] {
        assert_eq!(meter.time(&problem(), &time(), LONG).unwrap(), answer);
    }
}

#[test]
fn nonsense_is_an_error_and_a_missing_program_too() {
    let error = shell("read l; echo what").load(&problem(), LONG).unwrap_err();
    assert!(error.to_string().contains("`what`"), "{error}");
    let process = MeasuringProcess::new(|| Command::new("/nonexistent/diode"));
    let error = CpuMeter { process, seed: 1 }.load(&problem(), LONG).unwrap_err();
    assert!(error.to_string().contains("/nonexistent/diode"), "{error}");
}

fn samples(values: impl IntoIterator<Item = u64>) -> Samples {
    values.into_iter().collect()
}

#[test]
fn long_and_hopeless_launches_are_not_repeated() {
    assert_eq!(one_launch_is_enough(None), SELF_WARMING_NANOS);
    assert_eq!(one_launch_is_enough(Some(100)), 300);
    assert_eq!(one_launch_is_enough(Some(9_000_000_000)), SELF_WARMING_NANOS);
}

#[test]
fn repeats_go_where_they_matter() {
    assert_eq!(more_repeats(&samples([400]), 100), 0, "hopeless");
    assert_eq!(more_repeats(&samples([200]), 100), 2, "ordinary");
    assert_eq!(more_repeats(&samples([200; 3]), 100), 0, "ordinary, settled");
    assert_eq!(more_repeats(&samples([110]), 100), 4, "promising");
    assert_eq!(more_repeats(&samples([100; 7]), 100), 0, "promising and steady");
    assert_eq!(more_repeats(&samples((0..10).map(|i| 100 + i)), 100), 4, "promising and noisy");
    assert_eq!(more_repeats(&samples((0..25).map(|i| 100 + i)), 110), 0, "at the cap");
    assert_eq!(more_repeats(&samples([2_000_000_000]), 2_000_000_000), 0, "too slow to repeat");
    assert_eq!(more_repeats(&samples([]), 100), 0, "never measured");
}

#[test]
fn limits_grow_with_the_problem_and_shrink_with_knowledge() {
    let square = |m| Problem::new(ProblemFields::plain(Op::Mm, 1, m, m, m, DType::Float32)).unwrap();
    assert!(patience_to_run(&square(4096), 1, None) > patience_to_run(&square(64), 1, None));
    assert!(patience_to_run(&square(4096), 1, Some(1_000_000_000)) < patience_to_run(&square(4096), 1, None));
    assert!(patience_to_load(&square(1 << 20)) > patience_to_load(&square(16)));
    assert!(patience_to_run(&square(1 << 20), u32::MAX, None) > Duration::ZERO);
}

fn converse(requests: &[Request]) -> Vec<Reply> {
    let lines: String = requests.iter().map(|r| serde_json::to_string(r).unwrap() + "\n").collect();
    let mut replies = Vec::new();
    serve(lines.as_bytes(), &mut replies).unwrap();
    replies
        .split(|b| *b == b'\n')
        .filter(|l| !l.is_empty())
        .map(|l| serde_json::from_slice(l).unwrap())
        .collect()
}

#[test]
fn one_reply_to_each_request() {
    let problem = Problem::new(ProblemFields::plain(Op::Mm, 1, 48, 32, 16, DType::Float16)).unwrap();
    let time = |config, give_up_ns| Request::Time { config, repeats: 3, check: true, give_up_ns };
    let tile = Config::Mm(Tile::new(16, 16, 16, 1, 1));
    let replies = converse(&[
        time(tile, None),
        Request::Load { problem, seed: 1 },
        time(tile, None),
        time(tile, Some(0)),
        time(Config::Library, None),
    ]);
    assert!(matches!(&replies[0], Reply::Confused { message } if message.contains("loaded")));
    assert_eq!(replies[1], Reply::Loaded);
    assert!(matches!(&replies[2], Reply::Timed { nanos } if nanos.len() == 3), "{replies:?}");
    assert!(matches!(&replies[3], Reply::Timed { nanos } if nanos.len() == 1), "{replies:?}");
    assert_eq!(replies[4], Reply::Failed { reason: FailureReason::Compile });
}
