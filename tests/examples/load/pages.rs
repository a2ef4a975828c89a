//! A large database: its size, how soon a server starts on it, and how fast boards and problems come.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use diode_formats::{Format, encode};

use crate::answers::Answers;
use crate::collections::Collections;
use crate::connection::{Connection, Request};
use crate::filling::{SENDERS, send};
use crate::machine::load;
use crate::pace::{at_rate, without_pause};
use crate::site::Site;

const HARDWARE: &str = "/api/v1/hardware/nvidia-h200";
const BOARD: &str = "/api/v1/hardware/nvidia-h200/leaderboard";
const POINTS: &str = "/api/v1/hardware/nvidia-h200/problems";

/// The fixed rate, in requests per second.
const RATE: f64 = 500.0;

/// The time between two uploads while pages are requested.
const UPLOAD_EVERY: Duration = Duration::from_secs(2);

pub(crate) fn run(site: &mut Site, timings: usize, time: Duration) -> anyhow::Result<()> {
    let mut making = Collections::new()?;
    fill(site, &mut making, timings)?;

    site.restart()?;
    let (database, files) = site.size()?;
    let gigabytes = (database + files) as f64 / 1e9;
    println!(
        "{:.3} GB in the database, {:.3} GB of files, {gigabytes:.3} GB in all (goal: 1.5 for 100 M timings)",
        database as f64 / 1e9,
        files as f64 / 1e9
    );
    println!("a server starts on it in {:.2} s (goal: 1)", site.start.as_secs_f64());

    let url = site.url()?.to_owned();
    let Asked { boards, problems, both } = Asked::of(&url)?;
    at_a_rate(&url, time, "p99 10 ms")?;
    let current = with_tags(&url, &boards)?;
    for (what, requests, status, goal) in [
        ("boards", &boards, 200, "2,000"),
        ("unchanged boards", &current, 304, "5,000"),
        ("problems", &problems, 200, "-"),
    ] {
        told(&format!("{what} without a pause"), goal, &|| {
            let answers = without_pause(&url, requests, time, status)?;
            Ok(format!("{:.0} a second, {answers}", answers.count() as f64 / time.as_secs_f64()))
        })?;
    }
    let uploads: Vec<Vec<u8>> = (0..time.as_secs() / UPLOAD_EVERY.as_secs())
        .map(|_| Ok(encode(Format::Columnar, &[making.others(making.problems())?])?))
        .collect::<anyhow::Result<_>>()?;
    told(&format!("boards and problems, {RATE} a second, an upload every {UPLOAD_EVERY:?}"), "-", &|| {
        let (site, answers) = (&*site, &|| at_rate(&url, &both, RATE, time, 200));
        thread::scope(|scope| {
            let asking = scope.spawn(answers);
            for bytes in &uploads {
                let start = Instant::now();
                site.upload(bytes)?;
                thread::sleep(UPLOAD_EVERY.saturating_sub(start.elapsed()));
            }
            Ok(asking.join().ok().context("a thread of requests has panicked")??.to_string())
        })
    })?;
    println!("the most memory that the server took: {:.0} MB (goal: 300)", site.peak_memory()?);
    Ok(())
}

/// Prints a figure beside its goal and the machine's load.
fn told(what: &str, goal: &str, measure: &dyn Fn() -> anyhow::Result<String>) -> anyhow::Result<()> {
    let before = load();
    println!("{what}: {} (goal: {goal}); load average {before} before, {} after", measure()?, load());
    Ok(())
}

/// Pages of boards, problems, and both in turns.
struct Asked {
    boards: Vec<Request>,
    problems: Vec<Request>,
    both: Vec<Request>,
}

impl Asked {
    fn of(url: &str) -> anyhow::Result<Self> {
        let (boards, problems) = (boards(url)?, problems(url)?);
        let both = boards.iter().cycle().zip(&problems).flat_map(|(a, b)| [a.clone(), b.clone()]).collect();
        Ok(Self { boards, problems, both })
    }
}

fn at_a_rate(url: &str, time: Duration, goal: &str) -> anyhow::Result<()> {
    let Asked { boards, problems, both } = Asked::of(url)?;
    for (what, requests) in [("boards", &boards), ("problems", &problems), ("boards and problems", &both)] {
        told(&format!("{what}, {RATE} a second"), goal, &|| {
            Ok(at_rate(url, requests, RATE, time, 200)?.to_string())
        })?;
    }
    Ok(())
}

/// How many problems a page of picks has, and how many such pages are asked for.
const PICKED: usize = 20;
const PAGES_OF_PICKS: usize = 10;

/// A server that runs, with the shipped data or more: its pages at a fixed rate, boards with filters that nobody has asked
/// for before, and picks. Nothing is written.
pub(crate) fn against(url: &str, time: Duration) -> anyhow::Result<()> {
    at_a_rate(url, time, "p99 15 ms")?;
    let filters: Vec<Request> = (0..50_000_u64).map(filtered).collect();
    told("boards with other filters each time, without a pause", "1,500 a second on SQLite", &|| {
        let answers = without_pause(url, &filters, time, 200)?;
        Ok(format!("{:.0} a second, {answers}", answers.count() as f64 / time.as_secs_f64()))
    })?;
    let mut connection = Connection::new(url);
    ensure!(connection.get(&Request::new(HARDWARE))?.status == 200, "{HARDWARE} is refused");
    let summary: serde_json::Value = serde_json::from_slice(&connection.body)?;
    let method = summary["method"].as_str().context("nothing was measured")?;
    let ids = ids(url)?;
    let page = |some: &[String]| {
        Request::new(format!("{HARDWARE}/picks?method={method}&problems={}", some.join(",")))
    };
    let pages: Vec<Request> = ids.chunks(PICKED).step_by(3).take(PAGES_OF_PICKS).map(page).collect();
    for what in ["for the first time", "again"] {
        told(&format!("picks of {PICKED} problems, {what}"), "100 ms", &|| {
            let (mut connection, mut answers) = (Connection::new(url), Answers::default());
            for request in &pages {
                let start = Instant::now();
                match connection.get(request)?.status {
                    200 => answers.add(start.elapsed()),
                    _ => answers.failed += 1,
                }
            }
            Ok(answers.sorted().to_string())
        })?;
    }
    Ok(())
}

/// The rate of a mixed load: what a busy day has, and little enough for a machine that does other work.
const MODERATE: f64 = 50.0;
const MIXED_UPLOAD_EVERY: Duration = Duration::from_secs(5);
const MIXED_PROBLEMS: usize = 20;

/// Boards, filters, problems and exports at a moderate rate, with uploads. Prints the server's memory each minute.
pub(crate) fn mixed(site: &Site, minutes: u64) -> anyhow::Result<()> {
    let (url, mut making) = (site.url()?.to_owned(), Collections::new()?);
    let mut requests = Asked::of(&url)?.both;
    requests.extend((0..requests.len() as u64 / 4).map(filtered));
    requests.extend(
        ["json", "csv", "parquet", "msgpack.zst"]
            .map(|format| Request::new(format!("/api/v1/datasets/nvidia-h100.{format}"))),
    );
    println!("{}: memory before: {:.0} MB", site.database(), site.memory()?);
    let (start, all) = (Instant::now(), Duration::from_secs(60 * minutes));
    thread::scope(|scope| {
        let asking = scope.spawn(|| at_rate(&url, &requests, MODERATE, all, 200));
        let (mut minute, mut uploads) = (1, 0);
        while start.elapsed() < all {
            let began = Instant::now();
            site.upload(&encode(Format::Columnar, &[making.others(MIXED_PROBLEMS)?])?)?;
            uploads += 1;
            if start.elapsed().as_secs() >= 60 * minute {
                println!("  after {minute} min and {uploads} uploads: {:.0} MB", site.memory()?);
                minute += 1;
            }
            thread::sleep(MIXED_UPLOAD_EVERY.saturating_sub(began.elapsed()));
        }
        let answers = asking.join().ok().context("a thread of requests has panicked")??;
        println!("  {uploads} uploads; {} answers, {answers}", answers.count());
        println!("  memory at the end: {:.0} MB, {:.0} at most", site.memory()?, site.peak_memory()?);
        Ok(())
    })
}

/// A board with a filter of its own.
fn filtered(number: u64) -> Request {
    let drawn = |from: u64, of: u64| {
        from + (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 17).wrapping_mul(from) % of
    };
    let sort = ["tflops", "time", "roofline", "gain", "ratio", "flops"][number as usize % 6];
    Request::new(format!(
        "{BOARD}?sort={sort}&min_m={}&max_n={}&min_k={}",
        drawn(1, 4_001),
        drawn(3_001, 9_001),
        drawn(7, 1_009)
    ))
}

fn fill(site: &Site, making: &mut Collections, timings: usize) -> anyhow::Result<()> {
    let before = load();
    let (problems, mut sent) = (making.problems(), 0);
    let mut all_problems = 0;
    let files = std::iter::from_fn(|| {
        (sent < timings).then(|| {
            let dataset = making.others(problems)?;
            sent += dataset.timings();
            all_problems += problems;
            Ok(encode(Format::Columnar, &[dataset])?)
        })
    });
    let took = send(site, SENDERS, files)?.as_secs_f64();
    let settled = site.settle()?.as_secs_f64();
    println!(
        "{}: {sent} timings of {all_problems} problems, made and uploaded in {took:.1} s ({:.2} M/s); boards show all of it {settled:.1} s \
         later; memory {:.0} MB; load average {before} before, {} after",
        site.database(),
        sent as f64 / took / 1e6,
        site.peak_memory()?,
        load()
    );
    Ok(())
}

/// The first pages of boards in every order and with some filters, and the page after each.
fn boards(url: &str) -> anyhow::Result<Vec<Request>> {
    let mut firsts = Vec::new();
    for sort in ["tflops", "time", "roofline", "gain", "ratio", "flops"] {
        for order in ["asc", "desc"] {
            for filter in ["", "&op=mm", "&min_m=1024", "&max_k=4096&dtype=bfloat16"] {
                firsts.push(format!("{BOARD}?sort={sort}&order={order}{filter}"));
            }
        }
    }
    let mut connection = Connection::new(url);
    let mut requests = Vec::new();
    for first in firsts {
        let request = Request::new(&first);
        ensure!(connection.get(&request)?.status == 200, "{first} is refused");
        let board: serde_json::Value = serde_json::from_slice(&connection.body)?;
        requests.push(request);
        if let Some(cursor) = board["next_cursor"].as_str() {
            requests.push(Request::new(format!("{first}&cursor={cursor}")));
        }
    }
    Ok(requests)
}

fn problems(url: &str) -> anyhow::Result<Vec<Request>> {
    Ok(ids(url)?.iter().map(|id| Request::new(format!("/api/v1/problems/{id}"))).collect())
}

/// An even sample of all problems.
fn ids(url: &str) -> anyhow::Result<Vec<String>> {
    let mut connection = Connection::new(url);
    ensure!(connection.get(&Request::new(POINTS))?.status == 200, "{POINTS} is refused");
    let points: Vec<serde_json::Value> = serde_json::from_slice(&connection.body)?;
    let ids = points.iter().filter_map(|point| point["problem_id"].as_str());
    Ok(ids.map(str::to_owned).collect())
}

/// The same requests with the tag of each answer, as from a client that has the answers already.
fn with_tags(url: &str, requests: &[Request]) -> anyhow::Result<Vec<Request>> {
    let mut connection = Connection::new(url);
    let current = |request: &Request| {
        let tag = connection.get(request)?.tag.with_context(|| format!("{} has no tag", request.path))?;
        Ok(Request { tag: Some(tag), ..request.clone() })
    };
    requests.iter().map(current).collect()
}
