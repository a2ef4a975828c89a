use axum::body::Body;
use axum::http::Request;
use diode_api::{
    AGENT_KEY, Ability, Agent, AgentDetail, Coverage, Lease, LeaseAnswer, LeaseState, LeaseSummary,
    LeasedProblem, Purpose, Receipt, Registration, Standing,
};
use diode_core::Problem;
use diode_core::hardware::Hardware;
use diode_server::accounts::SignUps;
use diode_server::store::Now;

use crate::agent_story::registration;
use crate::samples::{columnar, dataset, h200, mm};
use crate::test_app::{Reply, TestApp};
use crate::tokens::{issue, with_token};
use crate::visitor::Visitor;

const KEY: &str = "0123456789abcdef";
const OTHER_KEY: &str = "fedcba9876543210";

pub(crate) fn h200_registration() -> Registration {
    Registration { hardware: h200(), ..registration(KEY) }
}

async fn post(app: &TestApp, path: &str, body: impl Into<Vec<u8>>) -> Reply {
    post_with(app, path, Some(KEY), body).await
}

async fn post_with(app: &TestApp, path: &str, key: Option<&str>, body: impl Into<Vec<u8>>) -> Reply {
    let mut request = Request::post(format!("/api/v1{path}"));
    if let Some(key) = key {
        request = request.header(AGENT_KEY, key);
    }
    app.send(request.body(Body::from(body.into())).unwrap()).await
}

pub(crate) async fn register(app: &TestApp, registration: &Registration) -> Agent {
    let reply = post(app, "/agents", serde_json::to_vec(registration).unwrap()).await;
    assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
    reply.json()
}

pub(crate) async fn take(app: &TestApp, agent: &Agent) -> Lease {
    let answer: LeaseAnswer =
        post(app, &format!("/agents/{}/leases", agent.id), r#"{"seconds":20}"#).await.json();
    answer.lease.expect("there is always something to measure")
}

async fn deliver(app: &TestApp, agent: &Agent, lease: &Lease, problems: &[Problem]) -> Reply {
    let bytes = columnar(&dataset(h200(), problems, 1.0));
    post(app, &format!("/agents/{}/leases/{}/results", agent.id, lease.id), bytes).await
}

#[tokio::test]
async fn an_agent_is_given_what_is_missing_and_coverage_grows() {
    for app in TestApp::on_both("agents").await {
        let agent = register(&app, &h200_registration()).await;
        assert_eq!(register(&app, &h200_registration()).await.id, agent.id, "the same key");
        assert_eq!((agent.simulated, agent.lease.clone(), agent.measured), (false, None, 0));
        let lease = take(&app, &agent).await;
        assert!(!lease.work.is_empty() && lease.expires_in > 60);
        for work in &lease.work {
            assert_eq!(work.purpose, Purpose::Hole);
            assert!(
                work.why.starts_with("nothing of its kind was measured yet: mm bfloat16"),
                "{}",
                work.why
            );
        }
        assert_eq!(take(&app, &agent).await, lease, "one lease at a time");

        let problems: Vec<Problem> = lease.work.iter().map(|work| work.problem.clone()).collect();
        let (first, rest) = problems.split_first().unwrap();
        assert_eq!(deliver(&app, &agent, &lease, std::slice::from_ref(first)).await.status, 201);
        let covered = async || app.fetch::<Coverage>("/api/v1/hardware/nvidia-h200/coverage").await;
        let one = covered().await;
        assert_eq!((one.problems, one.covered, one.leased), (1, 1, rest.len() as u64));
        assert!(one.waiting > 100 && one.kinds > 10_000);
        let renewal = format!("/agents/{}/leases/{}/renewal", agent.id, lease.id);
        assert_eq!(post(&app, &renewal, "").await.status, 200);

        let receipt: Receipt = deliver(&app, &agent, &lease, rest).await.json();
        assert_eq!(receipt.new_solutions, rest.len() as u64);
        assert_eq!(covered().await.covered, problems.len() as u64);
        post(&app, &renewal, "").await.refusal(409, "conflict");
        let detail: AgentDetail = app.fetch(&format!("/api/v1/agents/{}", agent.id)).await;
        assert_eq!((detail.agent.measured, detail.agent.lease), (problems.len() as u64, None));
        assert_eq!(detail.leases[0].state, LeaseState::Done);
        let listed: Vec<Agent> = app.fetch("/api/v1/agents?hardware=nvidia-h200").await;
        assert_eq!(listed.len(), 1);

        // The next lease has none of the first lease's problems.
        let next = take(&app, &agent).await;
        assert!(next.work.iter().all(|work| !problems.contains(&work.problem)));
        let end = format!("/agents/{}/leases/{}/end", agent.id, next.id);
        let ended: LeaseSummary = post(&app, &end, "{}").await.json();
        assert_eq!(ended.state, LeaseState::Returned);
        post(&app, &end, "{}").await.refusal(409, "conflict");
        app.end().await;
    }
}

#[tokio::test]
async fn an_agent_without_an_account_shows_its_key() {
    let app = TestApp::new().await;
    let agent = register(&app, &h200_registration()).await;
    let lease = take(&app, &agent).await;
    let leases = format!("/agents/{}/leases", agent.id);
    let of_lease = |what| format!("{leases}/{}/{what}", lease.id);
    let results = columnar(&dataset(h200(), &[lease.work[0].problem.clone()], 1.0));
    let requests = [
        (leases.clone(), br#"{"seconds":20}"#.to_vec(), 200),
        (of_lease("renewal"), Vec::new(), 200),
        (of_lease("results"), results, 201),
        (of_lease("end"), b"{}".to_vec(), 200),
    ];
    for (path, body, _) in &requests {
        for key in [None, Some(""), Some(OTHER_KEY), Some(agent.id.as_str())] {
            let message = post_with(&app, path, key, body.clone()).await.refusal(403, "forbidden");
            assert!(message.contains(AGENT_KEY) && !message.contains(KEY), "{message}");
        }
    }
    assert_eq!(app.fetch::<Vec<Receipt>>("/api/v1/uploads").await, []);
    for (path, body, status) in requests {
        assert_eq!(post(&app, &path, body).await.status, status, "{path}");
    }
    let detail = app.get(&format!("/api/v1/agents/{}", agent.id)).await;
    assert!(!String::from_utf8_lossy(&detail.body).contains(KEY), "a key is a secret");
}

#[tokio::test]
async fn results_are_stored_for_ones_own_lease() {
    for app in TestApp::on_both("own_leases").await {
        let agent = register(&app, &h200_registration()).await;
        let lease = take(&app, &agent).await;
        let other = register(&app, &Registration { key: OTHER_KEY.to_owned(), ..h200_registration() }).await;
        assert_ne!(other.id, agent.id);
        let bytes = columnar(&dataset(h200(), &[lease.work[0].problem.clone()], 1.0));
        let leases = format!("/agents/{}/leases", other.id);
        let results = format!("{leases}/{}/results", lease.id);
        let message =
            post_with(&app, &results, Some(OTHER_KEY), bytes.clone()).await.refusal(409, "conflict");
        assert!(message.contains("another agent's"), "{message}");
        assert_eq!(app.fetch::<Vec<Receipt>>("/api/v1/uploads").await, []);

        // The lease comes from a database that was replaced. Its results are stored, though no work waits for
        // them.
        let results = format!("{leases}/0123456789abcdef/results");
        assert_eq!(post_with(&app, &results, Some(OTHER_KEY), bytes).await.status, 201);
        assert_eq!(take(&app, &agent).await, lease, "nothing of it is settled");
        app.end().await;
    }
}

/// A device with so little memory that it can measure only few kinds.
fn small() -> Registration {
    let registration = h200_registration();
    let ability = Ability { memory_bytes: 8_000, unaligned: false, ..registration.ability };
    Registration { ability, ..registration }
}

#[tokio::test]
async fn what_people_want_comes_before_more_of_the_known() {
    let app = TestApp::with_seven().await;
    let agent = register(&app, &small()).await;
    let wanted = mm(24, 40, 40);
    let body = serde_json::json!({ "problems": [wanted] }).to_string();
    assert_eq!(post(&app, "/hardware/nvidia-h200/wanted", body).await.status, 202);
    post(&app, "/hardware/nvidia-h200/wanted", r#"{"problems":[]}"#).await.refusal(400, "invalid");
    post(&app, "/hardware/nvidia-h100/wanted", r#"{"problems":[]}"#).await.refusal(404, "not_found");
    let mut purposes = Vec::new();
    while purposes.last() != Some(&Purpose::More) {
        let lease = take(&app, &agent).await;
        let refuse =
            |work: &LeasedProblem| serde_json::json!({ "problem": work.problem.id(), "reason": "a test" });
        let refused: Vec<_> = lease.work.iter().map(refuse).collect();
        let shortest_first = lease
            .work
            .chunk_by(|a, b| a.purpose == b.purpose)
            .all(|same| same.is_sorted_by(|a, b| a.seconds <= b.seconds));
        assert!(shortest_first, "{lease:?}");
        purposes.extend(lease.work.iter().map(|work| work.purpose));
        let end = format!("/agents/{}/leases/{}/end", agent.id, lease.id);
        let ended = post(&app, &end, serde_json::json!({ "refused": refused }).to_string()).await;
        assert_eq!(ended.json::<LeaseSummary>().state, LeaseState::Done);
    }
    // The wanted problem gets its share of the first lease, after the holes.
    let place = purposes.iter().position(|purpose| *purpose == Purpose::Wanted).unwrap();
    assert!(place > 5 && purposes[..place].iter().all(|purpose| *purpose == Purpose::Hole), "{purposes:?}");
    let more = purposes.iter().position(|purpose| *purpose == Purpose::More).unwrap();
    assert!(more > place && purposes[place + 1..more].iter().all(|purpose| *purpose == Purpose::Hole));
}

#[tokio::test]
async fn nonsense_puts_an_agent_aside() {
    for app in TestApp::on_both("nonsense").await {
        nonsense(&app).await;
        app.end().await;
    }
}

async fn nonsense(app: &TestApp) {
    let agent = register(app, &h200_registration()).await;
    let lease = take(app, &agent).await;
    let first = lease.work[0].problem.clone();
    let receipt: Receipt = deliver(app, &agent, &lease, std::slice::from_ref(&first)).await.json();
    let results = format!("/agents/{}/leases/{}/results", agent.id, lease.id);
    let impossible = columnar(&dataset(h200(), &[mm(8192, 8192, 8192)], 0.5));
    post(app, &results, "not a dataset").await.refusal(400, "invalid");
    for _ in 0..2 {
        post(app, &results, impossible.clone()).await.refusal(422, "refused");
    }
    // The agent's earlier results do not count either, and other agents must measure those problems.
    let stored = app.backend.store.receipt(&receipt.id).await.unwrap().unwrap();
    assert_eq!(stored.standing, Standing::Quarantined);
    assert!(stored.reason.unwrap().contains("put aside"));
    assert_eq!(app.backend.store.moderation_log(1).await.unwrap()[0].who, "server");
    // The server accepts no more results of the agent, and its work goes to others.
    post(app, &results, columnar(&dataset(h200(), &[first], 1.5))).await.refusal(403, "forbidden");
    assert_eq!(app.backend.store.work_figures(&h200().slug).await.unwrap().leased, 0);
    let leases = format!("/agents/{}/leases", agent.id);
    let message = post(app, &leases, r#"{"seconds":20}"#).await.refusal(403, "forbidden");
    assert!(message.contains("3 of its results were refused"), "{message}");
    let detail: AgentDetail = app.fetch(&format!("/api/v1/agents/{}", agent.id)).await;
    assert!(detail.agent.put_aside.is_some());

    let why = "the driver was mended".parse().unwrap();
    let readmitted = async || {
        app.backend.store.readmit_agent(&detail.agent.id, &why, "a test", Now::read()).await.unwrap()
    };
    assert!(readmitted().await && !readmitted().await, "it is put aside once");
    take(app, &agent).await;
    let log = app.backend.store.moderation_log(1).await.unwrap();
    assert_eq!(log[0].why, why.as_str());
}

#[tokio::test]
async fn what_counts_already_is_not_measured_because_it_is_wanted() {
    let app = TestApp::new().await;
    let measured = mm(24, 40, 40);
    assert_eq!(
        app.upload(columnar(&dataset(h200(), std::slice::from_ref(&measured), 1.0))).await.status,
        201
    );
    let body = serde_json::json!({ "problems": [measured, mm(24, 40, 48)] }).to_string();
    assert_eq!(post(&app, "/hardware/nvidia-h200/wanted", body).await.status, 202);
    let figures = app.backend.store.work_figures(&h200().slug).await.unwrap();
    assert_eq!(figures.waiting, 1);
}

#[tokio::test]
async fn made_up_times_are_for_servers_that_want_them() {
    let mut app = TestApp::new().await;
    let simulated = h200().simulated().unwrap();
    let registration = Registration { hardware: simulated.clone(), ..h200_registration() };
    let body = serde_json::to_vec(&registration).unwrap();
    let message = post(&app, "/agents", body.clone()).await.refusal(422, "refused");
    assert!(message.contains("--accept-simulated"), "{message}");
    let made_up = columnar(&dataset(simulated, &[mm(512, 512, 512)], 1.0));
    assert!(app.upload(made_up.clone()).await.refusal(422, "refused").contains("--accept-simulated"));

    app = TestApp::accepting_simulated().await;
    let agent = register(&app, &registration).await;
    assert!(agent.simulated);
    assert_eq!(app.upload(made_up).await.status, 201);
}

#[tokio::test]
async fn agents_belong_to_accounts_and_need_the_scope() {
    let app = TestApp::public(SignUps::Open).await;
    let (ada, eve) = (Visitor::signed_up(&app, "ada").await, Visitor::signed_up(&app, "eve").await);
    let body = serde_json::to_vec(&h200_registration()).unwrap();
    post(&app, "/agents", body.clone()).await.refusal(401, "unauthorized");
    let bearer =
        async |visitor: &Visitor<'_>, scopes: &str| format!("Bearer {}", issue(visitor, scopes).await.secret);
    let for_uploads = bearer(&ada, r#"["upload"]"#).await;
    let refused = with_token(&app, "POST", "/api/v1/agents", &for_uploads, body.clone()).await;
    assert!(refused.refusal(403, "forbidden").contains("agent"));
    let (hers, other) = (bearer(&ada, r#"["agent"]"#).await, bearer(&eve, r#"["agent"]"#).await);
    let agent: Agent = with_token(&app, "POST", "/api/v1/agents", &hers, body.clone()).await.json();
    let same: Agent = with_token(&app, "POST", "/api/v1/agents", &other, body).await.json();
    assert_ne!(agent.id, same.id, "a key tells devices of one account apart");
    let leases = format!("/api/v1/agents/{}/leases", agent.id);
    let ask = r#"{"seconds":20}"#.as_bytes().to_vec();
    with_token(&app, "POST", &leases, &other, ask.clone()).await.refusal(403, "forbidden");
    let answer: LeaseAnswer = with_token(&app, "POST", &leases, &hers, ask).await.json();
    let lease = answer.lease.unwrap();
    let problems: Vec<Problem> = lease.work.iter().map(|work| work.problem.clone()).collect();
    let bytes = columnar(&dataset(h200(), &problems, 1.0));
    let results = format!("{leases}/{}/results", lease.id);
    assert_eq!(with_token(&app, "POST", &results, &hers, bytes).await.status, 201);
}

#[tokio::test]
async fn what_no_agent_sends_is_refused() {
    let app = TestApp::new().await;
    for body in [
        "",
        "{}",
        &serde_json::to_string(&Registration { key: "short".to_owned(), ..h200_registration() }).unwrap(),
        &serde_json::to_string(&Registration { name: "a\u{202e}b".to_owned(), ..h200_registration() })
            .unwrap(),
        &serde_json::to_string(&Registration { tool: "<script>".to_owned(), ..h200_registration() }).unwrap(),
        &serde_json::to_string(&Registration {
            hardware: Hardware { name: String::new(), ..h200() },
            ..h200_registration()
        })
        .unwrap(),
    ] {
        post(&app, "/agents", body).await.refusal(400, "invalid");
    }
    let agent = register(&app, &h200_registration()).await;
    let leases = format!("/agents/{}/leases", agent.id);
    for body in [r#"{"seconds":0}"#, r#"{"seconds":1e9}"#, "{}"] {
        post(&app, &leases, body).await.refusal(400, "invalid");
    }
    post(&app, "/agents/0123456789abcdef/leases", r#"{"seconds":20}"#).await.refusal(404, "not_found");
    post(&app, &format!("{leases}/x/renewal"), "").await.refusal(404, "not_found");
    post(&app, &format!("{leases}/0123456789abcdef/renewal"), "").await.refusal(409, "conflict");
    app.get("/api/v1/hardware/nvidia-h200/coverage").await.refusal(404, "not_found");
}
