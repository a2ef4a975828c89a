//! Tests of every method of the store about publications, on both databases.

use std::time::Duration;

use diode_api::{Job, JobRequest, ModelSource, ModelState, ModelSummary, ModelType, PublicationAction};
use diode_core::hardware::Hardware;
use diode_core::ids::JobId;
use diode_server::store::{ComparedWithPublished, Due, NewPublication, Now, Queued, Refused, Store};

use crate::models::summary;
use crate::samples::{dataset, h200, mm};
use crate::story::{job, upload};

/// Hardware that only this story uses.
fn hardware() -> Hardware {
    Hardware { facts: h200().facts, ..Hardware::from_name("NVIDIA X1").unwrap() }
}

fn model(name: &str, source: ModelSource) -> ModelSummary {
    ModelSummary { hardware: hardware().slug, source, ..summary(name.as_bytes()) }
}

fn trained(name: &str) -> ModelSummary {
    model(name, ModelSource::Trained)
}

fn judged(beside: Option<&ModelSummary>, publish: bool) -> ComparedWithPublished {
    ComparedWithPublished {
        beside: beside.map(|model| model.id.clone()),
        publish,
        why: "so they say".to_owned(),
        changes: Vec::new(),
    }
}

fn ask(action: PublicationAction, model: &ModelSummary) -> NewPublication {
    NewPublication { action, model: model.id.clone(), reason: "because".parse().unwrap() }
}

pub(crate) async fn models_are_published(store: &Store) {
    let (slug, now) = (hardware().slug, Now::read());
    let (one, two, three, four) = (trained("one"), trained("two"), trained("three"), trained("four"));
    let heuristic = one.heuristic;
    assert_eq!(store.published(&slug, heuristic).await.unwrap(), None);
    let add = async |model: &ModelSummary, judged: ComparedWithPublished| {
        let unseen = Some(model.id.as_str().as_bytes());
        store.add_judged_model(model, &hardware(), &[], unseen, &judged, now).await.unwrap()
    };
    let have_unseen = async |models: &[&ModelSummary]| {
        let mut have = Vec::new();
        for model in models {
            let file = store.unseen_models(&model.id).await.unwrap();
            assert!(file.as_ref().is_none_or(|file| file == model.id.as_str().as_bytes()));
            have.push(file.is_some());
        }
        have
    };
    let published = async || store.published(&slug, heuristic).await.unwrap().unwrap();
    assert_eq!(add(&one, judged(None, true)).await, Some(ModelState::Published));
    // The model was judged when none was published, but one is published by now. So it must be judged again,
    // and nothing is stored.
    assert_eq!(add(&two, judged(None, true)).await, None);
    assert_eq!(store.model(&two.id).await.unwrap(), None);
    assert_eq!(add(&two, judged(Some(&one), true)).await, Some(ModelState::Published));
    assert_eq!(add(&three, judged(Some(&two), false)).await, Some(ModelState::Unpublished));
    assert_eq!(published().await.id, two.id);
    let refused = store.model(&three.id).await.unwrap().unwrap();
    assert_eq!((refused.state, refused.reason.as_str()), (ModelState::Unpublished, "so they say"));
    assert_eq!(store.model(&one.id).await.unwrap().unwrap().state, ModelState::Earlier);
    // The models of cross-validations stay for the published model and for the newest model.
    assert_eq!(have_unseen(&[&one, &two, &three]).await, [false, true, true]);
    // A model of a release never replaces a model that was trained on this server.
    let shipped = model("shipped", ModelSource::Shipped);
    assert!(store.add_shipped_model(&shipped, &hardware(), &[], None, now).await.unwrap());
    assert_eq!(store.model(&shipped.id).await.unwrap().unwrap().state, ModelState::Unpublished);

    let act = async |action, model: &ModelSummary| {
        store.publish(&ask(action, model), "ada", now).await.unwrap().map(|model| model.id)
    };
    let (publish, back) = (PublicationAction::Publish, PublicationAction::RollBack);
    let (pin, unpin) = (PublicationAction::Pin, PublicationAction::Unpin);
    assert_eq!(act(pin, &one).await, Err(Refused::NotPublished));
    assert_eq!(act(publish, &two).await, Err(Refused::Published));
    assert_eq!(act(publish, &trained("none")).await, Err(Refused::Unknown));
    assert_eq!(act(PublicationAction::Refuse, &two).await, Err(Refused::OnlyTheServer));
    // The published model is pinned, so a better one stays unpublished.
    assert_eq!(act(pin, &two).await, Ok(two.id.clone()));
    assert!(published().await.pinned);
    assert_eq!(add(&four, judged(Some(&two), true)).await, Some(ModelState::Unpublished));
    assert!(store.model(&four.id).await.unwrap().unwrap().reason.contains("is pinned"));
    assert_eq!(have_unseen(&[&two, &three, &four]).await, [true, false, true]);
    assert_eq!(act(unpin, &two).await, Ok(two.id.clone()));
    // An administrator may publish a model that the server did not publish, and roll it back.
    assert_eq!(act(publish, &three).await, Ok(three.id.clone()));
    assert_eq!(store.model(&three.id).await.unwrap().unwrap().reason, "");
    assert_eq!(act(back, &two).await, Err(Refused::NotPublished));
    assert_eq!(act(back, &three).await, Ok(two.id.clone()));
    assert_eq!(act(back, &two).await, Ok(one.id.clone()));
    assert_eq!(act(back, &one).await, Err(Refused::First));
    // Even an administrator cannot publish a model that programs cannot use.
    let base = ModelSummary { model_type: ModelType::Base, ..trained("base") };
    assert_eq!(add(&base, judged(Some(&one), false)).await, Some(ModelState::Unpublished));
    assert_eq!(act(publish, &base).await, Err(Refused::ForComparison));
    assert_eq!(published().await.id, one.id);

    let history = store.publications(&slug, 100).await.unwrap();
    let steps: Vec<_> = history.iter().rev().map(|step| (step.action, step.model.clone())).collect();
    let refuse = PublicationAction::Refuse;
    let expected = [
        (publish, &one),
        (publish, &two),
        (refuse, &three),
        (refuse, &shipped),
        (pin, &two),
        (refuse, &four),
        (unpin, &two),
        (publish, &three),
        (back, &three),
        (back, &two),
        (refuse, &base),
    ];
    assert_eq!(steps, expected.map(|(action, model)| (action, model.id.clone())));
    assert_eq!((history[1].who.as_str(), history[1].why.as_str()), ("ada", "because"));
    assert_eq!((history[10].who.as_str(), history[10].why.as_str()), ("server", "so they say"));
    assert_eq!(store.publications(&slug, 1).await.unwrap().len(), 1);
    let log = store.moderation_log(6).await.unwrap();
    assert_eq!(log[0].what, format!("roll back model {}", two.id));
    assert_eq!(log[4].what, format!("pin model {}", two.id));
}

fn due_job(seed: u64) -> Job {
    let request = JobRequest { hardware: hardware().slug, ..job(seed).request };
    Job { id: JobId::of(format!("due {seed}").as_bytes()), request, automatic: true, ..job(seed) }
}

pub(crate) async fn trainings_are_due(store: &Store) {
    let now = Now::read();
    let due = Due { problems: 3, share: 0.5, pause: 60_000 };
    let later = Now(now.0 + Duration::from_secs(60));
    let measure = async |sizes: std::ops::Range<u64>| {
        let problems: Vec<_> = sizes.map(|m| mm(64 * m, 512, 512)).collect();
        store.store_upload(&upload(&dataset(hardware(), &problems, 1.0), &[hardware()])).await.unwrap();
        while store.refresh_entries().await.unwrap() > 0 {}
    };
    // Problems that existed when a released model arrived are not new.
    assert!(!store.queue_training(&due_job(0), &due, now).await.unwrap());
    measure(1..4).await;
    assert!(!store.queue_training(&due_job(0), &due, now).await.unwrap());
    // Somebody asks for a training. From then on only later problems are new.
    let asked = Job { automatic: false, ..due_job(1) };
    let of_type = JobRequest { model_type: ModelType::Base, ..due_job(9).request };
    let base = Job { automatic: false, request: of_type, ..due_job(9) };
    // A training of `base` does not count.
    assert_eq!(store.enqueue(&base, None, now).await.unwrap(), Queued::Yes);
    assert_eq!(store.enqueue(&asked, None, now).await.unwrap(), Queued::Yes);
    measure(4..6).await;
    assert!(!store.queue_training(&due_job(2), &due, later).await.unwrap());
    measure(6..7).await;
    assert!(!store.queue_training(&due_job(2), &due, now).await.unwrap(), "before the pause is over");
    // Two processes notice at the same time that a training is due.
    let (a, b) = (due_job(2), due_job(3));
    let (a, b) = tokio::join!(store.queue_training(&a, &due, later), store.queue_training(&b, &due, later));
    assert_eq!([a.unwrap(), b.unwrap()].iter().filter(|queued| **queued).count(), 1);
    let queued = store.jobs(2).await.unwrap();
    assert!(queued[0].automatic && !queued[1].automatic, "{queued:?}");
    for job in queued {
        store.cancel_job(&job.id, later).await.unwrap().unwrap();
    }
}
