//! Times of the vendor's library from a file of their own, for datasets that lack them.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, bail};
use diode_core::hardware::Hardware;
use diode_core::{Config, DType, Dataset, Method, Op, Problem, ProblemFields, Solution, TimeColumn};
use diode_formats::limits::MAX_DOCUMENT;
use serde::Deserialize;

use crate::output;

/// The contents of a file with the library's times. All inputs have one type and are row-major.
#[derive(Deserialize)]
struct File {
    hardware: String,
    op: Op,
    dtype: DType,
    unit: String,
    problems: Vec<Time>,
}

#[derive(Deserialize)]
#[serde(rename_all = "UPPERCASE")]
struct Time {
    m: u64,
    n: u64,
    k: u64,
    #[serde(rename = "us")]
    us: f64,
}

/// Adds the library's times from the file to the problems of some datasets. If a problem has a time of the
/// library already, or stands twice in the file, the first time stays.
pub(crate) fn add(path: &Path, datasets: &mut [Dataset]) -> anyhow::Result<()> {
    let name = || path.display().to_string();
    let text = diode_formats::read_text(path, MAX_DOCUMENT, "JSON")?;
    let file: File = serde_json::from_str(&text).with_context(name)?;
    if file.unit != "us" {
        bail!("{}: got the unit {:?}, expected \"us\"", name(), file.unit);
    }
    let hardware = Hardware::from_name(&file.hardware).with_context(name)?.slug;
    let mut joined = 0;
    for (number, Time { m, n, k, us }) in (1..).zip(&file.problems) {
        let place = || format!("{}: problem {number}", name());
        let problem = Problem::new(ProblemFields::plain(file.op, 1, *m, *n, *k, file.dtype));
        let problem = problem.with_context(place)?;
        let times = TimeColumn::from_millis(vec![us / 1e3]).with_context(place)?;
        for dataset in datasets.iter_mut().filter(|dataset| dataset.hardware.slug == hardware) {
            let library = dataset.configs.intern(Config::Library);
            let of_problem = dataset.solutions.iter().filter(|solution| solution.problem == problem);
            let (with, without): (Vec<_>, Vec<_>) =
                of_problem.partition(|solution| solution.configs.contains(&library));
            let has_one: BTreeSet<Method> = with.iter().map(|solution| solution.method).collect();
            let methods: BTreeSet<Method> = without.iter().map(|solution| solution.method).collect();
            let methods: Vec<Method> = methods.difference(&has_one).copied().collect();
            joined += usize::from(!methods.is_empty());
            for method in methods {
                dataset.solutions.push(Solution {
                    problem: problem.clone(),
                    method,
                    configs: vec![library],
                    times: times.clone(),
                    minimum_ns: None,
                    spread_ns: None,
                    repeats: None,
                    failures: Vec::new(),
                });
            }
        }
    }
    if joined == 0 {
        bail!(
            "{}: got no problem of the dataset, expected times of the same problems on the same hardware",
            name()
        );
    }
    say!("{}: the library's time of {}", name(), output::count(joined, "problem"));
    Ok(())
}
