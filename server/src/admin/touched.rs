//! Pages for decisions: the uploads, the oddest first; what an upload has touched, before and after it is removed; and
//! which first picks a model would change, with what everybody has measured.

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::State;
use axum::response::Response;
use diode_api::{HardwareReceipt, ModelState, ModelSummary, Receipt, SnapshotName, Standing};
use diode_core::Config;
use diode_core::ids::{AccountId, AccountName, ModelId, UploadId};
use diode_core::stats::median;
use maud::{Markup, html};

use crate::accounts::SignedIn;
use crate::accounts::own::{measured, standing};
use crate::admin::pages::{MAX_UPLOADS, TRAININGS, UPLOADS, administrator, model_card};
use crate::app::App;
use crate::http::{ApiFault, ApiResult, InPath};
use crate::pages::{counted, input, minute, page};
use crate::store::connection::Connection;
use crate::store::fields::{parse, unsigned};
use crate::store::statement::Statement;
use crate::store::{LogEntry, PickChange, Report, Store, StoreResult, UploadFilter, View};
use crate::uploads::solutions::{Damaged, StoredSolution};

/// The most rows of a list, and the most changes of which the times are read.
const SHOWN: usize = 100;

/// What an upload has touched. An upload that is deleted is known by what learnt from it and by the log.
#[derive(Debug, Clone)]
pub struct Touched {
    pub receipt: Option<Receipt>,
    /// How many rows of boards count its solutions, and of how many no other upload has any.
    pub rows: u64,
    pub alone: u64,
    pub models: Vec<ModelSummary>,
    /// The snapshots that have it.
    pub snapshots: Vec<SnapshotName>,
    pub log: Vec<LogEntry>,
}

impl Store {
    /// What an upload has touched.
    pub async fn touched_by(&self, upload: &UploadId) -> StoreResult<Touched> {
        let db = &mut self.read_transaction().await?;
        let rows = db.rows_of_upload(upload, "").await?;
        let alone = db.rows_of_upload(upload, NO_OTHER).await?;
        let select = Statement::new("SELECT model FROM model_uploads WHERE upload = $1 ORDER BY model");
        let ids: Vec<(String,)> = db.fetch_all(select.bind(upload.as_str())).await?;
        let mut models = Vec::new();
        for (id,) in ids {
            models.extend(db.find_model(&parse("model id", id)?).await?);
        }
        let select = Statement::new(
            "SELECT s.hardware, s.version FROM snapshots s JOIN snapshot_uploads n ON n.snapshot = s.position \
             WHERE n.upload = $1 ORDER BY s.position",
        );
        let snapshots: Vec<(String, i64)> = db.fetch_all(select.bind(upload.as_str())).await?;
        let name = |(hardware, version): (String, i64)| {
            let version = u32::try_from(version).map_err(|error| Damaged::new("snapshot", error))?;
            Ok(SnapshotName { hardware: parse("hardware slug", hardware)?, version })
        };
        let snapshots = snapshots.into_iter().map(name).collect::<Result<_, Damaged>>()?;
        let select = Statement::new(
            "SELECT at, who, what, why FROM moderation WHERE what LIKE $1 ORDER BY position DESC LIMIT $2",
        );
        let select = select.bind(format!("%upload {upload}%")).bind(SHOWN as i64);
        let log: Vec<(String, String, String, String)> = db.fetch_all(select).await?;
        let log = log.into_iter().map(|(at, who, what, why)| LogEntry { at, who, what, why }).collect();
        Ok(Touched { receipt: db.receipt(upload).await?, rows, alone, models, snapshots, log })
    }

    /// The times of an upload beside those that all other uploads have of the same configs, whoever sent them: the median
    /// over configs and problems, and how many problems that are. `None` if there are none.
    async fn beside_others(&self, upload: &UploadId) -> StoreResult<Option<(f64, usize)>> {
        let own = self.upload_solutions(upload).await?.solutions;
        let numbers: BTreeSet<i64> = own.iter().map(|solution| solution.number).collect();
        let views: BTreeSet<View> = own.iter().map(StoredSolution::view).collect();
        let mut ratios = Vec::new();
        for view in views.into_iter().take(SHOWN) {
            let (stored, numbers) = (self.view_solutions(&view).await?, numbers.clone());
            let ratio = tokio::task::spawn_blocking(move || {
                let (mut own, mut others) = (Vec::new(), BTreeMap::<Config, Vec<f64>>::new());
                for solution in stored.decode().solutions {
                    for (config, time) in solution.timed() {
                        match numbers.contains(&solution.number) {
                            true => own.push((config, time.0)),
                            false => others.entry(config).or_default().push(time.0),
                        }
                    }
                }
                let mut ratio =
                    |(config, time): &(Config, f64)| Some(time / median(others.get_mut(config)?)?);
                median(&mut own.iter().filter_map(&mut ratio).collect::<Vec<_>>())
            });
            ratios.extend(ratio.await?);
        }
        Ok(median(&mut ratios).map(|ratio| (ratio, ratios.len())))
    }

    /// The uploads that a model has learnt from, if they are still there.
    async fn uploads_of_model(&self, model: &ModelId) -> StoreResult<Vec<Receipt>> {
        let db = &mut self.read_transaction().await?;
        let select =
            Statement::new("SELECT upload FROM model_uploads WHERE model = $1 ORDER BY upload LIMIT $2");
        let ids: Vec<(String,)> = db.fetch_all(select.bind(model.as_str()).bind(SHOWN as i64)).await?;
        let mut uploads = Vec::new();
        for (id,) in ids {
            uploads.extend(db.receipt(&parse("upload id", id)?).await?);
        }
        Ok(uploads)
    }

    async fn account_names(&self) -> StoreResult<BTreeMap<AccountId, String>> {
        let accounts = self.accounts().await?;
        Ok(accounts.into_iter().map(|one| (one.account.id, one.account.name.to_string())).collect())
    }
}

/// No other upload has a solution of the view of `s`. Uploads without an account are told apart, too.
const NO_OTHER: &str = " AND NOT EXISTS (SELECT 1 FROM solutions o WHERE o.hardware = s.hardware AND o.problem = s.problem \
                        AND o.method = s.method AND o.standing = 0 AND o.id NOT IN (SELECT x.solution FROM sent x WHERE \
                        x.upload = n.upload))";

impl Connection {
    /// How many rows of boards count a solution `s` of an upload, if a condition holds.
    async fn rows_of_upload(&mut self, upload: &UploadId, and: &'static str) -> StoreResult<u64> {
        let select = Statement::new(
            "SELECT COUNT(*) FROM (SELECT DISTINCT s.hardware, s.problem, s.method FROM solutions s \
             JOIN sent n ON n.solution = s.id WHERE s.standing = 0 AND n.upload = ",
        );
        let select = select.push_bind(upload.as_str()).push(and).push(") AS views");
        let (rows,): (i64,) = self.fetch_one(select).await?;
        Ok(unsigned("row count", rows)?)
    }
}

/// How odd an upload is: how far its times are from those of others, the share of it that was refused, and the reports.
fn oddness(upload: &Receipt, reports: usize) -> f64 {
    let of = |count: fn(&HardwareReceipt) -> u64| upload.hardware.iter().map(count).sum::<u64>() as f64;
    let refused = of(refused);
    let share = refused / (refused + of(|own| own.timings)).max(1.0);
    upload.log_ratio.map_or(0.0, f64::abs) + share + reports as f64
}

fn refused(own: &HardwareReceipt) -> u64 {
    own.set_apart.iter().map(|part| part.timings).sum()
}

/// Whether an upload's id, its contributor or its hardware has a text in it.
fn mentions(upload: &Receipt, search: &str) -> bool {
    let who = upload.contributor.as_ref().map_or("without an account", AccountName::as_str);
    let places = upload.hardware.iter().map(|own| own.slug.as_str());
    places.chain([upload.id.as_str(), who]).any(|text| text.contains(search))
}

pub(crate) fn uploads_content(
    reports: &[Report],
    all: &[Receipt],
    filter: &UploadFilter,
    search: &str,
    newest: bool,
) -> Markup {
    let name = filter.contributor.as_ref().map_or("", AccountName::as_str);
    let reported = |upload: &Receipt| reports.iter().filter(|report| report.upload == upload.id).count();
    let mut found: Vec<&Receipt> = all.iter().filter(|upload| mentions(upload, search)).collect();
    if !newest {
        // Among equals, the newest comes first, as in the list.
        found.sort_by(|a, b| oddness(b, reported(b)).total_cmp(&oddness(a, reported(a))));
    }
    let chosen = |is: bool| is.then_some("true");
    html! {
        form class="card" method="get" action=(UPLOADS) role="search" {
            label class="field" {
                span class="label" { "Id, contributor or hardware" }
                input type="search" name="search" value=(search) autocomplete="off" spellcheck="false";
            }
            @if !name.is_empty() { input type="hidden" name="contributor" value=(name); }
            div class="row" {
                button class="button primary" { "Search" }
                @for choice in Standing::ALL {
                    button class="button small" name="standing" value=(choice)
                        aria-pressed=[chosen(filter.standing == Some(*choice))] { (choice) }
                }
                button class="button small" name="newest" value="true" aria-pressed=[chosen(newest)] { "newest first" }
                a href=(UPLOADS) { "all, the oddest first" }
            }
        }
        p class="hint" {
            (counted(found.len() as u64, "upload")) @if !name.is_empty() { " of " (name) }
            @if all.len() == MAX_UPLOADS as usize { ", among the newest " (MAX_UPLOADS) } ". "
            @if newest { "The newest first." } @else {
                "The oddest first: reported, set apart in part, or far from the times of others."
            }
        }
        @if !found.is_empty() {
            div class="table-box" tabindex="0" {
                table data-testid="uploads" {
                    thead { tr {
                        th { "Upload" } th { "By" } th { "Hardware" } th class="num" { "Problems" }
                        th class="num" { "Timings" } th class="num" { "Set apart" } th class="num" { "Against others" }
                        th class="num" { "Reports" } th { "State" } th { "Arrived" }
                    } }
                    tbody { @for upload in &found { (upload_row(upload, reported(upload))) } }
                }
            }
        }
        h2 { "Reports" }
        @if reports.is_empty() { p { "Nobody has reported anything." } }
        @for report in reports {
            div class="card" {
                p {
                    strong { a href=(format!("{UPLOADS}/{}", report.upload)) { "Upload " code { (report.upload) } } } br;
                    (minute(&report.at)) @if let Some(who) = &report.who { " by " (who) } ": " (report.reason.as_str())
                }
                (forms(&report.upload))
            }
        }
        h2 { "All uploads of an account" }
        form class="card" method="post" action=(UPLOADS) {
            (input("Account", "account", "text", "off", name))
            (input("Reason", "reason", "text", "off", ""))
            (actions())
        }
    }
}

fn upload_row(upload: &Receipt, reports: usize) -> Markup {
    let sum = |count: fn(&HardwareReceipt) -> u64| upload.hardware.iter().map(count).sum::<u64>();
    html! {
        tr {
            td { a href=(format!("{UPLOADS}/{}", upload.id)) { code { (upload.id) } } }
            td { @match &upload.contributor { Some(name) => (name), None => "–" } }
            td {
                @for own in &upload.hardware { a href=(format!("/hardware/{}", own.slug)) { (own.slug) } " " }
            }
            td class="num" { (sum(|own| own.problems)) }
            td class="num" { (sum(|own| own.timings)) }
            td class="num" { (sum(refused)) }
            td class="num" {
                @match upload.log_ratio {
                    Some(ratio) => (format!("{:+.1} % on {}", (ratio.exp() - 1.0) * 100.0, upload.compared_problems)),
                    None => "–",
                }
            }
            td class="num" { (reports) }
            td { (standing(upload)) }
            td { (minute(&upload.received_at)) }
        }
    }
}

/// The forms of an upload. They are folded away, so that nobody presses one by chance.
fn forms(upload: &UploadId) -> Markup {
    html! {
        details {
            summary { "Quarantine, restore, vouch or delete" }
            p class="hint" {
                "A quarantined upload counts nowhere until it is restored. One that is vouched for is never fenced. A deleted one "
                "is gone, and its file is refused if it is sent again."
            }
            form method="post" action=(UPLOADS) {
                input type="hidden" name="upload" value=(upload);
                (input("Reason", "reason", "text", "off", ""))
                (actions())
            }
        }
    }
}

fn actions() -> Markup {
    html! {
        div class="row" {
            button class="button" name="act" value="quarantine" { "Quarantine" }
            button class="button" name="act" value="restore" { "Restore" }
            button class="button" name="act" value="vouch" { "Vouch for it" }
            button class="button danger" name="act" value="remove" { "Delete for good" }
        }
    }
}

pub(crate) async fn upload_page(
    State(app): State<App>,
    caller: SignedIn,
    InPath(id): InPath<String>,
) -> ApiResult<Response> {
    administrator(caller)?;
    let unknown = || ApiFault::not_found(format!("no upload `{id}`; /admin/uploads lists the newest"));
    let id: UploadId = id.parse().map_err(|_| unknown())?;
    let touched = app.backend.store.touched_by(&id).await?;
    if touched.receipt.is_none() && touched.models.is_empty() && touched.log.is_empty() {
        return Err(unknown());
    }
    let beside = app.backend.store.beside_others(&id).await?;
    Ok(page("What an upload touched", &upload_content(&id, &touched, beside)))
}

fn upload_content(id: &UploadId, touched: &Touched, beside: Option<(f64, usize)>) -> Markup {
    let Touched { receipt, rows, alone, models, snapshots, log } = touched;
    html! {
        p { a href="/admin/uploads" { "Uploads and reports" } }
        @match receipt {
            Some(upload) => div class="card" {
                p {
                    strong { code { (id) } } " · "
                    @match &upload.contributor { Some(name) => (name), None => "without an account" }
                    " · " (minute(&upload.received_at)) br;
                    (standing(upload)) br;
                    (measured(upload)) br;
                    a href=(format!("/uploads/{id}")) { "The page of this upload" } " · "
                    a href=(format!("/api/v1/uploads/{id}/download")) { "its file" }
                }
                @for part in upload.hardware.iter().flat_map(|own| &own.set_apart) {
                    p class="hint" {
                        (counted(part.timings, "timing")) " set apart (" (part.reason) "), such as: " (part.example)
                    }
                }
                (forms(id))
            },
            None => p { "Upload " code { (id) } " is deleted." },
        }
        h2 { "Boards and tables" }
        p {
            (counted(*rows, "row")) " of boards count what it has sent; " (counted(*alone, "row"))
            " of them, no other upload has measured."
            @if let Some((ratio, problems)) = beside {
                " Where others timed the same configs, its times are "
                strong { (format!("{ratio:.2}")) } " of theirs (median over " (counted(problems as u64, "problem")) ")."
            }
        }
        h2 { "Models" }
        @if models.is_empty() { p { "No model has learnt from it." } }
        @for model in models {
            p {
                a href=(format!("/admin/models/{}", model.id)) { (model.hardware) " " code { (model.id) } }
                ", " (model.state) @if !model.reason.is_empty() { ": " (model.reason) }
            }
        }
        h2 { "Snapshots" }
        @if snapshots.is_empty() { p { "No snapshot has it." } }
        @for name in snapshots { p { (name) } }
        h2 { "The log" }
        @if log.is_empty() { p { "Nothing was done about it." } }
        @for entry in log {
            p { strong { (entry.what) } br; (minute(&entry.at)) " by " (entry.who) ": " (entry.why) }
        }
    }
}

pub(crate) async fn model_page(
    State(app): State<App>,
    caller: SignedIn,
    InPath(id): InPath<String>,
) -> ApiResult<Response> {
    administrator(caller)?;
    let unknown = || ApiFault::not_found(format!("no model `{id}`; {TRAININGS} lists the newest"));
    let id: ModelId = id.parse().map_err(|_| unknown())?;
    let store = &app.backend.store;
    let model = store.model(&id).await?.ok_or_else(unknown)?;
    let changes = store.pick_changes(&id).await?;
    let names = store.account_names().await?;
    let mut rows = Vec::new();
    for change in changes.iter().take(SHOWN) {
        let view =
            View { hardware: model.hardware.clone(), problem: change.problem.id(), method: change.method };
        let stored = store.view_solutions(&view).await?;
        let solutions = tokio::task::spawn_blocking(move || stored.decode().solutions).await?;
        let who = |config: &Config| {
            let timed = solutions.iter().filter(|one| one.counts).flat_map(|one| {
                let name = match &one.contributor {
                    Some(id) => names.get(id).map_or("a deleted account", String::as_str),
                    None => "no account",
                };
                let time = one.timed().find(|(timed, _)| timed == config);
                time.map(|(_, time)| format!("{name} {:.1} µs", time.micros().0))
            });
            timed.collect::<Vec<_>>().join(", ")
        };
        rows.push((change, who(&change.before), who(&change.after)));
    }
    let uploads = store.uploads_of_model(&id).await?;
    Ok(page("What a model changes", &model_content(&model, changes.len(), &rows, &uploads)))
}

fn model_content(
    model: &ModelSummary,
    changes: usize,
    rows: &[(&PickChange, String, String)],
    uploads: &[Receipt],
) -> Markup {
    html! {
        p { a href=(TRAININGS) { "Trainings and models" } }
        (model_card(model))
        h2 { "First picks that change" }
        @if rows.is_empty() {
            p {
                "None is known."
                @if model.state == ModelState::Unpublished { " They are compared if a model has learnt what one contributor alone has seen." }
            }
        } @else {
            p { (counted(changes as u64, "first pick")) " would take another time by what others have measured." }
            div class="table-box" tabindex="0" { table {
                thead { tr { th { "Problem" } th { "Before" } th { "After" } th { "Before, by whom" } th { "After, by whom" } } }
                tbody {
                    @for (change, before, after) in rows {
                        tr {
                            td { a href=(format!("/problems/{}?hardware={}", change.problem.id(), model.hardware)) {
                                (change.problem.op) " " (change.problem.dims()) " " (change.problem.a_dtype)
                            } }
                            td { (change.before.canonical()) ", " (format!("{:.1} µs", change.before_us)) }
                            td { (change.after.canonical()) ", " (format!("{:.1} µs", change.after_us)) }
                            td { (before) }
                            td { (after) }
                        }
                    }
                }
            } }
        }
        h2 { "What it has learnt from" }
        @for upload in uploads {
            p {
                a href=(format!("/admin/uploads/{}", upload.id)) { code { (upload.id) } } " · "
                @match &upload.contributor { Some(name) => (name), None => "without an account" }
                " · " (minute(&upload.received_at)) " · " (standing(upload))
            }
        }
    }
}
