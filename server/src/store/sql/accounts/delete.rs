use std::collections::BTreeSet;

use diode_api::Uploads;
use diode_core::ids::{AccountId, UploadId};

use crate::blobs::BlobKey;
use crate::store::connection::{Connection, Exclusive, Lockable};
use crate::store::error::StoreResult;
use crate::store::fields::parse;
use crate::store::sql::{agents, contributions, hardware, removal, senders, standing};
use crate::store::statement::Statement;
use crate::store::types::Now;

/// Deletes an account. An upload that other accounts sent, too, then belongs to one of them.
pub(super) async fn delete(
    db: &mut Connection,
    account: &AccountId,
    uploads: Uploads,
    now: Now,
) -> StoreResult<Vec<BlobKey>> {
    db.turn(Exclusive::Owners).await?;
    // Waits for uploads of this account that are under way. Uploads that begin later are refused.
    db.claim(Lockable::Account(account)).await?;
    let lock = Statement::new("SELECT id FROM accounts WHERE id = $1").bind(account.as_str());
    let _locked: Option<(String,)> = db.fetch_optional(lock.push(db.lock_row())).await?;
    let all = uploads_of(db, account).await?;
    let mut slugs = standing::hardware_of_all(db, &all).await?;
    slugs.extend(contributions::hardware_of_account(db, account).await?);
    hardware::lock_all(db, &slugs).await?;
    let handed_over = senders::hand_over(db, &all).await?;
    let (mut touched, mut files) = (BTreeSet::new(), Vec::new());
    for upload in &all {
        touched.extend(removal::views(db, upload).await?);
        if uploads == Uploads::Delete && !handed_over.contains(upload) {
            files.extend(removal::delete(db, upload).await?);
        }
    }
    files.extend(contributions::remove_of_account(db, account, uploads, now).await?);
    agents::reopen_of_account(db, account).await?;
    // The database clears the account of the uploads that stay.
    db.execute(Statement::new("DELETE FROM accounts WHERE id = $1").bind(account.as_str())).await?;
    for upload in &all {
        standing::restate(db, upload).await?;
    }
    for slug in touched.iter().map(|view| &view.hardware).collect::<BTreeSet<_>>() {
        hardware::changed(db, slug, account.as_str()).await?;
    }
    removal::make_anew(db, &touched).await?;
    Ok(files)
}

async fn uploads_of(db: &mut Connection, account: &AccountId) -> StoreResult<Vec<UploadId>> {
    let select = Statement::new("SELECT id FROM uploads WHERE account = $1").bind(account.as_str());
    let rows: Vec<(String,)> = db.fetch_all(select).await?;
    Ok(rows.into_iter().map(|(id,)| parse("upload id", id)).collect::<Result<_, _>>()?)
}
