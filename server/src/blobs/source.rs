use std::io;

use axum::body::Bytes;
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;

/// The size of each part except the last: the smallest that S3 accepts. One part of a large blob is in memory
/// at a time.
pub(super) const PART_BYTES: usize = 5 << 20;

/// Where the bytes of a blob come from.
pub(super) enum Source {
    Memory(Bytes),
    File(File),
}

impl Source {
    /// The next part; `None` at the end.
    pub(super) async fn next(&mut self) -> io::Result<Option<Bytes>> {
        let part = match self {
            Self::Memory(rest) => rest.split_to(PART_BYTES.min(rest.len())),
            Self::File(file) => {
                let mut part = Vec::with_capacity(PART_BYTES);
                file.take(PART_BYTES as u64).read_to_end(&mut part).await?;
                part.into()
            }
        };
        Ok((!part.is_empty()).then_some(part))
    }
}
