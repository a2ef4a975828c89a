//! The pages of administrators. A form of theirs names an [`Act`], as the command line does.

use axum::Router;
use axum::extract::{Extension, State};
use axum::response::Response;
use axum::routing::{get, post};
use diode_api::query::from_text;
use diode_api::{Account, HardwareSummary, Job, ModelState, ModelSummary, PackSummary, Standing};
use diode_core::hardware::catalogue;
use diode_core::ids::AccountName;
use maud::{Markup, html};
use serde::Deserialize;

use super::acts::{Act, Actor};
use super::touched::{model_page, upload_page, uploads_content};
use crate::accounts::{Link, SignedIn, invitation_link, password_link};
use crate::app::App;
use crate::http::{ApiFault, ApiResult, StrictQuery};
use crate::pages::{OwnForm, sign_in_first};
use crate::pages::{counted, day, input, minute, page, refused};
use crate::store::{Credentials, UploadFilter};

/// The most rows of each list, and the most entries of the log.
const MAX_SHOWN: u32 = 100;
/// The most uploads that are searched and sorted.
pub(crate) const MAX_UPLOADS: u32 = 1000;
const MAX_JOBS: u32 = 20;
const MAX_PACKS: u32 = 200;

pub(crate) const UPLOADS: &str = "/admin/uploads";
const HARDWARE: &str = "/admin/hardware";
pub(crate) const TRAININGS: &str = "/admin/trainings";
const PACKS: &str = "/admin/packs";
const ACCOUNTS: &str = "/admin/accounts";

#[derive(Clone, Copy)]
enum Page {
    Overview,
    Uploads,
    Hardware,
    Trainings,
    Packs,
    Accounts,
}

impl Page {
    fn path(self) -> &'static str {
        match self {
            Self::Overview => "/admin",
            Self::Uploads => UPLOADS,
            Self::Hardware => HARDWARE,
            Self::Trainings => TRAININGS,
            Self::Packs => PACKS,
            Self::Accounts => ACCOUNTS,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Overview => "Look after this server",
            Self::Uploads => "Uploads and reports",
            Self::Hardware => "Hardware",
            Self::Trainings => "Trainings and models",
            Self::Packs => "Kernel packs",
            Self::Accounts => "Accounts",
        }
    }
}

pub(crate) fn routes() -> Router<App> {
    let mut router = Router::new()
        .route("/admin", get(show).layer(Extension(Page::Overview)))
        .route("/admin/uploads/{id}", get(upload_page))
        .route("/admin/models/{id}", get(model_page))
        .route("/admin/accounts/invite", post(invite))
        .route("/admin/accounts/reset", post(reset));
    for page in [Page::Uploads, Page::Hardware, Page::Trainings, Page::Packs, Page::Accounts] {
        router = router.route(page.path(), get(show).post(act).layer(Extension(page)));
    }
    router
}

/// What the page of uploads shows. The other pages show everything.
#[derive(Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
struct Shown {
    #[serde(deserialize_with = "from_text")]
    #[param(value_type = Option<AccountName>)]
    contributor: Option<AccountName>,
    #[serde(deserialize_with = "from_text")]
    standing: Option<Standing>,
    /// A part of an id, of a contributor's name or of a hardware's.
    #[serde(deserialize_with = "from_text")]
    search: Option<String>,
    /// The newest first, not the oddest.
    #[serde(deserialize_with = "from_text")]
    newest: Option<bool>,
}

async fn show(
    State(app): State<App>,
    Extension(page): Extension<Page>,
    StrictQuery(shown): StrictQuery<Shown>,
    caller: ApiResult<SignedIn>,
) -> ApiResult<Response> {
    match caller {
        Ok(SignedIn { account, .. }) if account.admin => {
            answer(&app, page, &account, shown, Ok(html! {})).await
        }
        Ok(_) => Ok(refused(page.title(), only_administrators(), Clone::clone)),
        Err(_) => Ok(sign_in_first(page.path())),
    }
}

/// Runs the act that a form names, and shows the page again.
async fn act(
    State(app): State<App>,
    Extension(page): Extension<Page>,
    caller: SignedIn,
    OwnForm(fields): OwnForm<Vec<(String, String)>>,
) -> ApiResult<Response> {
    let account = administrator(caller)?;
    if let Some(question) = to_confirm(page, &fields) {
        return answer(&app, page, &account, Shown::default(), Ok(question)).await;
    }
    let back = to_undo(page, &fields);
    let fields = fields.into_iter().filter(|(name, _)| name != SURE).collect();
    let outcome = async { Act::of_form(fields)?.run(&app.backend, Actor::Account(&account)).await };
    let outcome = outcome.await.map(|said| {
        html! { div class="notice row" role="status" { p class="grow" { (sentence(&said)) } (back) } }
    });
    answer(&app, page, &account, Shown::default(), outcome).await
}

/// The field of a form by which an administrator confirms what cannot be taken back.
const SURE: &str = "sure";

fn field<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    fields.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
}

/// Asks whether an act is meant that cannot be taken back, unless the form says so.
fn to_confirm(page: Page, fields: &[(String, String)]) -> Option<Markup> {
    let act = field(fields, "act")?;
    let words = Act::for_good(act).filter(|_| field(fields, SURE).is_none())?;
    let what = fields.iter().filter(|(name, value)| name != "act" && name != "reason" && !value.is_empty());
    Some(html! {
        form class="card" method="post" action=(page.path()) role="alert" {
            p { strong { (words) ":" } @for (name, value) in what { @if name == "account" { " all uploads of" } " " (name) " " code { (value) } } ". This cannot be undone." }
            @for (name, value) in fields { input type="hidden" name=(name) value=(value); }
            div class="row" {
                button class="button danger" name=(SURE) value="yes" { (words) }
                a class="button" href=(page.path()) { "Cancel" }
            }
        }
    })
}

/// A form that takes an act back, if another act does so.
fn to_undo(page: Page, fields: &[(String, String)]) -> Markup {
    let act = field(fields, "act").unwrap_or_default();
    let back = Act::undone_by(act);
    html! {
        @if let Some(back) = back {
            form method="post" action=(page.path()) {
                @for (name, value) in fields.iter().filter(|(name, _)| name != "act" && name != "reason") {
                    input type="hidden" name=(name) value=(value);
                }
                @if field(fields, "reason").is_some() {
                    input type="hidden" name="reason" value=(format!("undoes {act}"));
                }
                button class="button small" name="act" value=(back) { "Undo" }
            }
        }
    }
}

async fn invite(State(app): State<App>, caller: SignedIn) -> ApiResult<Response> {
    let account = administrator(caller)?;
    let outcome = async {
        let link = invitation_link(&app.backend.store, app.policy()).await.map_err(ApiFault::internal)?;
        Actor::Account(&account).write_down(&app.backend.store, "make an invitation").await?;
        Ok(link_card("One account can be made", &link))
    };
    let outcome = outcome.await;
    answer(&app, Page::Accounts, &account, Shown::default(), outcome).await
}

#[derive(Deserialize)]
struct Named {
    name: AccountName,
}

async fn reset(
    State(app): State<App>,
    caller: SignedIn,
    OwnForm(Named { name }): OwnForm<Named>,
) -> ApiResult<Response> {
    let account = administrator(caller)?;
    let outcome = async {
        let found = app.backend.store.credentials(&name).await?;
        let found = found.ok_or_else(|| ApiFault::not_found(format!("no account `{name}`")))?.account;
        let link =
            password_link(&app.backend.store, app.policy(), found.id).await.map_err(ApiFault::internal)?;
        let what = format!("make a link for a new password of {name}");
        Actor::Account(&account).write_down(&app.backend.store, &what).await?;
        Ok(link_card(&format!("{name} chooses a new password"), &link))
    };
    let outcome = outcome.await;
    answer(&app, Page::Accounts, &account, Shown::default(), outcome).await
}

/// The account of whoever sends a form. Fails unless it is an administrator's.
pub(crate) fn administrator(caller: SignedIn) -> ApiResult<Account> {
    if caller.account.admin { Ok(caller.account) } else { Err(only_administrators()) }
}

fn only_administrators() -> ApiFault {
    ApiFault::forbidden("only an administrator of this server may do this")
}

/// The page with the result of a form.
async fn answer(
    app: &App,
    shown: Page,
    own: &Account,
    filter: Shown,
    outcome: ApiResult<Markup>,
) -> ApiResult<Response> {
    let content = content(app, shown, own, filter).await?;
    let with = |message: &Markup| {
        html! {
            (message)
            @if !matches!(shown, Page::Overview) { p { a href="/admin" { (Page::Overview.title()) } } }
            (content)
        }
    };
    Ok(match outcome {
        Ok(message) => page(shown.title(), &with(&message)),
        Err(fault) => refused(shown.title(), fault, with),
    })
}

/// What an act said, with a capital letter and a full stop.
fn sentence(said: &str) -> String {
    let (first, rest) = said.split_at(said.chars().next().map_or(0, char::len_utf8));
    format!("{}{rest}.", first.to_uppercase())
}

async fn content(app: &App, page: Page, own: &Account, shown: Shown) -> ApiResult<Markup> {
    let store = &app.backend.store;
    Ok(match page {
        Page::Overview => {
            let log = store.moderation_log(MAX_SHOWN).await?;
            let waiting = store.contributions(&crate::pages::models::open(), MAX_SHOWN).await?.len();
            let reports = store.reports(MAX_SHOWN).await?.len();
            let doubtful = store.hardware_list().await?.iter().filter(|one| is_doubtful(one)).count();
            html! {
                ul {
                    li { a href=(UPLOADS) { "Uploads and reports" } @if reports > 0 { ": " (counted(reports as u64, "report")) } }
                    li { a href=(HARDWARE) { "Hardware to confirm or merge" } @if doubtful > 0 { ": " (doubtful) " to confirm" } }
                    li { a href="/account/models" { "Contributed models" } @if waiting > 0 { ": " (waiting) " to decide" } }
                    li { a href=(TRAININGS) { "Trainings and published models" } }
                    li { a href=(PACKS) { "Kernel packs" } }
                    li { a href=(ACCOUNTS) { "Accounts" } }
                }
                h2 { "The log" }
                @if log.is_empty() { p { "Nothing has been done yet." } }
                @for entry in &log {
                    p { strong { (entry.what) } br; (minute(&entry.at)) " by " (entry.who) ": " (entry.why) }
                }
            }
        }
        Page::Uploads => {
            let filter = UploadFilter { contributor: shown.contributor, standing: shown.standing };
            let reports = store.reports(MAX_SHOWN).await?;
            let all = store.uploads(&filter, MAX_UPLOADS).await?;
            uploads_content(
                &reports,
                &all,
                &filter,
                shown.search.unwrap_or_default().trim(),
                shown.newest == Some(true),
            )
        }
        Page::Hardware => hardware_content(&store.hardware_list().await?),
        Page::Trainings => {
            let (jobs, models) = (store.jobs(MAX_JOBS).await?, store.models(None, MAX_SHOWN).await?);
            html! {
                h2 { "Jobs" }
                p { "How they go on is on " a href="/models#jobs" { "Models" } ", where you start one, too." }
                @if jobs.is_empty() { p { "There was none yet." } }
                @for job in &jobs { (job_card(job)) }
                h2 { "Models" }
                @for model in &models { (model_card(model)) }
            }
        }
        Page::Packs => {
            let packs = store.packs(None, MAX_PACKS).await?;
            html! {
                @if packs.is_empty() { p { "There is none. Publish one with " code { "diode kernels publish" } "." } }
                @for pack in &packs { (pack_card(pack)) }
            }
        }
        Page::Accounts => {
            let all = store.accounts().await?;
            html! {
                form class="row" method="post" action="/admin/accounts/invite" {
                    button class="button" { "Make an invitation" }
                }
                @for found in &all { (account_card(found, own)) }
            }
        }
    })
}

fn hardware_content(all: &[HardwareSummary]) -> Markup {
    let doubtful: Vec<&HardwareSummary> = all.iter().filter(|one| is_doubtful(one)).collect();
    let is_listed = |one: &&HardwareSummary| one.hardware.listed().is_some();
    let unlisted: Vec<&HardwareSummary> = all.iter().filter(|one| !is_listed(one)).collect();
    html! {
        h2 { "To confirm" }
        @if doubtful.is_empty() { p { "Somebody vouches for the facts of all hardware." } }
        @for one in doubtful { (doubtful_card(one)) }
        h2 { "Merge" }
        @if unlisted.is_empty() {
            p { "Only hardware that is in no catalogue can be merged, and there is none." }
        } @else {
            form class="card" method="post" action=(HARDWARE) {
                input type="hidden" name="act" value="merge-hardware";
                p { "For one GPU under two names: the timings of the first go to the second." }
                (choice("Merge", "from", &unlisted))
                (choice("into", "into", &all.iter().collect::<Vec<_>>()))
                (input("Reason", "reason", "text", "off", ""))
                button class="button danger" { "Merge for good" }
            }
        }
    }
}

/// Whether nobody vouches for a hardware's facts, or uploads differ about them.
fn is_doubtful(one: &HardwareSummary) -> bool {
    !one.confirmed || one.conflicting_uploads > 0
}

fn doubtful_card(one: &HardwareSummary) -> Markup {
    html! {
        form class="card" method="post" action=(HARDWARE) {
            input type="hidden" name="act" value="confirm-hardware";
            p {
                strong { a href=(format!("/hardware/{}", one.hardware.slug)) { (one.hardware.name) } } br;
                (counted(one.problems, "problem")) ", " (counted(one.timings, "timing"))
                @if one.conflicting_uploads > 0 { "; in " (counted(one.conflicting_uploads, "upload")) " the facts differ" }
            }
            @match &one.hardware.facts {
                Some(facts) => {
                    @for same in catalogue().filter(|listed| listed.facts.as_ref() == Some(facts)) {
                        p { "These are the facts of " (same.name) "." }
                    }
                    pre { (serde_json::to_string_pretty(facts).unwrap_or_default()) }
                },
                None => p { "Nobody has described it." },
            }
            input type="hidden" name="slug" value=(one.hardware.slug);
            label class="field" {
                span class="label" { "The id of an upload whose facts to take instead" }
                input type="text" name="upload" autocomplete="off" spellcheck="false";
            }
            (input("Reason", "reason", "text", "off", ""))
            button class="button" { "Vouch for these facts" }
        }
    }
}

/// A choice among kinds of hardware. None is chosen at first.
fn choice(label: &str, name: &str, all: &[&HardwareSummary]) -> Markup {
    html! {
        label class="field" {
            span class="label" { (label) }
            select name=(name) required {
                option value="" selected disabled { "choose one" }
                @for one in all { option value=(one.hardware.slug) { (one.hardware.slug) } }
            }
        }
    }
}

fn job_card(job: &Job) -> Markup {
    html! {
        form class="card" method="post" action=(TRAININGS) {
            p {
                strong { (job.request.kind) " " (job.request.hardware) ", " (job.request.model_type) } " · " (job.state)
                @if job.automatic { " · by the server itself" } br;
                (minute(&job.created_at))
                @if let Some(error) = &job.error { br; (error) }
            }
            @if !job.state.is_final() {
                input type="hidden" name="job" value=(job.id);
                button class="button small danger" name="act" value="cancel-job" { "Cancel" }
            }
        }
    }
}

pub(crate) fn model_card(model: &ModelSummary) -> Markup {
    let is_published = model.state == ModelState::Published;
    html! {
        form class="card" method="post" action=(TRAININGS) {
            p {
                strong { a href=(format!("/models/{}", model.id)) { (model.hardware) " " code { (model.id) } } } br;
                (model.model_type) ", " (model.state) @if model.pinned { ", pinned" } " · " (day(&model.created_at))
                @if !model.reason.is_empty() { br; (model.reason) }
                br; a href=(format!("/admin/models/{}", model.id)) { "Which first picks change" }
            }
            details {
                summary { @if is_published { "Roll back or pin" } @else { "Publish" } }
                input type="hidden" name="model" value=(model.id);
                (input("Reason", "reason", "text", "off", ""))
                div class="row" {
                    @if is_published {
                        button class="button danger" name="act" value="roll-back" { "Roll back" }
                        @if model.pinned {
                            button class="button" name="act" value="unpin" { "Unpin" }
                        } @else {
                            button class="button" name="act" value="pin" { "Pin" }
                        }
                    } @else {
                        button class="button" name="act" value="publish" { "Publish" }
                    }
                }
            }
        }
    }
}

fn pack_card(pack: &PackSummary) -> Markup {
    let kernels: u64 = pack.variants.iter().map(|variant| variant.kernels).sum();
    html! {
        form class="card" method="post" action=(PACKS) {
            p {
                strong { (pack.architecture) }
                @if let Some(triton) = &pack.triton { ", Triton " (triton) }
                @if let Some(space) = &pack.space { ", " (space) } br;
                (kernels) " kernels, " (pack.bytes >> 20) " MiB · published " (day(&pack.published_at))
                @if let Some(by) = &pack.published_by { " by " (by) } br;
                code { (pack.digest) }
            }
            details {
                summary { (pack.variants.len()) " variants" }
                ul { @for variant in &pack.variants { li { (variant.variant) } } }
            }
            input type="hidden" name="digest" value=(pack.digest);
            button class="button small danger" name="act" value="withdraw-pack" { "Withdraw" }
        }
    }
}

fn account_card(found: &Credentials, own: &Account) -> Markup {
    let Credentials { account, password, disabled, .. } = found;
    html! {
        form class="card" method="post" action=(ACCOUNTS) {
            p {
                strong { (account.name) }
                @if account.admin { ", an administrator" }
                @if *disabled { ", disabled" }
                @if password.is_none() { ", without a password" }
                br;
                "since " (day(&account.created_at)) " · "
                a href=(format!("/admin/uploads?contributor={}", account.name)) { "uploads" }
            }
            input type="hidden" name="name" value=(account.name);
            div class="row" {
                @if *disabled {
                    button class="button small" name="act" value="enable" { "Enable" }
                } @else if account.id != own.id {
                    button class="button small danger" name="act" value="disable" { "Disable" }
                }
                button class="button small" formaction="/admin/accounts/reset" { "Link for a new password" }
            }
        }
    }
}

fn link_card(what: &str, link: &Link) -> Markup {
    html! {
        div class="card" role="status" {
            p { (what) " by this link. It works once, until " (link.expires.strftime("%F %R UTC").to_string()) ":" }
            p class="secret" { (link.url) }
        }
    }
}
