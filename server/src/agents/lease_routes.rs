//! Leases of agents and the results that they bring.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use diode_api::{
    AGENT_KEY, Account, GivenBack, LeaseAnswer, LeaseRequest, LeaseSummary, Moderation, ModerationAction,
    ModerationSubject, Reason, Receipt, Renewal,
};
use diode_core::ids::{AgentId, Digest, LeaseId};

use crate::accounts::{Authorized, Measure, Needed, licence_of, new_lease_id};
use crate::agents::hand_out;
use crate::app::App;
use crate::backend::Backend;
use crate::http::{ApiFault, ApiResult, InPath, json_body, lookup};
use crate::limits::Client;
use crate::store::{AGENT_LEASE, ForLease, KnownAgent, Now, StoreResult};
use crate::uploads::ingest::{IngestError, Sender};
use crate::uploads::upload_routes::take_in;

/// Gives an agent work: that of the lease it has, if it has one. Each problem says why it is to be measured.
#[utoipa::path(
    post, path = "/agents/{id}/leases", tag = "agents",
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
pub(crate) async fn create(
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
    let sender = Sender { account: agent.account.clone(), licence };
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
pub(crate) async fn note_refused_result(backend: &Backend, agent: &AgentId, reason: &str) -> StoreResult<()> {
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
