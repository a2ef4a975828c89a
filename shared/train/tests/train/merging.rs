//! Merges datasets into one training set.

use crate::made_up::{dataset, problem, problems, solution, tiles};
use diode_core::hardware::{Hardware, find};
use diode_core::{Config, DType, Method, Op, Problem, ProblemFields, Tile, TimeColumn};
use diode_train::{TrainError, TrainingProblem, TrainingSet};

#[test]
fn repeated_timings_become_their_median() {
    let tiles = tiles();
    let timed = |nanos: u64| {
        let mut data = dataset([problem(512, 512, 512)], &tiles[..2]);
        data.solutions[0].times = TimeColumn::from_nanos(vec![nanos, 9_000]).unwrap();
        data
    };
    let set = TrainingSet::from_datasets(&[timed(1_000), timed(5_000), timed(2_000)], None).unwrap();
    assert_eq!((set.problems(), set.timings()), (1, 2));
    let times: Vec<f64> = set.iter().flat_map(|p| &p.timings).map(|timed| timed.us).collect();
    assert_eq!(times, [2.0, 9.0]);
}

#[test]
fn the_digest_is_of_the_data_not_of_its_files() {
    let tiles = tiles();
    let (first, second) =
        (dataset(problems(3), &tiles[..9]), dataset(problems(6).split_off(3), &tiles[..12]));
    let digest = |data: &[_]| TrainingSet::from_datasets(data, None).unwrap().digest();
    assert_eq!(digest(&[first.clone(), second.clone()]), digest(&[second.clone(), first.clone()]));
    assert_ne!(digest(&[first.clone(), second]), digest(&[first]));
}

#[test]
fn methods_are_never_mixed() {
    let tiles = tiles();
    let mut data = dataset(problems(3), &tiles[..9]);
    data.solutions.push(solution(problem(77, 77, 77), &tiles[..9], Method::Unspecified));
    let most = TrainingSet::from_datasets(&[data.clone()], None).unwrap();
    assert_eq!((most.method(), most.problems()), (Method::MEDIAN_COLD_EVENT, 3));
    assert_eq!((most.left_out().other_methods, most.others().len()), (9, 1));
    assert_eq!(most.timings(), 27, "times of another method are none of the set's");
    let wanted = TrainingSet::from_datasets(&[data.clone()], Some(Method::Unspecified)).unwrap();
    assert_eq!((wanted.method(), wanted.problems()), (Method::Unspecified, 1));
    let error = TrainingSet::from_datasets(&[data], Some(Method::MEDIAN_WARM_WALL)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "training data: nothing was taken as median-warm-wall; \
         there are timings taken as unspecified, median-cold-event"
    );
}

#[test]
fn with_and_without_rounding_to_tf32_are_two_problems() {
    let float = Problem::new(ProblemFields::plain(Op::Mm, 1, 512, 512, 512, DType::Float32)).unwrap();
    let mut data = dataset([float], &tiles()[..2]);
    let tile = tiles()[0];
    let more = [Config::Mm(Tile { allow_tf32: true, ..tile }), Config::Library, Config::RoundingLibrary];
    let solution = &mut data.solutions[0];
    solution.configs.extend(more.map(|config| data.configs.intern(config)));
    solution.times = TimeColumn::from_nanos(vec![9_000, 8_000, 3_000, 7_000, 2_000]).unwrap();
    let set = TrainingSet::from_datasets(&[data], None).unwrap();
    let times = |problem: &TrainingProblem| problem.timings.iter().map(|timed| timed.us).collect::<Vec<_>>();
    let parts: Vec<_> = set.iter().map(|problem| (times(problem), problem.library_us)).collect();
    assert_eq!(parts, [(vec![8.0, 9.0], Some(7.0)), (vec![3.0], Some(2.0))]);
}

#[test]
fn only_one_hardware_with_facts_will_do() {
    let data = dataset(problems(2), &tiles()[..4]);
    let with = |hardware: Hardware| diode_core::Dataset { hardware, ..data.clone() };
    let mixed = TrainingSet::from_datasets(&[data.clone(), with(find("nvidia-a100").unwrap())], None);
    assert!(matches!(mixed, Err(TrainError::MixedHardware { .. })));
    let unknown = with(Hardware::from_name("NVIDIA Z9000").unwrap());
    let error = TrainingSet::from_datasets(&[unknown], None).unwrap_err();
    assert!(error.to_string().starts_with("hardware nvidia-z9000 has no facts"), "{error}");
}

#[test]
fn nothing_to_learn_from_is_refused_with_the_reason() {
    assert!(matches!(TrainingSet::from_datasets(&[], None), Err(TrainError::Empty { .. })));
    let mut library = dataset(problems(2), &tiles()[..1]);
    library.configs = [Config::DecomposeK { k_split: 4 }].into_iter().collect();
    let error = TrainingSet::from_datasets(&[library], None).unwrap_err();
    assert!(error.to_string().contains("2 of kernels without features"), "{error}");
}
