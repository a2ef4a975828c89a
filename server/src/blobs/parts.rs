//! Storing a large blob part by part.

use std::io;

use axum::body::Bytes;
use object_store::{MultipartUpload, PutPayload};
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;
use tokio::runtime::Handle;

/// Stores all of a source, or gives up the parts that have been stored.
pub(super) async fn send(upload: Box<dyn MultipartUpload>, source: Source) -> object_store::Result<()> {
    let mut begun = Begun(Some(upload));
    let sent = begun.send(source).await;
    if let Some(mut upload) = begun.0.take()
        && sent.is_err()
    {
        // Unneeded parts take space. If the storage does not answer, it keeps them until its own rules remove
        // them.
        let _ = upload.abort().await;
    }
    sent
}

/// A blob that is being stored in parts. It is dropped early if nobody waits for it any more, as when a client
/// has gone.
struct Begun(Option<Box<dyn MultipartUpload>>);

impl Begun {
    async fn send(&mut self, mut source: Source) -> object_store::Result<()> {
        let Some(upload) = &mut self.0 else { return Ok(()) };
        while let Some(part) = source.next().await.map_err(unread)? {
            upload.put_part(PutPayload::from_bytes(part)).await?;
        }
        upload.complete().await.map(drop)
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if let Some(mut upload) = self.0.take()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(async move {
                // Gives up the parts, if it can. If all of the blob was stored at the last moment, there is
                // nothing to give up.
                let _ = upload.abort().await;
            });
        }
    }
}

/// An error of the file that a blob is read from.
pub(super) fn unread(error: io::Error) -> object_store::Error {
    object_store::Error::Generic { store: "scratch", source: error.into() }
}

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
