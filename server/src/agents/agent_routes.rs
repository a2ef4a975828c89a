//! Agents, their leases and results, what they cover, and what people want measured.

use anyhow::anyhow;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use diode_api::query::from_text;
use diode_api::{
    AGENT_KEY, Ability, Account, Agent, AgentDetail, Coverage, CoverageMap, CoverageMapQuery, GivenBack,
    LeaseAnswer, LeaseRequest, LeaseSummary, Measuring, MeasuringQuery, Moderation, ModerationAction,
    ModerationSubject, Purpose, Reason, Receipt, Registration, Renewal, Wanted,
};
use diode_core::Problem;
use diode_core::hardware::{Hardware, fits};
use diode_core::ids::{AgentId, Digest, HardwareSlug, LeaseId};
use serde::Deserialize;

use crate::accounts::{Authorized, Measure, Needed, licence_of, new_lease_id};
use crate::agents::agent_store::ANONYMOUS;
use crate::agents::plan::{breadth_of, expected_seconds};
use crate::agents::{coverage, hand_out, map, next, shown};
use crate::app::App;
use crate::backend::Backend;
use crate::http::{ApiFault, ApiResult, FromPath, InPath, Lookup, StrictQuery, json_body, lookup};
use crate::limits::Client;
use crate::page_cache::PageKey;
use crate::store::{AGENT_LEASE, ForLease, KnownAgent, NewWork, Now, Store, StoreResult};
use crate::uploads::ingest::{IngestError, Sender};
use crate::uploads::take_in;

/// How many agents a page shows.
const LISTED: u32 = 200;

/// How many leases are enough to show what an agent has done lately.
const LISTED_LEASES: u32 = 20;

impl Lookup for KnownAgent {
    type Id = AgentId;
    const KIND: &'static str = "agent";
    const HINT: &'static str = "/api/v1/agents lists those seen last";

    async fn find(store: &Store, id: &AgentId) -> StoreResult<Option<Self>> {
        store.agent(id).await
    }
}

/// Which agents to list.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct AgentsQuery {
    /// Those of this hardware only
    #[serde(default, deserialize_with = "from_text")]
    #[param(value_type = Option<HardwareSlug>)]
    hardware: Option<HardwareSlug>,
}

/// Makes a device known that measures what the server asks for. The same key of the same account is the same agent.
#[utoipa::path(
    post, path = "/agents", tag = "agents",
    params(("diode-terms" = Option<u32>, Header, description = "Agrees to this version of the terms of contributing")),
    request_body = Registration,
    responses(
        (status = 200, body = Agent),
        (status = 401, description = "Agents of this server need an account"),
        (status = 403, description = "A token without the scope, another site's page, or nobody has agreed to the terms: `terms_not_agreed`"),
        (status = 409, description = "Another version of the terms is in force: `terms_changed`"),
        (status = 422, description = "Simulated, and this server does not accept that"),
    ),
)]
pub(crate) async fn create(
    State(app): State<App>,
    Authorized { account, .. }: Authorized<Measure>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<Json<Agent>> {
    let mut registration: Registration = json_body(&headers, body).await?;
    registration.check()?;
    // An agent of hardware that was merged into another measures for the other hardware.
    let slug = &registration.hardware.slug;
    if let Some(known) = app.backend.store.hardware(slug).await?.filter(|known| known.slug != *slug) {
        registration.hardware = known;
    }
    licence_of(&app, &headers, account.as_ref(), Needed::Current).await?;
    app.backend
        .refuse_simulated(&registration.hardware)
        .map_err(|refused| ApiFault::refused(refused.to_string()))?;
    let account = account.map(|account| account.id);
    let owner = account.as_ref().map_or("", |id| id.as_str());
    let id = AgentId::of(format!("{owner} {}", registration.key).as_bytes());
    let store = &app.backend.store;
    store.register_agent(&id, account.as_ref(), &registration, Now::read()).await?;
    let summary = summary(&app, &id).await?;
    app.plans.prepare(store, &KnownAgent { id, put_aside: summary.put_aside.clone(), account, registration });
    Ok(Json(summary))
}

/// The agents, those seen last first.
#[utoipa::path(
    get, path = "/agents", tag = "agents", params(AgentsQuery),
    responses((status = 200, body = Vec<Agent>)),
)]
pub(crate) async fn list(
    State(app): State<App>,
    StrictQuery(query): StrictQuery<AgentsQuery>,
) -> ApiResult<Json<Vec<Agent>>> {
    Ok(Json(app.backend.store.agents(query.hardware.as_ref(), LISTED).await?))
}

/// What an agent does, and what it has done lately.
#[utoipa::path(
    get, path = "/agents/{id}", tag = "agents", params(("id" = String, Path)),
    responses((status = 200, body = AgentDetail)),
)]
pub(crate) async fn get(
    State(app): State<App>,
    FromPath(known): FromPath<KnownAgent>,
) -> ApiResult<Json<AgentDetail>> {
    let leases = app.backend.store.leases(&known.id, LISTED_LEASES).await?;
    let agent = summary(&app, &known.id).await?;
    let Registration { ability, node, .. } = known.registration;
    Ok(Json(AgentDetail { agent, ability, node, leases }))
}

/// The summary of an agent that must exist.
async fn summary(app: &App, id: &AgentId) -> ApiResult<Agent> {
    let summary = app.backend.store.agent_summary(id).await?;
    summary.ok_or_else(|| ApiFault::internal(anyhow!("agent {id} vanished")))
}

/// How much of what the plan names has been measured on a hardware.
#[utoipa::path(
    get, path = "/hardware/{slug}/coverage", tag = "agents", params(("slug" = String, Path)),
    responses(
        (status = 200, body = Coverage),
        (status = 304, description = "The client has it already"),
    ),
)]
pub(crate) async fn coverage_of(
    State(app): State<App>,
    FromPath(hardware): FromPath<Hardware>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let (store, slug) = (&app.backend.store, hardware.slug.clone());
    let state = store.hardware_state(&slug).await?;
    let figures = store.work_figures(&slug).await?;
    let question = PageKey::new(slug.clone(), &("coverage", state, figures, hardware.facts));
    let make = async {
        let measured = store.measured_problems(&slug).await?;
        Ok(tokio::task::spawn_blocking(move || coverage(&hardware, &measured, figures)).await?)
    };
    app.pages.answer(&question, make).await?.reply(&headers)
}

/// Asks agents to measure problems on a hardware, before others of kinds that are known. What is planned or
/// measured already stays as it is. What no device of the hardware can compute or hold is refused, and all that is
/// asked for with it.
#[utoipa::path(
    post, path = "/hardware/{slug}/wanted", tag = "agents", params(("slug" = String, Path)),
    request_body = Wanted,
    responses(
        (status = 202, description = "Agents measure them when they can"),
        (status = 401),
        (status = 403),
    ),
)]
pub(crate) async fn want(
    State(app): State<App>,
    Authorized { account, .. }: Authorized<Measure>,
    FromPath(hardware): FromPath<Hardware>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<StatusCode> {
    let wanted: Wanted = json_body(&headers, body).await?;
    wanted.check()?;
    for problem in &wanted.problems {
        fits(&hardware, problem).map_err(|error| ApiFault::invalid(error.to_string()))?;
        if let Some(why) = Ability::obstacle(&hardware, problem) {
            return Err(ApiFault::invalid(why));
        }
    }
    ask_for(&app, &hardware, wanted.problems, account.as_ref()).await?;
    Ok(StatusCode::ACCEPTED)
}

/// Asks agents for problems. Returns how many of them are not measured.
pub(crate) async fn ask_for(
    app: &App,
    hardware: &Hardware,
    problems: Vec<Problem>,
    account: Option<&Account>,
) -> StoreResult<u64> {
    let wanted = |problem: Problem| {
        let breadth = breadth_of(&problem);
        let seconds = expected_seconds(hardware, &problem, breadth);
        NewWork { problem, purpose: Purpose::Wanted, breadth, seconds }
    };
    let work: Vec<NewWork> = problems.into_iter().map(wanted).collect();
    let contributor = account.map_or(ANONYMOUS, |account| account.id.as_str());
    app.backend.store.ask_for_work(&hardware.slug, &work, contributor).await
}

/// Whether problems are measured on a hardware, are to be, or cannot be; in the order in which they are asked about.
#[utoipa::path(
    get, operation_id = "get", path = "/hardware/{slug}/wanted", tag = "agents", params(("slug" = String, Path), MeasuringQuery),
    responses((status = 200, body = Vec<Measuring>)),
)]
pub(crate) async fn measuring(
    State(app): State<App>,
    StrictQuery(query): StrictQuery<MeasuringQuery>,
    FromPath(hardware): FromPath<Hardware>,
) -> ApiResult<Json<Vec<Measuring>>> {
    let problems = query.problems()?;
    Ok(Json(app.backend.store.measuring(&hardware.slug, &problems, Now::read()).await?))
}

/// How many coming problems are listed: enough to see where the plan goes.
const NEXT: u32 = 10;

/// How much of the plan has been measured for one operator, type and scaling, by M and N, and what comes next.
#[utoipa::path(
    get, operation_id = "get", path = "/hardware/{slug}/coverage/map", tag = "agents",
    params(("slug" = String, Path), CoverageMapQuery),
    responses(
        (status = 200, body = CoverageMap),
        (status = 304, description = "The client has it already"),
    ),
)]
pub(crate) async fn coverage_map(
    State(app): State<App>,
    StrictQuery(query): StrictQuery<CoverageMapQuery>,
    FromPath(hardware): FromPath<Hardware>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let (op, dtype, scaling) = shown(&hardware, &query);
    let store = &app.backend.store;
    let slug = hardware.slug.clone();
    let state = store.hardware_state(&slug).await?;
    let waiting = store.waiting_work(&slug, NEXT).await?;
    let question = PageKey::new(slug.clone(), &("map", state, op, dtype, scaling, &waiting, hardware.facts));
    let make = async {
        let measured = store.measured_problems(&slug).await?;
        let count = move || {
            let cells = map(&hardware, (op, dtype, scaling), &measured);
            CoverageMap {
                op,
                dtype,
                scaling,
                kinds: cells.iter().map(|cell| cell.kinds).sum(),
                covered: cells.iter().map(|cell| cell.covered).sum(),
                cells,
                next: next(&hardware, waiting, measured, NEXT as usize),
                hardware: hardware.slug,
            }
        };
        Ok(tokio::task::spawn_blocking(count).await?)
    };
    app.pages.answer(&question, make).await?.reply(&headers)
}

/// Gives an agent work: that of the lease it has, if it has one. Each problem says why it is to be measured.
#[utoipa::path(
    post, operation_id = "create", path = "/agents/{id}/leases", tag = "agents",
    params(
        ("id" = String, Path),
        ("diode-agent-key" = Option<String>, Header, description = "Its key, if it has no account"),
    ),
    request_body = LeaseRequest,
    responses(
        (status = 200, body = LeaseAnswer),
        (status = 401),
        (status = 403, description = "Another account's agent, or one that was put aside"),
    ),
)]
pub(crate) async fn take_lease(
    State(app): State<App>,
    Authorized { account, .. }: Authorized<Measure>,
    InPath(id): InPath<String>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<Json<LeaseAnswer>> {
    let request: LeaseRequest = json_body(&headers, body).await?;
    request.check()?;
    let agent = own_agent(&app, &id, account.as_ref(), &headers).await?;
    licence_of(&app, &headers, account.as_ref(), Needed::Current).await?;
    refuse_put_aside(&agent)?;
    let lease = new_lease_id().map_err(ApiFault::internal)?;
    let store = &app.backend.store;
    Ok(Json(hand_out(store, &app.plans, &agent, request.seconds, lease, Now::read()).await?))
}

/// Refuses an agent that was put aside: its results are not trusted, and other agents get its work.
fn refuse_put_aside(agent: &KnownAgent) -> ApiResult<()> {
    let Some(reason) = &agent.put_aside else { return Ok(()) };
    Err(ApiFault::forbidden(format!(
        "this agent gets no work: {reason}; once that is mended, whoever runs the server lets it back in by \
         `diode-server admin readmit {}`",
        agent.id
    )))
}

/// Renews a lease.
#[utoipa::path(
    post, path = "/agents/{id}/leases/{lease}/renewal", tag = "agents",
    params(
        ("id" = String, Path), ("lease" = String, Path),
        ("diode-agent-key" = Option<String>, Header, description = "Its key, if it has no account"),
    ),
    responses(
        (status = 200, body = Renewal),
        (status = 401),
        (status = 403),
        (status = 409, description = "It has ended"),
    ),
)]
pub(crate) async fn renew(
    State(app): State<App>,
    Authorized { account, .. }: Authorized<Measure>,
    InPath((id, lease)): InPath<(String, String)>,
    headers: HeaderMap,
) -> ApiResult<Json<Renewal>> {
    let agent = own_agent(&app, &id, account.as_ref(), &headers).await?;
    let lease = parse(&lease)?;
    if !app.backend.store.renew_lease(&agent.id, &lease, Now::read()).await? {
        return Err(ended(&lease));
    }
    Ok(Json(Renewal { expires_in: AGENT_LEASE.as_secs() }))
}

/// Stores what an agent has measured, as an upload of its account. Once everything of the lease has arrived, the
/// lease ends. What arrives after its end is stored, too.
#[utoipa::path(
    post, path = "/agents/{id}/leases/{lease}/results", tag = "agents",
    params(
        ("id" = String, Path), ("lease" = String, Path),
        ("diode-agent-key" = Option<String>, Header, description = "Its key, if it has no account"),
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 201, body = Receipt, description = "Stored, and durable"),
        (status = 200, body = Receipt, description = "These very bytes were stored before"),
        (status = 400, description = "Not a dataset"),
        (status = 401),
        (status = 403),
        (status = 409, description = "Another agent's lease"),
        (status = 413),
        (status = 422, description = "A dataset, but not a believable one"),
        (status = 503),
        (status = 507, description = "The disk or the quota is full"),
    ),
)]
pub(crate) async fn results(
    State(app): State<App>,
    Authorized { account, .. }: Authorized<Measure>,
    client: Client,
    InPath((id, lease)): InPath<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<(StatusCode, Json<Receipt>)> {
    let agent = own_agent(&app, &id, account.as_ref(), &headers).await?;
    refuse_put_aside(&agent)?;
    let lease = parse(&lease)?;
    // A lease that no agent holds comes from a database that has since been replaced. Its results are stored.
    let holder = app.backend.store.lease_agent(&lease).await?;
    if holder.is_some_and(|holder| holder != agent.id) {
        return Err(ApiFault::conflict(format!(
            "lease `{lease}` is another agent's, so nothing was stored; results of no lease are uploads"
        )));
    }
    let lease = ForLease { lease, agent: agent.id.clone(), contributor: agent.contributor().to_owned() };
    // Any version of the terms is accepted, so that nothing is lost that was measured under older terms.
    let licence = licence_of(&app, &headers, account.as_ref(), Needed::Any).await?;
    let vouched = app.policy().vouches_for(account.as_ref());
    let sender = Sender { account: agent.account.clone(), vouched, licence };
    let taken = take_in(&app, &client, &headers, body, sender, Some(lease)).await?;
    if let Err(error @ (IngestError::Refused(_) | IngestError::Format(_))) = &taken {
        note_refused_result(&app.backend, &agent.id, &error.to_string()).await?;
    }
    let receipt = taken?;
    let status = if receipt.already_stored { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(receipt)))
}

/// Ends a lease. What has not been measured goes back; what the device cannot measure does not.
#[utoipa::path(
    post, path = "/agents/{id}/leases/{lease}/end", tag = "agents",
    params(
        ("id" = String, Path), ("lease" = String, Path),
        ("diode-agent-key" = Option<String>, Header, description = "Its key, if it has no account"),
    ),
    request_body = GivenBack,
    responses(
        (status = 200, body = LeaseSummary),
        (status = 401),
        (status = 403),
        (status = 409, description = "It has ended"),
    ),
)]
pub(crate) async fn end(
    State(app): State<App>,
    Authorized { account, .. }: Authorized<Measure>,
    InPath((id, lease)): InPath<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<Json<LeaseSummary>> {
    let given: GivenBack = json_body(&headers, body).await?;
    // Postgres cannot store text with the character NUL.
    if given.refused.iter().any(|refused| refused.reason.contains('\0')) {
        return Err(ApiFault::invalid("reason: got the character U+0000, expected text without it"));
    }
    let agent = own_agent(&app, &id, account.as_ref(), &headers).await?;
    let lease = parse(&lease)?;
    let store = &app.backend.store;
    let state = store.end_lease(&agent.id, &lease, &given.refused, Now::read()).await?;
    state.ok_or_else(|| ended(&lease))?;
    let newest = store.leases(&agent.id, 1).await?;
    newest.into_iter().next().map(Json).ok_or_else(|| ended(&lease))
}

/// The agent in the path. Fails unless the caller's account owns the agent or, if the agent has no account, the
/// caller has the agent's key.
async fn own_agent(
    app: &App,
    id: &str,
    account: Option<&Account>,
    headers: &HeaderMap,
) -> ApiResult<KnownAgent> {
    let agent: KnownAgent = lookup(app, id).await?;
    if agent.account.as_ref() != account.map(|account| &account.id) {
        return Err(ApiFault::forbidden(
            "the agent is another account's; register it anew with the token in use",
        ));
    }
    if agent.account.is_none() && !shows_key(headers, &agent.registration.key) {
        return Err(ApiFault::forbidden(format!(
            "the agent has no account, so its requests need the header `{AGENT_KEY}` with the key that it was \
             registered with"
        )));
    }
    Ok(agent)
}

/// Digests are compared, so that the time of the comparison reveals nothing of the key.
fn shows_key(headers: &HeaderMap, key: &str) -> bool {
    headers.get(AGENT_KEY).is_some_and(|given| Digest::of(given.as_bytes()) == Digest::of(key.as_bytes()))
}

fn parse(lease: &str) -> ApiResult<LeaseId> {
    lease.parse().map_err(|error| ApiFault::not_found(format!("{error}; ask for a lease first")))
}

fn ended(lease: &LeaseId) -> ApiFault {
    ApiFault::conflict(format!("lease `{lease}` has ended, or is another agent's; ask for a new one"))
}

/// The name under which the log keeps these actions.
const WHO: &str = "server";

/// Stores that a result of an agent was refused. If the agent is then put aside, its earlier results stop counting too:
/// they may be just as wrong without showing it. An administrator may restore them.
async fn note_refused_result(backend: &Backend, agent: &AgentId, reason: &str) -> StoreResult<()> {
    if !backend.store.note_refused_result(agent, reason).await? {
        return Ok(());
    }
    let Ok(reason) =
        "the agent that sent it was put aside since later results of it were refused".parse::<Reason>()
    else {
        return Ok(());
    };
    let subject = ModerationSubject::Agent(agent.clone());
    let moderation = Moderation { action: ModerationAction::Quarantine, subject, reason };
    backend.store.moderate(&moderation, WHO, Now::read()).await?;
    Ok(())
}
