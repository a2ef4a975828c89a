//! Reads tables of this project and of torch-diode.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use diode_core::Table;
use diode_core::ids::HardwareSlug;
use diode_formats::FileKind;

use crate::output::log::Progress;
use crate::server::{Client, successful};

/// The most bytes of a table. A table of 100,000 problems with five configs each takes 220 MB.
const MAX_TABLE_BYTES: u64 = 1 << 30;

/// A text that every table of this project contains and no dataset contains.
const TABLE_MARK: &str = "\"diode-table/";

/// Reads the tables of a file. A file of this project holds one table, which somebody may have edited. A
/// lookup table of torch-diode becomes one table for each hardware in it.
pub(crate) fn read_tables(path: &Path) -> anyhow::Result<Vec<Table>> {
    let context = || format!("table {}", path.display());
    let head = diode_formats::read_head(path)?;
    match diode_formats::recognise(&head) {
        Some(FileKind::LookupTable) => {
            let tables = diode_formats::read_lookup_table(path)?
                .into_iter()
                .map(diode_formats::LookupTable::into_table);
            return tables.collect::<Result<_, _>>().with_context(context);
        }
        Some(FileKind::Timings) => {
            let found = FileKind::Timings;
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

/// The best config of every problem that a server has timings of on some hardware.
pub(crate) fn of_server(client: &Client, hardware: &HardwareSlug) -> anyhow::Result<Table> {
    let mut answer = successful(client.getting_much(&format!("/tables/{hardware}.json?top=1")))?;
    let length = answer.headers().get("diode-bytes").and_then(|length| length.to_str().ok()?.parse().ok());
    let mut progress = Progress::of_bytes(length.unwrap_or(0));
    let mut text = String::new();
    let body = answer.body_mut().as_reader().take(MAX_TABLE_BYTES);
    progress.watch(body, 0).read_to_string(&mut text).context("the table did not arrive")?;
    serde_json::from_str(&text).context("the answer is not understood; is it a Diode server?")
}

/// Whether a file is a table and not a dataset. A file that cannot be read is reported elsewhere.
pub(crate) fn is_table(path: &Path) -> bool {
    let json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    match diode_formats::read_head(path).map(|head| diode_formats::recognise(&head)) {
        Ok(Some(FileKind::LookupTable)) => true,
        Ok(kind) => json && is_ours(path, kind),
        Err(_) => false,
    }
}

/// Whether a file is a table of this project. If a tool sorted its keys, it begins like a solution of
/// torch-diode.
fn is_ours(path: &Path, kind: Option<FileKind>) -> bool {
    match kind {
        Some(FileKind::Table) => true,
        None | Some(FileKind::ReferenceConfigs) => names_itself(path).unwrap_or(false),
        Some(_) => false,
    }
}

/// Whether the mark of this project's tables is anywhere in a file. Tools that sort keys put it last.
fn names_itself(path: &Path) -> io::Result<bool> {
    let mut file = fs::File::open(path)?.take(MAX_TABLE_BYTES);
    let mark = TABLE_MARK.as_bytes();
    let mut window = Vec::new();
    loop {
        // The end of the last piece is kept, because a mark may begin in it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_known_wherever_it_names_itself() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.json");
        for blanks in [0, 65_523, 65_530, 200_000] {
            let text = format!("{{\"entries\": [{}], \"format\": \"diode-table/1\"}}", " ".repeat(blanks));
            diode_formats::write_atomically(&path, text.as_bytes()).unwrap();
            assert!(is_table(&path), "{blanks}");
        }
        diode_formats::write_atomically(&path, b"{\"format\": \"diode-tablet\"}").unwrap();
        assert!(!is_table(&path));
    }
}
