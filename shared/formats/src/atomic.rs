//! Replaces a file in one step.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

/// Replaces a file. A crash at any moment leaves the old or the new content, never a part. After
/// this has returned, even a power cut leaves the new content.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // Datasets get the permissions that the umask allows.
    write(path, bytes, 0o666, true)
}

/// Writes a new file. The error is [`io::ErrorKind::AlreadyExists`] if anything has its name, however late it came.
pub fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write(path, bytes, 0o666, false)
}

/// Replaces a file that only its owner may read.
pub fn write_privately(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write(path, bytes, 0o600, true)
}

fn write(path: &Path, bytes: &[u8], mode: u32, replaces: bool) -> io::Result<()> {
    let mut file = temporary(path, mode)?;
    file.as_file_mut().write_all(bytes)?;
    file.as_file().sync_all()?;
    if replaces {
        file.persist(path)?
    } else {
        file.persist_noclobber(path)?
    };
    // The folder must be synced, so that the rename lasts. Only Unix can open folders.
    #[cfg(unix)]
    File::open(folder(path))?.sync_all()?;
    Ok(())
}

/// Whether [`write_atomically`] could write here now. Programs ask before they begin long work.
pub fn check_writable(path: &Path) -> io::Result<()> {
    temporary(path, 0o600).map(drop)
}

/// An empty file beside the file that it will replace.
fn temporary(path: &Path, mode: u32) -> io::Result<tempfile::NamedTempFile> {
    // The rename would also replace a device or a folder, which nobody intends.
    if path.metadata().is_ok_and(|there| !there.is_file()) {
        return Err(io::Error::other("exists and is not a regular file"));
    }
    folder(path).metadata()?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".diode-");
    #[cfg(not(unix))]
    let _ = mode;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        builder.permissions(std::fs::Permissions::from_mode(mode));
    }
    // Only the kind of the error is kept. Its text holds the temporary file's name, which users do
    // not know.
    builder.tempfile_in(folder(path)).map_err(|error| io::Error::from(error.kind()))
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_replaces_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new");
        write_new(&path, b"first").unwrap();
        assert_eq!(write_new(&path, b"second").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"first");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_private_file_is_its_owners() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        write_atomically(&path, b"open").unwrap();
        write_privately(&path, b"closed").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

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
}
