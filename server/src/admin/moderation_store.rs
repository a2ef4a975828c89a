//! What administrators do to uploads, with the log of it, and what users report.

use std::collections::BTreeSet;

use diode_api::{Moderation, ModerationAction, ModerationSubject, NewReport, Reason, Standing};
use diode_core::hardware::{Facts, Hardware};
use diode_core::ids::{AccountId, AccountName, AgentId, Digest, HardwareSlug, UploadId};

use crate::blobs::{BlobKey, BlobKind};
use crate::boards::entry_store::View;
use crate::store::Store;
use crate::store::connection::Connection;
use crate::store::connection::{Exclusive, Lockable, in_transaction};
use crate::store::fields::{optional, parse, readable_row};
use crate::store::statement::Statement;
use crate::store::{Now, StoreResult};
use crate::uploads::solutions::{Damaged, Unpacked};
use crate::uploads::standing_store::read_standing;

/// The result of a moderation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    pub uploads: Vec<UploadId>,
    /// Files that no upload and no snapshot names any more.
    pub files: Vec<BlobKey>,
}

/// Who did what, when, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// As RFC 3339.
    pub at: String,
    /// The name of an account, or `command line`.
    pub who: String,
    /// Such as `quarantine upload 0123456789abcdef (1)`; the number is that of the uploads changed.
    pub what: String,
    pub why: String,
}

/// A report, as administrators see it.
#[derive(Debug, Clone)]
pub struct Report {
    pub at: String,
    pub upload: UploadId,
    /// Who reported it; absent if the account is gone.
    pub who: Option<AccountName>,
    pub reason: Reason,
}

readable_row!(LogEntry { at, who, what, why });

readable_row!(Report { at, upload, who, reason } => Report {
    at,
    upload: parse("upload id", upload)?,
    who: optional("account name", who)?,
    reason: parse("reason", reason)?,
});

/// Which uploads are listed.
#[derive(Debug, Clone, Default)]
pub struct UploadFilter {
    pub contributor: Option<AccountName>,
    pub standing: Option<Standing>,
}

/// A removal computes entries at once until it has read this many timings. The other entries follow later, as
/// after a large upload.
const REFRESHED_TIMINGS: u64 = 1 << 20;

impl Store {
    /// Carries out a moderation, and writes it to the log. Boards, tables and datasets follow at once; entries of
    /// large uploads follow within seconds. `None` if there is no such upload or account.
    pub async fn moderate(&self, moderation: &Moderation, who: &str, now: Now) -> StoreResult<Option<Done>> {
        in_transaction!(self, async |db| {
            let done = db.act_on_uploads(moderation, now).await?;
            if let Some(done) = &done {
                let what = format!("{} {} ({})", moderation.action, moderation.subject, done.uploads.len());
                db.write_down(&what, &moderation.reason, who, now).await?;
            }
            Ok(done)
        })
    }

    /// Confirms the stored facts of a hardware, or replaces them with `facts` and confirms these. Writes it to the
    /// log. Times that arrive later are judged by the confirmed facts. `false` if there are no facts to confirm.
    pub async fn confirm_hardware(
        &self,
        slug: &HardwareSlug,
        facts: Option<&Facts>,
        why: &Reason,
        who: &str,
        now: Now,
    ) -> StoreResult<bool> {
        in_transaction!(self, async |db| {
            let confirmed = db.confirm_facts(slug, facts).await?;
            if confirmed {
                db.write_down(&format!("confirm hardware {slug}"), why, who, now).await?;
            }
            Ok(confirmed)
        })
    }

    /// Gives work again to an agent that was put aside, and writes it to the log. `false` if it was not put aside.
    pub async fn readmit_agent(
        &self,
        agent: &AgentId,
        why: &Reason,
        who: &str,
        now: Now,
    ) -> StoreResult<bool> {
        in_transaction!(self, async |db| {
            let readmitted = db.readmit_agent(agent).await?;
            if readmitted {
                db.write_down(&format!("readmit agent {agent}"), why, who, now).await?;
            }
            Ok(readmitted)
        })
    }

    /// Writes to the log an action that another part of the server did, such as a change of an account. `why` is the
    /// reason, or the way in which the action was done.
    pub async fn write_down(&self, what: &str, why: &str, who: &str, now: Now) -> StoreResult<()> {
        in_transaction!(self, async |db| { db.note_in_log(what, why, who, now).await })
    }

    /// The newest entries of the log, newest first.
    pub async fn moderation_log(&self, limit: u32) -> StoreResult<Vec<LogEntry>> {
        let db = &mut self.reader().await?;
        let select =
            Statement::new("SELECT at, who, what, why FROM moderation ORDER BY position DESC LIMIT $1");
        db.read_all(select.bind(i64::from(limit))).await
    }

    /// Why an administrator has deleted an upload with these bytes for good; `None` if nobody has.
    pub async fn removed_file(&self, digest: &Digest) -> StoreResult<Option<String>> {
        let select =
            Statement::new("SELECT reason FROM removed_files WHERE digest = $1").bind(digest.as_str());
        let row: Option<(String,)> = self.reader().await?.fetch_optional(select).await?;
        Ok(row.map(|(reason,)| reason))
    }

    /// The operator imports these bytes, whoever has deleted them before.
    pub async fn welcome_file(&self, digest: &Digest) -> StoreResult<()> {
        in_transaction!(self, async |db| {
            let delete = Statement::new("DELETE FROM removed_files WHERE digest = $1").bind(digest.as_str());
            db.execute(delete).await.map(drop)
        })
    }

    /// Adds a report; `false` if there is no such upload.
    pub async fn add_report(
        &self,
        report: &NewReport,
        account: Option<&AccountId>,
        now: Now,
    ) -> StoreResult<bool> {
        in_transaction!(self, async |db| {
            let insert = Statement::new(
        "INSERT INTO reports (at, upload, account, reason) SELECT $1, id, $2, $3 FROM uploads WHERE id = $4",
    )
    .bind(now.rfc3339())
    .bind(account.map(AccountId::as_str))
    .bind(report.reason.as_str())
    .bind(report.upload.as_str());
            Ok(db.execute(insert).await? == 1)
        })
    }

    /// The newest reports, newest first.
    pub async fn reports(&self, limit: u32) -> StoreResult<Vec<Report>> {
        let db = &mut self.reader().await?;
        let select = Statement::new(
            "SELECT r.at, r.upload, a.name AS who, r.reason FROM reports r LEFT JOIN accounts a ON a.id = \
             r.account \
             ORDER BY r.position DESC LIMIT $1",
        );
        db.read_all(select.bind(i64::from(limit))).await
    }
}

impl Connection {
    pub(crate) async fn write_down(
        &mut self,
        what: &str,
        why: &Reason,
        who: &str,
        now: Now,
    ) -> StoreResult<()> {
        self.note_in_log(what, why.as_str(), who, now).await
    }

    /// Writes an entry whose reason the server itself gives.
    pub(crate) async fn note_in_log(
        &mut self,
        what: &str,
        why: &str,
        who: &str,
        now: Now,
    ) -> StoreResult<()> {
        let insert = Statement::new("INSERT INTO moderation (at, who, what, why) VALUES ($1, $2, $3, $4)")
            .bind(now.rfc3339())
            .bind(who)
            .bind(what)
            .bind(why);
        self.execute(insert).await?;
        Ok(())
    }

    async fn act_on_uploads(&mut self, moderation: &Moderation, now: Now) -> StoreResult<Option<Done>> {
        self.turn(Exclusive::Owners).await?;
        let Some(found) = self.uploads_of_subject(&moderation.subject).await? else { return Ok(None) };
        let mut done = Done { uploads: Vec::new(), files: Vec::new() };
        let ids: Vec<UploadId> = found.iter().map(|(id, _)| id.clone()).collect();
        self.lock_hardware_of(&ids).await?;
        let found = found.into_iter().filter(|(_, before)| !is_so_already(moderation.action, *before));
        let ids: Vec<UploadId> = found.map(|(id, _)| id).collect();
        let mut touched = BTreeSet::new();
        let handed_over = self.hand_over_taken(moderation, &ids, &mut touched).await?;
        for upload in ids.into_iter().filter(|id| !handed_over.contains(id)) {
            touched.extend(self.views_of_upload(&upload).await?);
            match moderation.action {
                ModerationAction::Quarantine => {
                    self.set_upload_reason(&upload, Some(moderation.reason.as_str())).await?;
                    self.set_standing(&upload, Standing::Quarantined).await?;
                    self.reopen_work_of_upload(&upload).await?;
                }
                ModerationAction::Restore => {
                    self.set_upload_reason(&upload, None).await?;
                    self.set_standing(&upload, Standing::Counts).await?;
                }
                ModerationAction::Vouch => drop(self.vouch_for(&upload).await?),
                ModerationAction::Delete => {
                    self.remember_removed(&upload, &moderation.reason).await?;
                    done.files.extend(self.delete_upload(&upload).await?);
                }
            }
            done.uploads.push(upload);
        }
        self.make_entries_anew(&touched).await?;
        match moderation.action {
            ModerationAction::Restore => self.fence_again(&done.uploads).await?,
            ModerationAction::Vouch => {
                for upload in &done.uploads {
                    self.note_upload_change(upload, "vouched for").await?;
                }
            }
            ModerationAction::Quarantine | ModerationAction::Delete => {
                self.take_back_models_of(&done.uploads, now).await?;
            }
        }
        Ok(Some(done))
    }

    /// If a moderation takes the uploads of a contributor, uploads that others sent, too, pass to those others.
    /// Uploads that the moderation names by their id or by their agent do not pass to others.
    async fn hand_over_taken(
        &mut self,
        moderation: &Moderation,
        uploads: &[UploadId],
        touched: &mut BTreeSet<View>,
    ) -> StoreResult<Vec<UploadId>> {
        let is_taken = matches!(moderation.action, ModerationAction::Quarantine | ModerationAction::Delete);
        let is_meant =
            matches!(moderation.subject, ModerationSubject::Upload(_) | ModerationSubject::Agent(_));
        if !is_taken || is_meant {
            return Ok(Vec::new());
        }
        let handed_over = self.hand_over_uploads(uploads).await?;
        for upload in &handed_over {
            self.restate_solutions(upload).await?;
            self.note_upload_change(upload, "handed over").await?;
            touched.extend(self.views_of_upload(upload).await?);
        }
        Ok(handed_over)
    }

    /// Uploads that were fenced before their quarantine are fenced again, before anybody sees them.
    async fn fence_again(&mut self, uploads: &[UploadId]) -> StoreResult<()> {
        let mut touched: BTreeSet<View> = BTreeSet::new();
        for upload in uploads {
            if self.judge_upload(upload).await? {
                touched.extend(self.views_of_upload(upload).await?);
            }
        }
        self.make_entries_anew(&touched).await
    }

    /// The uploads and their standing; `None` if there is no such upload or account.
    async fn uploads_of_subject(
        &mut self,
        subject: &ModerationSubject,
    ) -> StoreResult<Option<Vec<(UploadId, Standing)>>> {
        let select = Statement::new("SELECT id, standing FROM uploads WHERE ");
        let select = match subject {
            ModerationSubject::Upload(id) => select.push("id = ").push_bind(id.as_str()),
            ModerationSubject::Account(name) => {
                let Some(account) = self.lock_account(name).await? else { return Ok(None) };
                select.push("account = ").push_bind(account)
            }
            ModerationSubject::Agent(id) => select
                .push("id IN (SELECT w.upload FROM work w JOIN leases l ON l.id = w.lease WHERE l.agent = ")
                .push_bind(id.as_str())
                .push(")"),
            ModerationSubject::Anonymous => select.push("account IS NULL"),
        };
        let rows: Vec<(String, i64)> = self.fetch_all(select.push(" ORDER BY id")).await?;
        let upload = |(id, standing)| Ok((parse("upload id", id)?, read_standing(standing)?));
        let found = rows.into_iter().map(upload).collect::<Result<Vec<_>, Damaged>>()?;
        let is_unknown = found.is_empty() && matches!(subject, ModerationSubject::Upload(_));
        Ok((!is_unknown).then_some(found))
    }

    /// Locks an account. Waits for its uploads that are under way.
    async fn lock_account(&mut self, name: &AccountName) -> StoreResult<Option<String>> {
        let select = Statement::new("SELECT id FROM accounts WHERE name = $1").bind(name.as_str());
        let row: Option<(String,)> = self.fetch_optional(select).await?;
        let Some((id,)) = row else { return Ok(None) };
        let account: AccountId = parse("account id", id)?;
        self.claim(Lockable::Account(&account)).await?;
        // The account may have been deleted meanwhile.
        let select = Statement::new("SELECT id FROM accounts WHERE id = $1").bind(account.as_str());
        let row: Option<(String,)> = self.fetch_optional(select.push(self.lock_row())).await?;
        Ok(row.map(|(id,)| id))
    }

    /// The same bytes are refused from now on.
    async fn remember_removed(&mut self, upload: &UploadId, reason: &Reason) -> StoreResult<()> {
        let insert = Statement::new(
            "INSERT INTO removed_files (digest, reason) SELECT digest, $1 FROM uploads WHERE id = $2 \
             ON CONFLICT (digest) DO UPDATE SET reason = excluded.reason",
        );
        self.execute(insert.bind(reason.as_str()).bind(upload.as_str())).await?;
        Ok(())
    }

    async fn set_upload_reason(&mut self, upload: &UploadId, reason: Option<&str>) -> StoreResult<()> {
        let update = Statement::new("UPDATE uploads SET reason = $1 WHERE id = $2");
        self.execute(update.bind(reason).bind(upload.as_str())).await?;
        Ok(())
    }

    /// The views of an upload's solutions.
    pub(crate) async fn views_of_upload(&mut self, upload: &UploadId) -> StoreResult<Vec<View>> {
        let select = Statement::new(
            "SELECT DISTINCT hardware, problem, method FROM solutions \
             WHERE id IN (SELECT solution FROM sent WHERE upload = $1)",
        );
        self.fetch_views(select.bind(upload.as_str())).await
    }

    /// Deletes an upload. Its hardware must be locked. Solutions that others sent, too, become theirs. Returns
    /// the file of the upload, and the files of the snapshots that have it.
    pub(crate) async fn delete_upload(&mut self, upload: &UploadId) -> StoreResult<Vec<BlobKey>> {
        // The upload is quarantined first. So solutions that stay count only because of the other uploads.
        self.set_standing(upload, Standing::Quarantined).await?;
        self.reopen_work_of_upload(upload).await?;
        let delete = Statement::new(
            "DELETE FROM solutions WHERE id IN (SELECT solution FROM sent WHERE upload = $1) \
             AND NOT EXISTS (SELECT 1 FROM sent o WHERE o.solution = solutions.id AND o.upload <> $1)",
        );
        self.execute(delete.bind(upload.as_str())).await?;
        let delete =
            Statement::new("DELETE FROM uploads WHERE id = $1 RETURNING digest").bind(upload.as_str());
        let file: Option<(String,)> = self.fetch_optional(delete).await?;
        let mut files = self.remove_snapshots_with(upload).await?;
        if let Some((digest,)) = file {
            files.push((BlobKind::Upload, parse("upload digest", digest)?));
        }
        Ok(files)
    }

    /// Computes the entries of some views anew. Their hardware must be locked. Some are computed at once, up to a
    /// limit, and the others later. Until then the others have no entry, because the old entry includes removed
    /// solutions.
    pub(crate) async fn make_entries_anew(&mut self, views: &BTreeSet<View>) -> StoreResult<()> {
        for view in views {
            self.remove_entry(view).await?;
        }
        let slugs: BTreeSet<_> = views.iter().map(|view| &view.hardware).collect();
        let mut known: Vec<Hardware> = Vec::with_capacity(slugs.len());
        for slug in slugs {
            known.extend(self.lock_hardware(slug).await?);
        }
        let left = self.refresh_entries(&known, views, REFRESHED_TIMINGS, &Unpacked::new()).await?;
        for hardware in &known {
            self.bump_revision(&hardware.slug).await?;
        }
        for view in views.iter().filter(|view| !left.contains(view)) {
            self.unmark_stale(view).await?;
        }
        self.mark_stale(&left.into_iter().collect::<Vec<_>>()).await
    }
}

fn is_so_already(action: ModerationAction, standing: Standing) -> bool {
    match action {
        ModerationAction::Quarantine => standing == Standing::Quarantined,
        ModerationAction::Restore => standing != Standing::Quarantined,
        ModerationAction::Delete | ModerationAction::Vouch => false,
    }
}
