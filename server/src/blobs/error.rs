use std::error::Error;
use std::io;
use std::iter::successors;

use diode_core::ids::Digest;

/// Codes and messages by which S3-compatible storage says that it is full.
const FULL: [&str; 4] = ["QuotaExceeded", "StorageFull", "quota is reached", "507 Insufficient Storage"];

/// The message includes the cause, so there is no `source`: the cause would be printed twice.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// The place for blobs cannot be used.
    #[error("the blobs in {home} cannot be used: {cause}")]
    Home { home: String, cause: Box<dyn Error + Send + Sync> },

    #[error("blob {digest} could not be {action}: {cause}")]
    Access { digest: Digest, action: &'static str, cause: object_store::Error },
}

/// What a failure means for whoever needed the blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    Full,
    /// Trying again later may help.
    Unavailable,
    /// The storage works, but it does not have the blob.
    Missing,
}

impl BlobError {
    pub(crate) fn trouble(&self) -> Trouble {
        let cause: &(dyn Error + 'static) = match self {
            Self::Home { cause, .. } => cause.as_ref(),
            Self::Access { cause, .. } => cause,
        };
        let causes = successors(Some(cause), |&cause| cause.source());
        let mut io = causes.filter_map(|cause| cause.downcast_ref::<io::Error>());
        let text = self.to_string();
        if io.any(is_full) || FULL.iter().any(|words| text.contains(words)) {
            return Trouble::Full;
        }
        match self {
            Self::Access { cause: object_store::Error::NotFound { .. }, .. }
                if !text.contains("NoSuchBucket") =>
            {
                Trouble::Missing
            }
            _ => Trouble::Unavailable,
        }
    }
}

/// Whether a disk, a quota or a file's size limit is used up.
pub(crate) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(cause: object_store::Error) -> Trouble {
        BlobError::Access { digest: Digest::of(b"x"), action: "stored", cause }.trouble()
    }

    fn generic(source: impl Into<Box<dyn Error + Send + Sync>>) -> object_store::Error {
        object_store::Error::Generic { store: "S3", source: source.into() }
    }

    #[test]
    fn what_is_full_what_is_away_and_what_is_missing_differ() {
        let disk = io::Error::from(io::ErrorKind::StorageFull);
        assert_eq!(stored(generic(disk)), Trouble::Full);
        for words in ["403 Forbidden: <Code>QuotaExceeded</Code>", "507 Insufficient Storage: "] {
            assert_eq!(stored(generic(words)), Trouble::Full);
        }
        assert_eq!(stored(generic("connection refused")), Trouble::Unavailable);
        let absent = |source: &str| object_store::Error::NotFound { path: "x".into(), source: source.into() };
        assert_eq!(stored(absent("<Code>NoSuchKey</Code>")), Trouble::Missing);
        assert_eq!(stored(absent("<Code>NoSuchBucket</Code>")), Trouble::Unavailable);
    }
}
