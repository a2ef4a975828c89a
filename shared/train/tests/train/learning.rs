//! Models learn from data of any size.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use crate::made_up::{dataset, ignore, nanos, problems, quick, tiles};
use diode_core::space::Space;
use diode_core::{Config, ConfigIndex, DType, Dataset, Method, Problem, ProblemFields, Tile, TimeColumn};
use diode_model::features::Loading;
use diode_model::{Model, TileKey, rank, tile_key};
use diode_train::{
    Checkpoint, Fitted, Plan, Progress, TrainError, TrainOptions, TrainingSet, cross_validate, evaluate,
    evaluate_with_library, fit, train,
};

fn set(problem_count: usize, tile_count: usize) -> TrainingSet {
    let tiles = tiles();
    TrainingSet::from_datasets(&[dataset(problems(problem_count), &tiles[..tile_count])], None)
        .expect("the data is valid")
}

/// Problems with 20 tiles each and a library time. `library` computes this time from the best tile's, both in
/// nanoseconds.
fn set_with_library(problem_count: usize, library: impl Fn(u64) -> u64) -> TrainingSet {
    let mut data = dataset(problems(problem_count), &tiles()[..20]);
    let config = data.configs.intern(Config::Library);
    for solution in &mut data.solutions {
        let mut times: Vec<u64> = solution.times.iter_nanos().map(|t| t.0 as u64).collect();
        times.push(library(times.iter().copied().min().expect("it has times")));
        solution.configs.push(config);
        solution.times = TimeColumn::from_nanos(times).expect("the times are possible");
    }
    TrainingSet::from_datasets(&[data], None).expect("the data is valid")
}

/// The highest geometric mean of best time / config's time that a single config reaches.
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
fn problems_with_few_timings_teach_beside_others() {
    let (all, tiles) = (problems(48), tiles());
    let few = all[6..].iter().map(|problem| {
        let mut likely = tiles.clone();
        likely.sort_by_key(|tile| nanos(problem, tile));
        dataset([problem.clone()], &likely[..9])
    });
    let many = dataset(all[..6].iter().cloned(), &tiles);
    let everything = TrainingSet::from_datasets(&[dataset(all.clone(), &tiles)], None).unwrap();
    let time_error = |data: &[Dataset]| {
        let set = TrainingSet::from_datasets(data, None).unwrap();
        let model = train(&set, &quick(), String::new(), &mut ignore).unwrap();
        evaluate(&model, &everything).unwrap().mape_within_2x
    };
    let alone = time_error(std::slice::from_ref(&many));
    let together = time_error(&[many].into_iter().chain(few).collect::<Vec<_>>());
    assert!(together < 0.8 * alone, "{together:.3} with them, {alone:.3} without");
}

#[test]
fn tiny_sets_train_without_harm() {
    for (problems, configs) in [(1, 1), (1, 12), (3, 12), (5, 2)] {
        let set = set(problems, configs);
        let options = TrainOptions { epochs: Some(60), ..quick() };
        let model = train(&set, &options, String::new(), &mut ignore).unwrap();
        let report = evaluate(&model, &set).unwrap();
        let numbers = [report.mape_all, report.spearman_median, report.top_k["1"].geomean];
        assert!(numbers.iter().all(|n| n.is_finite()), "{problems} × {configs}: {report:?}");
        assert_eq!(report.top_k["16"].geomean, 1.0, "all of {configs} configs are picked");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let (set, options) = (set(6, 20), TrainOptions { epochs: Some(20), ..quick() });
    let bytes = |options: &TrainOptions| {
        train(&set, options, "now".to_owned(), &mut ignore).unwrap().to_bytes().unwrap()
    };
    assert_eq!(bytes(&options), bytes(&options));
    assert_ne!(bytes(&options), bytes(&TrainOptions { seed: 1, ..options.clone() }));
}

#[test]
fn a_network_may_learn_values_for_tiles() {
    let (set, options) = (set(6, 20), TrainOptions { epochs: Some(20), ..quick() });
    let plain = train(&set, &options, String::new(), &mut ignore).unwrap();
    assert_eq!(plain.network().values(), None, "a small set has too few problems for each tile");

    let with_values = TrainOptions { tile_values: Some(3), ..options };
    let plan = Plan { options: with_values, folds: 2, created_at: String::new() };
    let mut checkpoint = Checkpoint::new(&set, &plan);
    let Fitted { model, .. } = fit(&set, &plan, &checkpoint.clone(), &mut |step| {
        if let Progress::Learnt { phase, network } = step {
            checkpoint.add(phase.clone(), network.clone());
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    let known = model.network().values().unwrap();
    let timed: BTreeSet<TileKey> = set
        .iter()
        .flat_map(|problem| set.configs(problem))
        .filter_map(|config| config.tile().map(|tile| tile_key(tile, Loading::ALIGNED)))
        .collect();
    assert!(known.tiles().iter().eq(&timed));
    assert_eq!((known.width(), known.values().len()), (3, 3 * timed.len()));
    assert!(known.values().iter().all(|&value| value != 0.0));
    assert_eq!(model.networks().count(), 3, "the networks of both folds are part of the model");

    let bytes = model.to_bytes().unwrap();
    assert_eq!(Model::from_bytes(&bytes).unwrap(), model);
    let again = fit(&set, &plan, &checkpoint, &mut ignore).unwrap().model;
    assert_eq!(again.to_bytes().unwrap(), bytes, "a checkpoint has the values, too");
}

#[test]
fn a_model_says_what_it_was_trained_on() {
    let set = set(6, 20);
    let options = TrainOptions { epochs: Some(2), ..quick() };
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
    let options = TrainOptions { epochs: Some(5), ..quick() };
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
    let options = TrainOptions { epochs: Some(2), ..quick() };
    let model = train(&plain, &options, String::new(), &mut ignore).unwrap();
    assert_eq!(evaluate_with_library(&model, &plain).unwrap(), None);

    let with = set_with_library(4, |_| 1);
    assert_eq!(with.timings(), 80);
    let top_k = evaluate_with_library(&model, &with).unwrap().unwrap();
    assert_eq!(top_k["1"].worst, 1.0, "an unbeatable library is always among the picks");
}

#[test]
fn the_library_is_learnt_beside_picks_on_unseen_problems() {
    let set = set_with_library(32, |best| best * 9 / 10);
    let model = |folds| {
        let options = TrainOptions { epochs: Some(5), ..quick() };
        let plan = Plan { options, folds, created_at: String::new() };
        fit(&set, &plan, &Checkpoint::new(&set, &plan), &mut ignore).unwrap().model
    };
    let (without_folds, with_folds) = (model(0), model(4));
    assert_eq!(without_folds.network(), with_folds.network(), "tiles are learnt from all problems in both");
    let problem = &set.iter().next().unwrap().problem;
    let library = |model: &Model| rank(model, problem, &model.space()).unwrap().library.unwrap();
    assert_ne!(library(&without_folds), library(&with_folds), "picks on unseen problems are worse");
}

#[test]
fn a_resumed_training_ends_as_an_uninterrupted_one() {
    let set = set(12, 20);
    let options = TrainOptions { epochs: Some(10), ..quick() };
    let plan = Plan { options, folds: 2, created_at: "now".to_owned() };
    let mut checkpoint = Checkpoint::new(&set, &plan);
    // This training is stopped when one of its three networks is done.
    let mut done = String::new();
    let stopped = fit(&set, &plan, &checkpoint.clone(), &mut |step| {
        let Progress::Learnt { phase, network } = step else { return ControlFlow::Continue(()) };
        checkpoint.add(phase.clone(), network.clone());
        done.clone_from(phase);
        ControlFlow::Break(())
    });
    assert!(matches!(stopped, Err(TrainError::Stopped)));
    assert_eq!(checkpoint.networks(), 1);

    let mut resumed = Checkpoint::new(&set, &plan);
    resumed.resume(&checkpoint.to_bytes().unwrap()).unwrap();
    assert_eq!(resumed, checkpoint);
    let mut phases = BTreeSet::new();
    let again = fit(&set, &plan, &resumed, &mut |step| {
        if let Progress::Epoch { phase, .. } | Progress::Learnt { phase, .. } = step {
            phases.insert(phase.clone());
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    let mut all = BTreeSet::from(["final", "fold 1 of 2", "fold 2 of 2"].map(str::to_owned));
    assert!(all.remove(&done), "{done}");
    assert_eq!(phases, all, "only these were trained again");
    let whole = fit(&set, &plan, &Checkpoint::new(&set, &plan), &mut ignore).unwrap();
    assert_eq!(again.losses, whole.losses);
    assert_eq!(whole.model.metadata().training.losses.len(), 10, "the file has the losses of its network");
    let bytes = |fitted: Fitted| fitted.model.to_bytes().unwrap();
    assert_eq!(bytes(again), bytes(whole));

    let mut damaged = checkpoint.to_bytes().unwrap();
    *damaged.last_mut().unwrap() ^= 1;
    let error = Checkpoint::new(&set, &plan).resume(&damaged).unwrap_err();
    assert!(matches!(error, TrainError::DamagedCheckpoint));
    let other = Plan { folds: 3, ..plan };
    let error = Checkpoint::new(&set, &other).resume(&checkpoint.to_bytes().unwrap()).unwrap_err();
    assert!(matches!(error, TrainError::OtherCheckpoint));
    let error = Checkpoint::new(&set, &other).resume(b"nonsense").unwrap_err();
    assert!(matches!(error, TrainError::Checkpoint(_)));
}

#[test]
fn a_library_that_follows_from_the_sizes_is_predicted_and_picked() {
    let plain = problems(60);
    let mut data = dataset(plain, &tiles()[..24]);
    let library = data.configs.intern(Config::Library);
    for solution in &mut data.solutions {
        // The library is twice as fast as the best config if K is long, and otherwise half as fast.
        let mut times: Vec<u64> = solution.times.iter_nanos().map(|t| t.0 as u64).collect();
        let best = times.iter().copied().min().unwrap();
        times.push(if solution.problem.k > 1280 { best / 2 } else { best * 2 });
        solution.configs.push(library);
        solution.times = TimeColumn::from_nanos(times).unwrap();
    }
    let set = TrainingSet::from_datasets(&[data], None).unwrap();
    let plan = Plan { options: quick(), folds: 2, created_at: String::new() };
    let model = fit(&set, &plan, &Checkpoint::new(&set, &plan), &mut ignore).unwrap().model;
    assert!(model.knows_library(false));
    let right = set.iter().filter(|problem| {
        let configs: Vec<_> = set.configs(problem).copied().collect();
        let ranked = rank(&model, &problem.problem, &Space::List(configs)).unwrap();
        let is_library = ranked.picks(1)[0].0 == Config::Library;
        is_library == (problem.problem.k > 1280)
    });
    assert!(right.count() >= 58);
    // The model states a confidence for each group that occurs. It grows with the number of picks.
    let known = &model.metadata().confidence;
    assert_eq!(known.iter().map(|group| group.problems).sum::<u64>(), 60);
    assert!(known.iter().all(|group| group.within_5_percent.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1)));
    let again = Model::from_bytes(&model.to_bytes().unwrap()).unwrap();
    assert_eq!(again, model);
}

#[test]
fn the_library_that_rounds_to_tf32_is_learnt_apart() {
    let float = |problem: Problem| {
        Problem::new(ProblemFields {
            a_dtype: DType::Float32,
            b_dtype: DType::Float32,
            out_dtype: DType::Float32,
            ..problem.into_fields()
        })
        .unwrap()
    };
    // Without rounding, the library takes half the time of the best config; with rounding, twice the time.
    let part = |rounds: bool| {
        let tiles: Vec<Tile> =
            tiles()[..12].iter().map(|&tile| Tile { allow_tf32: rounds, ..tile }).collect();
        let mut data = dataset(problems(60).into_iter().map(float), &tiles);
        let library = data.configs.intern(Config::library(rounds));
        for solution in &mut data.solutions {
            let mut times: Vec<u64> = solution.times.iter_nanos().map(|time| time.0 as u64).collect();
            let best = times.iter().copied().min().unwrap();
            times.push(if rounds { best * 2 } else { best / 2 });
            solution.configs.push(library);
            solution.times = TimeColumn::from_nanos(times).unwrap();
        }
        data
    };
    let set = TrainingSet::from_datasets(&[part(false), part(true)], None).unwrap();
    assert_eq!(set.problems(), 120);
    let model = train(&set, &quick(), String::new(), &mut ignore).unwrap();
    assert!(model.knows_library(false) && model.knows_library(true));
    for problem in set.iter() {
        let configs: Vec<Config> = set.configs(problem).copied().collect();
        let rounds = configs[0].rounds_to_tf32();
        let ranked = rank(&model, &problem.problem, &Space::List(configs)).unwrap();
        assert_eq!((ranked.rounds(), ranked.library_config()), (rounds, Config::library(rounds)));
        let (pick, _) = ranked.picks(1)[0];
        assert_eq!(pick.is_library(), !rounds, "{}: {}", problem.problem.canonical(), pick.label());
    }
    let problem = &set.iter().next().unwrap().problem;
    let rounding = rank(&model, problem, &model.rounding_space(problem).unwrap()).unwrap();
    let predicted = model.predict(problem, &[Config::RoundingLibrary]).unwrap();
    assert_eq!(Some(predicted[0]), rounding.library);
    let again = Model::from_bytes(&model.to_bytes().unwrap()).unwrap();
    assert_eq!(again, model);
}

#[test]
fn a_second_method_is_learnt_and_told_apart() {
    let tiles = tiles();
    let usual = dataset(problems(30), &tiles[..24]);
    let mut quicker = dataset(problems(24), &tiles[..24]);
    for solution in &mut quicker.solutions {
        let halves = solution.times.iter_nanos().map(|time| (time.0 / 2.0).round() as u64).collect();
        solution.times = TimeColumn::from_nanos(halves).unwrap();
        solution.method = Method::Unspecified;
    }
    let set = TrainingSet::from_datasets(&[usual, quicker.clone()], None).unwrap();
    let model = train(&set, &quick(), String::new(), &mut ignore).unwrap();
    assert_eq!(model.metadata().second_method, Some(Method::Unspecified));
    let judged = |set: &TrainingSet| evaluate(&model, set).unwrap().mape_within_2x;
    let quicker = TrainingSet::from_datasets(&[quicker], None).unwrap();
    let (usual, quicker) = (judged(&set), judged(&quicker));
    assert!(usual < 0.2 && quicker < 0.2, "twice as fast, and yet {usual:.3} and {quicker:.3} off");
    let asked = |model: &Model| {
        let problem = &set.iter().next().unwrap().problem;
        rank(model, problem, &model.space()).unwrap().configs[0].1.0
    };
    let other = model.for_method(Method::Unspecified);
    assert!((asked(&other) / asked(&model) - 0.5).abs() < 0.2);
    assert_eq!(asked(&other.for_method(Method::MEDIAN_COLD_EVENT)), asked(&model));
}
