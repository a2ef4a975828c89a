//! Tests that call every method of the store, in one story on both databases.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use diode_api::{
    Job, JobKind, JobRequest, JobState, Kernels, Leaderboard, LeaderboardSort, ModelState, ModelSummary,
    ProblemFilter, SortOrder, UploadLicence,
};
use diode_core::hardware::Hardware;
use diode_core::ids::{Digest, JobId, ProblemId, UploadId};
use diode_core::{Comparison, Dataset, Heuristic, Method};
use diode_server::admin::verify_entries;
use diode_server::store::{
    self, BACK_OFF, BoardQuery, Cursor, KnownHardware, LEASE, MAX_ATTEMPTS, Made, NewUpload, Now, Queued,
    Ranking, Store, View,
};
use diode_server::uploads::ingest::{UploadFacts, prepare};

use crate::models::summary;
use crate::postgres;
use crate::samples::{collected, columnar, dataset, h200, mm, seven};

#[tokio::test]
async fn sqlite_tells_the_story() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("story.db").display());
    let store = store::open(&url).await.unwrap();
    story(store).await;
    // A second opening finds the tables.
    store::open(&url).await.unwrap().close().await;
    let raw = sqlx::SqlitePool::connect(&url).await.unwrap();
    sqlx::query("UPDATE _sqlx_migrations SET checksum = x'00'").execute(&raw).await.unwrap();
    is_refused_as_another_versions(&url).await;
}

/// The tables of a development version had other steps.
async fn is_refused_as_another_versions(url: &str) {
    let message = store::open(url).await.err().unwrap().to_string();
    assert!(message.contains("another version of Diode") && message.contains("move it away"), "{message}");
}

#[tokio::test]
async fn other_databases_are_refused_without_repeating_passwords() {
    let refuse = async |url: &str| store::open(url).await.err().unwrap().to_string();
    let message = refuse("mysql://root:secret@db/diode").await;
    assert!(
        message.contains("mysql:") && message.contains("sqlite:FILE") && !message.contains("secret"),
        "{message}"
    );
    assert!(refuse("sqlite::memory:").await.contains("not durable"));
}

#[tokio::test]
async fn postgres_tells_the_story() {
    let url = postgres::create("story").await;
    story(store::open(&url).await.unwrap()).await;
    let raw = sqlx::PgPool::connect(&url).await.unwrap();
    let step = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                VALUES (2, 'board', true, '', 0)";
    sqlx::query(step).execute(&raw).await.unwrap();
    is_refused_as_another_versions(&url).await;
    postgres::remove(&url).await;
}

pub(crate) fn upload(dataset: &Dataset, given: &[Hardware]) -> NewUpload {
    let bytes = columnar(dataset);
    let source = UploadFacts {
        id: UploadId::of(&bytes),
        digest: Digest::of(&bytes),
        bytes: bytes.len() as u64,
        received_at: "2026-11-20T10:00:00Z".to_owned(),
        account: None,
        vouched: true,
        licence: UploadLicence::stated(),
    };
    let known = |hardware: &Hardware| {
        (hardware.slug.clone(), KnownHardware { hardware: hardware.clone(), confirmed: false })
    };
    let known = given.iter().map(known).collect::<BTreeMap<_, _>>();
    prepare(source, diode_formats::decode(&bytes).unwrap(), &known).unwrap()
}

async fn story(store: Arc<Store>) {
    nothing_is_there(store.as_ref()).await;
    uploads_arrive(store.as_ref()).await;
    boards_are_read(store.as_ref()).await;
    problems_are_looked_at(store.as_ref()).await;
    facts_are_learned(store.as_ref()).await;
    models_are_added(store.as_ref()).await;
    jobs_are_worked_on(store.as_ref()).await;
    crate::publication_story::models_are_published(store.as_ref()).await;
    crate::publication_story::trainings_are_due(store.as_ref()).await;
    crate::account_story::accounts_live(store.as_ref()).await;
    crate::agent_story::agents_measure(store.as_ref()).await;
    crate::asked_story::what_is_asked_for_has_a_part_of_each_lease(store.as_ref()).await;
    crate::workloads::what_most_people_want_comes_first(store.as_ref()).await;
    let verified = verify_entries(store.as_ref()).await.unwrap();
    assert!(verified.entries >= 10 && verified.differences.is_empty(), "{verified}");
    store.close().await;
    assert!(store.ping().await.is_err());
}

async fn nothing_is_there(store: &Store) {
    store.ping().await.unwrap();
    assert_eq!(store.hardware_list().await.unwrap(), []);
    assert_eq!(store.hardware_summary(&h200().slug).await.unwrap(), None);
    assert_eq!(store.receipt(&UploadId::of(b"x")).await.unwrap(), None);
    assert_eq!(store.problem(&ProblemId::of(b"x")).await.unwrap(), None);
    assert_eq!(store.problem_ways(&ProblemId::of(b"x")).await.unwrap(), []);
    assert_eq!(store.problem_points(&h200().slug, &ProblemFilter::default(), 10).await.unwrap(), []);
    assert!(store.training_data(&h200().slug).await.unwrap().solutions.is_empty());
    let ranking =
        Ranking { kernels: Kernels::Triton, sort: LeaderboardSort::Time, order: SortOrder::Ascending };
    let empty = store.leaderboard(&h200().slug, &board(ranking, None)).await.unwrap();
    assert_eq!((empty.total, empty.comparison), (0, Comparison::default()));
    assert_eq!(store.views().await.unwrap(), []);
    assert!(store.claim_job(Now::read()).await.unwrap().is_none());
    assert_eq!(store.recover_jobs(Now::read()).await.unwrap(), 0);
}

async fn uploads_arrive(store: &Store) {
    let (first, second) = (upload(&seven(), &[]), upload(&collected(), &[]));
    let overlapping = upload(&dataset(h200(), &[mm(1024, 1024, 1024), mm(4096, 4096, 4096)], 1.3), &[]);
    // These race: the same upload twice, and two other uploads for the same hardware.
    let (a, b, c, d) = tokio::join!(
        store.store_upload(&first),
        store.store_upload(&first),
        store.store_upload(&second),
        store.store_upload(&overlapping),
    );
    let (a, b) = (a.unwrap(), b.unwrap());
    assert_eq!([a.already_stored, b.already_stored].iter().filter(|&&there| there).count(), 1);
    assert_eq!((a.new_solutions, b.new_solutions), (7, 7));
    assert_eq!((c.unwrap().new_solutions, d.unwrap().new_solutions), (1, 2));
    assert!(store.receipt(&first.id).await.unwrap().unwrap().already_stored);
    // The same solutions in other bytes are duplicates.
    let mut renamed = first.clone();
    renamed.id = UploadId::of(b"other bytes");
    renamed.digest = Digest::of(b"other bytes");
    let receipt = store.store_upload(&renamed).await.unwrap();
    assert_eq!((receipt.new_solutions, receipt.duplicate_solutions), (0, 7));
    let summary = store.hardware_summary(&h200().slug).await.unwrap().unwrap();
    assert_eq!((summary.problems, summary.solutions, summary.methods.len()), (7, 10, 2));
    assert_eq!(summary.timings, 7 * 6 + 7 + 2 * 6);
    assert_eq!(store.hardware_list().await.unwrap(), [summary]);
}

fn board(ranking: Ranking, after: Option<Cursor>) -> BoardQuery {
    BoardQuery { filter: ProblemFilter::default(), ranking, limit: 3, after }
}

async fn boards_are_read(store: &Store) {
    let slug = h200().slug;
    // Seven of the eight rows have no time of the library.
    for kernels in Kernels::ALL {
        let sort = LeaderboardSort::Roofline;
        let ranking = Ranking { kernels: *kernels, sort, order: SortOrder::Ascending };
        let (mut seen, mut after) = (BTreeSet::new(), None);
        loop {
            let page = store.leaderboard(&slug, &board(ranking, after)).await.unwrap();
            assert_eq!(page.total, 8);
            seen.extend(page.items.into_iter().map(|row| (row.problem_id, row.method)));
            let Some(next) = page.next_cursor else { break };
            after = Some(Cursor::decode(&next, ranking).unwrap());
        }
        assert_eq!(seen.len(), 8, "{kernels}");
    }
    let filter = ProblemFilter { method: Some(Method::MEDIAN_COLD_EVENT), ..ProblemFilter::default() };
    let ranking =
        Ranking { kernels: Kernels::Triton, sort: LeaderboardSort::Ratio, order: SortOrder::Descending };
    let query = BoardQuery { filter, ..board(ranking, None) };
    let Leaderboard { items, total, comparison, .. } = store.leaderboard(&slug, &query).await.unwrap();
    assert_eq!((total, items[0].library.as_ref().map(|library| library.us)), (1, Some(150.0)));
    assert_eq!((comparison.problems, comparison.wins, comparison.ties), (1, 0, 0));
    assert_eq!(comparison.ratio, items[0].triton_over_library);
    let all = ProblemFilter::default();
    assert_eq!(store.problem_points(&slug, &all, 100).await.unwrap().len(), 7);
    assert_eq!(store.problem_points(&slug, &all, 3).await.unwrap().len(), 3);
    let filter = ProblemFilter { min_m: Some(1024), max_m: Some(2048), ..all };
    assert_eq!(store.problem_points(&slug, &filter, 100).await.unwrap().len(), 2);
    assert_eq!(store.problem_points(&slug, &filter, 1).await.unwrap().len(), 1);
}

async fn problems_are_looked_at(store: &Store) {
    let (slug, problem) = (h200().slug, mm(4096, 4096, 4096));
    assert_eq!(store.problem(&problem.id()).await.unwrap(), Some(problem.clone()));
    let views = store.problem_ways(&problem.id()).await.unwrap();
    assert_eq!(
        views.iter().map(|v| v.method).collect::<Vec<_>>(),
        [Method::MEDIAN_COLD_EVENT, Method::Unspecified]
    );
    let view = View { hardware: slug.clone(), problem: problem.id(), method: Method::Unspecified };
    let stored = store.view_solutions(&view).await.unwrap();
    assert_eq!((stored.solutions.len(), stored.problems.len(), stored.config_lists.len()), (2, 1, 1));
    assert_eq!(stored.decode().solutions.len(), 2);
    assert_eq!(store.training_data(&slug).await.unwrap().decode().solutions.len(), 10);
    assert_eq!(store.board_entry(&view).await.unwrap().unwrap().solutions, 2);
    let absent = View { method: Method::MEDIAN_WARM_WALL, ..view };
    assert_eq!(store.board_entry(&absent).await.unwrap(), None);
    assert!(store.view_solutions(&absent).await.unwrap().solutions.is_empty());
    assert_eq!(store.views().await.unwrap().len(), 8);
}

/// Hardware without facts has no roofline. Once somebody states facts, they also apply to earlier timings.
async fn facts_are_learned(store: &Store) {
    let unknown = Hardware::from_name("NVIDIA Z9000").unwrap();
    let slug = unknown.slug.clone();
    store.store_upload(&upload(&dataset(unknown.clone(), &[mm(512, 512, 512)], 1.0), &[])).await.unwrap();
    let before = store.hardware_summary(&slug).await.unwrap().unwrap();
    assert_eq!((before.median_roofline_share, before.hardware.facts), (None, None));
    let described = Hardware { facts: h200().facts, ..unknown };
    let more = upload(&dataset(described, &[mm(1024, 512, 512)], 1.0), &[before.hardware]);
    store.store_upload(&more).await.unwrap();
    let view = View { hardware: slug.clone(), problem: mm(512, 512, 512).id(), method: Method::Unspecified };
    let mut stale = store.stale_entries().await.unwrap();
    stale.sort();
    assert!(stale.contains(&view), "{stale:?}");
    while store.refresh_entries().await.unwrap() > 0 {}
    assert_eq!(store.stale_entries().await.unwrap(), []);
    assert!(store.board_entry(&view).await.unwrap().unwrap().roofline_share.is_some());
}

async fn models_are_added(store: &Store) {
    let (first, second) = (summary(b"first"), summary(b"second"));
    let now = Now::read();
    assert!(store.add_shipped_model(&first, &h200(), &[], None, now).await.unwrap());
    assert!(!store.add_shipped_model(&first, &h200(), &[], None, now).await.unwrap());
    assert!(store.add_shipped_model(&second, &h200(), &[], None, now).await.unwrap());
    // The newer release replaces the older one.
    let first = ModelSummary { state: ModelState::Earlier, ..first };
    assert_eq!(store.models(None, 9).await.unwrap(), [second.clone(), first.clone()]);
    assert_eq!(store.models(Some(&h200().slug), 9).await.unwrap().len(), 2);
    // A published model is listed, however many newer models exist.
    assert_eq!(store.models(None, 0).await.unwrap(), std::slice::from_ref(&second));
    assert_eq!(store.models(Some(&"nvidia-a100".parse().unwrap()), 9).await.unwrap(), []);
    assert_eq!(store.model(&first.id).await.unwrap(), Some(first));
    assert_eq!(store.model(&diode_core::ids::ModelId::of(b"x")).await.unwrap(), None);
    assert_eq!(store.hardware_summary(&h200().slug).await.unwrap().unwrap().models, 2);
}

pub(crate) fn job(seed: u64) -> Job {
    Job {
        id: JobId::of(&seed.to_le_bytes()),
        request: JobRequest { seed, ..JobRequest::new(JobKind::Train, Heuristic::Matmul, h200().slug) },
        state: JobState::Queued,
        created_at: "2026-11-20T10:00:00Z".to_owned(),
        automatic: false,
        finished_at: None,
        error: None,
        model: None,
        snapshot: None,
    }
}

async fn jobs_are_worked_on(store: &Store) {
    let start = Now::read();
    let later = |leases: u32| Now(start.0 + (LEASE + Duration::from_secs(1)) * leases);
    for seed in [1, 1, 2] {
        assert_eq!(store.enqueue(&job(seed), None, start).await.unwrap(), Queued::Yes);
    }
    assert_eq!(store.jobs(10).await.unwrap().iter().map(|j| j.request.seed).collect::<Vec<_>>(), [2, 1]);

    // Two workers never get the same job.
    let (one, two) = tokio::join!(store.claim_job(start), store.claim_job(start));
    let (one, two) = (one.unwrap().unwrap(), two.unwrap().unwrap());
    assert_ne!(one.job.id, two.job.id);
    assert!(store.claim_job(start).await.unwrap().is_none());
    let (one, two) = if one.job.request.seed == 1 { (one, two) } else { (two, one) };

    assert!(store.report(&one, start, Some((0.5, "half"))).await.unwrap());
    assert!(store.report(&one, later(1), None).await.unwrap());
    // The second worker does not report, so another worker gets its job.
    assert_eq!(store.recover_jobs(later(1)).await.unwrap(), 1);
    let again = store.claim_job(later(1)).await.unwrap().unwrap();
    assert_eq!((again.job.id.clone(), again.attempt), (two.job.id.clone(), 2));
    assert!(!store.report(&two, later(1), Some((0.9, "too late"))).await.unwrap());
    assert!(!store.finish_job(&two, later(1), Err("too late")).await.unwrap());

    // Giving the job back does not count as an attempt.
    store.release_job(&again).await.unwrap();
    let third = store.claim_job(later(1)).await.unwrap().unwrap();
    assert_eq!(third.attempt, 2);

    let model = summary(b"first").id;
    assert!(store.finish_job(&one, later(1), Ok(&Made::Model(model.clone()))).await.unwrap());
    let done = store.job(&one.job.id).await.unwrap().unwrap();
    assert_eq!((done.state, done.model, done.error), (JobState::Done, Some(model), None));
    let events = store.job_events(&one.job.id, 0).await.unwrap();
    let states: Vec<_> = events.iter().map(|e| (e.seq, e.state, e.progress)).collect();
    let (queued, running) = (JobState::Queued, JobState::Running);
    assert_eq!(states, [(1, queued, 0.0), (2, running, 0.0), (3, running, 0.5), (4, JobState::Done, 1.0)]);
    assert_eq!(store.job_events(&one.job.id, 3).await.unwrap(), events[3..]);

    // A job whose workers die again and again is given up.
    for round in u32::try_from(third.attempt).unwrap()..u32::try_from(MAX_ATTEMPTS).unwrap() {
        assert_eq!(store.recover_jobs(later(round)).await.unwrap(), 1);
        assert!(store.claim_job(later(round)).await.unwrap().is_some());
    }
    assert_eq!(store.recover_jobs(later(9)).await.unwrap(), 1);
    let failed = store.job(&third.job.id).await.unwrap().unwrap();
    assert_eq!(failed.state, JobState::Failed);
    assert!(failed.error.unwrap().contains("workers died"));
    assert_eq!(store.job(&JobId::of(b"x")).await.unwrap(), None);

    // A job that fails for a reason that may pass is tried again after a while, but not for ever.
    assert_eq!(store.enqueue(&job(3), None, start).await.unwrap(), Queued::Yes);
    let mut at = start;
    for attempt in 1..=MAX_ATTEMPTS {
        let claim = store.claim_job(at).await.unwrap().unwrap();
        assert_eq!((claim.job.request.seed, claim.attempt), (3, attempt));
        assert!(store.postpone_job(&claim, at, "the disk is full").await.unwrap());
        assert!(!store.postpone_job(&claim, at, "the disk is full").await.unwrap());
        assert!(store.claim_job(at).await.unwrap().is_none());
        let wait = BACK_OFF * 2_u32.pow(u32::try_from(attempt - 1).unwrap());
        assert!(store.claim_job(Now(at.0 + wait - Duration::from_millis(1))).await.unwrap().is_none());
        at = Now(at.0 + wait);
    }
    let failed = store.job(&job(3).id).await.unwrap().unwrap();
    assert_eq!(failed.state, JobState::Failed);
    assert!(failed.error.unwrap().contains("the disk is full"));
}
