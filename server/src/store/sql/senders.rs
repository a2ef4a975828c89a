//! The accounts that sent the same bytes as an earlier account.

use diode_api::UploadLicence;
use diode_core::ids::{AccountId, UploadId};

use super::inserts::ROWS_PER_STATEMENT;
use crate::store::connection::{Connection, Lockable};
use crate::store::error::StoreResult;
use crate::store::fields::parse;
use crate::store::statement::Statement;

/// Stores that a stored upload was sent again; `false` if the upload no longer exists.
pub(super) async fn add(
    db: &mut Connection,
    upload: &UploadId,
    account: Option<&AccountId>,
    licence: &UploadLicence,
) -> StoreResult<bool> {
    if let Some(account) = account {
        // A deletion of an account locks the account before its uploads, so this does, too.
        db.keep(Lockable::Account(account)).await?;
        let keep = Statement::new("SELECT id FROM accounts WHERE id = $1").bind(account.as_str());
        let _kept: Option<(String,)> = db.fetch_optional(keep.push(db.keep_row())).await?;
    }
    let select = Statement::new("SELECT account FROM uploads WHERE id = $1").bind(upload.as_str());
    let row: Option<(Option<String>,)> = db.fetch_optional(select.push(db.lock_row())).await?;
    let Some((first,)) = row else { return Ok(false) };
    if first.as_deref() == account.map(AccountId::as_str) {
        raise(db, upload, licence).await?;
    } else if let Some(account) = account {
        let insert = Statement::new(
            "INSERT INTO senders (upload, account, licence, licence_basis, terms) VALUES ($1, $2, $3, $4, $5) \
             ON CONFLICT (upload, account) DO UPDATE SET licence = excluded.licence, \
             licence_basis = excluded.licence_basis, terms = excluded.terms \
             WHERE COALESCE(senders.terms, 0) < excluded.terms",
        );
        let insert = insert.bind(upload.as_str()).bind(account.as_str());
        db.execute(bind_licence(insert, licence)).await?;
    }
    Ok(true)
}

/// Applies the newest terms that the sender of an upload has agreed to, with their licence.
async fn raise(db: &mut Connection, upload: &UploadId, licence: &UploadLicence) -> StoreResult<()> {
    let update = Statement::new(
        "UPDATE uploads SET licence = $1, licence_basis = $2, terms = $3 \
         WHERE id = $4 AND COALESCE(terms, 0) < $3",
    );
    db.execute(bind_licence(update, licence).bind(upload.as_str())).await?;
    Ok(())
}

fn bind_licence(statement: Statement, licence: &UploadLicence) -> Statement {
    let terms = licence.terms.map(i64::from);
    statement.bind(licence.spdx.as_str()).bind(licence.basis.as_str()).bind(terms)
}

/// Each upload that other accounts sent, too, passes to one of them, with the licence under which that account
/// sent it. Returns these uploads.
pub(super) async fn hand_over(db: &mut Connection, uploads: &[UploadId]) -> StoreResult<Vec<UploadId>> {
    let mut rows: Vec<(String,)> = Vec::new();
    for chunk in uploads.chunks(ROWS_PER_STATEMENT) {
        let update = Statement::new(
            "UPDATE uploads SET account = (SELECT MIN(account) FROM senders WHERE upload = uploads.id), \
             licence = (SELECT s.licence FROM senders s WHERE s.upload = uploads.id ORDER BY s.account LIMIT 1), \
             licence_basis = \
                 (SELECT s.licence_basis FROM senders s WHERE s.upload = uploads.id ORDER BY s.account LIMIT 1), \
             terms = (SELECT s.terms FROM senders s WHERE s.upload = uploads.id ORDER BY s.account LIMIT 1) \
             WHERE id IN (SELECT upload FROM senders) AND id IN (",
        );
        let update = update.push_list(chunk.iter().map(UploadId::as_str)).push(") RETURNING id");
        rows.extend(db.fetch_all::<(String,)>(update).await?);
    }
    let delete = "DELETE FROM senders WHERE EXISTS \
                  (SELECT 1 FROM uploads u WHERE u.id = senders.upload AND u.account = senders.account)";
    db.execute(Statement::new(delete)).await?;
    Ok(rows.into_iter().map(|(id,)| parse("upload id", id)).collect::<Result<_, _>>()?)
}
