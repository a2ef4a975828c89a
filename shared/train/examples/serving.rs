//! Scaled, grouped and experts problems: makes datasets, and judges the part of a model that `diode train --onto` learns.
//!
//! ```sh
//! cargo run --release -p diode-train --example serving -- data learnt.jsonl learnt.msgpack.zst
//! cargo run --release -p diode-train --example serving -- judge MODEL KEPT…
//! cargo run --release -p diode-train --example serving -- rivals MODEL kept.jsonl KEPT…
//! cargo run --release -p diode-train --example serving -- lend FROM TO
//! ```
//!
//! `lend` copies the part into the model of other hardware, for which it then stands in.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::BufRead as _;
use std::path::Path;
use std::time::Instant;

use diode_core::hardware::find;
use diode_core::{
    Config, ConfigDictionary, ConfigFields, ConfigIndex, Dataset, Method, Problem, Provenance, Solution,
    TimeColumn,
};
use diode_model::{Model, Question, Ranker, Serving, ServingKind};
use diode_train::{JudgedServing, geomean, judge_serving, serving_figures};
use serde::Deserialize;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// A line of `lab/serving/datasets.py`: the configs of what follows, or a problem's times.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Times {
        problem: Box<Problem>,
        configs: Vec<usize>,
        ns: Vec<u64>,
        library_ns: Option<u64>,
        /// Defaults and published files of vLLM and SGLang: what each gives this problem.
        #[serde(default)]
        named: BTreeMap<String, usize>,
    },
    Configs {
        configs: Vec<ConfigFields>,
    },
}

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["data", from, to] => data(from, to),
        ["judge", model, ref kept @ ..] => {
            let model = Model::from_bytes(&std::fs::read(model)?)?;
            let serving = model.serving().ok_or("the model has no part for these problems")?;
            let kept = read(kept)?;
            table(&judge_serving(serving, &kept)?);
            speed(&model, &kept)
        }
        ["rivals", model, named, ref kept @ ..] => rivals(model, named, &read(kept)?),
        ["lend", from, to] => lend(from, to),
        _ => Err("expected data, judge, rivals or lend; see the source's first lines".into()),
    }
}

fn data(from: &str, to: &str) -> Outcome {
    // A graph of many launches was timed as a whole. Times of the collector are longer.
    let method = Method::try_from("mean-cold-event".to_owned())?;
    let (mut known, mut configs) = (Vec::new(), ConfigDictionary::default());
    let mut solutions = Vec::new();
    for line in std::io::BufReader::new(std::fs::File::open(from)?).lines() {
        match serde_json::from_str(&line?)? {
            Line::Configs { configs } => {
                known = configs.into_iter().map(Config::try_from).collect::<Result<_, _>>()?;
            }
            Line::Times { problem, configs: which, ns, library_ns, .. } => {
                let mut indices: Vec<ConfigIndex> =
                    which.iter().map(|&at| configs.intern(known[at].for_k(problem.k))).collect();
                indices.extend(library_ns.map(|_| configs.intern(Config::Library)));
                let times = TimeColumn::from_nanos(ns.into_iter().chain(library_ns).collect())?;
                solutions.push(Solution {
                    problem: *problem,
                    method,
                    configs: indices,
                    times,
                    minimum_ns: None,
                    spread_ns: None,
                    repeats: None,
                    failures: Vec::new(),
                });
            }
        }
    }
    let node = [("torch", "2.11.0"), ("triton", "3.6.0"), ("library", "torch._scaled_mm, torch._grouped_mm")];
    let provenance = Provenance {
        tool: Some("lab/serving".to_owned()),
        node: node.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        ..Provenance::default()
    };
    let hardware = find("nvidia-h200").ok_or("the catalogue has the H200")?;
    let set = Dataset { hardware, provenance, configs, solutions };
    println!("{} problems, {} timings", set.solutions.len(), set.timings());
    Ok(diode_formats::write_file(Path::new(to), &[set])?)
}

fn read(paths: &[&str]) -> Outcome<Vec<Dataset>> {
    let mut all = Vec::new();
    for path in paths {
        all.extend(diode_formats::read_file(Path::new(path))?.datasets);
    }
    Ok(all)
}

/// Sets first picks for layers of experts beside the defaults and published files of vLLM and SGLang.
fn rivals(model: &str, named: &str, kept: &[Dataset]) -> Outcome {
    let model = Model::from_bytes(&std::fs::read(model)?)?;
    let serving = model.serving().ok_or("the model has no part for these problems")?;
    let (mut known, mut rivals) = (Vec::new(), BTreeMap::new());
    for line in std::io::BufReader::new(std::fs::File::open(named)?).lines() {
        match serde_json::from_str(&line?)? {
            Line::Configs { configs } => {
                known = configs.into_iter().map(Config::try_from).collect::<Result<Vec<_>, _>>()?;
            }
            Line::Times { problem, named, .. } => {
                let of = named.into_iter().map(|(name, at)| (name, known[at].for_k(problem.k)));
                rivals.insert(problem.canonical(), of.collect::<Vec<_>>());
            }
        }
    }
    let mut ratios: BTreeMap<(ServingKind, String), Vec<f64>> = BTreeMap::new();
    for one in judge_serving(serving, kept)? {
        for (name, config) in rivals.get(&one.problem.canonical()).into_iter().flatten() {
            let Some((_, us)) = one.timed.iter().find(|(timed, _)| timed == config) else { continue };
            let key = (ServingKind::of(&one.problem), name.clone());
            ratios.entry(key).or_default().push(us / one.first);
        }
    }
    println!("| kind | rival | problems | first pick over it | least | at least as fast | within 1 % |");
    println!("|---|---|---|---|---|---|---|");
    for ((kind, name), of) in ratios {
        let share =
            |least: f64| 100.0 * of.iter().filter(|ratio| **ratio >= least).count() as f64 / of.len() as f64;
        println!(
            "| {kind} | {name} | {} | {:.3} | {:.3} | {:.0} % | {:.0} % |",
            of.len(),
            geomean(of.iter().copied()),
            of.iter().copied().fold(f64::INFINITY, f64::min),
            share(1.0),
            share(0.99),
        );
    }
    Ok(())
}

fn lend(from: &str, to: &str) -> Outcome {
    let lender = Model::from_bytes(&std::fs::read(from)?)?;
    let mut serving: Serving = lender.serving().ok_or("the first model has no such part")?.clone();
    serving.about.stands_in_from = Some(lender.metadata().hardware.slug.clone());
    serving.about.judged.clear();
    let model = Model::from_bytes(&std::fs::read(to)?)?.with_serving(serving);
    Ok(diode_formats::write_atomically(Path::new(to), &model.to_bytes()?)?)
}

/// Prints shares of the best in %, and the speed over what runs untuned by rows or tokens.
fn table(judged: &[JudgedServing]) {
    const SHOWN: [u64; 7] = [1, 16, 64, 256, 512, 1024, 4096];
    println!(
        "| kind | problems | first pick, mean / worst | first five | over untuned at {SHOWN:?} | least |"
    );
    println!("|---|---|---|---|---|---|");
    for figures in serving_figures(judged) {
        let of: Vec<&JudgedServing> =
            judged.iter().filter(|one| ServingKind::of(&one.problem) == figures.kind).collect();
        let mut over: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for one in &of {
            over.entry(one.problem.tokens()).or_default().extend(one.untuned.map(|us| us / one.first));
        }
        let shown = SHOWN.map(|m| match over.get(&m) {
            Some(ratios) if !ratios.is_empty() => format!("{:.2}", geomean(ratios.iter().copied())),
            _ => "–".to_owned(),
        });
        let least = over.values().flatten().fold(f64::INFINITY, |least, ratio| least.min(*ratio));
        let all = geomean(over.values().flatten().copied());
        println!(
            "| {} | {} | {:.2} / {:.1} | {:.2} | {}; all {all:.3} | {least:.3} |",
            figures.kind,
            figures.problems,
            100.0 * figures.first.0,
            100.0 * figures.first.1,
            100.0 * figures.five,
            shown.join(" / "),
        );
    }
    let mut worst: Vec<&JudgedServing> = judged.iter().collect();
    worst.sort_by(|a, b| (a.best / a.first).total_cmp(&(b.best / b.first)));
    for one in worst.iter().take(12) {
        eprintln!(
            "{:.3} {}: first {:.1} µs, best {:.1}, predicted {:.1}, untuned {:?}",
            one.best / one.first,
            one.problem.canonical(),
            one.first,
            one.best,
            one.predicted,
            one.untuned
        );
    }
}

/// Prints how long a ranking takes.
fn speed(model: &Model, kept: &[Dataset]) -> Outcome {
    let problems: Vec<&Problem> =
        kept.iter().flat_map(|set| &set.solutions).map(|one| &one.problem).collect();
    let mut ranker = Ranker::new(model);
    let mut times: Vec<f64> = Vec::new();
    for problem in &problems {
        let started = Instant::now();
        ranker.answer(problem, &Question::default())?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    println!(
        "{} rankings: {:.3} ms in the median, {:.3} in the 95th percentile",
        times.len(),
        times[times.len() / 2],
        times[times.len() * 95 / 100]
    );
    Ok(())
}
