//! Storing a large blob part by part.

use object_store::{MultipartUpload, PutPayload};
use tokio::runtime::Handle;

use super::source::Source;

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
pub(super) fn unread(error: std::io::Error) -> object_store::Error {
    object_store::Error::Generic { store: "scratch", source: error.into() }
}
