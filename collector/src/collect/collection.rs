//! The dataset that a collection measures, and the files that keep it.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use diode_core::hardware::Hardware;
use diode_core::ids::ProblemId;
use diode_core::{Config, ConfigDictionary, Dataset, Method, Problem, Provenance, Solution};

use crate::collect::journal::Journal;
use crate::collect::output::Output;
use crate::devices::MeasuredConfigs;

/// The least time between two saves. The journal holds what was measured since the last one.
const SAVE_EVERY: Duration = Duration::from_secs(2);
/// A save rewrites the whole file, so the next one waits this many times as long as the last one took.
const PAUSE_PER_SAVE: u32 = 20;

pub(crate) struct Collection {
    /// One dataset for each file. Only the last file is still written to.
    chunks: Vec<Chunk>,
    output: Output,
    /// The highest number among the numbered files, including files that were removed meanwhile.
    last_number: usize,
    hardware: Hardware,
    provenance: Provenance,
    /// The measured problems. Those that the output's format cannot tell apart count as one.
    measured: HashSet<ProblemId>,
    /// The solutions that are not in a file yet.
    journal: Journal,
    unsaved: bool,
    last_save: Instant,
    save_took: Duration,
}

/// One file of a collection, and its dataset.
pub(crate) struct Chunk {
    pub(crate) path: PathBuf,
    pub(crate) dataset: Dataset,
}

impl Collection {
    /// Starts a new file or, with `resume`, continues the existing files and adds the problems that an earlier process
    /// left in the journal. The journal's problems may be in any order.
    pub(crate) fn open(
        output: Output,
        resume: bool,
        hardware: Hardware,
        provenance: Provenance,
    ) -> anyhow::Result<Self> {
        // The journal is locked before anything is read: another collection may just be ending.
        let mut journal = Journal::beside(output.path());
        journal.open()?;
        if !resume {
            output.check_is_new()?;
        }
        let mut chunks = Vec::new();
        let last_number = output.last_number()?;
        if resume {
            for path in output.files()? {
                let dataset = read_earlier(&path, &hardware)?;
                chunks.push(Chunk { path, dataset });
            }
        }
        let solutions = chunks.iter().flat_map(|chunk| &chunk.dataset.solutions);
        let measured = solutions.map(|solution| output.id_in_format(&solution.problem)).collect();
        let mut collection = Self {
            chunks,
            output,
            last_number,
            hardware,
            provenance,
            measured,
            journal,
            unsaved: false,
            last_save: Instant::now(),
            save_took: Duration::ZERO,
        };
        if resume {
            collection.take_over()?;
        }
        Ok(collection)
    }

    /// Adds what the journal holds to the file.
    fn take_over(&mut self) -> anyhow::Result<()> {
        let path = self.journal.path().to_owned();
        for entry in self.journal.entries()? {
            check_node(&path, &entry.hardware, &self.hardware)?;
            for solution in entry.solutions {
                // A process that dies after saving and before clearing leaves a problem in file and journal alike.
                if self.measured.insert(self.output.id_in_format(&solution.problem)) {
                    self.push(solution, &entry.configs)?;
                }
            }
        }
        self.save()
    }

    pub(crate) fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    pub(crate) fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    pub(crate) fn problems(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.dataset.solutions.len()).sum()
    }

    /// The number of problems that are measured, but not with all the configs that `configs` asks for.
    pub(crate) fn count_lacking_configs(
        &self,
        problems: &[Problem],
        configs: &dyn Fn(&Problem) -> anyhow::Result<Vec<Config>>,
    ) -> anyhow::Result<usize> {
        let asked: HashMap<ProblemId, &Problem> =
            problems.iter().map(|problem| (self.output.id_in_format(problem), problem)).collect();
        let mut lacking = 0;
        for dataset in self.chunks.iter().map(|chunk| &chunk.dataset) {
            for solution in &dataset.solutions {
                let Some(problem) = asked.get(&self.output.id_in_format(&solution.problem)) else { continue };
                let tried = solution.failures.iter().map(|failure| failure.config);
                let known: HashSet<Config> = solution
                    .configs
                    .iter()
                    .copied()
                    .chain(tried)
                    .map(|index| *dataset.configs.get(index))
                    .collect();
                lacking += usize::from(configs(problem)?.iter().any(|config| !known.contains(config)));
            }
        }
        Ok(lacking)
    }

    pub(crate) fn contains(&self, problem: &Problem) -> bool {
        self.measured.contains(&self.output.id_in_format(problem))
    }

    /// Adds what was measured on a problem. It is on disk when this returns: in the journal, and also in the
    /// file if it was time to save.
    pub(crate) fn add(
        &mut self,
        problem: Problem,
        method: Method,
        measured: MeasuredConfigs,
    ) -> anyhow::Result<()> {
        let id = self.output.id_in_format(&problem);
        let node = (self.hardware.clone(), self.provenance.clone());
        let entry = measured.into_dataset(node, problem, method)?;
        self.journal.append(&entry)?;
        self.measured.insert(id);
        for solution in entry.solutions {
            self.push(solution, &entry.configs)?;
        }
        if self.last_save.elapsed() >= SAVE_EVERY.max(self.save_took * PAUSE_PER_SAVE) {
            self.save()?;
        }
        Ok(())
    }

    /// Adds a solution whose configs are indexes into the dictionary `configs`.
    fn push(&mut self, mut solution: Solution, configs: &ConfigDictionary) -> anyhow::Result<()> {
        let dataset = self.open_chunk()?;
        let failed = solution.failures.iter_mut().map(|failure| &mut failure.config);
        for index in solution.configs.iter_mut().chain(failed) {
            *index = dataset.configs.intern(*configs.get(*index));
        }
        dataset.solutions.push(solution);
        self.unsaved = true;
        Ok(())
    }

    fn empty(&self) -> Dataset {
        Dataset {
            hardware: self.hardware.clone(),
            provenance: self.provenance.clone(),
            configs: ConfigDictionary::default(),
            solutions: Vec::new(),
        }
    }

    /// The dataset that the next problem goes to. If the last dataset is full, this saves it and begins a new
    /// one.
    fn open_chunk(&mut self) -> anyhow::Result<&mut Dataset> {
        let full = |chunk: &Chunk| self.output.is_full(chunk.dataset.solutions.len());
        if self.chunks.last().is_none_or(full) {
            // The journal is not cleared: it may hold what the caller is about to add.
            self.write()?;
            let path = self.output.next_file(&mut self.last_number)?;
            self.chunks.push(Chunk { path, dataset: self.empty() });
        }
        let last = self.chunks.last_mut().context("a collection without a file")?;
        Ok(&mut last.dataset)
    }

    /// Writes everything to the files. The journal then holds nothing that the files lack.
    pub(crate) fn save(&mut self) -> anyhow::Result<()> {
        self.write()?;
        self.journal.clear()
    }

    /// Writes the open file if there is anything new. The old file stays whole until the new one is complete.
    fn write(&mut self) -> anyhow::Result<()> {
        let (Some(chunk), true) = (self.chunks.last(), self.unsaved) else { return Ok(()) };
        let start = Instant::now();
        self.output.write(&chunk.path, &chunk.dataset).with_context(|| {
            let journal = self.journal.path().display();
            format!("cannot save the dataset; {journal} holds what is not in it yet, for --resume")
        })?;
        self.unsaved = false;
        self.last_save = Instant::now();
        self.save_took = start.elapsed();
        Ok(())
    }
}

/// The dataset of a file that a resumed collection continues.
fn read_earlier(path: &Path, hardware: &Hardware) -> anyhow::Result<Dataset> {
    let mut datasets = diode_formats::read_file(path)
        .context("cannot resume; move the file away or choose another --output")?
        .datasets;
    let (Some(mut dataset), true) = (datasets.pop(), datasets.is_empty()) else {
        bail!("{}: expected a dataset of one hardware to resume", path.display());
    };
    check_node(path, &dataset.hardware, hardware)?;
    if dataset.hardware.facts.is_none() {
        dataset.hardware = hardware.clone();
    }
    Ok(dataset)
}

/// Refuses timings of another node: one file never mixes timings of two nodes.
fn check_node(path: &Path, given: &Hardware, hardware: &Hardware) -> anyhow::Result<()> {
    let cores = |hardware: &Hardware| hardware.facts.map(|facts| facts.sms);
    // torch-diode's formats hold only the name of a node's hardware.
    let same_cores = given.facts.is_none() || cores(given) == cores(hardware);
    if given.slug != hardware.slug || !same_cores {
        let words = |h: &Hardware| match cores(h) {
            Some(cores) => format!("{} with {cores} cores", h.slug),
            None => h.slug.to_string(),
        };
        bail!(
            "{}: got timings of {}, expected timings of this node ({}) to resume; choose another --output",
            path.display(),
            words(given),
            words(hardware)
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::path::Path;

    use diode_core::{DType, FailureReason, Op, ProblemFields};

    use super::*;

    fn problem(m: u64) -> Problem {
        Problem::new(ProblemFields::plain(Op::Mm, 1, m, 16, 16, DType::Float32)).unwrap()
    }

    fn failed() -> MeasuredConfigs {
        let library = Config::Library;
        MeasuredConfigs::all_failed(&[library], FailureReason::OutOfMemory)
    }

    fn output(path: &Path, chunk_size: Option<usize>) -> Output {
        Output::new(path, chunk_size, false).unwrap()
    }

    fn open(path: &Path, resume: bool) -> Collection {
        let hardware = Hardware::from_name("NVIDIA H200").unwrap();
        Collection::open(output(path, Some(2)), resume, hardware, Provenance::default()).unwrap()
    }

    #[test]
    fn chunks_fill_up_and_are_resumed_in_any_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("set.msgpack.zst");
        let mut first = open(&path, false);
        for m in [1, 2, 3] {
            first.add(problem(m), Method::MEDIAN_COLD_EVENT, failed()).unwrap();
        }
        first.save().unwrap();
        assert!(
            Collection::open(output(&path, Some(2)), true, first.hardware.clone(), Provenance::default())
                .is_err()
        );
        drop(first);
        assert_eq!(output(&path, Some(2)).files().unwrap().len(), 2);

        let mut second = open(&path, true);
        assert_eq!(second.problems(), 3);
        assert!([3, 1, 2].iter().all(|&m| second.contains(&problem(m))) && !second.contains(&problem(4)));
        for m in [4, 5] {
            second.add(problem(m), Method::MEDIAN_COLD_EVENT, failed()).unwrap();
        }
        second.save().unwrap();
        let sizes: Vec<usize> = output(&path, Some(2))
            .files()
            .unwrap()
            .iter()
            .map(|file| diode_formats::read_file(file).unwrap().datasets[0].solutions.len())
            .collect();
        assert_eq!(sizes, [2, 2, 1]);
    }

    #[test]
    fn chunks_are_never_written_over_when_one_is_taken_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("set.msgpack.zst");
        let mut first = open(&path, false);
        for m in [1, 2, 3, 4] {
            first.add(problem(m), Method::MEDIAN_COLD_EVENT, failed()).unwrap();
        }
        first.save().unwrap();
        drop(first);
        std::fs::rename(folder.path().join("set_1.msgpack.zst"), folder.path().join("uploaded.msgpack.zst"))
            .unwrap();

        let mut second = open(&path, true);
        assert!(second.contains(&problem(3)) && !second.contains(&problem(1)));
        for m in [5, 6] {
            second.add(problem(m), Method::MEDIAN_COLD_EVENT, failed()).unwrap();
        }
        second.save().unwrap();
        let files = output(&path, Some(2)).files().unwrap();
        assert_eq!(files, [folder.path().join("set_2.msgpack.zst"), folder.path().join("set_3.msgpack.zst")]);
        let sizes =
            files.iter().map(|file| diode_formats::read_file(file).unwrap().datasets[0].solutions.len());
        assert_eq!(sizes.collect::<Vec<_>>(), [2, 2]);
        assert_eq!(output(&path, None).other_form().unwrap(), Some(files[0].clone()));
    }

    #[test]
    fn problems_that_were_timed_with_other_configs_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let mut collection = open(&folder.path().join("set.msgpack.zst"), false);
        collection.add(problem(1), Method::MEDIAN_COLD_EVENT, failed()).unwrap();
        let problems = [problem(1), problem(2)];
        let count = |configs: Vec<Config>| {
            collection.count_lacking_configs(&problems, &|_| Ok(configs.clone())).unwrap()
        };
        assert_eq!(count(vec![Config::Library]), 0);
        assert_eq!(count(vec![Config::Library, Config::DecomposeK { k_split: 2 }]), 1);
    }

    #[test]
    fn what_was_not_saved_is_taken_from_the_journal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("set.msgpack.zst");
        let journal = folder.path().join("set.msgpack.zst.journal");
        let mut killed = open(&path, false);
        for m in [1, 2, 3, 4] {
            killed.add(problem(m), Method::MEDIAN_COLD_EVENT, failed()).unwrap();
        }
        drop(killed);
        // Problems 1 and 2 were saved when they filled a file. Here the journal's last entry loses a byte.
        let bytes = std::fs::read(&journal).unwrap();
        OpenOptions::new().write(true).open(&journal).unwrap().set_len(bytes.len() as u64 - 1).unwrap();

        let resumed = open(&path, true);
        assert_eq!(resumed.problems(), 3);
        assert!(resumed.contains(&problem(3)) && !resumed.contains(&problem(4)));
        drop(resumed);
        assert!(!journal.exists());
        let files = output(&path, Some(2)).files().unwrap();
        assert_eq!(diode_formats::read_file(&files[1]).unwrap().datasets[0].solutions.len(), 1);
    }

    #[test]
    fn what_another_collection_left_is_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("set.msgpack.zst");
        let hardware = Hardware::from_name("NVIDIA H200").unwrap();
        let anew = |chunks| {
            Collection::open(output(&path, chunks), false, hardware.clone(), Provenance::default()).err()
        };
        // The other collection ends after this output was checked and before this output is opened.
        let mut other = open(&path, false);
        assert!(anew(Some(2)).unwrap().to_string().contains("another diode"));
        for m in [1, 2] {
            other.add(problem(m), Method::MEDIAN_COLD_EVENT, failed()).unwrap();
        }
        other.save().unwrap();
        drop(other);
        assert!(anew(Some(2)).unwrap().to_string().contains("set_1.msgpack.zst exists"));
    }

    #[cfg(unix)]
    #[test]
    fn a_journal_that_is_a_link_is_refused_and_what_it_leads_to_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (path, precious) = (folder.path().join("set.msgpack.zst"), folder.path().join("precious"));
        diode_formats::write_atomically(&precious, b"precious").unwrap();
        std::os::unix::fs::symlink(&precious, folder.path().join("set.msgpack.zst.journal")).unwrap();
        let hardware = Hardware::from_name("NVIDIA H200").unwrap();
        let error = Collection::open(output(&path, None), true, hardware, Provenance::default())
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains("not a regular file"), "{error}");
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
    }
}
