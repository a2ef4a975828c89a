//! What uploads and pages cost on a running server that is empty at first:
//!
//!     diode-server serve --no-worker --database-url sqlite:load.db --blobs load-blobs
//!     cargo run -p diode-server --example load -- http://127.0.0.1:8080 40 10000
//!
//! Uploads so many collections shaped like the H200's (209 problems, 1,534 configs), each with noise of
//! its own, then so many other problems of one config, and reads pages.

use std::time::Instant;

use anyhow::{Context as _, bail};
use diode_core::hardware::find;
use diode_core::{
    Config, ConfigDictionary, ConfigIndex, DType, Dataset, Method, Op, Problem, ProblemFields, Provenance,
    Solution, Tile, TimeColumn,
};
use diode_formats::{Format, encode};

const PROBLEMS: u64 = 209;
const CONFIGS: usize = 1534;

fn main() -> anyhow::Result<()> {
    let usage = "usage: load URL COLLECTIONS PROBLEMS";
    let mut given = std::env::args().skip(1);
    let mut next = || given.next().context(usage);
    let (url, collections, problems): (String, u64, u64) = (next()?, next()?.parse()?, next()?.parse()?);

    for number in 1..=collections {
        let bytes = encode(Format::Columnar, &[collection(number)])?;
        let seconds = upload(&url, &bytes)?;
        if [1, 2, 3, 10, 20, 40, 100, 200, 300].contains(&number) {
            println!("upload {number:>3} of the same problems: {seconds:.2} s");
        }
    }
    let mut done = 0;
    while done < problems {
        let some = (problems - done).min(5_000);
        let bytes = encode(Format::Columnar, &[many(done..done + some)])?;
        let seconds = upload(&url, &bytes)?;
        done += some;
        println!("{some} new problems: {seconds:.2} s");
    }
    let board = format!("{url}/api/v1/hardware/nvidia-h200/leaderboard");
    for path in [
        format!("{url}/api/v1/hardware"),
        format!("{url}/api/v1/hardware/nvidia-h200"),
        board.clone(),
        format!("{board}?sort=gain&order=asc"),
        format!("{board}?op=mm&min_m=1024&sort=time"),
        format!("{url}/api/v1/hardware/nvidia-h200/problems"),
    ] {
        let times = (0..20)
            .map(|_| get(&path, None).map(|(seconds, _)| seconds))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let (first, rest) = (times[0], &times[1..]);
        let mean = rest.iter().sum::<f64>() / rest.len() as f64;
        println!("{}: first {:.1} ms, then {:.1} ms", path.trim_start_matches(&url), 1e3 * first, 1e3 * mean);
    }
    let table = format!("{url}/api/v1/tables/nvidia-h200.json?top=1");
    let (seconds, tag) = get(&table, None)?;
    println!("table: {:.1} ms", 1e3 * seconds);
    println!("table, again: {:.1} ms", 1e3 * get(&table, None)?.0);
    println!("table, unchanged (304): {:.1} ms", 1e3 * get(&table, Some(&tag))?.0);
    Ok(())
}

fn collection(number: u64) -> Dataset {
    let mut configs = ConfigDictionary::default();
    let tiles = (0..CONFIGS as u32).map(|at| {
        let block = |shift: u32| 16 << ((at >> shift) % 4);
        Config::Mm(Tile { group_m: 1 + at / 64, ..Tile::new(block(0), block(2), block(4), 3, 4) })
    });
    let list: Vec<ConfigIndex> = tiles.map(|config| configs.intern(config)).collect();
    let solutions = (0..PROBLEMS).map(|at| solution(256 + 16 * at, &list, number)).collect();
    dataset(configs, solutions)
}

fn many(range: std::ops::Range<u64>) -> Dataset {
    let mut configs = ConfigDictionary::default();
    let list = [configs.intern(Config::Mm(Tile::new(128, 128, 64, 3, 4)))];
    dataset(configs, range.map(|at| solution(20_000 + at, &list, 1)).collect())
}

fn dataset(configs: ConfigDictionary, solutions: Vec<Solution>) -> Dataset {
    let hardware = find("nvidia-h200").expect("it is in the catalogue");
    Dataset { hardware, provenance: Provenance::default(), configs, solutions }
}

fn solution(m: u64, list: &[ConfigIndex], number: u64) -> Solution {
    let fields = ProblemFields::plain(Op::Mm, 1, m, 1024, 1024, DType::BFloat16);
    let times = (0..list.len() as u64).map(|row| {
        // Noise that no two uploads share.
        let noise = (row.wrapping_mul(0x9e37_79b9) ^ number.wrapping_mul(0x85eb_ca6b) ^ (m << 7)) % 9973;
        200_000 + 100 * row + noise
    });
    Solution {
        problem: Problem::new(fields).expect("a plain problem"),
        method: Method::Unspecified,
        configs: list.to_vec(),
        times: TimeColumn::from_nanos(times.collect()).expect("times of some 0.2 ms"),
        minimum_ns: None,
        spread_ns: None,
        repeats: None,
        failures: Vec::new(),
    }
}

fn upload(url: &str, bytes: &[u8]) -> anyhow::Result<f64> {
    let start = Instant::now();
    let reply =
        ureq::post(format!("{url}/api/v1/uploads")).content_type("application/octet-stream").send(bytes)?;
    if reply.status() != 201 {
        bail!("{}: expected an empty server", reply.status());
    }
    Ok(start.elapsed().as_secs_f64())
}

/// Seconds until everything has arrived, and the tag.
fn get(url: &str, tag: Option<&str>) -> anyhow::Result<(f64, String)> {
    let start = Instant::now();
    let mut request = ureq::get(url);
    if let Some(tag) = tag {
        request = request.header("if-none-match", tag);
    }
    let mut reply = request.call()?;
    let tag = reply.headers().get("etag").and_then(|tag| tag.to_str().ok()).unwrap_or_default().to_owned();
    reply.body_mut().with_config().limit(u64::MAX).read_to_vec()?;
    Ok((start.elapsed().as_secs_f64(), tag))
}
