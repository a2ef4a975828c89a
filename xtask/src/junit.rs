//! Reads test reports in JUnit's XML. Both nextest and pytest write it.

use std::path::Path;
use std::process::ExitStatus;

use anyhow::{Context, bail};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The root element of a report.
#[derive(Deserialize)]
struct Report {
    #[serde(rename = "testsuite", default)]
    suites: Vec<Suite>,
}

#[derive(Deserialize)]
struct Suite {
    #[serde(rename = "@name")]
    name: String,
    #[serde(rename = "testcase", default)]
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    #[serde(rename = "@name")]
    name: String,
    #[serde(rename = "@time", default)]
    seconds: f64,
    #[serde(rename = "failure", default)]
    failures: Vec<IgnoredAny>,
    #[serde(rename = "error", default)]
    errors: Vec<IgnoredAny>,
    skipped: Option<IgnoredAny>,
    #[serde(rename = "flakyFailure", default)]
    failures_before: Vec<IgnoredAny>,
}

/// One test that was run.
pub(crate) struct Test {
    pub(crate) name: String,
    pub(crate) seconds: f64,
    pub(crate) passed: bool,
    /// Whether it failed at first, but passed when it was run again.
    pub(crate) again: bool,
}

/// Deletes the report of an earlier run, so that it is not taken for the report of this run.
pub(crate) fn forget(report: &Path) -> anyhow::Result<()> {
    match std::fs::remove_file(report) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", report.display()))
        }
        _ => Ok(()),
    }
}

/// Reads what a test runner has reported. A runner that failed must name a failed test.
pub(crate) fn outcome(runner: &str, status: ExitStatus, report: &Path) -> anyhow::Result<Vec<Test>> {
    let tests = read(report).with_context(|| format!("{runner} ended with {status}"))?;
    if !status.success() && tests.iter().all(|test| test.passed) {
        bail!("{runner} ended with {status}, and names no test that failed");
    }
    Ok(tests)
}

/// The tests in a report file, without skipped ones.
fn read(path: &Path) -> anyhow::Result<Vec<Test>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("no report in {}", path.display()))?;
    parse(&text).with_context(|| format!("{}: not a report", path.display()))
}

fn parse(text: &str) -> anyhow::Result<Vec<Test>> {
    let report: Report = quick_xml::de::from_str(text)?;
    let tests = report.suites.into_iter().flat_map(|suite| {
        let ran = suite.cases.into_iter().filter(|case| case.skipped.is_none());
        ran.map(move |case| Test {
            name: format!("{} {}", suite.name, case.name),
            seconds: case.seconds,
            passed: case.failures.is_empty() && case.errors.is_empty(),
            again: !case.failures_before.is_empty(),
        })
    });
    Ok(tests.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_nextest_are_read() {
        let tests = parse(
            r#"<?xml version="1.0" encoding="UTF-8"?>
            <testsuites name="nextest-run" tests="3" failures="2" errors="0" uuid="8" timestamp="2026-01-01T00:00:00Z" time="1.5">
                <testsuite name="diode-core" tests="2" disabled="0" errors="0" failures="1">
                    <testcase name="dtype::tests::sizes" classname="diode-core" timestamp="2026-01-01T00:00:00Z" time="0.25"></testcase>
                    <testcase name="dtype::tests::names" classname="diode-core" time="1.0">
                        <failure message="panicked" type="test failure">thread panicked</failure>
                        <system-out>running 1 test</system-out>
                        <system-err></system-err>
                    </testcase>
                </testsuite>
                <testsuite name="diode-web" tests="2" disabled="0" errors="0" failures="1">
                    <testcase name="hangs" classname="diode-web" time="300"><failure type="test timeout"/></testcase>
                    <testcase name="waits" classname="diode-web" time="2"><flakyFailure type="test failure"/></testcase>
                </testsuite>
            </testsuites>"#,
        )
        .unwrap();
        let seen: Vec<_> =
            tests.iter().map(|test| (test.name.as_str(), test.seconds, test.passed, test.again)).collect();
        assert_eq!(
            seen,
            [
                ("diode-core dtype::tests::sizes", 0.25, true, false),
                ("diode-core dtype::tests::names", 1.0, false, false),
                ("diode-web hangs", 300.0, false, false),
                ("diode-web waits", 2.0, true, true)
            ]
        );
    }

    #[test]
    fn reports_of_pytest_are_read() {
        let tests = parse(
            r#"<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite name="pytest" errors="1" failures="0" skipped="1" tests="3" time="6.7">
                <testcase classname="python.tests.test_hub" name="test_a" time="0.01"/>
                <testcase classname="python.tests.test_hub" name="test_b" time="0"><skipped type="pytest.skip" message="no GPU">x</skipped></testcase>
                <testcase classname="" name="python.tests.test_core" time="0.000"><error message="collection failure">x</error></testcase>
            </testsuite></testsuites>"#,
        )
        .unwrap();
        let seen: Vec<_> = tests.iter().map(|test| (test.name.as_str(), test.passed)).collect();
        assert_eq!(seen, [("pytest test_a", true), ("pytest python.tests.test_core", false)]);
    }

    #[test]
    fn what_is_no_report_is_an_error() {
        assert!(parse("").is_err());
        assert!(parse("<testsuites><testsuite/></testsuites>").is_err());
    }
}
