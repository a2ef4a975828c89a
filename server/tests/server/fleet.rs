//! Tests two servers and three workers as separate processes on one Postgres.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use diode_api::{Job, JobKind, JobState, ModelSummary};
use diode_server::store::LEASE;
use sqlx::{Connection as _, PgConnection};

use crate::postgres;
use crate::process::Server;
use crate::samples::{columnar, seven};

/// More trainings than the workers take at once.
const TRAININGS: u64 = 8;

/// Longer than the time between two reports of a worker.
const SILENT: Duration = Duration::from_secs(3);

fn worker(folder: &Path, database_url: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_diode-server"))
        .args(["worker", "--auto-train", "off", "--database-url", database_url])
        .env("DIODE_BLOBS", "blobs")
        .current_dir(folder)
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The trainings, without the snapshot that follows the first model.
fn jobs(server: &Server) -> Vec<Job> {
    let jobs: Vec<Job> = server.get("/api/v1/jobs");
    jobs.into_iter().filter(|job| job.request.kind == JobKind::Train).collect()
}

fn number(server: &Server, state: JobState) -> usize {
    jobs(server).iter().filter(|job| job.state == state).count()
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(180), "{what}: it never came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Ends the claims that were not renewed lately, as if their time were over. Returns their jobs, and how often
/// each has begun.
async fn end_silent_leases(db: &mut PgConnection) -> Vec<(String, i64)> {
    let renewed = jiff::Timestamp::now().as_millisecond() + (LEASE - SILENT).as_millis() as i64;
    let update =
        "UPDATE jobs SET lease_until = 0 WHERE state = 'running' AND lease_until < $1 RETURNING id, attempt";
    sqlx::query_as(update).bind(renewed).fetch_all(db).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_job_is_done_once_and_that_of_a_killed_worker_by_another() {
    let url = postgres::create("fleet").await;
    let folder = tempfile::tempdir().unwrap();
    let servers = [(); 2].map(|()| {
        let mut command = Server::command_on(folder.path(), &url);
        Server::started(command.args(["--auto-train", "off"]).spawn().unwrap())
    });
    assert_eq!(servers[0].status("/api/v1/uploads", Some(&columnar(&seven()))), 201);
    let mut workers = [(); 3].map(|()| worker(folder.path(), &url));
    for seed in 0..TRAININGS {
        let ask =
            format!(r#"{{"kind":"train","heuristic":"matmul","hardware":"nvidia-h200","seed":{seed}}}"#);
        assert_eq!(servers[seed as usize % 2].status("/api/v1/jobs", Some(ask.as_bytes())), 202);
    }
    wait_until("all workers work", || number(&servers[1], JobState::Running) == workers.len());
    let [killed, ..] = &mut workers;
    killed.kill().unwrap();
    killed.wait().unwrap();
    tokio::time::sleep(SILENT).await;
    let mut db = PgConnection::connect(&url).await.unwrap();
    let lost = end_silent_leases(&mut db).await;
    assert_eq!(
        lost.iter().map(|(_, attempt)| *attempt).collect::<Vec<_>>(),
        [1],
        "of the killed worker alone"
    );
    wait_until("all are done", || number(&servers[0], JobState::Done) == TRAININGS as usize);

    let attempts: Vec<(String, i64)> =
        sqlx::query_as("SELECT id, attempt FROM jobs").fetch_all(&mut db).await.unwrap();
    for (job, attempt) in &attempts {
        assert_eq!(*attempt, if *job == lost[0].0 { 2 } else { 1 }, "{job}");
    }
    let models: Vec<ModelSummary> = servers[1].get("/api/v1/models");
    let mut made: Vec<_> = models.iter().filter_map(|model| model.job.clone()).collect();
    let mut done: Vec<_> = jobs(&servers[0]).into_iter().map(|job| job.id).collect();
    made.sort();
    done.sort();
    assert_eq!((made.len() as u64, made), (TRAININGS, done));
    for worker in &mut workers {
        let _ = worker.kill();
        worker.wait().unwrap();
    }
    for server in servers {
        server.kill();
    }
    db.close().await.unwrap();
    postgres::remove(&url).await;
}
