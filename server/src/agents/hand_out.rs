use std::sync::Arc;

use diode_api::{Lease, LeaseAnswer, LeasedProblem, Purpose};
use diode_core::ids::LeaseId;
use diode_core::is_kept;

use super::plan::{Kind, rank};
use super::plans::Plans;
use crate::store::{AGENT_LEASE, KnownAgent, LeaseWish, LeasedWork, NewWork, Now, Store, StoreResult, Taken};

/// After how many seconds an agent without work asks again.
const ASK_AGAIN: u64 = 10;

/// Gives an agent work for about `seconds`. `id` is the id of the new lease.
pub(crate) async fn hand_out(
    store: &Arc<Store>,
    plans: &Plans,
    agent: &KnownAgent,
    seconds: f64,
    id: LeaseId,
    now: Now,
) -> StoreResult<LeaseAnswer> {
    let mut wish = LeaseWish { agent, id, seconds, may_plan: true };
    let mut taken = store.take_lease(&wish, now).await?;
    if taken == Taken::PlanFirst {
        plans.go_on(store.as_ref(), agent, seconds).await?;
        wish.may_plan = false;
        taken = store.take_lease(&wish, now).await?;
    }
    Ok(match taken {
        Taken::Lease(leased) => {
            plans.go_ahead(store, agent, seconds);
            LeaseAnswer { lease: Some(described(leased)), ask_again: 0 }
        }
        Taken::PlanFirst | Taken::Nothing => LeaseAnswer { lease: None, ask_again: ASK_AGAIN },
    })
}

/// Orders the work by the plan, and problems of the same rank by their time, the shortest first. So the first result
/// arrives soon, and an agent that is stopped has measured as many problems as possible.
fn described(mut leased: LeasedWork) -> Lease {
    leased.work.sort_by(|a, b| rank(a.purpose).cmp(&rank(b.purpose)).then(a.seconds.total_cmp(&b.seconds)));
    let work = leased.work.into_iter().map(|NewWork { problem, purpose, breadth, seconds }| {
        let kept = is_kept(&problem);
        LeasedProblem { why: why(&problem, purpose), problem, purpose, breadth, kept, seconds }
    });
    Lease { id: leased.id, expires_in: AGENT_LEASE.as_secs(), work: work.collect() }
}

pub(super) fn why(problem: &diode_core::Problem, purpose: Purpose) -> String {
    let kind =
        Kind::of(problem).map_or_else(|| "no kind that the plan knows".to_owned(), |kind| kind.to_string());
    match purpose {
        Purpose::Hole => format!("nothing of its kind was measured yet: {kind}"),
        Purpose::Wanted => "somebody has asked for it".to_owned(),
        Purpose::Weak => format!("a model has picked badly for problems of its kind: {kind}"),
        Purpose::Again => {
            "it was measured under other drivers; this shows whether yours changes it".to_owned()
        }
        Purpose::Confirm => "another contributor has measured it; this confirms the result".to_owned(),
        Purpose::More => format!("little of its kind was measured: {kind}"),
    }
}
