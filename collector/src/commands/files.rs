//! Reading tables and models, and protecting files.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use diode_core::Table;
use diode_core::ids::ModelId;
use diode_formats::Kind;
use diode_formats::limits::MAX_CHECKPOINT;
use diode_model::AnyModel;
use diode_model::predecessor::PredecessorModel;

use super::shipped;

/// A table of 100,000 problems with five configs each takes 220 MB.
const MAX_TABLE_BYTES: u64 = 1 << 30;

/// What every table says of itself, and no dataset.
const TABLE_MARK: &str = "\"diode-table/";

/// Reads tables: one as this program wrote it or as it was edited since, or those of a
/// lookup table of torch-diode, one for each hardware in it.
pub(super) fn read_tables(path: &Path) -> anyhow::Result<Vec<Table>> {
    let context = || format!("table {}", path.display());
    let head = diode_formats::read_head(path)?;
    match diode_formats::recognise(&head) {
        Some(Kind::LookupTable) => {
            let tables = diode_formats::read_lookup_table(path)?
                .into_iter()
                .map(diode_formats::LookupTable::into_table);
            return tables.collect::<Result<_, _>>().with_context(context);
        }
        Some(Kind::Timings) => {
            let found = Kind::Timings;
            bail!("{}: got {found}, expected a table; `diode table` makes one of it", path.display())
        }
        Some(other) if !is_ours(path, Some(other)) => {
            bail!("{}: got {other}, expected a table", path.display())
        }
        _ => {}
    }
    let text = diode_formats::open_text(path, MAX_TABLE_BYTES, "a table as JSON")?;
    Ok(vec![serde_json::from_reader(text).with_context(context)?])
}

/// Whether a file is a table and not a dataset. What cannot be read is left to who reads it.
pub(super) fn is_table(path: &Path) -> bool {
    let json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    match diode_formats::read_head(path).map(|head| diode_formats::recognise(&head)) {
        Ok(Some(Kind::LookupTable)) => true,
        Ok(kind) => json && is_ours(path, kind),
        Err(_) => false,
    }
}

/// Whether a file is a table of ours, which tools that sort keys make begin like a solution.
fn is_ours(path: &Path, kind: Option<Kind>) -> bool {
    matches!(kind, None | Some(Kind::ReferenceConfigs)) && names_itself(path).unwrap_or(false)
}

/// Whether the mark of our own tables is anywhere in a file: tools that sort keys put it last.
fn names_itself(path: &Path) -> io::Result<bool> {
    let mut file = fs::File::open(path)?.take(MAX_TABLE_BYTES);
    let mark = TABLE_MARK.as_bytes();
    let mut window = Vec::new();
    loop {
        // The end of the last piece stays, for a mark that begins in it.
        window.drain(..window.len().saturating_sub(mark.len()));
        let read = file.by_ref().take(1 << 16).read_to_end(&mut window)?;
        if window.windows(mark.len()).any(|at| at == mark) {
            return Ok(true);
        }
        if read == 0 {
            return Ok(false);
        }
    }
}

/// Reads a model: a file of ours, a checkpoint of torch-diode's, or one that comes
/// with the program, by a name such as `NVIDIA-H100-matmul`.
pub(super) fn read_model(path: &Path) -> anyhow::Result<AnyModel> {
    let name = path.to_str().filter(|_| !path.exists());
    if let Some(hardware) = name.and_then(shipped::named_hardware) {
        return Ok(AnyModel::Ranking(Box::new(shipped::for_hardware(&hardware)?)));
    }
    let means_no_file = |name: &&str| name.ends_with(shipped::ENDING) || !name.contains(['.', '/', '\\']);
    if let Some(name) = name.filter(means_no_file) {
        bail!(
            "{name}: No such file, and no model of that name comes with diode; expected a file or one of {}",
            shipped::names()
        );
    }
    let bytes = model_bytes(path)?;
    let context = || format!("model {}", path.display());
    match diode_formats::recognise(&bytes) {
        Some(Kind::TorchCheckpoint) => {}
        Some(Kind::Model) | None => return AnyModel::from_bytes(&bytes).with_context(context),
        Some(other) => bail!("{}: got {other}, expected a model", path.display()),
    }
    let checkpoint = diode_formats::decode_checkpoint(&bytes).with_context(context)?;
    let model = PredecessorModel::from_checkpoint(checkpoint).with_context(context)?;
    Ok(AnyModel::Predecessor(Box::new(model)))
}

fn model_bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    Ok(diode_formats::read_bounded(path, MAX_CHECKPOINT as u64)?)
}

/// The identity of a model that was read: that of its file, or of the one that it would be written to.
pub(super) fn model_id(path: &Path, model: &AnyModel) -> anyhow::Result<ModelId> {
    let bytes = if path.exists() { model_bytes(path)? } else { model.to_bytes()? };
    Ok(ModelId::of(&bytes))
}

/// Nothing that took time to make is overwritten by accident.
pub(super) fn check_may_write(path: &Path, force: bool) -> anyhow::Result<()> {
    if is_there(path) && !force {
        bail!("{} exists; add --force to replace it", path.display());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        bail!("{}: no such folder; create it first", folder.display());
    }
    diode_formats::check_writable(path).with_context(|| format!("cannot write {}", path.display()))
}

/// Whether a name is taken, if only by a link that leads nowhere.
pub(crate) fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
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

/// Nor does it take the place of timings, or of anything else of ours that is of another kind.
pub(super) fn check_keeps(output: &Path, own: Option<Kind>) -> anyhow::Result<()> {
    let there = diode_formats::read_head(output).ok().and_then(|head| diode_formats::recognise(&head));
    match there.filter(|there| Some(*there) != own) {
        Some(there) => bail!("{}: got {there}, expected a name where nothing is lost", output.display()),
        None => Ok(()),
    }
}

/// Two results of one command have two names.
pub(super) fn check_distinct(outputs: &[&Path]) -> anyhow::Result<()> {
    let mut seen = HashSet::new();
    let twice = outputs.iter().find(|output| !seen.insert(std::path::absolute(output).ok()));
    match twice {
        Some(output) => bail!("{}: got one name for two results, expected two", output.display()),
        None => Ok(()),
    }
}

/// Writes a file whole or not at all.
pub(super) fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    diode_formats::write_atomically(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[cfg(unix)]
    #[test]
    fn a_link_that_leads_nowhere_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link.json");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        assert!(check_may_write(&link, false).unwrap_err().to_string().contains("--force"));
        assert!(check_may_write(&link, true).is_ok());
    }

    #[test]
    fn a_table_is_known_wherever_it_names_itself() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.json");
        for blanks in [0, 65_523, 65_530, 200_000] {
            let text = format!("{{\"entries\": [{}], \"format\": \"diode-table/1\"}}", " ".repeat(blanks));
            write(&path, text.as_bytes()).unwrap();
            assert!(is_table(&path), "{blanks}");
        }
        write(&path, b"{\"format\": \"diode-tablet\"}").unwrap();
        assert!(!is_table(&path));
    }
}
