//! Identifies the file or folder at a path. A server must not go on writing into a moved or deleted file or
//! folder: it would acknowledge data that nobody finds again.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A path, and the file or folder that it named when it was opened.
#[derive(Debug, Clone)]
pub(crate) struct PathIdentity {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl PathIdentity {
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let found = std::fs::metadata(path)?;
        Ok(Self { path: path.to_owned(), device: found.dev(), inode: found.ino() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Fails unless the path still names the same file or folder.
    pub(crate) fn check(&self) -> io::Result<()> {
        let refuse = |what: &str| {
            let message = format!("{}: {what}; put it back, or restart the server", self.path.display());
            io::Error::other(message)
        };
        match Self::of(&self.path) {
            Ok(now) if (now.device, now.inode) == (self.device, self.inode) => Ok(()),
            Ok(_) => Err(refuse("it is another one than when the server was started")),
            Err(error) => Err(refuse(&error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_moved_away_is_missed_until_it_is_back() {
        let folder = tempfile::tempdir().unwrap();
        let (path, away) = (folder.path().join("blobs"), folder.path().join("away"));
        std::fs::create_dir(&path).unwrap();
        let place = PathIdentity::of(&path).unwrap();
        place.check().unwrap();
        std::fs::rename(&path, &away).unwrap();
        let error = place.check().unwrap_err().to_string();
        assert!(error.contains("put it back"), "{error}");
        std::fs::create_dir(&path).unwrap();
        let error = place.check().unwrap_err().to_string();
        assert!(error.contains("another one"), "{error}");
        std::fs::remove_dir(&path).unwrap();
        std::fs::rename(&away, &path).unwrap();
        place.check().unwrap();
    }
}
