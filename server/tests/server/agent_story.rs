//! Tests of every method of the store about agents, on both databases.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use diode_api::{Ability, Breadth, LeaseState, Purpose, Reach, RefusedWork, Registration};
use diode_core::hardware::Hardware;
use diode_core::ids::{AccountId, AgentId, LeaseId};
use diode_core::{DType, KernelVariant, Layout, Op, Problem};
use diode_server::agents::plan::is_to_be_confirmed;
use diode_server::store::{
    AGENT_LEASE, ForLease, KnownAgent, LeaseOutcome, LeaseWish, LeasedWork, MeasuredUpTo, NewWork, Now,
    ReadUpTo, Store,
};

use crate::samples::{columnar, dataset, h200, mm, problem};
use crate::story::{job, upload};
use crate::test_app::TestApp;

/// Hardware that only this story uses.
pub(crate) fn hardware() -> Hardware {
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
            variants: None,
        },
        tool: "diode 0.1.0".to_owned(),
        node: [("driver".to_owned(), "570".to_owned())].into(),
    }
}

pub(crate) async fn agent(store: &Store, key: &str, now: Now) -> KnownAgent {
    let id = AgentId::of(key.as_bytes());
    store.register_agent(&id, None, &registration(key), now).await.unwrap();
    store.agent(&id).await.unwrap().unwrap()
}

pub(crate) async fn take(store: &Store, agent: &KnownAgent, seconds: f64, now: Now) -> LeaseOutcome {
    static TAKEN: AtomicU64 = AtomicU64::new(0);
    let id = LeaseId::of(&TAKEN.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    store.take_lease(&LeaseWish { agent, id, seconds, may_plan: false }, now).await.unwrap()
}

pub(crate) fn leased(taken: LeaseOutcome) -> LeasedWork {
    match taken {
        LeaseOutcome::Lease(lease) => lease,
        other => panic!("got {other:?}"),
    }
}

pub(crate) fn work(problem: Problem, purpose: Purpose) -> NewWork {
    NewWork { problem, purpose, breadth: Breadth::Sample, seconds: 10.0 }
}

fn sizes(lease: &LeasedWork) -> Vec<u64> {
    lease.work.iter().map(|work| work.problem.m).collect()
}

/// Stores results of a lease as an upload of the agent.
async fn deliver(store: &Store, agent: &KnownAgent, lease: &LeaseId, problems: &[Problem]) {
    // Each agent has other times, so that no result is a copy of another's.
    let own: u32 = agent.id.as_str().bytes().map(u32::from).sum();
    let mut new = upload(&dataset(hardware(), problems, 1.0 + f64::from(own) / 1e4), &[]);
    let contributor = agent.contributor().to_owned();
    new.lease = Some(ForLease { lease: lease.clone(), agent: agent.id.clone(), contributor });
    store.store_upload(&new).await.unwrap();
}

pub(crate) async fn agents_measure(store: &Store) {
    let start = Now::read();
    let later = |leases: u32| Now(start.0 + (AGENT_LEASE + Duration::from_secs(1)) * leases);
    let (one, two) = (agent(store, "one", start).await, agent(store, "two", start).await);
    assert_eq!(store.agents(Some(&hardware().slug), 10).await.unwrap().len(), 2);
    assert_eq!(store.agents(Some(&h200().slug), 10).await.unwrap(), []);
    assert_eq!(store.agents(None, 1).await.unwrap().len(), 1);
    assert_eq!(one.registration, registration("one"));

    // Nothing waits, and nothing has been planned yet.
    assert_eq!(take(store, &one, 60.0, start).await, LeaseOutcome::Nothing);
    let wish = LeaseWish { agent: &one, id: LeaseId::of(b"x"), seconds: 60.0, may_plan: true };
    assert_eq!(store.take_lease(&wish, start).await.unwrap(), LeaseOutcome::PlanIsEmpty);

    let aligned: Vec<Problem> = (1..=8).map(|n| mm(64 * n, 64, 64)).collect();
    let planned: Vec<NewWork> = aligned[..6].iter().map(|p| work(p.clone(), Purpose::More)).collect();
    assert_eq!(store.add_work(&hardware().slug, &planned).await.unwrap(), 6);
    assert_eq!(store.add_work(&hardware().slug, &planned).await.unwrap(), 0, "planned already");
    // Problems that the device cannot measure, or that take too long, go to other agents.
    let others = [
        work(problem(Op::Mm, 64, 64, 64, DType::Float32), Purpose::Hole),
        NewWork { seconds: 1000.0, ..work(aligned[6].clone(), Purpose::Hole) },
    ];
    assert_eq!(store.add_work(&hardware().slug, &others).await.unwrap(), 2);
    let urgent = [work(aligned[7].clone(), Purpose::Wanted)];
    store.add_work(&hardware().slug, &urgent).await.unwrap();
    what_is_planned_is_read_once(store).await;

    // Two agents ask at once and get different problems, the wanted problem first.
    let (first, second) = tokio::join!(take(store, &one, 30.0, start), take(store, &two, 30.0, start));
    let (first, second) = (leased(first), leased(second));
    assert_eq!((first.work.len(), second.work.len()), (3, 3));
    assert!(sizes(&first).iter().all(|m| !sizes(&second).contains(m)), "{first:?} {second:?}");
    assert!(sizes(&first).contains(&512) || sizes(&second).contains(&512));
    let figures = store.work_figures(&hardware().slug).await.unwrap();
    assert_eq!((figures.waiting, figures.leased), (4, 6));

    // Asking again gives the same lease, so that a restarted agent goes on.
    assert_eq!(leased(take(store, &one, 60.0, later(0)).await), first);
    assert!(store.renew_lease(&one.id, &first.id, later(1)).await.unwrap());
    assert!(!store.renew_lease(&two.id, &first.id, later(1)).await.unwrap(), "another agent's");

    // After a result has arrived, the lease has less work left.
    deliver(store, &one, &first.id, &[first.work[0].problem.clone()]).await;
    let rest = leased(take(store, &one, 60.0, later(1)).await);
    assert_eq!((rest.id.clone(), rest.work.len()), (first.id.clone(), 2));

    // The second agent is silent. The first agent finishes its own problems, and then gets the second agent's.
    let left: Vec<Problem> = rest.work.iter().map(|work| work.problem.clone()).collect();
    deliver(store, &one, &first.id, &left).await;
    let done = store.leases(&one.id, 10).await.unwrap();
    assert_eq!((done[0].state, done[0].problems, done[0].measured), (LeaseState::Done, 3, 3));
    assert!(done[0].ended_at.is_some());
    let taken_over = leased(take(store, &one, 600.0, later(2)).await);
    assert_eq!(store.leases(&two.id, 10).await.unwrap()[0].state, LeaseState::Expired);
    assert!(sizes(&second).iter().all(|m| sizes(&taken_over).contains(m)));
    assert!(!store.renew_lease(&two.id, &second.id, later(2)).await.unwrap());

    // The second agent's late results are stored, but the first agent's lease does not change.
    deliver(store, &two, &second.id, &[second.work[0].problem.clone()]).await;
    assert!(store.measured_problems(&hardware().slug).await.unwrap().contains(&second.work[0].problem));
    assert_eq!(leased(take(store, &one, 600.0, later(2)).await), taken_over);

    // One problem is refused. The others wait again.
    let refused = [refusal(&taken_over.work[0].problem, Reach::Hardware)];
    let ended = store.end_lease(&one.id, &taken_over.id, &refused, later(2)).await.unwrap();
    assert_eq!(ended, Some(LeaseState::Returned));
    assert_eq!(store.end_lease(&one.id, &taken_over.id, &[], later(2)).await.unwrap(), None);
    let again = leased(take(store, &two, 600.0, later(2)).await);
    assert!(!sizes(&again).contains(&taken_over.work[0].problem.m), "refused");

    results_settle_what_their_lease_had(store, [&one, &two], &again, &aligned[6], later(2)).await;
    agents_without_an_account_confirm_nothing_of_each_other(store, [&one, &two], later(2)).await;
    agents_get_what_they_have_kernels_for([&one, &two], store, later(2)).await;
}

async fn what_is_planned_is_read_once(store: &Store) {
    let read = async |after: &ReadUpTo| store.known_problems(&hardware().slug, after).await.unwrap();
    let all = read(&ReadUpTo::default()).await;
    assert_eq!((all.problems.len(), all.is_all, &all.read.measured), (9, true, &MeasuredUpTo::Everything));
    let none = read(&all.read).await;
    assert_eq!((none.problems, none.read, none.is_all), (Vec::new(), all.read.clone(), true));
    let new = work(problem(Op::Mm, 64, 64, 64, DType::Float16), Purpose::More);
    store.add_work(&hardware().slug, std::slice::from_ref(&new)).await.unwrap();
    assert_eq!(read(&all.read).await.problems, [new.problem]);
}

fn refusal(problem: &Problem, reach: Reach) -> RefusedWork {
    RefusedWork { problem: problem.id(), reason: "no kernel".to_owned(), reach }
}

/// Problems for which one agent lacks kernels still go to other agents.
async fn agents_get_what_they_have_kernels_for([one, two]: [&KnownAgent; 2], store: &Store, now: Now) {
    let rest = leased(take(store, one, 3600.0, now).await);
    let all: Vec<Problem> = rest.work.iter().map(|work| work.problem.clone()).collect();
    deliver(store, one, &rest.id, &all).await;
    let (aligned, odd) = (mm(2048, 64, 64), mm(2048, 65, 64));
    let both = [work(aligned.clone(), Purpose::Wanted), work(odd.clone(), Purpose::Wanted)];
    store.add_work(&hardware().slug, &both).await.unwrap();
    let with_kernels = |agent: &KnownAgent, problem: &Problem| {
        let mut agent = agent.clone();
        agent.registration.ability.variants = Some(vec![KernelVariant::for_problem(problem).unwrap()]);
        agent
    };
    let for_aligned = with_kernels(one, &aligned);
    let lease = leased(take(store, &for_aligned, 600.0, now).await);
    assert_eq!(lease.work.iter().map(|work| &work.problem).collect::<Vec<_>>(), [&aligned]);

    // The agent lacks some of the kernels after all. It gets nothing else, and the other agent gets both
    // problems.
    let refused = [refusal(&aligned, Reach::Agent)];
    let ended = store.end_lease(&one.id, &lease.id, &refused, now).await.unwrap();
    assert_eq!(ended, Some(LeaseState::Done), "all of its problems were refused");
    assert_eq!(take(store, &for_aligned, 600.0, now).await, LeaseOutcome::Nothing);
    let mut others = sizes(&leased(take(store, two, 600.0, now).await));
    others.sort_unstable();
    assert_eq!(others, [2048, 2048]);
}

/// `lease` belongs to the second agent. `never_had` was in no lease.
async fn results_settle_what_their_lease_had(
    store: &Store,
    [one, two]: [&KnownAgent; 2],
    lease: &LeasedWork,
    never_had: &Problem,
    now: Now,
) {
    assert_eq!(store.lease_agent(&lease.id).await.unwrap().as_ref(), Some(&two.id));
    assert_eq!(store.lease_agent(&LeaseId::of(b"nobody's")).await.unwrap(), None);
    let had = &lease.work[0].problem;
    deliver(store, one, &lease.id, std::slice::from_ref(had)).await;
    assert_eq!(&leased(take(store, two, 600.0, now).await), lease, "another agent's results");

    // Late results settle work that went back and that nobody has taken since.
    let ended = store.end_lease(&two.id, &lease.id, &[], now).await.unwrap();
    assert_eq!(ended, Some(LeaseState::Returned));
    let measured = async || store.leases(&two.id, 1).await.unwrap()[0].measured;
    assert_eq!(measured().await, 0);
    let waiting = store.work_figures(&hardware().slug).await.unwrap().waiting;
    deliver(store, two, &lease.id, &[had.clone(), never_had.clone()]).await;
    assert_eq!(measured().await, 1);
    let confirms = u64::from(is_to_be_confirmed(had));
    assert_eq!(store.work_figures(&hardware().slug).await.unwrap().waiting, waiting - 1 + confirms);
}

async fn agents_without_an_account_confirm_nothing_of_each_other(
    store: &Store,
    [one, two]: [&KnownAgent; 2],
    now: Now,
) {
    let to_confirm = (1..).map(|n| mm(8 * n, 72, 64)).find(is_to_be_confirmed).unwrap();
    store.add_work(&hardware().slug, &[work(to_confirm.clone(), Purpose::Wanted)]).await.unwrap();
    let lease = leased(take(store, one, 10.0, now).await);
    assert_eq!(sizes(&lease), [to_confirm.m]);
    deliver(store, one, &lease.id, std::slice::from_ref(&to_confirm)).await;

    let to_confirm_by = async |agent: &KnownAgent| {
        let LeaseOutcome::Lease(lease) = take(store, agent, 600.0, now).await else { return false };
        store.end_lease(&agent.id, &lease.id, &[], now).await.unwrap();
        lease.work.iter().any(|work| work.purpose == Purpose::Confirm && work.problem == to_confirm)
    };
    assert!(!to_confirm_by(one).await);
    assert!(!to_confirm_by(two).await);
    let of_an_account = KnownAgent { account: Some(AccountId::of(b"ada")), ..two.clone() };
    assert!(to_confirm_by(&of_an_account).await);
}

/// A clock that is set a day ahead or back strands nothing: neither work nor jobs nor clients that were refused.
#[tokio::test]
async fn a_clock_that_jumps_by_a_day_strands_nothing() {
    for app in TestApp::on_both("clocks").await {
        let store = app.backend.store.as_ref();
        app.receipt(columnar(&dataset(h200(), &[mm(64, 64, 64)], 1.0))).await;
        let now = Now::read();
        let ahead = Now(now.0 + Duration::from_secs(24 * 3600));
        let planned: Vec<NewWork> = (1..=2).map(|n| work(mm(64 * n, 64, 64), Purpose::More)).collect();
        store.register_agent(&AgentId::of(b"one"), None, &registration("one"), now).await.unwrap();
        store.add_work(&hardware().slug, &planned).await.unwrap();
        for (number, (before, after)) in [(now, ahead), (ahead, now)].into_iter().enumerate() {
            let [one, two] = [agent(store, "one", before).await, agent(store, "two", before).await];
            let first = leased(take(store, &one, 60.0, before).await);
            assert_eq!((first.work.len(), take(store, &two, 60.0, before).await), (2, LeaseOutcome::Nothing));
            let again = leased(take(store, &two, 60.0, after).await);
            assert_eq!(again.work.len(), 2, "the lease of an agent that is gone has ended");
            assert_eq!(
                store.end_lease(&two.id, &again.id, &[], after).await.unwrap(),
                Some(LeaseState::Returned)
            );

            let job = job(number as u64);
            store.enqueue(&job, None, before).await.unwrap();
            assert!(store.claim_job(before).await.unwrap().is_some());
            assert_eq!(
                (store.recover_jobs(before).await.unwrap(), store.recover_jobs(after).await.unwrap()),
                (0, 1)
            );
            let claim = store.claim_job(before).await.unwrap().unwrap();
            assert!(store.postpone_job(&claim, before, "the disk is full").await.unwrap());
            assert!(store.claim_job(before).await.unwrap().is_none());
            let claim = store.claim_job(after).await.unwrap().unwrap();
            assert!(store.finish_job(&claim, after, Err("a test")).await.unwrap());

            let subject = format!("somebody {number}");
            let tries = async |at: Now| {
                let since = at.0 - Duration::from_secs(60);
                store.count_attempt(&subject, since.as_millisecond(), at).await.unwrap().count
            };
            assert_eq!((tries(before).await, tries(before).await, tries(after).await), (1, 2, 1));
        }
        app.end().await;
    }
}
