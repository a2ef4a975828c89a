//! The file of a collection, or its numbered files with a fixed number of problems each.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use diode_compat::{NOT_KEPT, is_predecessors};
use diode_core::ids::ProblemId;
use diode_core::{Dataset, Problem};
use diode_formats::{Format, FormatError};

use crate::collect::journal::Journal;
use crate::failure::Usage;

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
    pub(super) fn check_is_new(&self) -> anyhow::Result<()> {
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
    pub(super) fn files(&self) -> anyhow::Result<Vec<PathBuf>> {
        // A link that leads nowhere counts, too: it must not be replaced by accident.
        let is_there = |path: &Path| path.symlink_metadata().is_ok();
        if self.chunk_size.is_none() {
            return Ok(if is_there(&self.path) { vec![self.path.clone()] } else { Vec::new() });
        }
        Ok(numbered_files(&self.path)?.into_iter().map(|(_, path)| path).collect())
    }

    /// An existing file of the other form: a single file if this output is numbered, or a numbered file if
    /// it is not. This output cannot go on with it.
    pub(super) fn other_form(&self) -> anyhow::Result<Option<PathBuf>> {
        let chunk_size = if self.chunk_size.is_none() { Some(1) } else { None };
        Ok(Self { chunk_size, ..self.clone() }.files()?.into_iter().next())
    }

    /// The highest number among the existing numbered files.
    pub(super) fn last_number(&self) -> anyhow::Result<usize> {
        Ok(numbered_files(&self.path)?.last().map_or(0, |(number, _)| *number))
    }

    /// The file to begin next. If files are numbered, `last` becomes its number.
    pub(super) fn next_file(&self, last: &mut usize) -> anyhow::Result<PathBuf> {
        if self.chunk_size.is_none() {
            return Ok(self.path.clone());
        }
        *last += 1;
        numbered(&self.path, *last)
    }

    /// Whether a file with this many problems is full.
    pub(super) fn is_full(&self, problems: usize) -> bool {
        self.chunk_size.is_some_and(|most| problems >= most)
    }

    /// The id of a problem as the output's format holds it. Some formats drop some of a problem's fields.
    pub(super) fn id_in_format(&self, problem: &Problem) -> ProblemId {
        if self.holds_everything() { problem.id() } else { diode_formats::held(self.format, problem).id() }
    }

    /// Writes one file of the output.
    pub(super) fn write(&self, file: &Path, dataset: &Dataset) -> Result<(), FormatError> {
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
mod tests {
    use diode_core::hardware::Hardware;
    use diode_core::{
        Config, ConfigIndex, DType, Failure, FailureReason, Method, Op, ProblemFields, Provenance, Solution,
        TimeColumn,
    };

    use super::*;

    #[test]
    fn a_columnar_file_keeps_all_that_was_measured() {
        let dataset = Dataset {
            hardware: Hardware::from_name("NVIDIA H100").unwrap(),
            provenance: Provenance::default(),
            configs: [Config::Library, Config::DecomposeK { k_split: 2 }].into_iter().collect(),
            solutions: vec![Solution {
                problem: Problem::new(ProblemFields::plain(Op::Mm, 1, 64, 64, 64, DType::Float16)).unwrap(),
                method: Method::MEDIAN_COLD_EVENT,
                configs: vec![ConfigIndex(0)],
                times: TimeColumn::Nanos(vec![5_000]),
                minimum_ns: Some(vec![4_990]),
                spread_ns: Some(vec![10]),
                repeats: Some(vec![3]),
                failures: vec![Failure { config: ConfigIndex(1), reason: FailureReason::Timeout }],
            }],
        };
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.msgpack.zst");
        let output = Output::new(&file, None, false).unwrap();
        assert!(output.holds_everything());
        output.write(&file, &dataset).unwrap();
        assert_eq!(diode_formats::read_file(&file).unwrap().datasets, [dataset]);
    }

    #[test]
    fn chunks_keep_the_whole_extension() {
        assert_eq!(numbered(Path::new("a/b.msgpack.zst"), 3).unwrap(), Path::new("a/b_3.msgpack.zst"));
        assert_eq!(numbered(Path::new("b.c.json"), 1).unwrap(), Path::new("b.c_1.json"));
        assert!(numbered(Path::new("/"), 1).is_err());
    }
}
