//! The file of models for problems that they were not trained on.

use diode_core::{DType, Op, Problem, ProblemFields, hash_of_size};
use diode_model::{Model, ModelError, UnseenModels};

use crate::sample::model;

fn problem(m: u64) -> Problem {
    Problem::new(ProblemFields::plain(Op::Mm, 1, m, 64, 64, DType::BFloat16)).unwrap()
}

/// One model was not trained on M = 1 and 2, the other not on M = 3.
fn sample() -> UnseenModels {
    let of = |problems: &[u64]| problems.iter().map(|m| hash_of_size(&problem(*m))).collect::<Vec<_>>();
    let mut unseen = UnseenModels::default();
    unseen.add(model().to_bytes().unwrap(), of(&[1, 2])).unwrap();
    let other = model().with_corrections(1.5, 1.0).unwrap();
    unseen.add(other.to_bytes().unwrap(), of(&[3])).unwrap();
    unseen
}

#[test]
fn each_problem_finds_its_model_again() {
    let unseen = sample();
    let bytes = unseen.to_bytes().unwrap();
    let again = UnseenModels::from_bytes(&bytes).unwrap();
    assert_eq!(again, unseen);
    assert_eq!(again.to_bytes().unwrap(), bytes);
    let pick_bias = |m| {
        let file = again.for_problem(&problem(m))?;
        Some(Model::from_bytes(file).unwrap().metadata().pick_bias)
    };
    assert_eq!([1, 2, 3, 4].map(pick_bias), [Some(1.0), Some(1.0), Some(1.5), None]);
    // The size alone decides.
    let addmm = Problem::new(ProblemFields::plain(Op::Addmm, 1, 3, 64, 64, DType::Float32)).unwrap();
    assert_eq!(again.for_problem(&addmm), again.for_problem(&problem(3)));
}

#[test]
fn none_are_a_file_too() {
    let none = UnseenModels::default();
    assert_eq!(UnseenModels::from_bytes(&none.to_bytes().unwrap()).unwrap(), none);
}

#[test]
fn damaged_bytes_are_refused_without_harm() {
    let bytes = sample().to_bytes().unwrap();
    for end in [0, 7, 8, 100, bytes.len() / 2, bytes.len() - 1] {
        assert!(UnseenModels::from_bytes(&bytes[..end]).is_err(), "cut at {end}");
    }
    let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    for at in (0..header).chain((header..bytes.len()).step_by(997)) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0xff;
        assert!(UnseenModels::from_bytes(&damaged).is_err(), "changed at {at}");
    }
    let error = UnseenModels::from_bytes(&vec![0; (64 << 20) + 1]).unwrap_err();
    assert!(matches!(error, ModelError::TooLarge { .. }));
    let error = UnseenModels::from_bytes(&model().to_bytes().unwrap()).unwrap_err();
    assert!(matches!(error, ModelError::NoMetadata { .. }));
}
