//! The models of a cross-validation, for the problems that they were not trained on.

use diode_core::{TimeColumn, hash_of_size, is_kept};
use diode_model::{Model, Training, UnseenModels};
use diode_train::{Checkpoint, Fitted, Plan, TrainOptions, TrainingSet, fit};

use crate::made_up::{dataset, ignore, problem, problems, quick, tiles};

const FOLDS: usize = 4;

/// Problems with 20 tiles each. Problems for which `is_slower` is true take three times as long.
fn set(is_slower: impl Fn(u64) -> bool) -> TrainingSet {
    let mut data = dataset(problems(24), &tiles()[..20]);
    for solution in &mut data.solutions {
        if is_slower(hash_of_size(&solution.problem)) {
            let times = solution.times.iter_nanos().map(|time| 3 * time.0 as u64).collect();
            solution.times = TimeColumn::from_nanos(times).unwrap();
        }
    }
    TrainingSet::from_datasets(&[data], None).unwrap()
}

fn fitted(set: &TrainingSet, folds: usize) -> Fitted {
    let options = TrainOptions { epochs: Some(5), ..quick() };
    let plan = Plan { options, folds, created_at: "now".to_owned() };
    fit(set, &plan, &Checkpoint::new(set, &plan), &mut ignore).unwrap()
}

#[test]
fn each_problem_has_a_model_that_was_trained_without_it() {
    let set = set(|_| false);
    let Fitted { model, folds, .. } = fitted(&set, FOLDS);
    assert_eq!(folds.len(), FOLDS);
    let mut unseen = UnseenModels::default();
    for fold in &folds {
        unseen.add(fold.model.to_bytes().unwrap(), fold.unseen_sizes.iter().copied()).unwrap();
    }
    for learnt in set.iter() {
        let size = hash_of_size(&learnt.problem);
        assert_eq!(folds.iter().filter(|fold| fold.unseen_sizes.contains(&size)).count(), 1);
        let found = Model::from_bytes(unseen.for_problem(&learnt.problem).unwrap()).unwrap();
        assert_ne!(found.network(), model.network());
        let training =
            Training { losses: Vec::new(), sizes: Vec::new(), ..model.metadata().training.clone() };
        assert_eq!(found.metadata().training, training, "only the model itself states losses and sizes");
    }
    assert_eq!(unseen.for_problem(&problem(7, 7, 7)), None);
}

/// The model of a fold stays the same, whatever was measured on the fold's problems.
#[test]
fn nothing_that_was_measured_of_a_fold_is_in_its_model() {
    let before = fitted(&set(|_| false), FOLDS).folds;
    let after = fitted(&set(|size| before[0].unseen_sizes.contains(&size)), FOLDS).folds;
    assert_eq!(before[0].unseen_sizes, after[0].unseen_sizes);
    let networks = |fold: usize| [&before, &after].map(|folds| folds[fold].model.network());
    let [before_0, after_0] = networks(0);
    assert_eq!(before_0.dense().layers(), after_0.dense().layers());
    let [before_1, after_1] = networks(1);
    assert_ne!(before_1.dense().layers(), after_1.dense().layers());
}

#[test]
fn without_folds_there_are_none_and_kept_problems_are_in_none() {
    let set = set(|_| false);
    assert!(fitted(&set, 0).folds.is_empty());
    let (learnt, kept) = set.split_kept().unwrap();
    let folds = fitted(&learnt, FOLDS).folds;
    assert!(kept.problems() > 0);
    for kept in kept.iter() {
        assert!(is_kept(&kept.problem));
        let size = hash_of_size(&kept.problem);
        assert!(folds.iter().all(|fold| !fold.unseen_sizes.contains(&size)));
    }
}
