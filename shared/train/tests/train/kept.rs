//! Models are judged by kept problems, and never learn from them.

use std::cell::Cell;

use crate::made_up::{dataset, ignore, problem, problems, quick, tiles};
use diode_core::{Method, TimeColumn, is_kept};
use diode_train::{FirstPicks, TrainError, TrainOptions, TrainingSet, train};

fn sets() -> (TrainingSet, TrainingSet) {
    let data = dataset(problems(40), &tiles()[..24]);
    let whole = TrainingSet::from_datasets(&[data], None).expect("the data is valid");
    whole.split_kept().expect("most sizes are learnt from")
}

#[test]
fn a_set_is_split_by_size_alone() {
    let whole = TrainingSet::from_datasets(&[dataset(problems(40), &tiles()[..24])], None).unwrap();
    let (learnt, kept) = whole.split_kept().unwrap();
    assert!(learnt.iter().all(|p| !is_kept(&p.problem)) && kept.iter().all(|p| is_kept(&p.problem)));
    assert!(kept.problems() > 0);
    assert_eq!(learnt.problems() + kept.problems(), whole.problems());
    assert!(learnt.is_without_kept() && !kept.is_without_kept() && !whole.is_without_kept());
}

#[test]
fn times_of_kept_problems_change_no_model() {
    let (learnt, _) = sets();
    let mut data = dataset(problems(40), &tiles()[..24]);
    for solution in data.solutions.iter_mut().filter(|solution| is_kept(&solution.problem)) {
        let slower =
            solution.times.iter_nanos().enumerate().map(|(at, time)| time.0 as u64 * (2 + at as u64 % 3));
        solution.times = TimeColumn::from_nanos(slower.collect()).unwrap();
    }
    // The model does not learn the second method's times of kept problems, either.
    let mut second = data.solutions.iter().find(|solution| is_kept(&solution.problem)).unwrap().clone();
    second.method = Method::Unspecified;
    data.solutions.push(second);
    let (other, _) = TrainingSet::from_datasets(&[data], None).unwrap().split_kept().unwrap();
    let options = TrainOptions { epochs: Some(2), ..quick() };
    let bytes = |set| train(set, &options, String::new(), &mut ignore).unwrap().to_bytes().unwrap();
    assert_eq!(bytes(&learnt), bytes(&other));
}

#[test]
fn first_picks_are_compared_problem_by_problem() {
    let (learnt, kept) = sets();
    let picks = |epochs| {
        let options = TrainOptions { epochs: Some(epochs), ..quick() };
        FirstPicks::new(&train(&learnt, &options, String::new(), &mut ignore).unwrap(), &kept).unwrap()
    };
    let (good, bad) = (picks(60), picks(1));
    assert_eq!(good.beside(&good), 1.0);
    assert!(good.beside(&bad) > 1.0, "{}", good.beside(&bad));
    assert!((good.beside(&bad) * bad.beside(&good) - 1.0).abs() < 1e-12);
    let report = good.report().unwrap();
    assert_eq!((report.problems, report.timed_library), (kept.problems() as u64, 0));
    assert!(report.everything.is_none() && report.triton.worst <= report.triton.geomean);
    // Neither the default configs nor the library were timed.
    assert_eq!((report.baselines.len(), report.baselines_of_everything.len()), (2, 0));
    let of = |what: &str| {
        report.baselines.iter().find(|(name, _)| name.contains(what)).map(|(_, top)| top.geomean).unwrap()
    };
    assert!(of("every Triton config timed") == 1.0 && of("the best fixed config") <= 1.0);
}

#[test]
fn judging_ends_between_two_problems_when_it_is_to() {
    let (learnt, kept) = sets();
    let options = TrainOptions { epochs: Some(1), ..quick() };
    let model = train(&learnt, &options, String::new(), &mut ignore).unwrap();
    let asked = Cell::new(0);
    let goes_on = || {
        asked.set(asked.get() + 1);
        asked.get() < 3
    };
    assert!(kept.problems() > 3);
    let error = FirstPicks::of_while(&model, &kept, &goes_on).unwrap_err();
    assert!(matches!(error, TrainError::Stopped), "{error}");
    assert_eq!(asked.get(), 3);
}

#[test]
fn nothing_but_kept_problems_cannot_be_learnt_from() {
    let set =
        TrainingSet::from_datasets(&[dataset([problem(4096, 4096, 4096)], &tiles()[..4])], None).unwrap();
    let error = set.split_kept().unwrap_err();
    assert!(matches!(error, TrainError::OnlyKept { problems: 1 }), "{error}");
}
