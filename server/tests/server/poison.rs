//! Liars against what others have measured: they lead no board, are in no table and teach no model, until others or an
//! administrator confirm them. A removal reaches everything. On both databases.
//!
//! The shipped data here are 30 problems of six configs, not the 1,378 of a release: a training of those takes minutes in
//! a debug build. Every rule looks at one problem or at one contributor, so more problems change nothing.

use std::time::Duration;

use diode_api::{Leaderboard, LeaderboardRow, ModelState, ModelSummary, Moderation, ModerationAction};
use diode_api::{ModerationSubject, Receipt};
use diode_core::space::{Space, SpaceName, config_for};
use diode_core::{Config, Dataset, Problem, Tile, TimeColumn};
use diode_model::{Model, Ranker};
use diode_server::blobs::BlobKind;
use diode_server::jobs::worker;
use diode_server::store::{ComparedWithPublished, Now, PickChange};
use diode_server::uploads::ingest::ingest;

use crate::models::summary;
use crate::moderation::administrator;
use crate::publications::{problems, timed};
use crate::samples::{columnar, h200, mm};
use crate::test_app::TestApp;
use crate::trust::{send, settle};
use crate::visitor::Visitor;

const BOARD: &str = "/api/v1/hardware/nvidia-h200/leaderboard?limit=100";
const TABLE: &str = "/api/v1/tables/nvidia-h200.json?top=100";
const PERCENT: [f64; 4] = [0.98, 0.95, 0.85, 0.70];

/// The problems of the shipped data: half again those by which models are judged elsewhere.
fn shipped() -> Vec<Problem> {
    problems().into_iter().chain((1..=14).map(|n| mm(512, 384 * n, 1024))).collect()
}

fn honest(problems: &[Problem]) -> Dataset {
    timed(problems, true, 4.0)
}

/// The best time of each problem, in nanoseconds.
fn bests(data: &Dataset) -> Vec<f64> {
    let best = |solution: &diode_core::Solution| {
        solution.times.iter_nanos().map(|time| time.0).fold(f64::INFINITY, f64::min)
    };
    data.solutions.iter().map(best).collect()
}

/// A tile that nobody has measured.
fn new_tile(problem: &Problem, number: u32) -> Config {
    config_for(problem.op, Tile::new(32 << (number % 2), 128, 64, 4 + number / 2, 8).for_k(problem.k))
}

/// What is told of each problem.
#[derive(Clone, Copy, PartialEq)]
enum Lie {
    /// The slowest config of the shipped data is the best.
    Known,
    /// A config that nobody has measured is the best.
    New,
    /// The shipped times, and a new best.
    Copied,
    /// All shipped times, but shorter.
    Scaled,
}

/// `seed` makes small differences, as between two runs.
fn lie(kind: Lie, factor: f64, seed: u32) -> Dataset {
    let true_data = honest(&shipped());
    let mut data = true_data.clone();
    let noise = |at: usize| 1.0 + 0.002 * f64::from((at as u32 * 7 + seed * 3) % 5);
    for (at, (solution, best)) in data.solutions.iter_mut().zip(bests(&true_data)).enumerate() {
        let times: Vec<f64> = solution.times.iter_nanos().map(|time| time.0).collect();
        let said = best * factor * noise(at);
        let new = data.configs.intern(new_tile(&solution.problem, 0));
        let (configs, times): (Vec<_>, Vec<f64>) = match kind {
            Lie::Known => (vec![solution.configs[times.len() - 1]], vec![said]),
            Lie::New => (vec![new], vec![said]),
            Lie::Copied => {
                let configs = solution.configs.iter().copied().chain([new]).collect();
                (configs, times.into_iter().chain([said]).collect())
            }
            Lie::Scaled => {
                let scaled = times.iter().map(|time| time * factor * noise(at));
                (solution.configs.clone(), scaled.collect())
            }
        };
        solution.configs = configs;
        solution.times = TimeColumn::from_nanos(times.iter().map(|time| *time as u64).collect()).unwrap();
    }
    data
}

async fn ship(app: &TestApp) -> Receipt {
    ingest(&app.backend, columnar(&honest(&shipped())).into(), None).await.unwrap()
}

/// What leads: of each row the best configs with their times, and the whole table.
async fn leads(app: &TestApp) -> (Vec<String>, String) {
    settle(app.backend.store.as_ref()).await;
    let board: Leaderboard = app.fetch(BOARD).await;
    let row = |row: &LeaderboardRow| {
        format!("{} {} {:?} {:?}", row.problem_id, row.best_us, row.best, (&row.triton, row.triton_ties))
    };
    let mut rows: Vec<String> = board.items.iter().map(row).collect();
    rows.sort();
    (rows, String::from_utf8(app.get(TABLE).await.body).unwrap())
}

#[tokio::test]
async fn liars_lead_no_board_and_are_in_no_table() {
    for app in TestApp::confirming("liars_lead_nothing").await {
        ship(&app).await;
        let before = leads(&app).await;
        assert_eq!(before.0.len(), shipped().len());
        let mut liars = Vec::new();
        for number in 0..5 {
            liars.push(Visitor::signed_up(&app, &format!("liar{number}")).await);
        }
        for kind in [Lie::Known, Lie::New, Lie::Copied, Lie::Scaled] {
            for (at, factor) in PERCENT.into_iter().enumerate() {
                // First one account, then all five.
                for (number, liar) in liars.iter().enumerate() {
                    send(liar, &lie(kind, factor, number as u32 + 5 * at as u32)).await;
                    if number == 0 || number == 4 {
                        assert_eq!(leads(&app).await, before, "{factor}");
                    }
                }
            }
        }
        // All is shown, and it is said that nobody confirms it.
        let path = format!("/api/v1/problems/{}", shipped()[0].id());
        let detail: diode_api::ProblemDetail = app.fetch(&path).await;
        assert!(detail.configs.iter().any(|one| one.config == new_tile(&shipped()[0], 0)));
        app.end().await;
    }
}

/// The same tile by accounts that have nothing to do with each other, and by one for which an administrator vouches.
#[tokio::test]
async fn what_others_confirm_leads() {
    for app in TestApp::confirming("confirmed_leads").await {
        ship(&app).await;
        let before = leads(&app).await;
        let (ada, bob) = (Visitor::signed_up(&app, "ada").await, Visitor::signed_up(&app, "bob").await);
        app.execute("UPDATE accounts SET created_at = '2024-01-01T00:00:00Z' WHERE name = 'ada'").await;
        send(&ada, &lie(Lie::New, 0.9, 1)).await;
        assert_eq!(leads(&app).await, before);
        let second = send(&bob, &lie(Lie::New, 0.9, 3)).await;
        let after = leads(&app).await;
        assert!(after.0.iter().zip(&before.0).all(|(after, before)| after != before), "{after:?}");
        let store = app.backend.store.as_ref();
        let act = async |action| {
            let subject = ModerationSubject::Upload(second.id.clone());
            let act = Moderation { action, subject, reason: "tested".parse().unwrap() };
            store.moderate(&act, "root", Now::read()).await.unwrap().unwrap();
        };
        act(ModerationAction::Quarantine).await;
        assert_eq!(leads(&app).await, before);
        act(ModerationAction::Restore).await;
        assert_eq!(leads(&app).await, after);
        app.execute("UPDATE accounts SET created_at = '2024-01-02T00:00:00Z' WHERE name = 'bob'").await;
        act(ModerationAction::Quarantine).await;
        act(ModerationAction::Restore).await;
        // Accounts that appear together confirm nothing, unless the operator does.
        assert_eq!(leads(&app).await, before);
        act(ModerationAction::Vouch).await;
        assert!(leads(&app).await.0.iter().zip(&before.0).all(|(after, before)| after != before));
        app.end().await;
    }
}

async fn trained(app: &TestApp, root: &Visitor<'_>) -> ModelSummary {
    let ask = r#"{"kind":"train","heuristic":"matmul","hardware":"nvidia-h200"}"#;
    let job: diode_api::Job = root.post("/api/v1/jobs", ask).await.json();
    loop {
        let job: diode_api::Job = app.fetch(&format!("/api/v1/jobs/{}", job.id)).await;
        assert_ne!(job.state, diode_api::JobState::Failed, "{job:?}");
        if let Some(model) = job.model {
            return app.fetch(&format!("/api/v1/models/{model}")).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn served(app: &TestApp) -> ModelSummary {
    let all: Vec<ModelSummary> = app.fetch("/api/v1/models?hardware=nvidia-h200").await;
    all.into_iter().find(|model| model.state == ModelState::Published).unwrap()
}

/// The first picks of the model that is served, among all configs, for the shipped problems and for new ones.
async fn first_picks(app: &TestApp) -> Vec<Config> {
    let bytes = app.backend.blobs.get(BlobKind::Model, &served(app).await.digest).await.unwrap();
    tokio::task::spawn_blocking(move || {
        let model = Model::from_bytes(&bytes).unwrap();
        let mut ranker = Ranker::new(&model);
        let (space, new) = (Space::Named(SpaceName::Default), (1..=8).map(|m| mm(320 * m, 640, 512)));
        let pick = |problem: Problem| {
            let ranked = ranker.shortlist(&problem, &space).unwrap();
            ranked.picks(1)[0].0
        };
        shipped().into_iter().chain(new).map(pick).collect()
    })
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn liars_teach_no_model() {
    for app in TestApp::confirming("liars_teach_nothing").await {
        let root = administrator(&app).await;
        ship(&app).await;
        let working = tokio::spawn(worker::run(app.backend.clone(), app.stopping()));
        assert_eq!(trained(&app, &root).await.state, ModelState::Published);
        let before = first_picks(&app).await;
        let mut lies = Vec::new();
        for number in 0..5 {
            let liar = Visitor::signed_up(&app, &format!("liar{number}")).await;
            for kind in [Lie::Known, Lie::New, Lie::Copied, Lie::Scaled] {
                // Each account tells one of the lies about each thing: one account alone, and five that agree.
                for (at, factor) in PERCENT.into_iter().enumerate() {
                    lies.push(send(&liar, &lie(kind, factor, number + 5 * at as u32)).await.id);
                }
            }
            if number == 0 || number == 4 {
                settle(app.backend.store.as_ref()).await;
                trained(&app, &root).await;
                let after = first_picks(&app).await;
                let changed = before.iter().zip(&after).filter(|(before, after)| before != after).count();
                assert!(changed * 100 <= before.len(), "{changed} of {}", before.len());
            }
        }
        app.stop();
        working.await.unwrap();
        app.end().await;
    }
}

/// Nobody else has the GPU.
#[tokio::test(flavor = "multi_thread")]
async fn one_newcomer_with_a_new_gpu_gets_a_board_and_a_model() {
    for app in TestApp::confirming("newcomer_teaches").await {
        let root = administrator(&app).await;
        let ada = Visitor::signed_up(&app, "ada").await;
        let all: Vec<Problem> =
            problems().into_iter().chain((1..=34).map(|n| mm(512, 384 * n, 1024))).collect();
        assert!(all.len() >= 50, "{}", all.len());
        send(&ada, &honest(&all)).await;
        assert_eq!(leads(&app).await.0.len(), all.len());
        let working = tokio::spawn(worker::run(app.backend.clone(), app.stopping()));
        let model = trained(&app, &root).await;
        assert_eq!(model.state, ModelState::Published, "{}", model.reason);
        let kept = model.kept.unwrap();
        assert!(kept.problems >= 5 && kept.triton.geomean > 0.9, "{kept:?}");
        app.stop();
        working.await.unwrap();
        app.end().await;
    }
}

/// What fits is learnt: an honest newcomer's problems. Their removal takes the model back, and pages say so.
#[tokio::test(flavor = "multi_thread")]
async fn what_fits_is_learnt_and_a_removal_reaches_everything() {
    for app in TestApp::confirming("removal_reaches").await {
        let root = administrator(&app).await;
        ship(&app).await;
        let working = tokio::spawn(worker::run(app.backend.clone(), app.stopping()));
        let first = trained(&app, &root).await;
        let ada = Visitor::signed_up(&app, "ada").await;
        let new: Vec<Problem> = (1..=8).map(|m| mm(320 * m, 640, 512)).collect();
        let upload = send(&ada, &honest(&new)).await.id;
        settle(app.backend.store.as_ref()).await;
        let second = trained(&app, &root).await;
        assert!(second.training_problems > first.training_problems, "{second:?}");
        if second.state != ModelState::Published {
            let publish = [("act", "publish"), ("model", second.id.as_str()), ("reason", "looked at it")];
            assert_eq!(root.submit("/admin/trainings", &publish).await.status, 200);
        }
        assert_eq!(served(&app).await.id, second.id);
        let page = root.page(&format!("/admin/models/{}", second.id)).await;
        assert!(page.contains(upload.as_str()), "{page}");
        let path = format!("/admin/uploads/{upload}");
        let page = root.page(&path).await;
        assert!(page.contains("8 rows") && page.contains(second.id.as_str()), "{page}");
        assert_eq!(ada.get(&path).await.status, 403);
        let models = "/api/v1/models?hardware=nvidia-h200";
        let tags = async || {
            let mut tags = Vec::new();
            for path in [
                models,
                BOARD,
                TABLE,
                "/api/v1/hardware/nvidia-h200/configs",
                "/api/v1/datasets/nvidia-h200.json",
            ] {
                let reply = app.get(path).await;
                tags.push((reply.header("etag").to_owned(), reply.body));
            }
            tags
        };
        let before = tags().await;
        let remove = [("act", "remove"), ("upload", upload.as_str()), ("reason", "made up"), ("sure", "yes")];
        assert_eq!(root.submit("/admin/uploads", &remove).await.status, 200);
        settle(app.backend.store.as_ref()).await;
        let after = tags().await;
        for (before, after) in before.iter().zip(&after) {
            assert_ne!(before, after);
        }
        assert_eq!(served(&app).await.id, first.id);
        let page = root.page(&path).await;
        assert!(page.contains("is deleted") && page.contains("made up"), "{page}");
        assert!(page.contains(second.id.as_str()) && page.contains("which was removed"), "{page}");
        app.stop();
        working.await.unwrap();
        app.end().await;
    }
}

/// The worker says when a model waits (see its own tests). Until an administrator acts, the earlier model is served.
#[tokio::test]
async fn a_model_waits_until_an_administrator_has_seen_whose_data_change_what() {
    for app in TestApp::confirming("waiting_model").await {
        let root = administrator(&app).await;
        ship(&app).await;
        let ada = Visitor::signed_up(&app, "ada").await;
        let (problem, new) = (shipped()[0].clone(), new_tile(&shipped()[0], 0));
        let upload = send(&ada, &lie(Lie::New, 0.9, 0)).await.id;
        let (first, waiting) = (summary(b"first"), summary(b"waiting"));
        let store = app.backend.store.as_ref();
        assert!(store.add_shipped_model(&first, &h200(), &[], None, Now::read()).await.unwrap());
        let before = *honest(&shipped()).configs.get(honest(&shipped()).solutions[0].configs[0]);
        let change = PickChange {
            method: honest(&shipped()).solutions[0].method,
            problem,
            before,
            before_us: 40.0,
            after: new,
            after_us: 47.5,
        };
        let why = "7 of 60 first picks are slower than before: it waits for an administrator";
        let judged = ComparedWithPublished {
            beside: Some(first.id.clone()),
            publish: false,
            why: why.to_owned(),
            changes: vec![change],
        };
        let uploads = [upload.clone()];
        store
            .add_judged_model(&waiting, &h200(), &uploads, None, &judged, Now::read())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(served(&app).await.id, first.id);
        assert!(root.page("/admin/trainings").await.contains(waiting.id.as_str()));
        let path = format!("/admin/models/{}", waiting.id);
        assert_eq!(ada.get(&path).await.status, 403);
        let page = root.page(&path).await;
        // The pick before, by the operator; the pick after, by the one who alone has seen it; and the data behind.
        let shows = [
            why,
            "1 first pick ",
            &before.canonical(),
            &new.canonical(),
            "47.5 µs",
            "no account ",
            "ada ",
            upload.as_str(),
        ];
        for text in shows {
            assert!(page.contains(text), "{text}: {page}");
        }
        let publish = [("act", "publish"), ("model", waiting.id.as_str()), ("reason", "looked at it")];
        assert_eq!(root.submit("/admin/trainings", &publish).await.status, 200);
        assert_eq!(served(&app).await.id, waiting.id);
        app.end().await;
    }
}
