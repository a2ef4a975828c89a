//! Tests of the work that people, models and new drivers ask for, on both databases.

use diode_api::{Purpose, Registration};
use diode_core::hardware::Hardware;
use diode_core::ids::AgentId;
use diode_core::{DType, Op, Problem};
use diode_server::store::{KnownAgent, LeasedWork, Now, Store};

use crate::agent_story::{leased, registration, take, work};
use crate::samples::{dataset, mm, problem};
use crate::story::upload;

/// Hardware that only this story uses.
fn hardware() -> Hardware {
    Hardware::from_name("NVIDIA Y3").unwrap()
}

async fn agent(store: &Store, key: &str, driver: &str) -> KnownAgent {
    let id = AgentId::of(key.as_bytes());
    let node = [("driver".to_owned(), driver.to_owned())].into();
    let registration = Registration { hardware: hardware(), node, ..registration(key) };
    store.register_agent(&id, None, &registration, Now::read()).await.unwrap();
    store.agent(&id).await.unwrap().unwrap()
}

fn purposes(lease: &LeasedWork) -> Vec<Purpose> {
    lease.work.iter().map(|work| work.purpose).collect()
}

pub(crate) async fn what_is_asked_for_has_a_part_of_each_lease(store: &Store) {
    let slug = hardware().slug;
    let one = agent(store, "asked one", "570").await;
    let holes: Vec<_> = (1..=12).map(|n| work(mm(64 * n, 128, 128), Purpose::Hole)).collect();
    store.add_work(&slug, &holes).await.unwrap();
    // The first of these already waits as a hole. It is moved forward.
    let wanted = [holes[11].problem.clone(), mm(64, 192, 128)].map(|problem| work(problem, Purpose::Wanted));
    store.add_work(&slug, &wanted).await.unwrap();
    let weak = [work(mm(64, 256, 128), Purpose::Weak)];
    store.add_work(&slug, &weak).await.unwrap();

    // The lease has room for six problems of ten seconds. A quarter of the lease is enough for one of them.
    let lease = leased(take(store, &one, 60.0, Now::read()).await);
    assert_eq!(purposes(&lease), [[Purpose::Hole; 5].as_slice(), &[Purpose::Wanted]].concat());
    assert_eq!(lease.work[5].problem, wanted[0].problem);
    store.end_lease(&one.id, &lease.id, &[], Now::read()).await.unwrap();
    // In a lease of an hour the agent gets everything, and nothing twice.
    let lease = leased(take(store, &one, 3600.0, Now::read()).await);
    let all = [[Purpose::Hole; 11].as_slice(), &[Purpose::Wanted; 2], &[Purpose::Weak]].concat();
    assert_eq!(purposes(&lease), all);
    store.end_lease(&one.id, &lease.id, &[], Now::read()).await.unwrap();
    // A problem that is longer than the share gets its turn all the same.
    let long = problem(Op::Mm, 4096, 4096, 64, DType::BFloat16);
    store
        .add_work(&slug, &[diode_server::store::NewWork { seconds: 50.0, ..work(long, Purpose::Wanted) }])
        .await
        .unwrap();
    let lease = leased(take(store, &one, 3600.0, Now::read()).await);
    let measured: Vec<Problem> = lease.work.iter().map(|work| work.problem.clone()).collect();
    assert_eq!(measured.len(), 15);
    store.store_upload(&upload(&dataset(hardware(), &measured, 1.0), &[])).await.unwrap();
    store.end_lease(&one.id, &lease.id, &[], Now::read()).await.unwrap();
    another_driver_measures_again(store, &one, &measured).await;
}

async fn another_driver_measures_again(store: &Store, one: &KnownAgent, measured: &[Problem]) {
    while store.refresh_entries().await.unwrap() > 0 {}
    let same = agent(store, "asked two", "570").await;
    let other = agent(store, "asked three", "580").await;
    let has_again = |lease: &LeasedWork| purposes(lease).contains(&Purpose::Again);
    for agent in [one, &same] {
        if let diode_server::store::LeaseOutcome::Lease(lease) = take(store, agent, 3600.0, Now::read()).await
        {
            assert!(!has_again(&lease), "{:?}", purposes(&lease));
        }
    }
    let lease = leased(take(store, &other, 3600.0, Now::read()).await);
    assert!(purposes(&lease).iter().all(|purpose| *purpose == Purpose::Again), "{:?}", purposes(&lease));
    let asked: Vec<&Problem> = lease.work.iter().map(|work| &work.problem).collect();
    assert!(asked.len() == measured.len() && asked.iter().all(|problem| measured.contains(problem)));
    store.end_lease(&other.id, &lease.id, &[], Now::read()).await.unwrap();
    // A second registration, or another agent with the same driver, asks for nothing more.
    agent(store, "asked four", "580").await;
    let anew = agent(store, "asked three", "580").await;
    assert_eq!(leased(take(store, &anew, 3600.0, Now::read()).await).work.len(), measured.len());
}
