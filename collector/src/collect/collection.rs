//! The dataset that a collection measures, and the files that keep it: one, or numbered ones with a fixed number of
//! problems each.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use diode_compat::{NOT_KEPT, is_predecessors};
use diode_core::hardware::Hardware;
use diode_core::ids::ProblemId;
use diode_core::{Config, ConfigDictionary, Dataset, Method, Problem, Provenance, Solution};
use diode_formats::{Format, FormatError};

use crate::collect::journal::Journal;
use crate::devices::MeasuredConfigs;
use crate::failure::Usage;

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

/// Where a collection is written to.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    path: PathBuf,
    format: Format,
    /// How many problems one file holds. `None` if all go into one file.
    chunk_size: Option<usize>,
}

impl Output {
    /// A destination for a collection. `lossy` allows formats that hold less than is measured.
    pub(crate) fn new(path: &Path, chunk_size: Option<usize>, lossy: bool) -> Result<Self, Usage> {
        let shown = path.display();
        let format = Format::from_path(path).map_err(Usage::new)?;
        match format {
            Format::Columnar => {}
            other if !is_predecessors(other) => {
                return Err(Usage::new(format!(
                    "{shown}: {other} is not written while measuring; use a name that ends in .msgpack.zst, \
                     then `diode convert`"
                )));
            }
            _ if lossy => {}
            other => {
                return Err(Usage::new(format!(
                    "{shown}: {other} cannot hold {}; use a name that ends in .msgpack.zst, or add --lossy",
                    NOT_KEPT
                )));
            }
        }
        Ok(Self { path: path.to_owned(), format, chunk_size })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn format(&self) -> Format {
        self.format
    }

    /// Whether the format can hold all that is measured.
    pub(crate) fn holds_everything(&self) -> bool {
        self.format == Format::Columnar
    }

    /// Refuses an output that cannot be written, before hours of measuring are lost.
    pub(crate) fn check(&self, resume: bool) -> anyhow::Result<()> {
        Journal::beside(&self.path).check_is_free()?;
        let files = self.files()?;
        if let Some(other) = files.iter().find(|file| file.metadata().is_ok_and(|there| !there.is_file())) {
            bail!("{}: exists and is not a regular file; choose another --output", other.display());
        }
        if !resume {
            self.check_is_new()?;
        }
        if let (Some(other), true, true) = (self.other_form()?, resume, files.is_empty()) {
            let advice =
                if self.chunk_size.is_some() { "leave out --chunk-size" } else { "add --chunk-size" };
            bail!("{} is there: {advice} to go on with it, or leave out --resume", other.display());
        }
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            bail!("{}: no such folder; create it first", folder.display());
        }
        Ok(())
    }

    /// Refuses an output that exists, so that nothing that was measured is overwritten.
    fn check_is_new(&self) -> anyhow::Result<()> {
        if let Some(file) = self.files()?.first() {
            bail!("{} exists; add --resume to go on with it, or choose another --output", file.display());
        }
        let journal = Journal::beside(&self.path);
        journal.check()?;
        if !journal.is_empty() {
            bail!(
                "{} holds what an interrupted collection measured; add --resume to go on with it, or remove it",
                journal.path().display()
            );
        }
        Ok(())
    }

    /// The files of this output that exist already.
    fn files(&self) -> anyhow::Result<Vec<PathBuf>> {
        // A link that leads nowhere counts, too: it must not be replaced by accident.
        let is_there = |path: &Path| path.symlink_metadata().is_ok();
        if self.chunk_size.is_none() {
            return Ok(if is_there(&self.path) { vec![self.path.clone()] } else { Vec::new() });
        }
        Ok(numbered_files(&self.path)?.into_iter().map(|(_, path)| path).collect())
    }

    /// An existing file of the other form: a single file if this output is numbered, or a numbered file if
    /// it is not. This output cannot go on with it.
    fn other_form(&self) -> anyhow::Result<Option<PathBuf>> {
        let chunk_size = if self.chunk_size.is_none() { Some(1) } else { None };
        Ok(Self { chunk_size, ..self.clone() }.files()?.into_iter().next())
    }

    /// The highest number among the existing numbered files.
    fn last_number(&self) -> anyhow::Result<usize> {
        Ok(numbered_files(&self.path)?.last().map_or(0, |(number, _)| *number))
    }

    /// The file to begin next. If files are numbered, `last` becomes its number.
    fn next_file(&self, last: &mut usize) -> anyhow::Result<PathBuf> {
        if self.chunk_size.is_none() {
            return Ok(self.path.clone());
        }
        *last += 1;
        numbered(&self.path, *last)
    }

    /// Whether a file with this many problems is full.
    fn is_full(&self, problems: usize) -> bool {
        self.chunk_size.is_some_and(|most| problems >= most)
    }

    /// The id of a problem as the output's format holds it. Some formats drop some of a problem's fields.
    fn id_in_format(&self, problem: &Problem) -> ProblemId {
        if self.holds_everything() { problem.id() } else { diode_formats::held(self.format, problem).id() }
    }

    /// Writes one file of the output.
    fn write(&self, file: &Path, dataset: &Dataset) -> Result<(), FormatError> {
        if self.holds_everything() {
            diode_formats::write_file(file, std::slice::from_ref(dataset))
        } else {
            diode_compat::write_lossy(file, self.format, dataset)
        }
    }
}

/// `a/b.msgpack.zst` becomes `a/b_3.msgpack.zst`.
fn numbered(path: &Path, number: usize) -> anyhow::Result<PathBuf> {
    let (stem, ending) = stem_and_ending(path)?;
    Ok(path.with_file_name(format!("{stem}_{number}{ending}")))
}

/// The existing numbered files of an output, in order. Some numbers may be missing, because files were
/// moved away.
fn numbered_files(path: &Path) -> anyhow::Result<Vec<(usize, PathBuf)>> {
    let (stem, ending) = stem_and_ending(path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // `check` reports a folder that does not exist.
    let Ok(entries) = folder.read_dir() else { return Ok(Vec::new()) };
    let number_of = |name: &str| {
        let number = name.strip_prefix(&stem)?.strip_prefix('_')?.strip_suffix(&ending)?;
        // This program writes no names such as `_01` or `_+1`.
        number.parse::<usize>().ok().filter(|value| *value > 0 && value.to_string() == number)
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    let mut files: Vec<(usize, PathBuf)> =
        names.filter_map(|name| Some((number_of(name.to_str()?)?, path.with_file_name(&name)))).collect();
    files.sort_unstable();
    Ok(files)
}

/// Splits `b.msgpack.zst` into `b` and `.msgpack.zst`.
fn stem_and_ending(path: &Path) -> anyhow::Result<(String, String)> {
    let name = path.file_name().context("the output needs a name")?.to_string_lossy();
    let stem = Format::split_name(&name).map_or(&*name, |(stem, _)| stem);
    Ok((stem.to_owned(), name[stem.len()..].to_owned()))
}

#[cfg(test)]
mod tests;
