//! Reading and writing files.

use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek as _, Write};
use std::path::Path;

use diode_core::Dataset;

use crate::contents::{self, Kind};
use crate::limits::MAX_DOCUMENT;
use crate::source::{PARQUET_MAGIC, decode_stream};
use crate::text::read_bounded;
use crate::{Decoded, Format, FormatError, encode};

/// Reads a dataset file in any format, whatever its name. Never more of the file
/// than a window on it is held.
pub fn read_file(path: &Path) -> Result<Decoded, FormatError> {
    let Opened { file, length, head } = open(path)?;
    let decode = || {
        if head.starts_with(PARQUET_MAGIC) {
            return decode_parquet(file).map(|datasets| Decoded { format: Format::Parquet, datasets });
        }
        decode_stream(BufReader::with_capacity(1 << 16, file), length, |_| Ok(()))
    };
    contents::expect(Kind::Timings, &head, decode).map_err(|error| in_file(path, error))
}

/// A file about to be read.
pub(crate) struct Opened {
    pub(crate) file: File,
    pub(crate) length: u64,
    pub(crate) head: Vec<u8>,
}

/// Opens a file and looks at its first bytes, which stay to be read.
pub(crate) fn open(path: &Path) -> Result<Opened, FormatError> {
    let unreadable = |source| unreadable(path, source);
    let mut file = open_regular(path)?;
    let length = file.metadata().map_err(unreadable)?.len();
    let mut head = Vec::new();
    (&file).take(SAMPLE).read_to_end(&mut head).map_err(unreadable)?;
    file.rewind().map_err(unreadable)?;
    Ok(Opened { file, length, head })
}

/// Opens a file that has a length and can be read twice. Opening a pipe would wait for its writer.
pub(crate) fn open_regular(path: &Path) -> Result<File, FormatError> {
    let unreadable = |source| unreadable(path, source);
    if !path.metadata().map_err(unreadable)?.is_file() {
        return Err(unreadable(io::Error::other("got a pipe or a device, expected a regular file")));
    }
    File::open(path).map_err(unreadable)
}

/// The first bytes of a file, enough to recognise it by.
pub fn read_head(path: &Path) -> Result<Vec<u8>, FormatError> {
    Ok(open(path)?.head)
}

/// Bytes by which a file is recognised: a whole block of a compressed one.
const SAMPLE: u64 = 1 << 17;

#[cfg(feature = "parquet")]
fn decode_parquet(file: File) -> Result<Vec<Dataset>, FormatError> {
    crate::rows::parquet::decode(file)
}

#[cfg(not(feature = "parquet"))]
fn decode_parquet(_: File) -> Result<Vec<Dataset>, FormatError> {
    Err(FormatError::WithoutParquet)
}

/// What the system says of a folder differs from system to system.
pub(crate) fn unreadable(path: &Path, source: io::Error) -> FormatError {
    let source = if path.is_dir() { io::Error::other("got a folder, expected a file") } else { source };
    FormatError::Io { path: path.to_owned(), source }
}

/// An error of a file's content, with the file.
pub(crate) fn in_file(path: &Path, source: FormatError) -> FormatError {
    FormatError::InFile { path: path.to_owned(), source: Box::new(source) }
}

/// Reads and decodes a file that is held as one piece; errors name it.
pub(crate) fn read_with<T>(
    path: &Path,
    decode: impl FnOnce(&[u8]) -> Result<T, FormatError>,
) -> Result<T, FormatError> {
    decode(&read_bounded(path, MAX_DOCUMENT)?).map_err(|error| in_file(path, error))
}

/// Writes a dataset file in the format that its extension names.
pub fn write_file(path: &Path, datasets: &[Dataset]) -> Result<(), FormatError> {
    let bytes = encode(Format::from_path(path)?, datasets).map_err(|error| in_file(path, error))?;
    write_atomically(path, &bytes).map_err(|source| FormatError::Io { path: path.to_owned(), source })
}

/// Replaces a file so that a crash at any moment leaves the old content or the
/// new, never a part, and that the new content survives a power cut once this returns.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = temporary(path)?;
    file.as_file_mut().write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    // The rename itself is durable once the folder is; other systems cannot open folders.
    #[cfg(unix)]
    File::open(folder(path))?.sync_all()?;
    Ok(())
}

/// Whether [`write_atomically`] could write here now: before the work that makes the content.
pub fn check_writable(path: &Path) -> io::Result<()> {
    temporary(path).map(drop)
}

/// An empty file beside the one that it is to replace.
fn temporary(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    // A device or a folder would be replaced by the rename, which nobody means.
    if path.metadata().is_ok_and(|there| !there.is_file()) {
        return Err(io::Error::other("it is there and no regular file"));
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix(".diode-");
    #[cfg(unix)]
    {
        // A temporary file is private by default; a dataset is for everybody the umask allows.
        use std::os::unix::fs::PermissionsExt as _;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    // The temporary name is nobody's concern: only what went wrong is passed on.
    builder.tempfile_in(folder(path)).map_err(|error| io::Error::from(error.kind()))
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_is_left_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data.bin");
        write_atomically(&path, b"old").unwrap();
        write_atomically(&path, b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        check_writable(&path).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(check_writable(dir.path()).is_err(), "a folder is no file");
        assert!(check_writable(&dir.path().join("no/data.bin")).is_err());
    }

    #[test]
    fn errors_name_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing.json");
        assert!(read_file(&missing).unwrap_err().to_string().contains("missing.json: "));
        let broken = dir.path().join("broken.json");
        write_atomically(&broken, b"{").unwrap();
        let message = read_file(&broken).unwrap_err().to_string();
        assert!(message.contains("broken.json: truncated JSON at line 1"), "{message}");
    }
}
