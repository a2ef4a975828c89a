use std::collections::BTreeSet;

use diode_core::api::Uploads;
use diode_core::hardware::Hardware;
use diode_core::ids::{AccountId, Digest, HardwareSlug};

use crate::store::error::StoreResult;
use crate::store::sql::connection::Connection;
use crate::store::sql::fields::parse;
use crate::store::sql::statement::Statement;
use crate::store::sql::{board_entries, hardware, stale_entries};

/// Entries of so many timings are made anew at once; the others follow, as after a large upload.
const REFRESHED_TIMINGS: u64 = 1 << 20;

pub(super) async fn delete<C: Connection>(
    db: &mut C,
    account: &AccountId,
    uploads: Uploads,
) -> StoreResult<Vec<Digest>> {
    // Uploads of this account that are on their way end first; later ones are refused.
    let lock = Statement::new("SELECT id FROM accounts WHERE id = $1").bind(account.as_str());
    let _locked: Option<(String,)> = db.fetch_optional(lock.push(C::LOCK_ROW)).await?;
    let files = match uploads {
        // The database takes the account off them.
        Uploads::Keep => Vec::new(),
        Uploads::Delete => delete_uploads(db, account).await?,
    };
    db.execute(Statement::new("DELETE FROM accounts WHERE id = $1").bind(account.as_str())).await?;
    Ok(files)
}

async fn delete_uploads(db: &mut impl Connection, account: &AccountId) -> StoreResult<Vec<Digest>> {
    let touched = board_entries::account_views(db, account).await?;
    let slugs: BTreeSet<&HardwareSlug> = touched.iter().map(|view| &view.hardware).collect();
    let known = lock(db, slugs, account).await?;
    let delete =
        Statement::new("DELETE FROM solutions WHERE upload IN (SELECT id FROM uploads WHERE account = $1)");
    db.execute(delete.bind(account.as_str())).await?;
    for view in &touched {
        board_entries::remove(db, view).await?;
    }
    let left = board_entries::refresh(db, &known, &touched, REFRESHED_TIMINGS).await?;
    stale_entries::add(db, &left.into_iter().collect::<Vec<_>>()).await?;
    let delete = Statement::new("DELETE FROM uploads WHERE account = $1 RETURNING digest");
    let files: Vec<(String,)> = db.fetch_all(delete.bind(account.as_str())).await?;
    let digest = |(digest,)| parse("upload digest", digest);
    Ok(files.into_iter().map(digest).collect::<Result<_, _>>()?)
}

/// Keeps uploads for some hardware waiting, in the order in which uploads lock it.
async fn lock(
    db: &mut impl Connection,
    slugs: BTreeSet<&HardwareSlug>,
    account: &AccountId,
) -> StoreResult<Vec<Hardware>> {
    let mut known = Vec::with_capacity(slugs.len());
    for slug in slugs {
        known.extend(hardware::lock(db, slug).await?);
        hardware::removed_from(db, slug, account.as_str()).await?;
    }
    Ok(known)
}
