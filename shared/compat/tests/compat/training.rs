//! torch-diode's networks learn.

use std::ops::ControlFlow;

use crate::made_up::{dataset, ignore, problems, tiles};
use diode_compat::{Architecture, PredecessorModel};
use diode_compat::{PredecessorOptions, train_predecessor};
use diode_model::Predictor as _;
use diode_train::{TrainError, TrainingSet, evaluate};

fn set(problem_count: usize) -> TrainingSet {
    TrainingSet::from_datasets(&[dataset(problems(problem_count), &tiles())], None)
        .expect("the data is valid")
}

/// Few epochs and a high learning rate, for quick tests.
fn quick(architecture: Architecture) -> PredecessorOptions {
    PredecessorOptions { epochs: 25, learning_rate: 5e-3, ..PredecessorOptions::new(architecture) }
}

fn base() -> PredecessorOptions {
    quick(Architecture::Base { widths: vec![48, 24] })
}

#[test]
fn both_kinds_learn_times_of_problems_they_have_not_seen() {
    let set = set(40);
    for options in [base(), quick(Architecture::deep(24, 2))] {
        let kind = options.architecture.kind();
        let model = train_predecessor(&set, &options, "now".to_owned(), &mut ignore).unwrap();
        let held_out = model.evaluation().unwrap();
        assert_eq!((held_out.problems, held_out.split.as_str()), (4, "a tenth of the problems, held out"));
        let all = evaluate(&model, &set).unwrap();
        assert!(all.spearman_median > 0.6 && all.mape_all < 0.5, "{kind}: {all:?}");
        let metadata = model.metadata().unwrap();
        assert_eq!((metadata.training.problems, metadata.training.timings), (40, 40 * 72));
        assert_eq!(PredecessorModel::from_bytes(&model.to_bytes().unwrap()).unwrap(), model);
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let set = set(6);
    let bytes = |seed: u64| {
        let options = PredecessorOptions { epochs: 2, seed, ..base() };
        train_predecessor(&set, &options, "now".to_owned(), &mut ignore).unwrap().to_bytes().unwrap()
    };
    assert_eq!(bytes(1), bytes(1));
    assert_ne!(bytes(1), bytes(2));
}

#[test]
fn the_best_weights_are_kept_and_training_ends_when_nothing_improves() {
    let set = set(6);
    let mut epochs = 0;
    let options = PredecessorOptions { epochs: 200, patience: 2, learning_rate: 1.0, ..base() };
    let mut count = |_: &diode_train::Progress| {
        epochs += 1;
        ControlFlow::Continue(())
    };
    let model = train_predecessor(&set, &options, String::new(), &mut count).unwrap();
    assert!(epochs < 200, "a rate of 1 goes nowhere");
    assert!(evaluate(&model, &set).unwrap().mape_all.is_finite());
}

#[test]
fn what_cannot_be_trained_is_refused() {
    let refusal = |set: &TrainingSet, options: &PredecessorOptions| {
        train_predecessor(set, options, String::new(), &mut ignore).unwrap_err().to_string()
    };
    let error = refusal(&set(1), &base());
    assert!(error.contains("got 1, expected at least 2"), "{error}");
    let set = set(3);
    let error = refusal(&set, &PredecessorOptions { batch_size: 1, ..base() });
    assert_eq!(error, "batch size: got 1, expected at least 2");
    let error = refusal(&set, &PredecessorOptions::new(Architecture::deep(4000, 2)));
    assert!(error.contains("widths from 1 to 1024"), "{error}");
    let stopped = train_predecessor(&set, &base(), String::new(), &mut |_| ControlFlow::Break(()));
    assert!(matches!(stopped, Err(TrainError::Stopped)));
}
