//! Tests of the plan when results do not count, either at once or later.

use diode_api::{Agent, Breadth, LeaseAnswer, Purpose, Receipt, Registration, Standing};
use diode_core::{Problem, TimeColumn};
use diode_server::agents::plan::is_to_be_confirmed;
use diode_server::store::{MeasuredUpTo, NewWork, ReadUpTo, Store};

use crate::agents::h200_registration;
use crate::moderation::administrator;
use crate::samples::{columnar, dataset, h200, mm};
use crate::test_app::TestApp;
use crate::tokens::{issue, with_token};
use crate::trust::{send, settle};
use crate::visitor::Visitor;

/// An agent that belongs to an account.
struct Owned<'a> {
    app: &'a TestApp,
    bearer: String,
    agent: Agent,
}

impl<'a> Owned<'a> {
    async fn by(app: &'a TestApp, visitor: &Visitor<'_>) -> Self {
        let bearer = format!("Bearer {}", issue(visitor, r#"["agent"]"#).await.secret);
        let registration: Registration = h200_registration();
        let body = serde_json::to_vec(&registration).unwrap();
        let agent = with_token(app, "POST", "/api/v1/agents", &bearer, body).await.json();
        Self { app, bearer, agent }
    }

    async fn post(&self, path: &str, body: Vec<u8>) -> crate::test_app::Reply {
        let path = format!("/api/v1/agents/{}/leases{path}", self.agent.id);
        with_token(self.app, "POST", &path, &self.bearer, body).await
    }

    async fn lease(&self) -> diode_api::Lease {
        let answer: LeaseAnswer = self.post("", br#"{"seconds":20}"#.to_vec()).await.json();
        answer.lease.unwrap()
    }

    /// Whether the agent would get a problem now.
    async fn is_given(&self, problem: &Problem) -> bool {
        let lease = self.lease().await;
        self.post(&format!("/{}/end", lease.id), b"{}".to_vec()).await;
        lease.work.iter().any(|work| work.problem == *problem)
    }

    /// Measures a problem, which the agent must get, and gives the rest back.
    async fn measures(&self, problem: &Problem, factor: f64) -> Receipt {
        let lease = self.lease().await;
        assert!(lease.work.iter().any(|work| work.problem == *problem), "{lease:?}");
        let bytes = columnar(&dataset(h200(), std::slice::from_ref(problem), factor));
        let receipt = self.post(&format!("/{}/results", lease.id), bytes).await.json();
        self.post(&format!("/{}/end", lease.id), b"{}".to_vec()).await;
        receipt
    }
}

/// Asks for a problem before all others.
async fn ask_for(store: &Store, problem: &Problem) {
    let work =
        NewWork { problem: problem.clone(), purpose: Purpose::Hole, breadth: Breadth::Sample, seconds: 0.5 };
    assert_eq!(store.add_work(&h200().slug, &[work]).await.unwrap(), 1);
}

#[tokio::test]
async fn a_result_that_is_fenced_at_once_is_measured_by_another_contributor() {
    // A problem whose size does not call for a confirmation.
    let asked = (1..).map(|n| mm(64 * n, 4096, 4096)).find(|problem| !is_to_be_confirmed(problem)).unwrap();
    for app in TestApp::public_on_both("fenced_results").await {
        let store = app.backend.store.as_ref();
        ask_for(store, &asked).await;
        let mut honest = Vec::new();
        for (name, factor) in [("ada", 4.0), ("bob", 4.01), ("cyd", 4.02)] {
            let visitor = Visitor::signed_up(&app, name).await;
            send(&visitor, &dataset(h200(), std::slice::from_ref(&asked), factor)).await;
            honest.push(visitor);
        }
        let eve = Owned::by(&app, &Visitor::signed_up(&app, "eve").await).await;
        let receipt = eve.measures(&asked, 2.0).await;
        assert_eq!(receipt.standing, Standing::Fenced, "{receipt:?}");
        assert!(!eve.is_given(&asked).await, "it would count no more");
        let ada = Owned::by(&app, &honest[0]).await;
        assert_eq!(ada.measures(&asked, 4.1).await.standing, Standing::Counts);
        let again = Owned::by(&app, &honest[1]).await;
        assert!(!again.is_given(&asked).await, "it has been measured");
        settle(store).await;
        app.end().await;
    }
}

#[tokio::test]
async fn a_best_that_leads_its_board_is_confirmed_by_another() {
    let mut unconfirmed =
        (1..).map(|n| mm(64 * n, 4096, 2048)).filter(|problem| !is_to_be_confirmed(problem));
    let others: Vec<Problem> = unconfirmed.by_ref().take(40).collect();
    let asked: Vec<Problem> = unconfirmed.take(2).collect();
    for app in TestApp::public_on_both("leading_results").await {
        let store = app.backend.store.as_ref();
        let ada = Visitor::signed_up(&app, "ada").await;
        send(&ada, &dataset(h200(), &others, 4.0)).await;
        settle(store).await;
        for problem in &asked {
            ask_for(store, problem).await;
        }
        let bob = Owned::by(&app, &Visitor::signed_up(&app, "bob").await).await;
        let cyd = Owned::by(&app, &Visitor::signed_up(&app, "cyd").await).await;
        // The first problem is as fast as the roofline allows. The second is slower than all others.
        for (problem, factor, leads) in [(&asked[0], 1.0, true), (&asked[1], 9.0, false)] {
            assert_eq!(bob.measures(problem, factor).await.standing, Standing::Counts);
            assert!(!bob.is_given(problem).await, "nobody confirms himself");
            assert_eq!(cyd.is_given(problem).await, leads, "{problem:?}");
        }
        app.end().await;
    }
}

#[tokio::test]
async fn what_is_quarantined_or_deleted_is_measured_again() {
    let asked = mm(2048, 4096, 4096);
    for app in TestApp::public_on_both("reopened").await {
        let store = app.backend.store.as_ref();
        let root = administrator(&app).await;
        ask_for(store, &asked).await;
        let ada = Owned::by(&app, &Visitor::signed_up(&app, "ada").await).await;
        for (action, factor) in [("quarantine", 4.0), ("delete", 4.1)] {
            let receipt = ada.measures(&asked, factor).await;
            assert_eq!((receipt.standing, ada.is_given(&asked).await), (Standing::Counts, false));
            let losses = store.losses(&h200().slug).await.unwrap();
            let body = serde_json::json!({
                "action": action, "subject": { "upload": receipt.id }, "reason": "a test",
            });
            let reply = root.post("/api/v1/moderation", &body.to_string()).await;
            assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
            assert!(store.losses(&h200().slug).await.unwrap() > losses, "the plan hears of it");
            assert!(!store.measured_problems(&h200().slug).await.unwrap().contains(&asked));
        }
        // A copy of the result with another node's name is quarantined at once, and settles no work either.
        let lease = ada.lease().await;
        let mut same = dataset(h200(), std::slice::from_ref(&asked), 4.0);
        same.provenance.node.insert("name".to_owned(), "another".to_owned());
        let receipt: Receipt = ada.post(&format!("/{}/results", lease.id), columnar(&same)).await.json();
        assert_eq!(receipt.standing, Standing::Quarantined);
        ada.post(&format!("/{}/end", lease.id), b"{}".to_vec()).await;
        let bob = Owned::by(&app, &Visitor::signed_up(&app, "bob").await).await;
        assert_eq!(bob.measures(&asked, 4.2).await.standing, Standing::Counts);
        app.end().await;
    }
}

#[tokio::test]
async fn the_plan_forgets_what_was_measured_without_it_and_is_lost() {
    for app in TestApp::public_on_both("forgotten").await {
        let store = app.backend.store.as_ref();
        let root = administrator(&app).await;
        let ada = Visitor::signed_up(&app, "ada").await;
        let known = async |after: &ReadUpTo| store.known_problems(&h200().slug, after).await.unwrap();
        assert_eq!(store.losses(&h200().slug).await.unwrap(), 0, "nobody knows the hardware");
        let (own, planned) = (mm(2048, 4096, 4096), mm(4096, 4096, 4096));
        ask_for(store, &planned).await;
        let receipt = send(&ada, &dataset(h200(), &[own.clone(), planned.clone()], 4.0)).await;
        let all = known(&ReadUpTo::default()).await;
        assert_eq!(all.problems.len(), 2, "each once: {all:?}");
        assert!(all.problems.contains(&own) && all.problems.contains(&planned));
        // When a new reading begins, measured problems are read again. Planned problems are not.
        let again = known(&ReadUpTo { measured: MeasuredUpTo::Nothing, ..all.read.clone() }).await;
        assert_eq!(again.problems, [own]);
        let delete =
            format!(r#"{{"action":"delete","subject":{{"upload":"{}"}},"reason":"a test"}}"#, receipt.id);
        assert_eq!(root.post("/api/v1/moderation", &delete).await.status, 200);
        assert_eq!(store.losses(&h200().slug).await.unwrap(), 1);
        assert_eq!(known(&ReadUpTo::default()).await.problems, [planned]);
        app.end().await;
    }
}

#[tokio::test]
async fn failures_beside_impossible_times_are_no_result() {
    let app = TestApp::new().await;
    let mut collected = crate::samples::collected();
    let solution = &mut collected.solutions[0];
    assert!(!solution.failures.is_empty());
    solution.times = TimeColumn::from_nanos(vec![1; solution.configs.len()]).unwrap();
    app.upload(columnar(&collected)).await.refusal(422, "refused");
}
