//! The dataset being collected, and the file that it is kept in.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use diode_core::hardware::Hardware;
use diode_core::ids::ProblemId;
use diode_core::{
    Config, ConfigDictionary, Dataset, Failure, Method, Problem, Provenance, Solution, TimeColumn,
};
use diode_formats::Format;

use super::journal::Journal;
use crate::devices::measured::MeasuredConfigs;
use crate::predecessor::datasets as old_form;

/// What a crash or a power cut may cost.
const SAVE_EVERY: Duration = Duration::from_secs(2);
/// Saving rewrites the file; it may take this share of the time at most.
const SAVING_SHARE: u32 = 20;

pub(crate) struct Collection {
    /// One dataset for each file, the last still open.
    chunks: Vec<Chunk>,
    path: PathBuf,
    /// Problems in one file; all in one if there is no limit.
    chunk_size: Option<usize>,
    /// Of the numbered files that are or were there.
    last_number: usize,
    hardware: Hardware,
    provenance: Provenance,
    /// By what the files take their problems for: an old one says less of them.
    measured: HashSet<ProblemId>,
    /// What is not in a file yet.
    journal: Journal,
    unsaved: bool,
    last_save: Instant,
    save_took: Duration,
}

/// One file.
pub(crate) struct Chunk {
    pub(crate) path: PathBuf,
    pub(crate) dataset: Dataset,
}

impl Collection {
    /// The files of a collection that are there already.
    pub(crate) fn files(output: &Path, chunk_size: Option<usize>) -> anyhow::Result<Vec<PathBuf>> {
        // A link that leads nowhere is there too, and nothing to be replaced by accident.
        let is_there = |path: &Path| path.symlink_metadata().is_ok();
        if chunk_size.is_none() {
            return Ok(if is_there(output) { vec![output.to_owned()] } else { Vec::new() });
        }
        Ok(numbered_files(output)?.into_iter().map(|(_, path)| path).collect())
    }

    /// A file of the other form, in one or in many: what this output does not go on with.
    pub(crate) fn other_form(output: &Path, chunk_size: Option<usize>) -> anyhow::Result<Option<PathBuf>> {
        let other = if chunk_size.is_none() { Some(1) } else { None };
        Ok(Self::files(output, other)?.into_iter().next())
    }

    /// Nothing that was measured is written over.
    pub(crate) fn check_is_new(output: &Path, chunk_size: Option<usize>) -> anyhow::Result<()> {
        if let Some(file) = Self::files(output, chunk_size)?.first() {
            bail!("{} exists; add --resume to go on with it, or choose another --output", file.display());
        }
        let journal = Journal::beside(output);
        journal.check()?;
        if !journal.is_empty() {
            bail!(
                "{} holds what an interrupted collection measured; add --resume to go on with it, or remove it",
                journal.path().display()
            );
        }
        Ok(())
    }

    /// Starts a new file, or with `resume` goes on with those that are there and
    /// with what their last process had not saved yet, in whatever order it was measured.
    pub(crate) fn open(
        path: &Path,
        chunk_size: Option<usize>,
        resume: bool,
        hardware: Hardware,
        provenance: Provenance,
    ) -> anyhow::Result<Self> {
        // Locked before anything is looked at: another collection may just be ending.
        let mut journal = Journal::beside(path);
        journal.open()?;
        if !resume {
            Self::check_is_new(path, chunk_size)?;
        }
        let mut chunks = Vec::new();
        let last_number = numbered_files(path)?.last().map_or(0, |(number, _)| *number);
        if resume {
            for path in Self::files(path, chunk_size)? {
                let dataset = resumed(&path, &hardware)?;
                chunks.push(Chunk { path, dataset });
            }
        }
        let solutions = chunks.iter().flat_map(|chunk| &chunk.dataset.solutions);
        let measured = solutions.map(|solution| held_id(path, &solution.problem)).collect();
        let mut collection = Self {
            chunks,
            path: path.to_owned(),
            chunk_size,
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

    /// Takes what the journal holds into the file.
    fn take_over(&mut self) -> anyhow::Result<()> {
        let path = self.journal.path().to_owned();
        for entry in self.journal.entries()? {
            check_node(&path, &entry.hardware, &self.hardware)?;
            for solution in entry.solutions {
                // A process that died between saving and clearing leaves both.
                if self.measured.insert(held_id(&self.path, &solution.problem)) {
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

    /// How many of the problems are here already, but lack some of the configs that they are to be timed with.
    pub(crate) fn timed_otherwise(
        &self,
        problems: &[Problem],
        configs: &dyn Fn(&Problem) -> anyhow::Result<Vec<Config>>,
    ) -> anyhow::Result<usize> {
        let asked: HashMap<ProblemId, &Problem> =
            problems.iter().map(|problem| (held_id(&self.path, problem), problem)).collect();
        let mut lacking = 0;
        for dataset in self.chunks.iter().map(|chunk| &chunk.dataset) {
            for solution in &dataset.solutions {
                let Some(problem) = asked.get(&held_id(&self.path, &solution.problem)) else { continue };
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
        self.measured.contains(&held_id(&self.path, problem))
    }

    /// Adds what was measured on a problem. It is on disk when this returns: in the
    /// journal, and in the file if it is time to save.
    pub(crate) fn add(
        &mut self,
        problem: Problem,
        method: Method,
        measured: MeasuredConfigs,
    ) -> anyhow::Result<()> {
        let id = held_id(&self.path, &problem);
        let mut configs = ConfigDictionary::default();
        let rows = &measured.timed;
        let solution = Solution {
            problem,
            method,
            configs: rows.iter().map(|(config, _)| configs.intern(*config)).collect(),
            times: TimeColumn::from_nanos(rows.iter().filter_map(|(_, s)| s.median()).collect())?,
            minimum_ns: Some(rows.iter().filter_map(|(_, samples)| samples.minimum()).collect()),
            spread_ns: Some(rows.iter().map(|(_, samples)| samples.spread()).collect()),
            repeats: Some(rows.iter().map(|(_, samples)| samples.count() as u32).collect()),
            failures: measured
                .failed
                .iter()
                .map(|&(config, reason)| Failure { config: configs.intern(config), reason })
                .collect(),
        };
        solution.validate(&configs)?;
        let mut entry = self.empty();
        entry.configs = configs;
        entry.solutions.push(solution);
        self.journal.append(&entry)?;
        self.measured.insert(id);
        for solution in entry.solutions {
            self.push(solution, &entry.configs)?;
        }
        if self.last_save.elapsed() >= SAVE_EVERY.max(self.save_took * SAVING_SHARE) {
            self.save()?;
        }
        Ok(())
    }

    /// Adds a solution whose configs are those of another dictionary.
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

    /// The dataset that the next problem goes to; a full one is saved and left.
    fn open_chunk(&mut self) -> anyhow::Result<&mut Dataset> {
        let full = |chunk: &Chunk| self.chunk_size.is_some_and(|most| chunk.dataset.solutions.len() >= most);
        if self.chunks.last().is_none_or(full) {
            // The journal stays: it may hold what the caller is about to add.
            self.write()?;
            let path = match self.chunk_size {
                Some(_) => {
                    self.last_number += 1;
                    numbered(&self.path, self.last_number)?
                }
                None => self.path.clone(),
            };
            self.chunks.push(Chunk { path, dataset: self.empty() });
        }
        let last = self.chunks.last_mut().context("a collection without a file")?;
        Ok(&mut last.dataset)
    }

    /// Brings everything into the files; the journal has nothing to add then.
    pub(crate) fn save(&mut self) -> anyhow::Result<()> {
        self.write()?;
        self.journal.clear()
    }

    /// Writes the open file if there is anything new; the old one stays whole until then.
    fn write(&mut self) -> anyhow::Result<()> {
        let (Some(chunk), true) = (self.chunks.last(), self.unsaved) else { return Ok(()) };
        let start = Instant::now();
        old_form::write_file(&chunk.path, &chunk.dataset).with_context(|| {
            let journal = self.journal.path().display();
            format!("cannot save the dataset; {journal} holds what is not in it yet, for --resume")
        })?;
        self.unsaved = false;
        self.last_save = Instant::now();
        self.save_took = start.elapsed();
        Ok(())
    }
}

fn held_id(path: &Path, problem: &Problem) -> ProblemId {
    old_form::held(path, problem).id()
}

/// `a/b.msgpack.zst` becomes `a/b_3.msgpack.zst`.
fn numbered(path: &Path, number: usize) -> anyhow::Result<PathBuf> {
    let (stem, ending) = stem_and_ending(path)?;
    Ok(path.with_file_name(format!("{stem}_{number}{ending}")))
}

/// The numbered files of an output in their order. Some between may have been taken away.
fn numbered_files(path: &Path) -> anyhow::Result<Vec<(usize, PathBuf)>> {
    let (stem, ending) = stem_and_ending(path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A folder that is not there is spoken of elsewhere.
    let Ok(entries) = folder.read_dir() else { return Ok(Vec::new()) };
    let number_of = |name: &str| {
        let number = name.strip_prefix(&stem)?.strip_prefix('_')?.strip_suffix(&ending)?;
        // Others may write `01` or `+1`; we never do.
        number.parse::<usize>().ok().filter(|value| *value > 0 && value.to_string() == number)
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    let mut files: Vec<(usize, PathBuf)> =
        names.filter_map(|name| Some((number_of(name.to_str()?)?, path.with_file_name(&name)))).collect();
    files.sort_unstable();
    Ok(files)
}

/// `b.msgpack.zst` is `b` and `.msgpack.zst`.
fn stem_and_ending(path: &Path) -> anyhow::Result<(String, String)> {
    let name = path.file_name().context("the output needs a name")?.to_string_lossy();
    let stem = Format::split_name(&name).map_or(&*name, |(stem, _)| stem);
    Ok((stem.to_owned(), name[stem.len()..].to_owned()))
}

fn resumed(path: &Path, hardware: &Hardware) -> anyhow::Result<Dataset> {
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

/// Timings of different nodes are not mixed in one file.
fn check_node(path: &Path, given: &Hardware, hardware: &Hardware) -> anyhow::Result<()> {
    let cores = |hardware: &Hardware| hardware.facts.map(|facts| facts.sms);
    // torch-diode's formats know a node by its name alone.
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

    use diode_core::{DType, FailureReason, Op, ProblemFields};

    use super::*;

    fn problem(m: u64) -> Problem {
        Problem::new(ProblemFields::plain(Op::Mm, 1, m, 16, 16, DType::Float32)).unwrap()
    }

    fn failed() -> MeasuredConfigs {
        let library = Config::Library;
        MeasuredConfigs::all_failed(&[library], FailureReason::OutOfMemory)
    }

    fn open(path: &Path, resume: bool) -> Collection {
        let hardware = Hardware::from_name("NVIDIA H200").unwrap();
        Collection::open(path, Some(2), resume, hardware, Provenance::default()).unwrap()
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
            Collection::open(&path, Some(2), true, first.hardware.clone(), Provenance::default()).is_err()
        );
        drop(first);
        assert_eq!(Collection::files(&path, Some(2)).unwrap().len(), 2);

        let mut second = open(&path, true);
        assert_eq!(second.problems(), 3);
        assert!([3, 1, 2].iter().all(|&m| second.contains(&problem(m))) && !second.contains(&problem(4)));
        for m in [4, 5] {
            second.add(problem(m), Method::MEDIAN_COLD_EVENT, failed()).unwrap();
        }
        second.save().unwrap();
        let sizes: Vec<usize> = Collection::files(&path, Some(2))
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
        std::fs::rename(numbered(&path, 1).unwrap(), folder.path().join("uploaded.msgpack.zst")).unwrap();

        let mut second = open(&path, true);
        assert!(second.contains(&problem(3)) && !second.contains(&problem(1)));
        for m in [5, 6] {
            second.add(problem(m), Method::MEDIAN_COLD_EVENT, failed()).unwrap();
        }
        second.save().unwrap();
        let files = Collection::files(&path, Some(2)).unwrap();
        assert_eq!(files, [numbered(&path, 2).unwrap(), numbered(&path, 3).unwrap()]);
        let sizes =
            files.iter().map(|file| diode_formats::read_file(file).unwrap().datasets[0].solutions.len());
        assert_eq!(sizes.collect::<Vec<_>>(), [2, 2]);
        assert_eq!(Collection::other_form(&path, None).unwrap(), Some(files[0].clone()));
    }

    #[test]
    fn problems_that_were_timed_with_other_configs_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let mut collection = open(&folder.path().join("set.msgpack.zst"), false);
        collection.add(problem(1), Method::MEDIAN_COLD_EVENT, failed()).unwrap();
        let problems = [problem(1), problem(2)];
        let count =
            |configs: Vec<Config>| collection.timed_otherwise(&problems, &|_| Ok(configs.clone())).unwrap();
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
        // The first chunk was saved when it was full; the last entry is torn.
        let bytes = std::fs::read(&journal).unwrap();
        OpenOptions::new().write(true).open(&journal).unwrap().set_len(bytes.len() as u64 - 1).unwrap();

        let resumed = open(&path, true);
        assert_eq!(resumed.problems(), 3);
        assert!(resumed.contains(&problem(3)) && !resumed.contains(&problem(4)));
        drop(resumed);
        assert!(!journal.exists());
        let files = Collection::files(&path, Some(2)).unwrap();
        assert_eq!(diode_formats::read_file(&files[1]).unwrap().datasets[0].solutions.len(), 1);
    }

    #[test]
    fn what_another_collection_left_is_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("set.msgpack.zst");
        let hardware = Hardware::from_name("NVIDIA H200").unwrap();
        let anew =
            |chunks| Collection::open(&path, chunks, false, hardware.clone(), Provenance::default()).err();
        // It ended after this output was looked at, and before it was opened.
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
        let error =
            Collection::open(&path, None, true, hardware, Provenance::default()).err().unwrap().to_string();
        assert!(error.contains("no regular file"), "{error}");
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
    }

    #[test]
    fn chunks_keep_the_whole_extension() {
        assert_eq!(numbered(Path::new("a/b.msgpack.zst"), 3).unwrap(), Path::new("a/b_3.msgpack.zst"));
        assert_eq!(numbered(Path::new("b.c.json"), 1).unwrap(), Path::new("b.c_1.json"));
        assert!(numbered(Path::new("/"), 1).is_err());
    }
}
