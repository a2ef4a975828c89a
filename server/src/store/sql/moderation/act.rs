//! What administrators do, with entries in the log.

use std::collections::BTreeSet;

use diode_api::{Moderation, ModerationAction, ModerationSubject, Reason, Standing};
use diode_core::hardware::Facts;
use diode_core::ids::{AccountId, AccountName, AgentId, HardwareSlug, UploadId};

use crate::solutions::Damaged;
use crate::store::connection::{Connection, Exclusive, Lockable};
use crate::store::error::StoreResult;
use crate::store::fields::parse;
use crate::store::moderation::Done;
use crate::store::sql::log::write_down;
use crate::store::sql::{agents, fencing, hardware, removal, senders, standing};
use crate::store::statement::Statement;
use crate::store::types::{Now, View};

/// Carries out a moderation, and writes it to the log.
pub(super) async fn moderate(
    db: &mut Connection,
    moderation: &Moderation,
    who: &str,
    now: Now,
) -> StoreResult<Option<Done>> {
    let done = act(db, moderation).await?;
    if let Some(done) = &done {
        let what = format!("{} {} ({})", moderation.action, moderation.subject, done.uploads.len());
        write_down(db, &what, &moderation.reason, who, now).await?;
    }
    Ok(done)
}

pub(super) async fn confirm_hardware(
    db: &mut Connection,
    slug: &HardwareSlug,
    facts: Option<&Facts>,
    why: &Reason,
    who: &str,
    now: Now,
) -> StoreResult<bool> {
    let confirmed = hardware::confirm(db, slug, facts).await?;
    if confirmed {
        write_down(db, &format!("confirm hardware {slug}"), why, who, now).await?;
    }
    Ok(confirmed)
}

pub(super) async fn readmit(
    db: &mut Connection,
    agent: &AgentId,
    why: &Reason,
    who: &str,
    now: Now,
) -> StoreResult<bool> {
    let readmitted = agents::readmit(db, agent).await?;
    if readmitted {
        write_down(db, &format!("readmit agent {agent}"), why, who, now).await?;
    }
    Ok(readmitted)
}

async fn act(db: &mut Connection, moderation: &Moderation) -> StoreResult<Option<Done>> {
    db.turn(Exclusive::Owners).await?;
    let Some(found) = find(db, &moderation.subject).await? else { return Ok(None) };
    let mut done = Done { uploads: Vec::new(), files: Vec::new() };
    let ids: Vec<UploadId> = found.iter().map(|(id, _)| id.clone()).collect();
    standing::lock_hardware(db, &ids).await?;
    let found = found.into_iter().filter(|(_, before)| !is_so_already(moderation.action, *before));
    let ids: Vec<UploadId> = found.map(|(id, _)| id).collect();
    let mut touched = BTreeSet::new();
    let handed_over = hand_over(db, moderation, &ids, &mut touched).await?;
    for upload in ids.into_iter().filter(|id| !handed_over.contains(id)) {
        touched.extend(removal::views(db, &upload).await?);
        match moderation.action {
            ModerationAction::Quarantine => {
                set_reason(db, &upload, Some(moderation.reason.as_str())).await?;
                standing::set(db, &upload, Standing::Quarantined).await?;
                agents::reopen_of_upload(db, &upload).await?;
            }
            ModerationAction::Restore => {
                set_reason(db, &upload, None).await?;
                standing::set(db, &upload, Standing::Counts).await?;
            }
            ModerationAction::Delete => done.files.extend(removal::delete(db, &upload).await?),
        }
        done.uploads.push(upload);
    }
    removal::make_anew(db, &touched).await?;
    if moderation.action == ModerationAction::Restore {
        fence_again(db, &done.uploads).await?;
    }
    Ok(Some(done))
}

/// If a moderation takes the uploads of a contributor, uploads that others sent, too, pass to those others.
/// Uploads that the moderation names by their id or by their agent do not pass to others.
async fn hand_over(
    db: &mut Connection,
    moderation: &Moderation,
    uploads: &[UploadId],
    touched: &mut BTreeSet<View>,
) -> StoreResult<Vec<UploadId>> {
    let is_taken = moderation.action != ModerationAction::Restore;
    let is_meant = matches!(moderation.subject, ModerationSubject::Upload(_) | ModerationSubject::Agent(_));
    if !is_taken || is_meant {
        return Ok(Vec::new());
    }
    let handed_over = senders::hand_over(db, uploads).await?;
    for upload in &handed_over {
        standing::restate(db, upload).await?;
        standing::note_change(db, upload, "handed over").await?;
        touched.extend(removal::views(db, upload).await?);
    }
    Ok(handed_over)
}

/// Uploads that were fenced before their quarantine are fenced again, before anybody sees them.
async fn fence_again(db: &mut Connection, uploads: &[UploadId]) -> StoreResult<()> {
    let mut touched: BTreeSet<View> = BTreeSet::new();
    for upload in uploads {
        if fencing::judge(db, upload).await? {
            touched.extend(removal::views(db, upload).await?);
        }
    }
    removal::make_anew(db, &touched).await
}

fn is_so_already(action: ModerationAction, standing: Standing) -> bool {
    match action {
        ModerationAction::Quarantine => standing == Standing::Quarantined,
        ModerationAction::Restore => standing != Standing::Quarantined,
        ModerationAction::Delete => false,
    }
}

/// The uploads and their standing; `None` if there is no such upload or account.
async fn find(
    db: &mut Connection,
    subject: &ModerationSubject,
) -> StoreResult<Option<Vec<(UploadId, Standing)>>> {
    let select = Statement::new("SELECT id, standing FROM uploads WHERE ");
    let select = match subject {
        ModerationSubject::Upload(id) => select.push("id = ").push_bind(id.as_str()),
        ModerationSubject::Account(name) => {
            let Some(account) = lock_account(db, name).await? else { return Ok(None) };
            select.push("account = ").push_bind(account)
        }
        ModerationSubject::Agent(id) => select
            .push("id IN (SELECT w.upload FROM work w JOIN leases l ON l.id = w.lease WHERE l.agent = ")
            .push_bind(id.as_str())
            .push(")"),
        ModerationSubject::Anonymous => select.push("account IS NULL"),
    };
    let rows: Vec<(String, i64)> = db.fetch_all(select.push(" ORDER BY id")).await?;
    let upload = |(id, standing)| Ok((parse("upload id", id)?, standing::read(standing)?));
    let found = rows.into_iter().map(upload).collect::<Result<Vec<_>, Damaged>>()?;
    let is_unknown = found.is_empty() && matches!(subject, ModerationSubject::Upload(_));
    Ok((!is_unknown).then_some(found))
}

/// Locks an account. Waits for its uploads that are under way.
async fn lock_account(db: &mut Connection, name: &AccountName) -> StoreResult<Option<String>> {
    let select = Statement::new("SELECT id FROM accounts WHERE name = $1").bind(name.as_str());
    let row: Option<(String,)> = db.fetch_optional(select).await?;
    let Some((id,)) = row else { return Ok(None) };
    let account: AccountId = parse("account id", id)?;
    db.claim(Lockable::Account(&account)).await?;
    // The account may have been deleted meanwhile.
    let select = Statement::new("SELECT id FROM accounts WHERE id = $1").bind(account.as_str());
    let row: Option<(String,)> = db.fetch_optional(select.push(db.lock_row())).await?;
    Ok(row.map(|(id,)| id))
}

async fn set_reason(db: &mut Connection, upload: &UploadId, reason: Option<&str>) -> StoreResult<()> {
    let update = Statement::new("UPDATE uploads SET reason = $1 WHERE id = $2");
    db.execute(update.bind(reason).bind(upload.as_str())).await?;
    Ok(())
}
