//! Finding, reading and protecting files.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use diode_core::{Dataset, Table};
use diode_formats::Kind;
use diode_formats::limits::MAX_CHECKPOINT;
use diode_model::AnyModel;
use diode_model::legacy::LegacyModel;

use super::shipped;

/// Endings of dataset files, as `convert` and `collect` write them.
const DATASET_ENDINGS: [&str; 5] = [".json", ".msgpack", ".msgpack.zst", ".csv", ".parquet"];

/// Reads dataset files, and those in folders and folders within, in order of
/// their paths. A file in a folder that is not a dataset is an error too: data
/// that is silently missing makes a silently worse model.
pub(super) fn read_datasets(paths: &[PathBuf]) -> anyhow::Result<Vec<Dataset>> {
    read_datasets_ending(paths, &[])
}

/// The same with only some extensions of files in folders, such as `json`; none
/// means all that datasets have.
pub(super) fn read_datasets_ending(paths: &[PathBuf], extensions: &[String]) -> anyhow::Result<Vec<Dataset>> {
    let given = extensions.iter().map(|extension| format!(".{}", extension.trim_start_matches('.')));
    let mut endings: Vec<String> = given.map(|ending| ending.to_lowercase()).collect();
    if endings.is_empty() {
        endings = DATASET_ENDINGS.map(str::to_owned).to_vec();
    }
    let mut files = Vec::new();
    for path in paths {
        let before = files.len();
        find(path, true, &endings, &mut files)?;
        if files.len() == before {
            bail!("{}: got no dataset in this folder, expected {}", path.display(), endings.join(", "));
        }
    }
    let mut datasets = Vec::new();
    for file in files {
        datasets.extend(diode_formats::read_file(&file)?.datasets);
    }
    Ok(datasets)
}

fn find(path: &Path, named: bool, endings: &[String], files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let context = || format!("cannot read {}", path.display());
    if path.is_dir() {
        let entries = fs::read_dir(path).with_context(context)?;
        let mut entries: Vec<PathBuf> =
            entries.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>().with_context(context)?;
        entries.sort();
        return entries.iter().try_for_each(|entry| find(entry, false, endings, files));
    }
    let name = path.to_string_lossy().to_lowercase();
    if named || endings.iter().any(|ending| name.ends_with(ending.as_str())) {
        files.push(path.to_owned());
    }
    Ok(())
}

/// A table of 100,000 problems with five configs each takes 220 MB.
const MAX_TABLE_BYTES: u64 = 1 << 30;

/// What every table says of itself, and no dataset.
const TABLE_MARK: &str = "\"diode-table/";

/// Reads tables: one as this program wrote it or as it was edited since, or those of a
/// lookup table of torch-diode, one for each hardware in it.
pub(super) fn read_tables(path: &Path) -> anyhow::Result<Vec<Table>> {
    let context = || format!("table {}", path.display());
    match kind(path)? {
        Some(Kind::Table) => {
            let tables = diode_formats::read_lut(path)?.into_iter().map(diode_formats::Lut::into_table);
            return tables.collect::<Result<_, _>>().with_context(context);
        }
        Some(other @ Kind::Timings) => {
            bail!("{}: got {other}, expected a table; `diode table` makes one of it", path.display())
        }
        _ => {}
    }
    let text = table_text(path)?;
    Ok(vec![serde_json::from_str(&text).with_context(context)?])
}

/// Whether a file is a table and not a dataset. What cannot be read is left to who reads it.
pub(super) fn is_table(path: &Path) -> bool {
    let json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    kind(path).is_ok_and(|kind| kind == Some(Kind::Table))
        || (json && table_text(path).is_ok_and(|text| text.contains(TABLE_MARK)))
}

fn kind(path: &Path) -> anyhow::Result<Option<Kind>> {
    /// As much as tells what kind of file it is.
    const HEAD: u64 = 64 << 10;
    let context = || format!("cannot read {}", path.display());
    let mut head = Vec::new();
    fs::File::open(path).and_then(|file| file.take(HEAD).read_to_end(&mut head)).with_context(context)?;
    Ok(diode_formats::recognise(&head))
}

fn table_text(path: &Path) -> anyhow::Result<String> {
    let context = || format!("cannot read {}", path.display());
    let bytes = fs::metadata(path).with_context(context)?.len();
    if bytes > MAX_TABLE_BYTES {
        bail!("{}: got {bytes} bytes, expected a table of at most {MAX_TABLE_BYTES}", path.display());
    }
    fs::read_to_string(path).with_context(context)
}

/// Reads a model: a file of ours, a checkpoint of torch-diode's, or one that comes
/// with the program, by a name such as `NVIDIA-H100-matmul`.
pub(super) fn read_model(path: &Path) -> anyhow::Result<AnyModel> {
    let name = path.to_str().filter(|_| !path.exists());
    if let Some(hardware) = name.and_then(shipped::named_hardware) {
        return Ok(AnyModel::Ranking(Box::new(shipped::for_hardware(&hardware)?)));
    }
    let unreadable = || format!("cannot read {}", path.display());
    let mut bytes = Vec::new();
    let file = fs::File::open(path).with_context(unreadable)?;
    file.take(MAX_CHECKPOINT as u64 + 1).read_to_end(&mut bytes).with_context(unreadable)?;
    if bytes.len() > MAX_CHECKPOINT {
        bail!("{}: got more than {MAX_CHECKPOINT} bytes, expected a model", path.display());
    }
    let context = || format!("model {}", path.display());
    if diode_formats::recognise(&bytes) != Some(Kind::TorchCheckpoint) {
        return AnyModel::from_bytes(&bytes).with_context(context);
    }
    let checkpoint = diode_formats::decode_checkpoint(&bytes).with_context(context)?;
    let model = LegacyModel::from_checkpoint(checkpoint).with_context(context)?;
    Ok(AnyModel::Legacy(Box::new(model)))
}

/// Nothing that took time to make is overwritten by accident.
pub(super) fn check_may_write(path: &Path, force: bool) -> anyhow::Result<()> {
    if path.exists() && !force {
        bail!("{} exists; add --force to replace it", path.display());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        bail!("{}: no such folder; create it first", folder.display());
    }
    Ok(())
}

/// A result never takes the place of what it is made from, whatever is forced.
pub(super) fn check_not_input<'a>(
    output: &Path,
    inputs: impl IntoIterator<Item = &'a PathBuf>,
) -> anyhow::Result<()> {
    let Ok(written) = output.canonicalize() else { return Ok(()) };
    if inputs.into_iter().any(|input| input.canonicalize().is_ok_and(|input| input == written)) {
        bail!("{}: got one of the inputs, expected another name for what is written", output.display());
    }
    Ok(())
}

/// Writes a file whole or not at all.
pub(super) fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    diode_formats::write_atomically(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_searched_in_order_and_must_hold_something() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("b");
        fs::create_dir(&inner).unwrap();
        assert!(read_datasets(&[folder.path().to_owned()]).unwrap_err().to_string().contains("no dataset"));
        for name in ["b/x.msgpack.zst", "a.json", "notes.txt"] {
            write(&folder.path().join(name), b"").unwrap();
        }
        let found = |endings: &[&str]| {
            let endings: Vec<String> = endings.iter().map(|&ending| ending.to_owned()).collect();
            let mut files = Vec::new();
            find(folder.path(), true, &endings, &mut files).unwrap();
            files
        };
        assert_eq!(found(&DATASET_ENDINGS), [folder.path().join("a.json"), inner.join("x.msgpack.zst")]);
        assert_eq!(found(&[".json"]), [folder.path().join("a.json")]);
    }

    #[test]
    fn existing_files_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        assert!(check_may_write(&path, false).is_ok());
        write(&path, b"1").unwrap();
        assert!(check_may_write(&path, false).unwrap_err().to_string().contains("--force"));
        assert!(check_may_write(&path, true).is_ok());
        assert!(check_may_write(&folder.path().join("no/model"), true).is_err());
    }
}
