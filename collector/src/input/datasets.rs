//! Finds and reads datasets, also in folders.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use diode_core::hardware::Hardware;
use diode_core::{Dataset, Op};
use diode_formats::{Decoded, FileKind, Format, may_be_timings, read_head, recognise};

use crate::failure::Usage;
use crate::output::log::Progress;

/// Reads dataset files, also from folders and the folders in them. Each file is read once, in the order
/// of the paths.
///
/// Other files in a folder, such as reports or tables, are skipped with a note. A damaged dataset is an
/// error even there: with missing data, a model would be worse and nobody would notice.
pub(crate) fn read(paths: &[PathBuf]) -> anyhow::Result<Vec<Dataset>> {
    read_ending(paths, &[])
}

/// Like [`read`], but takes only files with these extensions from folders, such as `json`. If none are
/// given, it takes every extension that datasets have.
pub(crate) fn read_ending(paths: &[PathBuf], extensions: &[String]) -> anyhow::Result<Vec<Dataset>> {
    Ok(decode(paths, extensions)?.into_iter().flat_map(|decoded| decoded.datasets).collect())
}

/// Like [`read_ending`], but returns the format of each file, too.
pub(crate) fn decode(paths: &[PathBuf], extensions: &[String]) -> anyhow::Result<Vec<Decoded>> {
    let given = extensions.iter().map(|extension| format!(".{}", extension.trim_start_matches('.')));
    let mut endings: Vec<String> = given.map(|ending| ending.to_lowercase()).collect();
    if endings.is_empty() {
        endings = self::endings().map(str::to_owned).to_vec();
    }
    let mut search = Search { endings, files: Vec::new(), seen: HashSet::new(), found: 0 };
    for path in paths {
        let before = search.found;
        search.find(path, true)?;
        if search.found == before {
            let endings = search.endings.join(", ");
            bail!("{}: got no dataset in this folder, expected {endings}", path.display());
        }
    }
    read_files(&search.files)
}

/// Reads dataset files, none of which may be a folder. Shows how far it is.
pub(crate) fn read_files(files: &[PathBuf]) -> anyhow::Result<Vec<Decoded>> {
    let lengths: Vec<u64> =
        files.iter().map(|file| fs::metadata(file).map_or(0, |metadata| metadata.len())).collect();
    let mut progress = Progress::of_bytes(lengths.iter().sum());
    let mut before = 0;
    let mut read = |(file, length): (&PathBuf, &u64)| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let decoded =
            diode_formats::read_file_watched(file, &mut |read| progress.set_bytes(before + read, &name))?;
        before += length;
        Ok(decoded)
    };
    files.iter().zip(&lengths).map(&mut read).collect()
}

/// The endings of datasets' names.
fn endings() -> [&'static str; 5] {
    Format::ALL.map(Format::ending)
}

struct Search {
    endings: Vec<String>,
    files: Vec<PathBuf>,
    /// The paths that were seen, with links resolved. So nothing is read twice, and no circle of links
    /// is followed.
    seen: HashSet<PathBuf>,
    /// How many files were found. A file that was found before is counted again.
    found: usize,
}

impl Search {
    /// `named` says that the user gave this very path, not a folder around it.
    fn find(&mut self, path: &Path, named: bool) -> anyhow::Result<()> {
        let context = || format!("cannot read {}", path.display());
        if path.is_dir() {
            if !self.seen.insert(path.canonicalize().with_context(context)?) && !named {
                return Ok(());
            }
            let entries = fs::read_dir(path).with_context(context)?;
            let mut entries: Vec<PathBuf> = entries
                .map(|entry| entry.map(|entry| entry.path()))
                .collect::<Result<_, _>>()
                .with_context(context)?;
            entries.sort();
            return entries.iter().try_for_each(|entry| self.find(entry, false));
        }
        let name = path.to_string_lossy().to_lowercase();
        let ends_well = self.endings.iter().any(|ending| name.ends_with(ending.as_str()));
        if named || (ends_well && is_dataset(path)?) {
            self.found += 1;
            // A file that does not exist is reported when it is read.
            if path.canonicalize().map_or(true, |path| self.seen.insert(path)) {
                self.files.push(path.to_owned());
            } else {
                say!("note: {} was given before, and is read once", path.display());
            }
        }
        Ok(())
    }
}

fn is_dataset(path: &Path) -> anyhow::Result<bool> {
    let head = read_head(path)?;
    let is = may_be_timings(&head);
    if !is {
        let what = recognise(&head).map_or("a file of another kind", FileKind::as_str);
        say!("note: {} skipped: got {what}, expected {}", path.display(), FileKind::Timings);
    }
    Ok(is)
}

/// Filters of timings.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Selection")]
pub(crate) struct Selection {
    /// Use timings of this hardware only: its name or slug, such as nvidia-h200
    #[arg(long = "hardware", alias = "hardware-name", value_name = "NAME")]
    hardware_name: Option<String>,

    /// Use timings of this operator only
    #[arg(long = "op", alias = "op-name", value_name = "OP")]
    op_name: Option<Op>,
}

impl Selection {
    /// Reads datasets and keeps the timings that the filters name.
    pub(crate) fn read(&self, paths: &[PathBuf]) -> anyhow::Result<Vec<Dataset>> {
        self.keep(read(paths)?)
    }

    pub(crate) fn keep(&self, mut datasets: Vec<Dataset>) -> anyhow::Result<Vec<Dataset>> {
        if let Some(name) = &self.hardware_name {
            let wanted = Hardware::from_name(name).map_err(Usage::new)?.slug;
            let found = names(datasets.iter().map(|dataset| dataset.hardware.slug.to_string()));
            datasets.retain(|dataset| dataset.hardware.slug == wanted);
            if datasets.is_empty() {
                bail!("--hardware: got {wanted}, expected what there are timings of: {found}");
            }
        }
        self.keep_op(datasets)
    }

    /// Keeps the timings of the operator that the filter names, on any hardware.
    pub(crate) fn keep_op(&self, mut datasets: Vec<Dataset>) -> anyhow::Result<Vec<Dataset>> {
        if let Some(wanted) = self.op_name {
            let solutions = datasets.iter().flat_map(|dataset| &dataset.solutions);
            let found = names(solutions.map(|solution| solution.problem.op.to_string()));
            for dataset in &mut datasets {
                dataset.solutions.retain(|solution| solution.problem.op == wanted);
            }
            datasets.retain(|dataset| !dataset.solutions.is_empty());
            if datasets.is_empty() {
                bail!("--op: got {wanted}, expected what there are timings of: {found}");
            }
        }
        Ok(datasets)
    }

    /// The hardware that the filter names, as the user wrote it.
    pub(crate) fn hardware_name(&self) -> Option<&str> {
        self.hardware_name.as_deref()
    }

    pub(crate) fn op_name(&self) -> Option<Op> {
        self.op_name
    }
}

/// The distinct names, in alphabetical order.
fn names(names: impl Iterator<Item = String>) -> String {
    let names: std::collections::BTreeSet<String> = names.collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}

/// Adds facts of hardware where they are missing: torch-diode's files state only a name, and the
/// catalogue lacks most CPUs. The facts come from `known`, if that is the same hardware.
pub(crate) fn describe(
    datasets: &mut [Dataset],
    known: impl FnOnce() -> anyhow::Result<Hardware>,
) -> anyhow::Result<()> {
    if datasets.iter().all(|dataset| dataset.hardware.facts.is_some()) {
        return Ok(());
    }
    let known = known()?;
    for dataset in datasets {
        if dataset.hardware.facts.is_none() && dataset.hardware.slug == known.slug {
            dataset.hardware = known.clone();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, text: &str) {
        diode_formats::write_atomically(&folder.join(name), text.as_bytes()).unwrap();
    }

    fn found(paths: &[&Path], endings: &[&str]) -> Vec<PathBuf> {
        let endings = endings.iter().map(|&ending| ending.to_owned()).collect();
        let mut search = Search { endings, files: Vec::new(), seen: HashSet::new(), found: 0 };
        paths.iter().for_each(|path| search.find(path, true).unwrap());
        search.files
    }

    #[test]
    fn folders_are_searched_in_order_and_must_hold_something() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("b");
        fs::create_dir(&inner).unwrap();
        assert!(read(&[folder.path().to_owned()]).unwrap_err().to_string().contains("no dataset"));
        for name in ["b/x.msgpack.zst", "a.json", "notes.txt"] {
            write(folder.path(), name, "");
        }
        let a = folder.path().join("a.json");
        assert_eq!(found(&[folder.path()], &endings()), [a.clone(), inner.join("x.msgpack.zst")]);
        assert_eq!(found(&[folder.path()], &[".json"]), [a]);
    }

    #[test]
    fn other_files_in_a_folder_are_passed_over_unless_they_are_named() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "solution.json", "{\"config\": []}");
        write(folder.path(), "training_history.csv", "phase,epoch,loss\nfinal,1,0.5\n");
        write(folder.path(), "damaged.json", "{\"hardware\": {\"NVIDIA H100\": {\"operation\": {");
        let damaged = folder.path().join("damaged.json");
        let solution = folder.path().join("solution.json");
        assert_eq!(found(&[&solution, folder.path()], &endings()), [solution, damaged.clone()]);
        assert_eq!(found(&[folder.path()], &endings()), [damaged]);
    }

    #[cfg(unix)]
    #[test]
    fn nothing_is_read_twice() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a.json", "");
        std::os::unix::fs::symlink(".", folder.path().join("circle")).unwrap();
        std::os::unix::fs::symlink("a.json", folder.path().join("b.json")).unwrap();
        let a = folder.path().join("a.json");
        assert_eq!(found(&[&a, folder.path()], &endings()), [a]);
    }
}
