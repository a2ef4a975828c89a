//! Stores an upload: its rows, the entries that they change, and the lease that it ends, in one transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use diode_api::{HardwareReceipt, LibraryOn, Receipt, Standing, UploadLicence};
use diode_core::Problem;
use diode_core::hardware::{Facts, Hardware};
use diode_core::ids::{AccountId, AgentId, Digest, LeaseId, ProblemId, UploadId};

use crate::admin::moderation_store::UploadFilter;
use crate::blobs::BlobKind;
use crate::boards::consensus::fence_reason;
use crate::boards::entry_store::View;
use crate::boards::hardware_store::facts_json;
use crate::store::Store;
use crate::store::connection::Connection;
use crate::store::connection::{Lockable, in_transaction};
use crate::store::fields::{from_json, json, named, optional, parse, readable_row, terms_version, unsigned};
use crate::store::statement::{ROWS_PER_STATEMENT, Statement};
use crate::store::{StoreError, StoreResult};
use crate::uploads::solutions::{Damaged, StoredSolution, Unpacked};
use crate::uploads::standing_store::{read_standing, standing_number};

// These columns are in `uploads` and in `senders`.
readable_row!(UploadLicence { licence, licence_basis: String, terms: Option<i64> } => UploadLicence {
    spdx: licence,
    basis: named("basis of the licence", &licence_basis)?,
    terms: terms.map(terms_version).transpose()?,
});

/// An upload recomputes entries with as many timings as it brings, plus this number. So small uploads show at once,
/// and the cost of an upload does not grow with what is stored.
const FREE_TIMINGS: u64 = 100_000;

const SELECT_UPLOADS: &str = "SELECT u.id, u.digest, u.bytes, u.format, u.received_at, u.hardware, \
                              u.new_solutions, \
                              u.duplicate_solutions, a.name AS contributor, u.standing, u.reason, \
                              u.log_ratio, u.compared, \
                              u.licence, u.licence_basis, u.terms \
                              FROM uploads u LEFT JOIN accounts a ON a.id = u.account";

readable_row!(Receipt {
    ..licence: UploadLicence, id, digest, bytes, format, received_at, hardware: String, new_solutions,
    duplicate_solutions, contributor, standing, reason: Option<String>, log_ratio: Option<f64>, compared
} => {
    let compared = unsigned("problem count", compared)?;
    let standing = read_standing(standing)?;
    let fenced = log_ratio.filter(|_| standing == Standing::Fenced);
    Receipt {
        id: parse("upload id", id)?,
        digest: parse("upload digest", digest)?,
        bytes: unsigned("upload size", bytes)?,
        format,
        received_at,
        hardware: from_json("upload's hardware", &hardware)?,
        new_solutions: unsigned("solution count", new_solutions)?,
        duplicate_solutions: unsigned("solution count", duplicate_solutions)?,
        already_stored: true,
        contributor: optional("account name", contributor)?,
        standing,
        reason: reason.or(fenced.map(|log_ratio| fence_reason(log_ratio, compared))),
        log_ratio,
        compared_problems: compared,
        licence,
    }
});

/// A hardware, and the slug of the hardware that it was merged into.
type Kept = (Hardware, Option<String>);

readable_row!(Kept { ..hardware: Hardware, merged_into } => (hardware, merged_into));

/// A new upload, checked and encoded.
#[derive(Debug, Clone)]
pub struct NewUpload {
    pub id: UploadId,
    pub digest: Digest,
    pub bytes: u64,
    pub format: String,
    pub received_at: String,
    pub account: Option<AccountId>,
    /// Whether the operator vouches for it.
    pub vouched: bool,
    pub licence: UploadLicence,
    /// The lease that the upload is the result of; `None` if it is no agent's.
    pub lease: Option<ForLease>,
    pub receipts: Vec<HardwareReceipt>,
    pub hardware: Vec<Hardware>,
    pub problems: BTreeMap<ProblemId, Problem>,
    pub config_lists: BTreeMap<Digest, Vec<u8>>,
    pub solutions: Vec<StoredSolution>,
}

impl NewUpload {
    /// The solutions whose digests are in `new`.
    fn added(&self, new: &BTreeSet<String>) -> impl Iterator<Item = &StoredSolution> {
        self.solutions.iter().filter(|solution| new.contains(solution.digest.as_str()))
    }
}

/// The lease that an upload is the result of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForLease {
    pub lease: LeaseId,
    pub agent: AgentId,
    /// See [`KnownAgent::contributor`](crate::store::KnownAgent::contributor).
    pub contributor: String,
}

impl Store {
    /// The newest uploads that pass a filter, the newest first.
    pub async fn uploads(&self, filter: &UploadFilter, limit: u32) -> StoreResult<Vec<Receipt>> {
        let db = &mut self.reader().await?;
        let mut select = Statement::new(SELECT_UPLOADS).push(" WHERE 1 = 1");
        if let Some(name) = &filter.contributor {
            select = select.push(" AND a.name = ").push_bind(name.as_str());
        }
        if let Some(standing) = filter.standing {
            select = select.push(" AND u.standing = ").push_bind(standing_number(standing));
        }
        let select =
            select.push(" ORDER BY u.received_at DESC, u.id DESC LIMIT ").push_bind(i64::from(limit));
        db.read_all(select).await
    }

    /// The receipt of a stored upload; `None` if there is none.
    pub async fn receipt(&self, upload: &UploadId) -> StoreResult<Option<Receipt>> {
        self.reader().await?.receipt(upload).await
    }

    /// Stores an upload. Recomputes some of the board entries that it changes, and leaves the others for
    /// [`Self::refresh_entries`]: an upload must not cost more because the database is larger. Once this returns,
    /// the rows are durable.
    ///
    /// Bytes that are stored already change nothing, even if two calls race. The receipt then has `already_stored`
    /// set. Solutions with a known digest are counted as duplicates and left out.
    pub async fn store_upload(&self, upload: &NewUpload) -> StoreResult<Receipt> {
        // Uploads of different problems run side by side, even for one hardware. All uploads lock in this order: the
        // file, the account, the upload itself, new config lists and problems, the hardware, its problems, the lease and
        // its work. The row with the counts of the hardware comes last, because every upload changes it. Only fencing
        // comes later.
        in_transaction!(self, async |db| {
            db.keep(Lockable::File(BlobKind::Upload, &upload.digest)).await?;
            if let Some(account) = &upload.account {
                db.keep(Lockable::Account(account)).await?;
            }
            // A second upload of the same bytes waits here until the first has committed.
            if !db.insert_upload(upload).await? {
                db.add_sender(&upload.id, upload.account.as_ref(), &upload.licence).await?;
                return db.stored_receipt(&upload.id).await;
            }
            // Config lists and problems have the same rows for every upload, and these rows are never removed.
            let lists: Vec<_> = upload.config_lists.iter().collect();
            for chunk in lists.chunks(ROWS_PER_STATEMENT) {
                db.execute(insert_config_lists(chunk)).await?;
            }
            let problems: Vec<_> = upload.problems.iter().collect();
            for chunk in problems.chunks(ROWS_PER_STATEMENT) {
                db.execute(insert_problems(chunk)?).await?;
            }
            let mut known = Vec::with_capacity(upload.hardware.len());
            for given in &upload.hardware {
                known.push(db.keep_hardware(given).await?);
            }
            db.lock_problems(upload.problems.keys()).await?;
            let mut new = BTreeSet::new();
            for chunk in upload.solutions.chunks(ROWS_PER_STATEMENT) {
                let insert = insert_solutions(upload, chunk);
                let digests: Vec<(String,)> = db.fetch_all(insert).await?;
                new.extend(digests.into_iter().map(|(digest,)| digest));
                db.execute(insert_sent(&upload.id, chunk)).await?;
            }
            let mut touched: BTreeSet<_> = upload.added(&new).map(StoredSolution::view).collect();
            let mut unpacked = Unpacked::new();
            for solution in upload.added(&new) {
                // Of equal digests, the first was stored.
                if let Some(columns) = &solution.unpacked {
                    unpacked.entry(solution.digest.clone()).or_insert_with(|| Arc::clone(columns));
                }
            }
            let is_quarantined = db.inherit_quarantine(&upload.id).await?;
            if !is_quarantined {
                touched.extend(db.revive_solutions(&upload.id).await?);
                if upload.vouched {
                    touched.extend(db.vouch_for(&upload.id).await?);
                }
            }
            let own: u64 = upload.solutions.iter().map(|solution| solution.timings).sum();
            let left = db.refresh_entries(&known, &touched, own + FREE_TIMINGS, &unpacked).await?;
            db.mark_stale(&left.into_iter().collect::<Vec<_>>()).await?;
            let is_fenced = db.judge_upload(&upload.id).await?;
            if is_fenced {
                db.refresh_entries_again(&known, &touched, own + FREE_TIMINGS, &unpacked).await?;
            }
            db.settle_lease(upload, !is_quarantined && !is_fenced).await?;
            let new = new.len() as u64;
            let update = Statement::new(
                "UPDATE uploads SET new_solutions = $1, duplicate_solutions = $2 WHERE id = $3",
            )
            .bind(new)
            .bind(upload.solutions.len() as u64 - new)
            .bind(upload.id.as_str());
            db.execute(update).await?;
            let receipt = db.stored_receipt(&upload.id).await?;
            for (given, used) in upload.hardware.iter().zip(&known) {
                if !db.note_upload_of_hardware(given, used, upload).await? {
                    let of_it = |view: &&View| view.hardware == used.slug;
                    db.mark_stale(&touched.iter().filter(of_it).collect::<Vec<_>>()).await?;
                }
            }
            Ok(Receipt { already_stored: false, ..receipt })
        })
    }

    /// Until the returned value is dropped, no upload or contributed model with this file is added.
    pub async fn hold_file(&self, kind: BlobKind, digest: &Digest) -> StoreResult<Box<dyn Send>> {
        let mut tx = self.writer().await?;
        tx.claim(Lockable::File(kind, digest)).await?;
        Ok(Box::new(tx))
    }

    /// The operator vouches for a stored upload from now on. Changes nothing if they do already.
    pub async fn vouch_for_stored(&self, upload: &UploadId) -> StoreResult<()> {
        let select = Statement::new("SELECT vouched FROM uploads WHERE id = $1").bind(upload.as_str());
        let row: Option<(i64,)> = self.reader().await?.fetch_optional(select).await?;
        if row.is_none_or(|(vouched,)| vouched != 0) {
            return Ok(());
        }
        in_transaction!(self, async |db| {
            db.lock_hardware_of(std::slice::from_ref(upload)).await?;
            let views = db.vouch_for(upload).await?;
            db.note_upload_change(upload, "vouched for").await?;
            db.make_entries_anew(&views.into_iter().collect()).await
        })
    }

    /// Stores that the bytes of a stored upload were sent again. Another account becomes a second sender, so that
    /// the upload stays if the first sender deletes it. If the same sender has since agreed to newer terms, these
    /// count. `false` if the upload no longer exists.
    pub async fn add_sender(
        &self,
        upload: &UploadId,
        account: Option<&AccountId>,
        licence: &UploadLicence,
    ) -> StoreResult<bool> {
        in_transaction!(self, async |db| { db.add_sender(upload, account, licence).await })
    }
}

impl Connection {
    /// Stores that a stored upload was sent again; `false` if the upload no longer exists.
    pub(crate) async fn add_sender(
        &mut self,
        upload: &UploadId,
        account: Option<&AccountId>,
        licence: &UploadLicence,
    ) -> StoreResult<bool> {
        if let Some(account) = account {
            // A deletion of an account locks the account before its uploads, so this does, too.
            self.keep(Lockable::Account(account)).await?;
            let keep = Statement::new("SELECT id FROM accounts WHERE id = $1").bind(account.as_str());
            let _kept: Option<(String,)> = self.fetch_optional(keep.push(self.keep_row())).await?;
        }
        let select = Statement::new("SELECT account FROM uploads WHERE id = $1").bind(upload.as_str());
        let row: Option<(Option<String>,)> = self.fetch_optional(select.push(self.lock_row())).await?;
        let Some((first,)) = row else { return Ok(false) };
        if first.as_deref() == account.map(AccountId::as_str) {
            self.raise_terms(upload, licence).await?;
        } else if let Some(account) = account {
            let insert = Statement::new(
                "INSERT INTO senders (upload, account, licence, licence_basis, terms) VALUES ($1, $2, $3, \
                 $4, $5) \
                 ON CONFLICT (upload, account) DO UPDATE SET licence = excluded.licence, \
                 licence_basis = excluded.licence_basis, terms = excluded.terms \
                 WHERE COALESCE(senders.terms, 0) < excluded.terms",
            );
            let insert = insert.bind(upload.as_str()).bind(account.as_str());
            self.execute(bind_licence(insert, licence)).await?;
        }
        Ok(true)
    }

    /// Applies the newest terms that the sender of an upload has agreed to, with their licence.
    async fn raise_terms(&mut self, upload: &UploadId, licence: &UploadLicence) -> StoreResult<()> {
        let update = Statement::new(
            "UPDATE uploads SET licence = $1, licence_basis = $2, terms = $3 \
             WHERE id = $4 AND COALESCE(terms, 0) < $3",
        );
        self.execute(bind_licence(update, licence).bind(upload.as_str())).await?;
        Ok(())
    }

    /// Each upload that other accounts sent, too, passes to one of them, with the licence under which that account
    /// sent it. Returns these uploads.
    pub(crate) async fn hand_over_uploads(&mut self, uploads: &[UploadId]) -> StoreResult<Vec<UploadId>> {
        let mut rows: Vec<(String,)> = Vec::new();
        for chunk in uploads.chunks(ROWS_PER_STATEMENT) {
            let update = Statement::new(
                "UPDATE uploads SET account = (SELECT MIN(account) FROM senders WHERE upload = uploads.id), \
                 licence = (SELECT s.licence FROM senders s WHERE s.upload = uploads.id ORDER BY s.account \
                 LIMIT 1), \
                 licence_basis = \
                 (SELECT s.licence_basis FROM senders s WHERE s.upload = uploads.id ORDER BY s.account \
                 LIMIT 1), \
                 terms = (SELECT s.terms FROM senders s WHERE s.upload = uploads.id ORDER BY s.account \
                 LIMIT 1) \
                 WHERE id IN (SELECT upload FROM senders) AND id IN (",
            );
            let update = update.push_list(chunk.iter().map(UploadId::as_str)).push(") RETURNING id");
            rows.extend(self.fetch_all::<(String,)>(update).await?);
        }
        let delete = "DELETE FROM senders WHERE EXISTS \
                      (SELECT 1 FROM uploads u WHERE u.id = senders.upload AND u.account = senders.account)";
        self.execute(Statement::new(delete)).await?;
        Ok(rows.into_iter().map(|(id,)| parse("upload id", id)).collect::<Result<_, _>>()?)
    }

    pub(crate) async fn receipt(&mut self, upload: &UploadId) -> StoreResult<Option<Receipt>> {
        let select = Statement::new(SELECT_UPLOADS).push(" WHERE u.id = ").push_bind(upload.as_str());
        self.read_optional(select).await
    }

    /// For an upload that was fenced: computes the entries again, without the upload, before anybody sees them.
    async fn refresh_entries_again(
        &mut self,
        known: &[Hardware],
        touched: &BTreeSet<View>,
        budget: u64,
        unpacked: &Unpacked,
    ) -> StoreResult<()> {
        let left = self.refresh_entries(known, touched, budget, unpacked).await?;
        for view in touched.iter().filter(|view| !left.contains(view)) {
            self.unmark_stale(view).await?;
        }
        self.mark_stale(&left.into_iter().collect::<Vec<_>>()).await
    }

    /// The operator vouches for what an upload has sent. Returns the views of solutions that others had sent before.
    /// Their entries must be computed anew.
    pub(crate) async fn vouch_for(&mut self, upload: &UploadId) -> StoreResult<Vec<View>> {
        let update = Statement::new("UPDATE uploads SET vouched = 1 WHERE id = $1");
        self.execute(update.bind(upload.as_str())).await?;
        let select = Statement::new(
            "SELECT DISTINCT hardware, problem, method FROM solutions \
             WHERE vouched = 0 AND id IN (SELECT solution FROM sent WHERE upload = $1)",
        );
        let views = self.fetch_views(select.bind(upload.as_str())).await?;
        if !views.is_empty() {
            self.restate_solutions(upload).await?;
        }
        Ok(views)
    }

    /// Computes anew whether solutions of this upload count that did not count before. Returns their views.
    async fn revive_solutions(&mut self, upload: &UploadId) -> StoreResult<Vec<View>> {
        let select = Statement::new(
            "SELECT DISTINCT hardware, problem, method FROM solutions \
             WHERE standing > 0 AND id IN (SELECT solution FROM sent WHERE upload = $1)",
        );
        let views = self.fetch_views(select.bind(upload.as_str())).await?;
        if !views.is_empty() {
            self.restate_solutions(upload).await?;
        }
        Ok(views)
    }

    /// Adds the hardware if it is new. Until this transaction ends, other transactions may add to it and change it, but
    /// [`Self::lock_hardware`] waits. Returns the hardware with the facts that will be stored. Fails if the hardware was merged into
    /// another.
    async fn keep_hardware(&mut self, given: &Hardware) -> StoreResult<Hardware> {
        self.keep(Lockable::Hardware(&given.slug)).await?;
        let keep_row = self.keep_row();
        let select = || {
            let select =
                Statement::new("SELECT slug, name, vendor, facts, merged_into FROM hardware WHERE slug = ");
            select.push_bind(given.slug.as_str()).push(keep_row)
        };
        let mut row: Option<Kept> = self.read_optional(select()).await?;
        if row.is_none() {
            self.insert_hardware(given).await?;
            row = self.read_optional(select()).await?;
        }
        let (stored, merged_into) = row.ok_or(sqlx::Error::RowNotFound)?;
        if merged_into.is_some() {
            return Err(StoreError::Merged(given.slug.clone()));
        }
        Ok(Hardware { facts: stored.facts.or(given.facts), ..stored })
    }

    /// Stores that an upload has added solutions. Other uploads for the hardware wait from here on, so this comes last.
    /// `used` has the facts that the upload's entries were computed from. Returns `false` if other facts have been
    /// stored meanwhile. If there were no facts before, all entries become stale.
    async fn note_upload_of_hardware(
        &mut self,
        given: &Hardware,
        used: &Hardware,
        upload: &NewUpload,
    ) -> StoreResult<bool> {
        let select = Statement::new("SELECT facts, state FROM hardware WHERE slug = ");
        let select = select.push_bind(given.slug.as_str()).push(self.change_row());
        let (before, state): (Option<String>, String) = self.fetch_one(select).await?;
        let before: Option<Facts> = before.map(|facts| from_json("hardware facts", &facts)).transpose()?;
        let is_other = matches!((before, given.facts), (Some(a), Some(b)) if a != b);
        let update = Statement::new(
            "UPDATE hardware SET updated_at = $1, facts = COALESCE(facts, $2), state = $3, \
             revision = revision + 1, conflicts = conflicts + $4 WHERE slug = $5",
        )
        .bind(upload.received_at.as_str())
        .bind(facts_json(given)?)
        .bind(Digest::of(format!("{state}\n{}", upload.digest).as_bytes()).as_str())
        .bind(i64::from(is_other))
        .bind(given.slug.as_str());
        self.execute(update).await?;
        self.date_entries(&given.slug).await?;
        if before.is_none() && given.facts.is_some() {
            self.mark_all_stale(&given.slug).await?;
        }
        Ok(before.or(given.facts) == used.facts)
    }

    /// The receipt of an upload that must exist.
    async fn stored_receipt(&mut self, upload: &UploadId) -> StoreResult<Receipt> {
        let found = self.receipt(upload).await?;
        Ok(found.ok_or_else(|| Damaged::new("upload", format_args!("{upload} vanished")))?)
    }

    /// `false` if the upload is stored already.
    async fn insert_upload(&mut self, upload: &NewUpload) -> StoreResult<bool> {
        let library = library_of(upload);
        let insert = Statement::new(
            "INSERT INTO uploads (id, digest, bytes, format, received_at, hardware, new_solutions, \
             duplicate_solutions, account, judged, licence, licence_basis, terms, library, \
             library_problems, vouched) \
             VALUES ($1, $2, $3, $4, $5, $6, 0, 0, $7, 0, $8, $9, $10, $11, $12, $13) \
             ON CONFLICT DO NOTHING",
        )
        .bind(upload.id.as_str())
        .bind(upload.digest.as_str())
        .bind(upload.bytes)
        .bind(upload.format.as_str())
        .bind(upload.received_at.as_str())
        .bind(json("upload's hardware", &upload.receipts)?)
        .bind(upload.account.as_ref().map(AccountId::as_str))
        .bind(upload.licence.spdx.as_str())
        .bind(upload.licence.basis.as_str())
        .bind(upload.licence.terms.map(i64::from))
        .bind(library.as_ref().map(|(library, _)| library.to_string()))
        .bind(library.as_ref().map(|(_, problems)| problems.cast_signed()))
        .bind(i64::from(upload.vouched));
        Ok(self.execute(insert).await? == 1)
    }
}

fn insert_config_lists(lists: &[(&Digest, &Vec<u8>)]) -> Statement {
    let rows = lists.iter().map(|(digest, bytes)| [digest.as_str().into(), (*bytes).clone().into()]);
    Statement::new("INSERT INTO config_lists (digest, packed)")
        .push_rows(rows)
        .push(" ON CONFLICT DO NOTHING")
}

fn insert_problems(problems: &[(&ProblemId, &Problem)]) -> Result<Statement, Damaged> {
    let row = |(id, problem): &(&ProblemId, &Problem)| {
        Ok([
            id.as_str().into(),
            problem.canonical().into(),
            problem.op.as_str().into(),
            problem.b.into(),
            problem.m.into(),
            problem.n.into(),
            problem.k.into(),
            problem.a_dtype.as_str().into(),
            problem.b_layout.as_str().into(),
            problem.flops().into(),
            json("problem", problem)?.into(),
        ])
    };
    let rows: Result<Vec<_>, Damaged> = problems.iter().map(row).collect();
    let insert = "INSERT INTO problems (id, canonical, op, b, m, n, k, a_dtype, b_layout, flops, fields)";
    Ok(Statement::new(insert).push_rows(rows?).push(" ON CONFLICT DO NOTHING"))
}

/// Returns the digests of the solutions that were new.
fn insert_solutions(upload: &NewUpload, solutions: &[StoredSolution]) -> Statement {
    let contributor = upload.account.as_ref().map(AccountId::as_str);
    let rows = solutions.iter().map(|solution| {
        [
            solution.digest.as_str().into(),
            solution.hardware.as_str().into(),
            solution.problem.as_str().into(),
            solution.method.to_string().into(),
            contributor.into(),
            i64::from(upload.vouched).into(),
            solution.config_list.as_str().into(),
            solution.columns.clone().into(),
            solution.timings.into(),
            solution.failures.into(),
            solution.best_us.into(),
        ]
    });
    Statement::new(
        "INSERT INTO solutions (digest, hardware, problem, method, contributor, vouched, config_list, columns, \
         timings, failures, best_us)",
    )
    .push_rows(rows)
    .push(" ON CONFLICT DO NOTHING RETURNING digest")
}

/// Stores that an upload sent these solutions. They must be stored already.
fn insert_sent(upload: &UploadId, solutions: &[StoredSolution]) -> Statement {
    Statement::new("INSERT INTO sent (solution, upload) SELECT id, ")
        .push_bind(upload.as_str())
        .push(" FROM solutions WHERE digest IN (")
        .push_list(solutions.iter().map(|solution| solution.digest.as_str()))
        .push(") ON CONFLICT DO NOTHING")
}

fn bind_licence(statement: Statement, licence: &UploadLicence) -> Statement {
    let terms = licence.terms.map(i64::from);
    statement.bind(licence.spdx.as_str()).bind(licence.basis.as_str()).bind(terms)
}

/// The library with which an upload was measured, and for how many problems. `None` for an upload of several kinds of
/// hardware, whose solutions do not name their library.
fn library_of(upload: &NewUpload) -> Option<(LibraryOn, u64)> {
    let [receipt] = upload.receipts.as_slice() else { return None };
    let library = receipt.library.clone()?;
    Some((LibraryOn { hardware: receipt.slug.clone(), library }, receipt.problems))
}
