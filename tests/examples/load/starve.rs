//! Clients that take what they can and give nothing: silent connections, slow heads, slow uploads and slow readers, all
//! together, and an honest client beside them. They reconnect as soon as they are cut off.

use std::io::{Read as _, Write as _};
use std::net::TcpStream as Plain;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use diode_formats::{Format, encode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::sleep;

use crate::answers::Answers;
use crate::collections::Collections;
use crate::machine::load;
use crate::site::Site;

const IDLE: usize = 2_000;
const SLOW_HEADS: usize = 400;
const SLOW_UPLOADS: usize = 64;
const SLOW_READERS: usize = 400;

/// Just above the rate below which an upload is refused, in bytes and per pause.
const PAUSE: Duration = Duration::from_secs(1);
const UPLOADED: usize = 17 * 1024;
const READ: usize = 1024;

/// The slow ones have so many addresses, which the server takes from the proxy.
const ADDRESSES: usize = 4;

/// The time between honest requests, each on a new connection, and between honest uploads.
const BETWEEN_REQUESTS: Duration = Duration::from_millis(50);
const BETWEEN_UPLOADS: Duration = Duration::from_secs(3);

/// An answer that takes longer counts as none.
const PATIENCE: Duration = Duration::from_secs(30);

/// Everything that can be exported of the shipped data, and a page.
const EXPORTS: [&str; 7] = [
    "/api/v1/datasets/nvidia-h200.json",
    "/api/v1/datasets/nvidia-h200.csv",
    "/api/v1/datasets/nvidia-h200.parquet",
    "/api/v1/datasets/nvidia-h200.msgpack.zst",
    "/api/v1/tables/nvidia-h200.json?top=10",
    "/api/v1/hardware/nvidia-h200/configs",
    "/api/v1/hardware/nvidia-h200/leaderboard?limit=200",
];

/// As a public server behind a proxy, where each client has the limits of its address.
const PUBLIC: [&str; 5] = [
    "--behind-proxy",
    "--public-url=https://diode.example.org",
    "--anonymous=all",
    "--exports-per-minute=0",
    "--uploads-per-minute=0",
];

pub(crate) fn run(database: Option<&str>, time: Duration) -> anyhow::Result<()> {
    let site = Site::shipped(database, &PUBLIC)?;
    let mut making = Collections::new()?;
    let uploads = (time.as_secs() / BETWEEN_UPLOADS.as_secs()) as usize + 1;
    let files = (0..uploads).map(|_| Ok(encode(Format::Columnar, &[making.others(4)?])?));
    let files = files.collect::<anyhow::Result<Vec<_>>>()?;
    let host = site.url()?.trim_start_matches("http://").to_owned();
    let (quiet, _) = honest(&host, Duration::from_secs(5), &[])?;
    println!("{}, before: {quiet}", site.database());

    let (before, runtime) = (load(), Runtime::new()?);
    for number in 0..IDLE {
        runtime.spawn(again(host.clone(), number, Kind::Idle));
    }
    for (count, kind) in
        [(SLOW_HEADS, Kind::SlowHead), (SLOW_UPLOADS, Kind::SlowUpload), (SLOW_READERS, Kind::SlowReader)]
    {
        for number in 0..count {
            runtime.spawn(again(host.clone(), number, kind));
        }
    }
    thread::sleep(Duration::from_secs(5));
    let (requests, uploads) = honest(&host, time, &files)?;
    runtime.shutdown_background();
    println!(
        "with {IDLE} silent connections, {SLOW_HEADS} slow heads, {SLOW_UPLOADS} slow uploads and {SLOW_READERS} slow readers, \
         for {} s:",
        time.as_secs()
    );
    println!("  honest requests, {}: {requests} (goal: p99 200 ms)", requests.count());
    println!("  honest uploads, {}: {uploads} (goal: 2,000 ms)", uploads.count());
    println!(
        "  memory of the server: {:.0} MB at most (goal: 400); load average {before} before, {} after",
        site.peak_memory()?,
        load()
    );
    ensure!(requests.failed == 0 && uploads.failed == 0, "honest clients were refused");
    Ok(())
}

/// Asks for boards, and sends files now and then, each on a connection of its own.
fn honest(host: &str, time: Duration, files: &[Vec<u8>]) -> anyhow::Result<(Answers, Answers)> {
    let start = Instant::now();
    let ask = || {
        let mut answers = Answers::default();
        while start.elapsed() < time {
            let path = "/api/v1/hardware/nvidia-h200/leaderboard?limit=50";
            let request = format!(
                "GET {path} HTTP/1.1\r\nhost: {host}\r\nx-forwarded-for: 198.51.100.1\r\nconnection: close\r\n\r\n"
            );
            note(&mut answers, || exchange(host, request.as_bytes(), &[]), 200);
            thread::sleep(BETWEEN_REQUESTS);
        }
        answers
    };
    let send = || {
        let mut answers = Answers::default();
        for file in files {
            if start.elapsed() >= time {
                break;
            }
            let head = format!(
                "POST /api/v1/uploads HTTP/1.1\r\nhost: {host}\r\nx-forwarded-for: 198.51.100.2\r\n\
                 content-type: application/octet-stream\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                file.len()
            );
            note(&mut answers, || exchange(host, head.as_bytes(), file), 201);
            thread::sleep(BETWEEN_UPLOADS);
        }
        answers
    };
    thread::scope(|scope| {
        let (asking, sending) = (scope.spawn(ask), scope.spawn(send));
        let answers = |thread: thread::ScopedJoinHandle<'_, Answers>| {
            thread.join().ok().context("an honest client has panicked").map(Answers::sorted)
        };
        Ok((answers(asking)?, answers(sending)?))
    })
}

fn note(answers: &mut Answers, exchange: impl Fn() -> std::io::Result<u16>, expected: u16) {
    let start = Instant::now();
    match exchange() {
        Ok(status) if status == expected => answers.add(start.elapsed()),
        _ => answers.failed += 1,
    }
}

/// The status of the answer, once all of it has come.
fn exchange(host: &str, head: &[u8], body: &[u8]) -> std::io::Result<u16> {
    let mut stream = Plain::connect(host)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(head)?;
    stream.write_all(body)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let line = String::from_utf8_lossy(answer.get(..12).unwrap_or_default()).into_owned();
    Ok(line.rsplit(' ').next().and_then(|status| status.parse().ok()).unwrap_or(0))
}

#[derive(Clone, Copy)]
enum Kind {
    Idle,
    SlowHead,
    SlowUpload,
    SlowReader,
}

/// Holds a connection as long as the server lets it, then the next one.
async fn again(host: String, number: usize, kind: Kind) {
    loop {
        // However it ends, it begins anew.
        _ = hold(&host, number, kind).await;
        sleep(Duration::from_millis(200)).await;
    }
}

async fn hold(host: &str, number: usize, kind: Kind) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(host).await?;
    let address = format!("x-forwarded-for: 203.0.113.{}\r\n", number % ADDRESSES);
    match kind {
        Kind::Idle => {
            stream.read_u8().await?;
        }
        Kind::SlowHead => {
            stream.write_all(b"GET / HTTP/1.1\r\nx: ").await?;
            loop {
                stream.write_all(b"x").await?;
                sleep(PAUSE).await;
            }
        }
        Kind::SlowUpload => {
            let head = format!(
                "POST /api/v1/uploads HTTP/1.1\r\nhost: {host}\r\n{address}content-length: 60000000\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).await?;
            loop {
                stream.write_all(&[b'x'; UPLOADED]).await?;
                sleep(PAUSE).await;
            }
        }
        Kind::SlowReader => {
            let path = EXPORTS[number % EXPORTS.len()];
            let head = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n{address}\r\n");
            stream.write_all(head.as_bytes()).await?;
            let mut some = [0; READ];
            while stream.read(&mut some).await? > 0 {
                sleep(PAUSE).await;
            }
        }
    }
    Ok(())
}
