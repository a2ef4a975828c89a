use std::time::Duration;

use diode_api::{Job, JobState, ModelState, ModelSummary, Publication};
use diode_core::{Dataset, Heuristic, Problem, TimeColumn, is_kept};
use diode_server::accounts::SignUps;
use diode_server::jobs::worker;
use diode_server::store::{ComparedWithPublished, Now, Store};

use crate::models::summary;
use crate::moderation::administrator;
use crate::samples::{columnar, dataset, h200, mm};
use crate::test_app::{Reply, TestApp};
use crate::tokens::{issue, with_token};
use crate::visitor::Visitor;

/// Problems. Six of them are kept for judging.
pub(crate) fn problems() -> Vec<Problem> {
    let kept = [mm(2304, 512, 512), mm(2560, 512, 512), mm(3328, 512, 512), mm(1664, 1024, 512)];
    let kept = kept.into_iter().chain([mm(2048, 1024, 512), mm(2432, 1024, 512)]);
    let learnt = (1..=12).map(|m| mm(256 * m, 256, 512)).filter(|problem| !is_kept(problem));
    kept.chain(learnt).collect()
}

/// Times that rise from each config to the next, or fall.
pub(crate) fn timed(problems: &[Problem], rising: bool, factor: f64) -> Dataset {
    let mut data = dataset(h200(), problems, 1.0);
    for solution in &mut data.solutions {
        let base = solution.times.iter_nanos().map(|time| time.0).fold(f64::INFINITY, f64::min);
        let count = solution.times.iter_nanos().count();
        let place = |at: usize| (if rising { at } else { count - 1 - at }) as f64;
        let times = (0..count).map(|at| (base * factor * (1.0 + 0.2 * place(at))) as u64).collect();
        solution.times = TimeColumn::from_nanos(times).unwrap();
    }
    data
}

/// Trains, and returns the model.
pub(crate) async fn trained(app: &TestApp, seed: u64) -> ModelSummary {
    let ask = format!(r#"{{"kind":"train","heuristic":"matmul","hardware":"nvidia-h200","seed":{seed}}}"#);
    let path = format!("/api/v1/jobs/{}", app.ask(&ask).await.json::<Job>().id);
    loop {
        let job: Job = app.fetch(&path).await;
        assert_ne!(job.state, JobState::Failed, "{job:?}");
        if let Some(model) = job.model {
            return app.fetch(&format!("/api/v1/models/{model}")).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_of_worse_data_is_not_published_and_one_of_the_same_data_is() {
    let app = TestApp::new().await;
    let all = problems();
    assert_eq!(all.iter().filter(|problem| is_kept(problem)).count(), 6);
    app.receipt(columnar(&timed(&all, true, 1.0))).await;
    let working = tokio::spawn(worker::run(app.backend.clone(), app.stopping()));
    let first = trained(&app, 0).await;
    assert_eq!((first.state, first.kept.as_ref().unwrap().problems), (ModelState::Published, 6));
    let same = trained(&app, 1).await;
    assert_eq!(same.state, ModelState::Published, "{}", same.reason);
    // There are more wrong times than right times, but only for problems that models are trained on.
    let learnt: Vec<Problem> = all.into_iter().filter(|problem| !is_kept(problem)).collect();
    for factor in [1.0, 1.01, 1.02] {
        app.receipt(columnar(&timed(&learnt, false, factor))).await;
    }
    let worse = trained(&app, 2).await;
    assert_eq!(worse.state, ModelState::Unpublished);
    assert!(
        worse.reason.contains("on 6 kept problems") && worse.reason.contains(same.id.as_str()),
        "{worse:?}"
    );
    assert!(worse.kept.unwrap().triton.geomean < first.kept.unwrap().triton.geomean);
    let models: Vec<ModelSummary> = app.fetch("/api/v1/models").await;
    let states: Vec<_> = models.iter().map(|model| model.state).collect();
    assert_eq!(states, [ModelState::Unpublished, ModelState::Published, ModelState::Earlier]);
    // A model that is not published can still be downloaded.
    assert_eq!(app.get(&format!("/api/v1/models/{}/download", worse.id)).await.status, 200);
    app.stop();
    working.await.unwrap();
}

async fn add(store: &Store, name: &str, beside: Option<&ModelSummary>) -> ModelSummary {
    let model = summary(name.as_bytes());
    let beside = beside.map(|model| model.id.clone());
    let judged = ComparedWithPublished { beside, publish: true, why: "tested".to_owned(), changes: vec![] };
    store.add_judged_model(&model, &h200(), &[], None, &judged, Now::read()).await.unwrap().unwrap();
    model
}

async fn ask(visitor: &Visitor<'_>, action: &str, model: &ModelSummary) -> Reply {
    visitor.act(action, &[("model", model.id.as_str()), ("reason", "it fails on our machines")]).await
}

async fn published(app: &TestApp) -> ModelSummary {
    app.backend.store.published(&h200().slug, Heuristic::Matmul).await.unwrap().unwrap()
}

#[tokio::test]
async fn administrators_roll_back_and_pin_and_everybody_can_read_why() {
    for app in TestApp::on_both("publications").await {
        let store = app.backend.store.as_ref();
        let root = administrator(&app).await;
        let one = add(store, "one", None).await;
        let two = add(store, "two", Some(&one)).await;
        let act = async |action: &str, model: &ModelSummary| ask(&root, action, model).await;
        act("roll-back", &two).await.page(200);
        let now: ModelSummary = app.fetch(&format!("/api/v1/models/{}", one.id)).await;
        assert_eq!(now.state, ModelState::Published);
        let message = act("roll-back", &one).await.page(409);
        assert!(message.contains("nothing was published before"), "{message}");
        act("pin", &one).await.page(200);
        assert!(published(&app).await.pinned);
        act("pin", &two).await.page(409);
        act("publish", &summary(b"none")).await.page(404);
        act("refuse", &one).await.page(400);
        act("burn", &one).await.page(400);
        let three = add(store, "three", Some(&one)).await;
        let three: ModelSummary = app.fetch(&format!("/api/v1/models/{}", three.id)).await;
        assert_eq!(three.state, ModelState::Unpublished);
        assert!(three.reason.contains("is pinned"), "{}", three.reason);

        let history: Vec<Publication> = app.fetch("/api/v1/hardware/nvidia-h200/publications").await;
        let steps: Vec<_> = history.iter().map(|step| (step.action.as_str(), step.who.as_str())).collect();
        let expected = [
            ("refuse", "server"),
            ("pin", "root"),
            ("roll-back", "root"),
            ("publish", "server"),
            ("publish", "server"),
        ];
        assert_eq!(steps, expected);
        assert_eq!(history[2].why, "it fails on our machines");
        let log = app.log().await;
        assert_eq!(log[1].what, format!("roll back model {}", two.id));
        app.get("/api/v1/hardware/nvidia-z1/publications").await.refusal(404, "not_found");
        app.end().await;
    }
}

#[tokio::test]
async fn what_was_taken_back_does_not_come_back() {
    for app in TestApp::on_both("taken_back").await {
        let store = app.backend.store.as_ref();
        let root = administrator(&app).await;
        let act = async |action: &str, model: &ModelSummary| ask(&root, action, model).await;
        let a = add(store, "a", None).await;
        let b = add(store, "b", Some(&a)).await;
        let c = add(store, "c", Some(&b)).await;
        act("roll-back", &c).await.page(200);
        assert_eq!(published(&app).await.id, b.id);
        let d = add(store, "d", Some(&b)).await;
        act("roll-back", &d).await.page(200);
        assert_eq!(published(&app).await.id, b.id);
        // A rolled-back model that is published again counts again.
        act("publish", &c).await.page(200);
        assert_eq!(published(&app).await.id, c.id);
        act("publish", &a).await.page(200);
        assert_eq!(published(&app).await.id, a.id);
        act("roll-back", &a).await.page(200);
        assert_eq!(published(&app).await.id, c.id);
        app.end().await;
    }
}

#[tokio::test]
async fn only_administrators_change_what_is_published() {
    let app = TestApp::public(SignUps::Open).await;
    let root = administrator(&app).await;
    let ada = Visitor::signed_up(&app, "ada").await;
    let one = add(app.backend.store.as_ref(), "one", None).await;
    assert_eq!(ask(&ada, "pin", &one).await.status, 403);
    // A token does nothing on pages, whatever its scopes.
    let path = "/admin/trainings";
    with_token(&app, "POST", path, "Bearer x", vec![]).await.refusal(401, "unauthorized");
    let admin = format!("Bearer {}", issue(&root, r#"["admin"]"#).await.secret);
    with_token(&app, "POST", path, &admin, vec![]).await.refusal(403, "forbidden");
    assert!(!app.fetch::<ModelSummary>(&format!("/api/v1/models/{}", one.id)).await.pinned);
    assert_eq!(ask(&root, "pin", &one).await.status, 200);
}

#[tokio::test]
async fn the_command_line_does_the_same() {
    let app = TestApp::new().await;
    let store = app.backend.store.as_ref();
    let one = add(store, "one", None).await;
    let two = add(store, "two", Some(&one)).await;
    let (code, said, _) = app.admin(&["roll-back", two.id.as_str(), "--reason", "tested"]);
    assert_eq!(code, Some(0));
    assert!(said.contains("published: ") && said.contains(one.id.as_str()), "{said}");
    let (code, _, error) = app.admin(&["roll-back", two.id.as_str(), "--reason", "tested"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("is not the published one"), "{error}");
    assert_eq!(app.admin(&["pin", one.id.as_str(), "--reason", "tested"]).0, Some(0));
    assert_eq!(app.admin(&["publish", two.id.as_str(), "--reason", "tested"]).0, Some(0));
    let (_, history, _) = app.admin(&["history", "nvidia-h200"]);
    assert!(history.contains(&format!("command line: roll-back {}: tested", two.id)), "{history}");
    let (_, models, _) = app.admin(&["models", "--hardware", "nvidia-h200"]);
    assert!(models.contains("published") && models.contains("earlier"), "{models}");
    assert_eq!(app.admin(&["pin", one.id.as_str()]).0, Some(2), "a reason is needed");
}
