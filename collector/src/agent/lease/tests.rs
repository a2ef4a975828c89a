use diode_api::Purpose;
use diode_core::hardware::find;
use diode_core::problem::problems_in;
use diode_core::{DType, Op, Problem, ProblemFields};

use super::*;

fn work(m: u64, breadth: Breadth) -> LeasedProblem {
    LeasedProblem {
        problem: Problem::new(ProblemFields::plain(Op::Mm, 1, m, 512, 512, DType::BFloat16)).unwrap(),
        purpose: Purpose::Hole,
        why: String::new(),
        breadth,
        kept: false,
        seconds: 1.0,
    }
}

#[test]
fn a_sample_holds_the_defaults_that_packs_have_and_is_the_same_everywhere() {
    let hardware = find("nvidia-h200").unwrap();
    let mut chooser = ConfigChooser::new(hardware.clone());
    let sample = chooser.choose(&work(512, Breadth::Sample)).unwrap();
    let full = chooser.choose(&work(512, Breadth::Full)).unwrap();
    let defaults = Space::Named(SpaceName::Default);
    let mut defaults = defaults.configs(&hardware, &work(512, Breadth::Sample).problem).unwrap();
    defaults.retain(|config| full.contains(config));
    assert!(defaults.len() > 10);
    assert_eq!(sample[..defaults.len()], defaults);
    let distinct: HashSet<&Config> = sample.iter().collect();
    assert_eq!(distinct.len(), sample.len());
    assert!(full.len() > 1000);
    assert!(sample.iter().all(|config| full.contains(config)));
    let mut another = ConfigChooser::new(hardware);
    assert_eq!(another.choose(&work(512, Breadth::Sample)).unwrap(), sample);
    assert_ne!(another.choose(&work(520, Breadth::Sample)).unwrap(), sample);
}

#[test]
fn a_sample_of_what_models_are_served_with_holds_their_defaults() {
    let hardware = find("nvidia-h200").unwrap();
    for text in ["moe 128x768x2048 top8 64 tokens fp8 block", "16x4096x14336 fp8 row"] {
        let problem = problems_in(text, DType::BFloat16).unwrap().remove(0);
        let work = |breadth| LeasedProblem { problem: problem.clone(), ..work(64, breadth) };
        let mut chooser = ConfigChooser::new(hardware.clone());
        let [sample, full] =
            [Breadth::Sample, Breadth::Full].map(|breadth| chooser.choose(&work(breadth)).unwrap());
        let distinct: HashSet<&Config> = sample.iter().collect();
        assert_eq!(distinct.len(), sample.len());
        assert!(sample.len() <= EXPECTED + DRAWN + 2 && sample.len() < full.len(), "{text}");
        assert!(sample.iter().all(|config| full.contains(config)));
        assert!(chooser.baselines(&problem).iter().all(|config| sample.contains(config)), "{text}");
    }
}

#[test]
fn a_sample_holds_what_the_model_expects_to_be_fastest_and_a_random_share() {
    let hardware = find("nvidia-h100").unwrap();
    let work = work(4096, Breadth::Sample);
    let sample = ConfigChooser::new(hardware.clone()).choose(&work).unwrap();
    let model = shipped_for(&hardware).unwrap();
    let space = Space::Named(SpaceName::Full);
    let ranked = diode_model::rank(&model, &work.problem, &space).unwrap().configs;
    assert!(ranked[..EXPECTED].iter().all(|(config, _)| sample.contains(config)));
    let others = sample.iter().filter(|config| ranked[EXPECTED..].iter().any(|(other, _)| other == *config));
    assert!(others.count() >= DRAWN);
    // Hardware without a model gets the default configs and the drawn ones.
    let mut without = ConfigChooser { hardware, model: None };
    assert!(without.choose(&work).unwrap().len() < sample.len() - DRAWN);
}
