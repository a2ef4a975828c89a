use diode_core::{DType, Op, ProblemFields, Tile};

use super::*;
use crate::devices::NotReady;

const READY: &str = r#"echo '{"ready":{"name":"NVIDIA Test","arch":"sm_90","bus_id":"0000:ff:1f.7","memory_bytes":1,"facts":{},"devices":1,"warnings":[]}}'"#;

fn meter(script: &str) -> GpuMeter {
    let script = format!("{READY}; {script}");
    let process = MeasuringProcess::new(move || {
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        Ok(command)
    });
    let process = GpuProcess::new(process, Duration::from_secs(30));
    let (vendor, patience) = (GpuVendor::Nvidia, Duration::from_secs(30));
    GpuMeter {
        process,
        options: GpuOptions { packs: Vec::new(), vendor, library: None, seed: 1, patience },
        device: 0,
        bus_id: String::new(),
        management: OnceCell::from(None),
        exact: false,
        culprits: HashMap::new(),
        lost_in_a_row: 0,
    }
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
    let mut meter = meter("");
    meter.process = GpuProcess::new(
        MeasuringProcess::new(move || {
            let mut command = Command::new("sh");
            command.args(["-c", &script]);
            Ok(command)
        }),
        Duration::from_secs(30),
    );
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
