//! Liars against the shipped data of the H100, with the shipped model in force. A training gives the same model for the
//! same set and seed, so where a lie changes nothing of the set, it changes no first pick.

use std::path::{Path, PathBuf};

use diode_api::Standing;
use diode_core::Tile;
use diode_core::ids::Digest;
use diode_core::space::config_for;
use diode_formats::read_file;
use diode_train::TrainingSet;

use super::*;
use crate::uploads::solutions::Encoder;

const DAY: i64 = 24 * 3600 * 1000;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../trained_models/matmul/nvidia-h100")
}

/// The datasets that `admin seed` takes.
fn shipped() -> Vec<Dataset> {
    let files = std::fs::read_dir(folder().join("data")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "zst")).collect();
    files.sort();
    files.iter().flat_map(|file| read_file(file).unwrap().datasets).collect()
}

fn in_force() -> Model {
    Model::from_bytes(&std::fs::read(folder().join("matmul-nvidia-h100.safetensors")).unwrap()).unwrap()
}

/// What some datasets are in the database, sent by an account that was made on a day. The operator's have no account.
fn send(stored: &mut StoredSolutions, datasets: &[Dataset], account: Option<(&str, i64)>) {
    for data in datasets {
        let mut encoder = Encoder::new(&data.configs);
        for solution in &data.solutions {
            let (list, unpacked, columns) = encoder.encode(solution);
            let (problem, number) = (solution.problem.id(), stored.solutions.len() as i64 + 1);
            stored.config_lists.insert(list.0.clone(), list.1.clone());
            stored.problems.insert(problem.clone(), solution.problem.clone());
            stored.solutions.push(StoredSolution {
                number,
                digest: Digest::of(&columns),
                hardware: data.hardware.slug.clone(),
                problem,
                method: solution.method,
                contributor: account.map(|(name, _)| AccountId::of(name.as_bytes())),
                vouched: account.is_none(),
                since: account.map(|(_, day)| day * DAY),
                standing: Standing::Counts,
                config_list: list.0.clone(),
                columns,
                unpacked: Some(unpacked),
                timings: solution.configs.len() as u64,
                failures: solution.failures.len() as u64,
                best_us: None,
            });
        }
    }
}

/// What is told of each problem.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Lie {
    /// The slowest config is the best.
    Known,
    /// A config that nobody has measured is the best.
    New,
    /// The shipped times, and a new best.
    Copied,
    /// All times, but shorter.
    Scaled,
}

const LIES: [Lie; 4] = [Lie::Known, Lie::New, Lie::Copied, Lie::Scaled];
const FACTORS: [f64; 4] = [0.98, 0.95, 0.85, 0.70];

/// Tiles of which at least one was not measured for any problem.
const RARE: [(u32, u32, u32, u32, u32); 4] =
    [(32, 128, 64, 5, 8), (16, 256, 32, 6, 8), (256, 16, 32, 6, 8), (32, 32, 256, 2, 8)];

/// `seed` makes small differences, as between two runs.
fn told(honest: &[Dataset], lie: Lie, factor: f64, seed: usize) -> Vec<Dataset> {
    let mut all = honest.to_vec();
    for data in &mut all {
        for (at, solution) in data.solutions.iter_mut().enumerate() {
            let tiles: Vec<usize> = (0..solution.configs.len())
                .filter(|row| !data.configs.get(solution.configs[*row]).is_library())
                .collect();
            let time = |row: usize| solution.times.nanos(row).0;
            let by_time = |a: &&usize, b: &&usize| time(**a).total_cmp(&time(**b));
            let (Some(&best), Some(&worst)) = (tiles.iter().min_by(by_time), tiles.iter().max_by(by_time))
            else {
                continue;
            };
            let noise = 1.0 + 0.002 * ((at * 7 + seed * 3) % 5) as f64;
            let said = time(best) * factor * noise;
            let problem = &solution.problem;
            let rare =
                RARE.map(|(m, n, k, s, w)| config_for(problem.op, Tile::new(m, n, k, s, w).for_k(problem.k)));
            let is_new =
                |config: &Config| !solution.configs.iter().any(|own| data.configs.get(*own) == config);
            let times: Vec<f64> = (0..solution.configs.len()).map(time).collect();
            let (configs, times) = match lie {
                Lie::Known => (vec![solution.configs[worst]], vec![said]),
                Lie::New | Lie::Copied => {
                    let new = data.configs.intern(rare.into_iter().find(is_new).unwrap());
                    if lie == Lie::New {
                        (vec![new], vec![said])
                    } else {
                        let configs = solution.configs.iter().copied().chain([new]).collect();
                        (configs, times.into_iter().chain([said]).collect())
                    }
                }
                Lie::Scaled => {
                    (solution.configs.clone(), times.iter().map(|time| time * factor * noise).collect())
                }
            };
            *solution = Solution {
                problem: solution.problem.clone(),
                method: solution.method,
                configs,
                times: TimeColumn::from_nanos(times.iter().map(|time| *time as u64).collect()).unwrap(),
                minimum_ns: None,
                spread_ns: None,
                repeats: None,
                failures: Vec::new(),
            };
        }
    }
    all
}

/// Every fourth solution, from one on.
fn quarter(all: &[Dataset], from: usize) -> Vec<Dataset> {
    let mut all = all.to_vec();
    for data in &mut all {
        let mut at = 0;
        data.solutions.retain(|_| {
            at += 1;
            at % 4 == from
        });
    }
    all
}

fn learnt(stored: StoredSolutions, in_force: &Model) -> (TrainingSet, Admitted) {
    let admitted = admit(in_force.metadata().hardware.clone(), stored, Some(in_force));
    (TrainingSet::from_datasets(std::slice::from_ref(&admitted.dataset), None).unwrap(), admitted)
}

/// Each kind of lie is told of all problems, by one account or by five that were made within a week.
#[test]
fn no_lie_about_the_shipped_problems_teaches_anything() {
    let (data, in_force) = (shipped(), in_force());
    let quarters: Vec<Vec<Dataset>> = (0..4).map(|from| quarter(&data, from)).collect();
    let honest = |part: &[Dataset]| {
        let mut stored = StoredSolutions::default();
        send(&mut stored, part, None);
        stored
    };
    let before: Vec<TrainingSet> = quarters.iter().map(|part| learnt(honest(part), &in_force).0).collect();
    let problems: usize = before.iter().map(TrainingSet::problems).sum();
    assert!(problems > 1_000, "{problems}");
    for (place, lie) in LIES.into_iter().enumerate() {
        for (number, factor) in FACTORS.into_iter().enumerate() {
            let (part, before) = (&quarters[number], &before[number]);
            let accounts = if place % 2 == 0 { 5 } else { 1 };
            let mut stored = honest(part);
            for account in 0..accounts {
                let (name, day) = (format!("liar{account}"), 100 + account as i64);
                send(&mut stored, &told(part, lie, factor, account), Some((&name, day)));
            }
            let (after, admitted) = learnt(stored, &in_force);
            assert_eq!(admitted.refused > 0, matches!(lie, Lie::New | Lie::Copied), "{lie:?} {factor}");
            assert_eq!(after.digest(), before.digest(), "{lie:?} {factor} by {accounts}");
            assert_eq!(admitted.alone, BTreeSet::new());
        }
    }
}
