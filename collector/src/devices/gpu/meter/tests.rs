use diode_core::{DType, Op, ProblemFields, Tile};

use super::*;

const READY: &str = r#"echo '{"ready":{"name":"NVIDIA Test","arch":"sm_90","bus_id":"0000:ff:1f.7","memory_bytes":1,"facts":{},"devices":1,"warnings":[]}}'"#;

/// A meter whose process is this shell script.
fn starting(script: &str) -> GpuMeter {
    let script = script.to_owned();
    meter_of(MeasuringProcess::new(move || {
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        command
    }))
}

/// A meter whose process starts well and then is this shell script.
fn meter(script: &str) -> GpuMeter {
    starting(&format!("{READY}; {script}"))
}

fn meter_of(process: MeasuringProcess) -> GpuMeter {
    let (vendor, patience) = (GpuVendor::Nvidia, Duration::from_secs(30));
    GpuMeter {
        process,
        options: GpuOptions { packs: Vec::new(), vendor, library: None, torch: None, seed: 1, patience },
        torch: None,
        device: 0,
        bus_id: String::new(),
        management: OnceCell::from(None),
        exact: false,
        culprits: HashMap::new(),
        lost_in_a_row: 0,
    }
}

#[test]
fn what_stops_a_process_at_its_start_is_told() {
    let mut broken = starting(r#"echo '{"broken":{"message":"no driver","cause":"gpu"}}'"#);
    assert_eq!(broken.started(&|| false).unwrap_err().to_string(), "no driver");
    assert!(starting("exec sleep 100").started(&|| true).unwrap_err().is::<Interrupted>());
}

#[test]
fn only_what_may_pass_is_to_be_tried_again() {
    let said = |cause: &str| format!(r#"echo '{{"broken":{{"message":"why","cause":"{cause}"}}}}'"#);
    for (script, may_pass) in [
        (said("gpu"), true),
        (said("memory"), true),
        ("exit 1".to_owned(), true),
        (said("pack"), false),
        (said("setup"), false),
        ("echo another program".to_owned(), false),
        ("echo '\"busy\"'".to_owned(), false),
    ] {
        let mut meter = starting(&script);
        let error = meter.take_again(&|| false).unwrap_err();
        assert_eq!(error.is::<NotReady>(), may_pass, "{script}: {error}");
        assert!(!meter.process.is_running());
    }
    let mut absent = meter_of(MeasuringProcess::new(|| Command::new("/nowhere/diode")));
    let error = absent.take_again(&|| false).unwrap_err();
    assert!(!error.is::<NotReady>() && error.to_string().contains("/nowhere/diode"), "{error}");
}

fn problem() -> Problem {
    Problem::new(ProblemFields::plain(Op::Mm, 1, 16, 16, 16, DType::Float16)).unwrap()
}

fn configs() -> Vec<Config> {
    [16, 32, 64].map(|block| Config::Mm(Tile::new(block, 16, 16, 1, 2))).to_vec()
}

fn measure(script: &str) -> MeasuredConfigs {
    let outcome = meter(script).measure(&problem(), &configs(), &|| false).unwrap();
    let Outcome::Measured { measured, .. } = outcome else { panic!("not measured") };
    measured
}

const RESULTS: &str = r#"{"measured":{"timed":[[0,[5,7,6]],[1,[9]]],"failed":[],"repeated":0,"disturbed":false,
    "busy_ns":30,"wall_ns":40,"late":0,"power_capped":false}}"#;

#[test]
fn times_and_failures_are_those_of_the_right_configs() {
    let results = RESULTS.replace('\n', "").replace(r#""failed":[]"#, r#""failed":[[2,"wrong_result"]]"#);
    let measured = measure(&format!("read l; echo '{results}'"));
    assert_eq!(measured.failed, [(configs()[2], FailureReason::WrongResult)]);
    let medians: Vec<_> = measured.timed.iter().map(|(config, s)| (*config, s.median())).collect();
    assert_eq!(medians, [(configs()[0], Some(6)), (configs()[1], Some(9))]);
}

#[test]
fn a_config_that_crashes_the_process_is_found_and_left_out() {
    // The process dies at the first request, for three configs together. Then it dies at the second
    // config alone. Then it measures the other two.
    let results = RESULTS.replace('\n', "");
    let script = format!(
        r#"while read -r l; do case "$l" in
        *'"careful":false'*'"block_m":32'*|*'"block_m":32'*'"careful":false'*) echo '{{"at":{{"first":0,"last":2}}}}'; exit 1;;
        *'"block_m":32'*) echo '{{"at":{{"first":0,"last":0}}}}'; echo '{{"at":{{"first":1,"last":1}}}}'; exit 1;;
        *) echo '{results}';; esac; done"#
    );
    let mut meter = meter(&script);
    for problem in [problem(), Problem::new(ProblemFields { m: 32, ..problem().into_fields() }).unwrap()] {
        let Ok(Outcome::Measured { measured, .. }) = meter.measure(&problem, &configs(), &|| false) else {
            panic!("not measured")
        };
        assert_eq!(measured.failed, [(configs()[1], FailureReason::Launch)]);
        let timed: Vec<Config> = measured.timed.iter().map(|(config, _)| *config).collect();
        assert_eq!(timed, [configs()[0], configs()[2]]);
        // On the next problem no process dies, because the config that ended the earlier process is
        // left out.
    }
}

#[test]
fn a_gpu_that_fails_before_any_launch_is_given_up_at_the_second_problem_in_a_row() {
    let mut meter = meter("read l; exit 1");
    let first = meter.measure(&problem(), &configs(), &|| false).unwrap();
    assert!(matches!(first, Outcome::Refused(reason) if reason.contains("--resume tries again")));
    let error = meter.measure(&problem(), &configs(), &|| false).err().unwrap();
    assert!(error.to_string().contains("on 2 problems in a row"), "{error}");
}

#[test]
fn a_process_that_keeps_dying_at_its_launches_costs_the_problem_and_no_more() {
    let measured = measure(r#"read l; echo '{"at":{"first":0,"last":2}}'; exit 1"#);
    assert_eq!(measured.timed.len(), 0);
    assert_eq!(measured.failed.len(), 3);
    assert!(measured.failed.iter().all(|(_, reason)| *reason == FailureReason::Launch));
}

#[test]
fn refusals_and_memory_are_told_apart() {
    let refused = meter(r#"read l; echo '{"refused":{"reason":"no kernels"}}'"#);
    let outcome = { refused }.measure(&problem(), &configs(), &|| false).unwrap();
    assert!(matches!(outcome, Outcome::Refused(reason) if reason == "no kernels"));
    let measured = measure(r#"read l; echo '"out_of_memory"'"#);
    assert!(measured.failed.iter().all(|(_, reason)| *reason == FailureReason::OutOfMemory));
}

#[test]
fn a_pack_that_cannot_be_read_ends_the_collection_and_lack_of_memory_the_problem() {
    let broken =
        |cause: &str| format!(r#"read l; echo '{{"broken":{{"message":"why","cause":"{cause}"}}}}'"#);
    let error = meter(&broken("pack")).measure(&problem(), &configs(), &|| false).err().unwrap();
    assert_eq!(error.to_string(), "why");
    let outcome = meter(&broken("memory")).measure(&problem(), &configs(), &|| false).unwrap();
    assert!(matches!(outcome, Outcome::Refused(reason) if reason.contains("no memory left (why)")));
    let outcome = meter(&broken("gpu")).measure(&problem(), &configs(), &|| false).unwrap();
    assert!(matches!(outcome, Outcome::Refused(reason) if reason.contains("broke down")));
}

#[test]
fn a_process_that_does_not_start_again_may_do_so_later() {
    let broken = r#"echo '{"broken":{"message":"the driver is being updated","cause":"gpu"}}'"#;
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mended");
    let results = RESULTS.replace('\n', "");
    let script =
        format!("test -e '{}' || {{ {broken}; exit; }}; {READY}; read l; echo '{results}'", mark.display());
    let mut meter = starting(&script);
    let never = || false;
    for error in
        [meter.take_again(&never).unwrap_err(), meter.measure(&problem(), &configs(), &never).err().unwrap()]
    {
        assert!(error.is::<NotReady>() && error.to_string().contains("being updated"), "{error}");
    }
    diode_formats::write_atomically(&mark, b"").unwrap();
    meter.take_again(&never).unwrap();
    let outcome = meter.measure(&problem(), &configs(), &never).unwrap();
    assert!(matches!(outcome, Outcome::Measured { .. }));
}

#[test]
fn a_second_ctrl_c_ends_the_wait() {
    let outcome = meter("read l; exec sleep 100").measure(&problem(), &configs(), &|| true).unwrap();
    assert!(matches!(outcome, Outcome::Abandoned));
}
