//! Kernel packs in the database. Their bytes are blobs.

use diode_api::PackSummary;
use diode_core::ids::Digest;

use crate::store::Store;
use crate::store::StoreResult;
use crate::store::fields::{from_json, json};
use crate::store::statement::Statement;

const SELECT_PACKS: &str = "SELECT summary FROM packs";

impl Store {
    /// Adds a pack; `false` if it existed already.
    pub async fn add_pack(&self, pack: &PackSummary) -> StoreResult<bool> {
        let insert = Statement::new(
            "INSERT INTO packs (digest, arch, summary) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
        )
        .bind(pack.digest.as_str())
        .bind(pack.architecture.as_str())
        .bind(json("pack", pack)?);
        let mut tx = self.writer().await?;
        let added = tx.execute(insert).await? == 1;
        tx.commit().await?;
        Ok(added)
    }

    /// The newest packs, for one architecture or for all, the newest first.
    pub async fn packs(&self, architecture: Option<&str>, newest: u32) -> StoreResult<Vec<PackSummary>> {
        let mut select = Statement::new(SELECT_PACKS);
        if let Some(architecture) = architecture {
            select = select.push(" WHERE arch = ").push_bind(architecture);
        }
        let select = select.push(" ORDER BY position DESC LIMIT ").push_bind(i64::from(newest));
        let rows: Vec<(String,)> = self.reader().await?.fetch_all(select).await?;
        Ok(rows.iter().map(|(summary,)| from_json("pack", summary)).collect::<Result<_, _>>()?)
    }

    /// One pack; `None` if there is none with this digest.
    pub async fn pack(&self, digest: &Digest) -> StoreResult<Option<PackSummary>> {
        let select = Statement::new(SELECT_PACKS).push(" WHERE digest = ").push_bind(digest.as_str());
        let row: Option<(String,)> = self.reader().await?.fetch_optional(select).await?;
        Ok(row.map(|(summary,)| from_json("pack", &summary)).transpose()?)
    }

    /// Removes a pack; `false` if there was none.
    pub async fn remove_pack(&self, digest: &Digest) -> StoreResult<bool> {
        let delete = Statement::new("DELETE FROM packs WHERE digest = $1").bind(digest.as_str());
        let mut tx = self.writer().await?;
        let removed = tx.execute(delete).await? == 1;
        tx.commit().await?;
        Ok(removed)
    }
}
