//! That models learn, from data of any size.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::made_up::{dataset, ignore, problems, quick, tiles};
use diode_core::ConfigIndex;
use diode_train::{
    Progress, TrainError, TrainOptions, TrainingSet, cross_validate, evaluate, evaluate_with_library, train,
};

fn set(problem_count: usize, tile_count: usize) -> TrainingSet {
    let tiles = tiles();
    TrainingSet::from_datasets(&[dataset(problems(problem_count), &tiles[..tile_count])], None)
        .expect("the data is valid")
}

/// The quality of the one config that is best on average.
fn best_fixed(set: &TrainingSet) -> f64 {
    let mut logs: BTreeMap<ConfigIndex, f64> = BTreeMap::new();
    for problem in set.iter() {
        for timed in &problem.timings {
            *logs.entry(timed.config).or_default() += (problem.timings[0].us / timed.us).ln();
        }
    }
    let best = logs.into_values().fold(f64::NEG_INFINITY, f64::max);
    (best / set.problems() as f64).exp()
}

#[test]
fn unseen_problems_get_better_picks_than_any_fixed_config() {
    let set = set(48, 72);
    let (report, pick_bias) = cross_validate(&set, &quick(), 4, &mut ignore).unwrap();
    let fixed = best_fixed(&set);
    let [one, five] = ["1", "5"].map(|k| report.top_k[k].geomean);
    assert!(one > fixed && one > 0.93 && five > 0.97, "picks {one:.3} and {five:.3}, fixed {fixed:.3}");
    assert!(report.top_k["16"].worst >= report.top_k["1"].worst);
    assert!((0.8..1.3).contains(&pick_bias), "{pick_bias}");
    assert!(report.spearman_median > 0.9 && report.mape_within_2x < 0.2, "{report:?}");
    assert_eq!((report.problems, report.configs), (set.problems(), 72));
    assert_eq!(report.split, "4-fold cross-validation by problem");
}

#[test]
fn tiny_sets_train_without_harm() {
    for (problems, configs) in [(1, 1), (1, 12), (3, 12), (5, 2)] {
        let set = set(problems, configs);
        let options = TrainOptions { min_steps: 60, ..quick() };
        let model = train(&set, &options, String::new(), &mut ignore).unwrap();
        let report = evaluate(&model, &set).unwrap();
        let numbers = [report.mape_all, report.spearman_median, report.top_k["1"].geomean];
        assert!(numbers.iter().all(|n| n.is_finite()), "{problems} × {configs}: {report:?}");
        assert_eq!(report.top_k["16"].geomean, 1.0, "all of {configs} configs are picked");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let (set, options) = (set(6, 20), TrainOptions { min_steps: 20, epochs: 2, ..quick() });
    let bytes = |options: &TrainOptions| {
        train(&set, options, "now".to_owned(), &mut ignore).unwrap().to_bytes().unwrap()
    };
    assert_eq!(bytes(&options), bytes(&options));
    assert_ne!(bytes(&options), bytes(&TrainOptions { seed: 1, ..options.clone() }));
}

#[test]
fn a_model_says_what_it_was_trained_on() {
    let set = set(6, 20);
    let options = TrainOptions { min_steps: 2, epochs: 2, ..quick() };
    let model = train(&set, &options, "2026-01-01T00:00:00Z".to_owned(), &mut ignore).unwrap();
    let training = &model.metadata().training;
    assert_eq!((training.problems, training.timings), (6, 120));
    assert_eq!(training.data_digest, set.digest());
    assert_eq!(training.created_at, "2026-01-01T00:00:00Z");
    assert_eq!(model.metadata().evaluation, None);
    assert_eq!(evaluate(&model, &set).unwrap().split, "the training data");
}

#[test]
fn progress_is_told_and_training_can_be_stopped() {
    let set = set(6, 20);
    let options = TrainOptions { min_steps: 1, epochs: 5, ..quick() };
    let mut told = Vec::new();
    let result = train(&set, &options, String::new(), &mut |step| {
        let Progress::Epoch { phase, epoch, epochs, .. } = step else { return ControlFlow::Continue(()) };
        told.push((phase.clone(), *epoch, *epochs));
        if *epoch == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(matches!(result, Err(TrainError::Stopped)));
    assert_eq!(told, [1, 2, 3].map(|epoch| ("final".to_owned(), epoch, 5)));
}

#[test]
fn one_size_cannot_be_cross_validated() {
    let error = cross_validate(&set(1, 20), &quick(), 4, &mut ignore).unwrap_err();
    assert!(matches!(error, TrainError::TooFewProblems { problems: 1 }), "{error}");
}

#[test]
fn the_library_counts_as_a_candidate_where_it_was_timed() {
    let plain = set(4, 20);
    let options = TrainOptions { min_steps: 2, epochs: 2, ..quick() };
    let model = train(&plain, &options, String::new(), &mut ignore).unwrap();
    assert_eq!(evaluate_with_library(&model, &plain).unwrap(), None);

    let mut data = dataset(problems(4), &tiles()[..20]);
    let library = data.configs.intern(diode_core::Config::Library);
    for solution in &mut data.solutions {
        solution.configs.push(library);
        let mut times: Vec<u64> = solution.times.iter_nanos().map(|t| t.0 as u64).collect();
        times.push(1);
        solution.times = diode_core::TimeColumn::from_nanos(times).unwrap();
    }
    let with = TrainingSet::from_datasets(&[data], None).unwrap();
    assert_eq!(with.timings(), 80);
    let top_k = evaluate_with_library(&model, &with).unwrap().unwrap();
    assert_eq!(top_k["1"].worst, 1.0, "an unbeatable library is always among the picks");
}
