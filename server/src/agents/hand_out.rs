use diode_core::api::{Lease, LeaseAnswer, Purpose, Work};
use diode_core::ids::LeaseId;
use diode_core::is_kept;

use super::SEED;
use super::plan::{Kind, Planned, Planner};
use crate::store::{AGENT_LEASE, KnownAgent, LeaseWish, LeasedWork, NewWork, Now, Store, StoreResult, Taken};

/// So many problems are planned at a time: enough for many leases, few enough that what people upload
/// meanwhile is soon regarded.
const PLANNED_AT_ONCE: usize = 1024;

/// Seconds after which an agent without work asks again.
const ASK_AGAIN: u64 = 10;

/// Gives an agent work for about so many seconds. `id` is that of a new lease.
pub(crate) async fn hand_out(
    store: &dyn Store,
    agent: &KnownAgent,
    seconds: f64,
    id: LeaseId,
    now: Now,
) -> StoreResult<LeaseAnswer> {
    let mut wish = LeaseWish { agent, id, seconds, may_plan: true };
    let mut taken = store.take_lease(&wish, now).await?;
    if taken == Taken::PlanFirst {
        go_on_with_plan(store, agent, seconds).await?;
        wish.may_plan = false;
        taken = store.take_lease(&wish, now).await?;
    }
    Ok(match taken {
        Taken::Lease(leased) => LeaseAnswer { lease: Some(described(leased)), ask_again: 0 },
        Taken::PlanFirst | Taken::Nothing => LeaseAnswer { lease: None, ask_again: ASK_AGAIN },
    })
}

/// Adds what comes next. Agents that do so at the same time add the same.
async fn go_on_with_plan(store: &dyn Store, agent: &KnownAgent, seconds: f64) -> StoreResult<()> {
    let slug = &agent.agent.hardware;
    let known = store.known_problems(slug).await?;
    let registration = agent.registration.clone();
    let work = tokio::task::spawn_blocking(move || {
        let planner = Planner::new(&registration.hardware, &registration.ability, seconds, known, SEED);
        planner.take(PLANNED_AT_ONCE).map(new_work).collect::<Vec<_>>()
    })
    .await?;
    let added = store.add_work(slug, &work).await?;
    tracing::info!(hardware = %slug, "{added} problems planned");
    Ok(())
}

fn new_work(planned: Planned) -> NewWork {
    let Planned { problem, purpose, breadth, seconds } = planned;
    NewWork { problem, purpose, breadth, seconds }
}

fn described(leased: LeasedWork) -> Lease {
    let work = leased.work.into_iter().map(|NewWork { problem, purpose, breadth, seconds }| {
        let kept = is_kept(&problem);
        Work { why: why(&problem, purpose), problem, purpose, breadth, kept, seconds }
    });
    Lease { id: leased.id, expires_in: AGENT_LEASE.as_secs(), work: work.collect() }
}

fn why(problem: &diode_core::Problem, purpose: Purpose) -> String {
    let kind =
        Kind::of(problem).map_or_else(|| "no kind that the plan knows".to_owned(), |kind| kind.to_string());
    match purpose {
        Purpose::Hole => format!("nothing of its kind was measured yet: {kind}"),
        Purpose::Wanted => "somebody has asked for it".to_owned(),
        Purpose::Confirm => "another contributor has measured it; this confirms the result".to_owned(),
        Purpose::More => format!("little of its kind was measured: {kind}"),
    }
}
