//! Timings of other hardware help a model, but no model is judged by them.

use crate::made_up::{dataset, ignore, problem, problems, quick, tiles};
use diode_core::hardware::find;
use diode_core::{DType, Dataset, Method, Op, Problem, ProblemFields};
use diode_train::{TrainError, TrainOptions, TrainingSet, cross_validate, evaluate, train};

/// Timings of another GPU. They are made up as for the H200.
fn h100(problem_count: usize, tile_count: usize) -> Dataset {
    let hardware = find("nvidia-h100").expect("the catalogue has it");
    Dataset { hardware, ..dataset(problems(problem_count), &tiles()[..tile_count]) }
}

fn own(problem_count: usize, tile_count: usize) -> TrainingSet {
    let data = dataset(problems(problem_count), &tiles()[..tile_count]);
    TrainingSet::from_datasets(&[data], None).expect("the data is valid")
}

#[test]
fn a_few_problems_go_further_beside_related_hardware() {
    let alone = own(3, 72);
    let beside = alone.clone().with_related(vec![h100(40, 72)]).unwrap();
    let judged = TrainingSet::from_datasets(&[dataset(problems(48).split_off(40), &tiles())], None).unwrap();
    let quality = |set: &TrainingSet| {
        let model = train(set, &quick(), String::new(), &mut ignore).unwrap();
        evaluate(&model, &judged).unwrap().top_k["1"].geomean
    };
    let (alone, beside) = (quality(&alone), quality(&beside));
    assert!(beside > alone && beside > 0.9, "alone {alone:.3}, beside related hardware {beside:.3}");
}

#[test]
fn a_model_states_what_else_it_learnt_from() {
    let mut related = h100(4, 12);
    let addmm = ProblemFields::plain(Op::Addmm, 1, 512, 512, 512, DType::BFloat16);
    related.solutions[0].problem = Problem::new(addmm).unwrap();
    let set = own(6, 20).with_related(vec![related]).unwrap();
    assert_ne!(set.digest(), own(6, 20).digest());
    assert_eq!((set.problems(), set.timings()), (6, 120), "related timings are none of the set's");
    let options = TrainOptions { epochs: Some(2), ..quick() };
    let model = train(&set, &options, String::new(), &mut ignore).unwrap();
    let about = model.metadata();
    assert_eq!(about.hardware.slug.as_str(), "nvidia-h200");
    assert_eq!(about.training.related, [find("nvidia-h100").unwrap().slug]);
    assert_eq!((about.training.problems, &about.ops[..]), (6, &[Op::Mm, Op::Addmm][..]));
}

#[test]
fn folds_judge_the_own_problems_only() {
    let set = own(12, 20).with_related(vec![h100(30, 20)]).unwrap();
    let options = TrainOptions { epochs: Some(4), ..quick() };
    let (report, _) = cross_validate(&set, &options, 4, &mut ignore).unwrap();
    assert_eq!(report.problems, 12);
}

#[test]
fn related_hardware_is_other_hardware_timed_the_same_way() {
    let same = own(3, 9).with_related(vec![dataset([problem(64, 64, 64)], &tiles()[..9])]);
    assert!(matches!(same, Err(TrainError::RelatedIsTheSame { .. })));
    let mut otherwise = h100(3, 9);
    otherwise.solutions.iter_mut().for_each(|solution| solution.method = Method::Unspecified);
    let refused = own(3, 9).with_related(vec![otherwise]);
    assert!(matches!(refused, Err(TrainError::NoSuchMethod { .. })));
}
