//! How good a table's advice is for problems that are not in it, on real data.

use std::path::Path;

use diode_core::table::{TableConfig, distance};
use diode_core::{Dataset, Problem, Table};

const FOLDS: usize = 4;

/// The share of the best measured time that a pick reaches. 0 if the pick was not measured.
fn share(measured: &Table, problem: &Problem, pick: &TableConfig) -> f64 {
    let configs = measured.lookup(problem).unwrap();
    let time = |config: &TableConfig| config.time.unwrap().0;
    let picked = configs.iter().find(|listed| listed.config == pick.config);
    picked.map_or(0.0, |picked| time(&configs[0]) / time(picked))
}

fn geomean(shares: &[f64]) -> f64 {
    (shares.iter().map(|share| share.ln()).sum::<f64>() / shares.len() as f64).exp()
}

/// For each problem, the share that its pick reaches when only the other folds are known.
fn picks(table: &Table, measured: &Table, advise: impl Fn(&Table, &Problem) -> TableConfig) -> Vec<f64> {
    let mut shares = Vec::new();
    for fold in 0..FOLDS {
        let mut known = Table::new(table.hardware().clone(), table.method());
        // The table is ordered by M, then N, then K, so every fold has the same spread of sizes.
        for (_, (problem, configs)) in table.iter().enumerate().filter(|(at, _)| at % FOLDS != fold) {
            known.insert(problem.clone(), configs.to_vec()).unwrap();
        }
        for (_, (problem, _)) in table.iter().enumerate().filter(|(at, _)| at % FOLDS == fold) {
            shares.push(share(measured, problem, &advise(&known, problem)));
        }
    }
    shares
}

/// The first config of the nearest problem. Distances are in logarithms of sizes, and K counts
/// half.
fn plain_neighbour(known: &Table, problem: &Problem) -> TableConfig {
    let plain = |other: &Problem| {
        let octaves = |a: u64, b: u64| (a as f64 / b as f64).log2();
        octaves(problem.m, other.m).powi(2)
            + octaves(problem.n, other.n).powi(2)
            + (0.5 * octaves(problem.k, other.k)).powi(2)
    };
    let nearest = known.iter().min_by(|a, b| plain(a.0).total_cmp(&plain(b.0))).unwrap();
    assert!(distance(problem, nearest.0).is_some());
    // The config as it is, with the EVEN_K that the asked K gives it.
    let mut config = nearest.1[0];
    if let diode_core::Config::Mm(tile) = &mut config.config {
        *tile = tile.for_k(problem.k);
    }
    config
}

fn advised(known: &Table, problem: &Problem) -> TableConfig {
    let config = known.nearest(problem, 1).unwrap().candidates[0].config;
    TableConfig { config, time: None }
}

#[test]
fn neighbours_that_vote_beat_the_nearest_one() {
    let Some(folder) = std::env::var_os("DIODE_DATA_DIR") else { return };
    let data: Vec<Dataset> =
        diode_formats::read_file(&Path::new(&folder).join("h200_mm_bf16.msgpack.zst")).unwrap().datasets;
    let measured = Table::from_datasets(&data, None, None).unwrap();
    assert_eq!(measured.len(), 209);
    let plain = picks(&measured, &measured, plain_neighbour);
    let voted = picks(&measured, &measured, advised);
    let worst = |shares: &[f64]| shares.iter().copied().fold(1.0, f64::min);
    println!("one neighbour {:.4}, worst {:.3}", geomean(&plain), worst(&plain));
    println!("voting neighbours {:.4}, worst {:.3}", geomean(&voted), worst(&voted));
    assert!(geomean(&plain) < 0.92, "{}", geomean(&plain));
    assert!(geomean(&voted) > 0.94, "{}", geomean(&voted));

    let of_ten = picks(&measured.top(10), &measured, advised);
    println!("voting neighbours with ten configs each {:.4}, worst {:.3}", geomean(&of_ten), worst(&of_ten));
    assert!(geomean(&of_ten) > 0.93, "{}", geomean(&of_ten));
}
