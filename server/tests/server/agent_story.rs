//! Every method of the store about agents, told to both databases.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use diode_core::api::{Ability, Breadth, LeaseState, Purpose, RefusedWork, Registration};
use diode_core::hardware::Hardware;
use diode_core::ids::{AgentId, LeaseId};
use diode_core::{DType, Layout, Op, Problem};
use diode_server::store::{
    AGENT_LEASE, ForLease, KnownAgent, LeaseWish, LeasedWork, NewWork, Now, Store, Taken,
};

use crate::samples::{dataset, h200, mm, problem};
use crate::story::upload;

/// Hardware of this story alone.
fn hardware() -> Hardware {
    Hardware::from_name("NVIDIA Y1").unwrap()
}

pub(crate) fn registration(key: &str) -> Registration {
    Registration {
        key: key.to_owned(),
        name: "gpu01, GPU 0".to_owned(),
        hardware: hardware(),
        ability: Ability {
            ops: vec![Op::Mm],
            dtypes: vec![DType::BFloat16],
            layouts: vec![Layout::Row],
            unaligned: true,
            memory_bytes: 1 << 30,
        },
        tool: "diode 0.1.0".to_owned(),
        node: [("driver".to_owned(), "570".to_owned())].into(),
    }
}

async fn agent(store: &dyn Store, key: &str, now: Now) -> KnownAgent {
    let id = AgentId::of(key.as_bytes());
    store.register_agent(&id, None, &registration(key), now).await.unwrap();
    store.agent(&id).await.unwrap().unwrap()
}

async fn take(store: &dyn Store, agent: &KnownAgent, seconds: f64, now: Now) -> Taken {
    static TAKEN: AtomicU64 = AtomicU64::new(0);
    let id = LeaseId::of(&TAKEN.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    store.take_lease(&LeaseWish { agent, id, seconds, may_plan: false }, now).await.unwrap()
}

fn leased(taken: Taken) -> LeasedWork {
    match taken {
        Taken::Lease(lease) => lease,
        other => panic!("got {other:?}"),
    }
}

fn work(problem: Problem, purpose: Purpose) -> NewWork {
    NewWork { problem, purpose, breadth: Breadth::Sample, seconds: 10.0 }
}

fn sizes(lease: &LeasedWork) -> Vec<u64> {
    lease.work.iter().map(|work| work.problem.m).collect()
}

/// Stores results of a lease, as the agent's upload.
async fn deliver(store: &dyn Store, agent: &KnownAgent, lease: &LeaseId, problems: &[Problem]) {
    // Nobody measures the same as another.
    let own: u32 = agent.agent.id.as_str().bytes().map(u32::from).sum();
    let mut new = upload(&dataset(hardware(), problems, 1.0 + f64::from(own) / 1e4), &[]);
    new.lease = Some(ForLease { lease: lease.clone(), contributor: agent.contributor().to_owned() });
    store.store_upload(&new).await.unwrap();
}

pub(crate) async fn agents_measure(store: &dyn Store) {
    let start = Now::read();
    let later = |leases: u32| Now(start.0 + (AGENT_LEASE + Duration::from_secs(1)) * leases);
    let (one, two) = (agent(store, "one", start).await, agent(store, "two", start).await);
    assert_eq!(store.agents(Some(&hardware().slug), 10).await.unwrap().len(), 2);
    assert_eq!(store.agents(Some(&h200().slug), 10).await.unwrap(), []);
    assert_eq!(store.agents(None, 1).await.unwrap().len(), 1);
    assert_eq!(one.registration, registration("one"));

    // Nothing waits, and the plan has not been asked yet.
    assert_eq!(take(store, &one, 60.0, start).await, Taken::Nothing);
    let wish = LeaseWish { agent: &one, id: LeaseId::of(b"x"), seconds: 60.0, may_plan: true };
    assert_eq!(store.take_lease(&wish, start).await.unwrap(), Taken::PlanFirst);

    let aligned: Vec<Problem> = (1..=8).map(|n| mm(64 * n, 64, 64)).collect();
    let planned: Vec<NewWork> = aligned[..6].iter().map(|p| work(p.clone(), Purpose::More)).collect();
    assert_eq!(store.add_work(&hardware().slug, &planned).await.unwrap(), 6);
    assert_eq!(store.add_work(&hardware().slug, &planned).await.unwrap(), 0, "planned already");
    // What the device cannot do, and what takes too long, are for others.
    let others = [
        work(problem(Op::Mm, 64, 64, 64, DType::Float32), Purpose::Hole),
        NewWork { seconds: 1000.0, ..work(aligned[6].clone(), Purpose::Hole) },
    ];
    assert_eq!(store.add_work(&hardware().slug, &others).await.unwrap(), 2);
    let urgent = [work(aligned[7].clone(), Purpose::Wanted)];
    store.add_work(&hardware().slug, &urgent).await.unwrap();
    assert_eq!(store.known_problems(&hardware().slug).await.unwrap().len(), 9);

    // Two agents at once get different problems, the wanted one first.
    let (first, second) = tokio::join!(take(store, &one, 30.0, start), take(store, &two, 30.0, start));
    let (first, second) = (leased(first), leased(second));
    assert_eq!((first.work.len(), second.work.len()), (3, 3));
    assert!(sizes(&first).iter().all(|m| !sizes(&second).contains(m)), "{first:?} {second:?}");
    assert!(sizes(&first).contains(&512) || sizes(&second).contains(&512));
    let figures = store.work_figures(&hardware().slug).await.unwrap();
    assert_eq!((figures.waiting, figures.leased), (3, 6));

    // Asking again gives the same lease: a restarted agent goes on.
    assert_eq!(leased(take(store, &one, 60.0, later(0)).await), first);
    assert!(store.renew_lease(&one.agent.id, &first.id, later(1)).await.unwrap());
    assert!(!store.renew_lease(&two.agent.id, &first.id, later(1)).await.unwrap(), "another agent's");

    // A result arrives; what is left of the lease is less.
    deliver(store, &one, &first.id, &[first.work[0].problem.clone()]).await;
    let rest = leased(take(store, &one, 60.0, later(1)).await);
    assert_eq!((rest.id.clone(), rest.work.len()), (first.id.clone(), 2));

    // The second agent is silent. Its problems go to the first, once that has finished its own.
    let left: Vec<Problem> = rest.work.iter().map(|work| work.problem.clone()).collect();
    deliver(store, &one, &first.id, &left).await;
    let done = store.leases(&one.agent.id, 10).await.unwrap();
    assert_eq!((done[0].state, done[0].problems, done[0].measured), (LeaseState::Done, 3, 3));
    assert!(done[0].ended_at.is_some());
    let taken_over = leased(take(store, &one, 600.0, later(2)).await);
    assert_eq!(store.leases(&two.agent.id, 10).await.unwrap()[0].state, LeaseState::Expired);
    assert!(sizes(&second).iter().all(|m| sizes(&taken_over).contains(m)));
    assert!(!store.renew_lease(&two.agent.id, &second.id, later(2)).await.unwrap());

    // What it has measured all the same is kept, but the first agent's lease stays as it is.
    deliver(store, &two, &second.id, &[second.work[0].problem.clone()]).await;
    assert!(store.measured_problems(&hardware().slug).await.unwrap().contains(&second.work[0].problem));
    assert_eq!(leased(take(store, &one, 600.0, later(2)).await), taken_over);

    // One problem is refused, the others wait again.
    let refused = [RefusedWork { problem: taken_over.work[0].problem.id(), reason: "no kernel".to_owned() }];
    let ended = store.end_lease(&one.agent.id, &taken_over.id, &refused, later(2)).await.unwrap();
    assert_eq!(ended, Some(LeaseState::Returned));
    assert_eq!(store.end_lease(&one.agent.id, &taken_over.id, &[], later(2)).await.unwrap(), None);
    let again = leased(take(store, &two, 600.0, later(2)).await);
    assert!(!sizes(&again).contains(&taken_over.work[0].problem.m), "refused");
}
