//! The dataset being collected, and the file that it is kept in.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use diode_core::hardware::Hardware;
use diode_core::ids::ProblemId;
use diode_core::{Dataset, Failure, Method, Problem, Provenance, Solution, TimeColumn};

use crate::measure::Measured;
use crate::old_form;

/// What a crash or a power cut may cost.
const SAVE_EVERY: Duration = Duration::from_secs(2);
/// Saving rewrites the file; it may take this share of the time at most.
const SAVING_SHARE: u32 = 20;

pub(crate) struct Collection {
    pub(crate) dataset: Dataset,
    path: PathBuf,
    measured: HashSet<ProblemId>,
    unsaved: bool,
    last_save: Instant,
    save_took: Duration,
}

impl Collection {
    /// Starts a new file, or with `resume` goes on with the one that is there.
    pub(crate) fn open(
        path: &Path,
        resume: bool,
        hardware: Hardware,
        provenance: Provenance,
    ) -> anyhow::Result<Self> {
        let dataset = if resume && path.exists() {
            resumed(path, &hardware)?
        } else {
            Dataset { hardware, provenance, configs: Default::default(), solutions: Vec::new() }
        };
        let measured = dataset.solutions.iter().map(|solution| solution.problem.id()).collect();
        Ok(Self {
            dataset,
            path: path.to_owned(),
            measured,
            unsaved: false,
            last_save: Instant::now(),
            save_took: Duration::ZERO,
        })
    }

    pub(crate) fn contains(&self, problem: &Problem) -> bool {
        self.measured.contains(&problem.id())
    }

    /// Adds what was measured on a problem, and saves if it is time to.
    pub(crate) fn add(&mut self, problem: Problem, method: Method, measured: Measured) -> anyhow::Result<()> {
        self.measured.insert(problem.id());
        let configs = &mut self.dataset.configs;
        let rows = &measured.timed;
        let solution = Solution {
            problem,
            method,
            configs: rows.iter().map(|(config, _)| configs.intern(*config)).collect(),
            times: TimeColumn::from_nanos(rows.iter().filter_map(|(_, s)| s.median()).collect())?,
            spread_ns: Some(rows.iter().map(|(_, samples)| samples.spread()).collect()),
            repeats: Some(rows.iter().map(|(_, samples)| samples.count() as u32).collect()),
            failures: measured
                .failed
                .iter()
                .map(|&(config, reason)| Failure { config: configs.intern(config), reason })
                .collect(),
        };
        solution.validate(configs)?;
        self.dataset.solutions.push(solution);
        self.unsaved = true;
        if self.last_save.elapsed() >= SAVE_EVERY.max(self.save_took * SAVING_SHARE) {
            self.save()?;
        }
        Ok(())
    }

    /// Writes the file if there is anything new; the old one stays whole until then.
    pub(crate) fn save(&mut self) -> anyhow::Result<()> {
        if !self.unsaved {
            return Ok(());
        }
        let start = Instant::now();
        old_form::write_file(&self.path, &self.dataset).context("cannot save the dataset")?;
        self.unsaved = false;
        self.last_save = Instant::now();
        self.save_took = start.elapsed();
        Ok(())
    }
}

fn resumed(path: &Path, hardware: &Hardware) -> anyhow::Result<Dataset> {
    let mut datasets = diode_formats::read_file(path)?.datasets;
    let (Some(mut dataset), true) = (datasets.pop(), datasets.is_empty()) else {
        bail!("{}: expected a dataset of one hardware to resume", path.display());
    };
    let cores = |hardware: &Hardware| hardware.facts.map(|facts| facts.sms);
    // torch-diode's formats know a node by its name alone.
    let same_cores = dataset.hardware.facts.is_none() || cores(&dataset.hardware) == cores(hardware);
    if dataset.hardware.slug != hardware.slug || !same_cores {
        let words = |h: &Hardware| match cores(h) {
            Some(cores) => format!("{} with {cores} cores", h.slug),
            None => h.slug.to_string(),
        };
        bail!(
            "{}: got timings of {}, expected timings of this node ({}) to resume; choose another --output",
            path.display(),
            words(&dataset.hardware),
            words(hardware)
        );
    }
    if dataset.hardware.facts.is_none() {
        dataset.hardware = hardware.clone();
    }
    Ok(dataset)
}
