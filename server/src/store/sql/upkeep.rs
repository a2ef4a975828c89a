//! What looks after the store asks: how much there is, which blobs there must be, whether writing works.

use super::connection::Connection;
use super::fields::{from_json, parse, unsigned};
use super::statement::Statement;
use crate::blobs::BlobKind;
use crate::store::error::StoreResult;
use crate::store::types::NamedBlob;
use diode_core::api::{ModelSummary, PackSummary};

/// Bytes of all uploaded files.
pub(super) async fn stored_bytes(db: &mut impl Connection) -> StoreResult<u64> {
    let select = Statement::new("SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM uploads");
    let (bytes,): (i64,) = db.fetch_one(select).await?;
    Ok(unsigned("upload size", bytes)?)
}

/// Every blob that a row names. A row that cannot be read is left out.
pub(super) async fn blobs(db: &mut impl Connection) -> StoreResult<Vec<NamedBlob>> {
    let uploads: Vec<(String, i64)> =
        db.fetch_all(Statement::new("SELECT digest, bytes FROM uploads")).await?;
    let uploads = uploads.into_iter().filter_map(|(digest, bytes)| {
        let digest = parse("upload digest", digest).ok()?;
        Some(NamedBlob { kind: BlobKind::Upload, digest, bytes: unsigned("upload size", bytes).ok()? })
    });
    let models: Vec<(String,)> = db.fetch_all(Statement::new("SELECT summary FROM models")).await?;
    let models = models.into_iter().filter_map(|(summary,)| {
        let ModelSummary { digest, bytes, .. } = from_json("model summary", &summary).ok()?;
        Some(NamedBlob { kind: BlobKind::Model, digest, bytes })
    });
    let packs: Vec<(String,)> = db.fetch_all(Statement::new("SELECT summary FROM packs")).await?;
    let packs = packs.into_iter().filter_map(|(summary,)| {
        let PackSummary { sha256, bytes, .. } = from_json("pack", &summary).ok()?;
        Some(NamedBlob { kind: BlobKind::Pack, digest: sha256, bytes })
    });
    Ok(uploads.chain(models).chain(packs).collect())
}

/// Writes a row, so that a full disk or a database that can only be read shows.
pub(super) async fn probe(db: &mut impl Connection) -> StoreResult<()> {
    let update = "INSERT INTO probe (id, writes) VALUES (1, 1) \
                  ON CONFLICT (id) DO UPDATE SET writes = probe.writes + 1";
    db.execute(Statement::new(update)).await?;
    Ok(())
}
