//! The part of a model for what models are served with: scaled and grouped multiplications. It is learnt beside the rest if
//! enough was measured and its picks are no worse. If not, the new model keeps the part of the published one.

use std::ops::ControlFlow;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};

use diode_core::{Dataset, Method, is_kept};
use diode_model::{Model, Serving};
use diode_train::{
    JudgedServing, LEAST_SERVED, TrainError, TrainOptions, geomean, judge_serving, served, serving_figures,
    serving_options, train_serving,
};

use crate::jobs::worker::train::{LEAST_PROBLEMS, MARGIN};

/// The part that a new model gets, if it gets one, and why in words. `in_force` is the published model.
pub(super) fn part(
    dataset: &Dataset,
    method: Method,
    seed: u64,
    in_force: Option<&Model>,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(String),
) -> Result<Option<Serving>, TrainError> {
    let before = in_force.and_then(Model::serving);
    let [learnt, kept] = [false, true]
        .map(|kept| served(slice::from_ref(dataset), method, |problem| is_kept(problem) == kept));
    let problems: usize = learnt.iter().map(|set| set.solutions.len()).sum();
    let from_before =
        if before.is_some() { "the part of the published model is kept" } else { "none is learnt" };
    if problems < LEAST_SERVED {
        if problems > 0 || before.is_some() {
            tell(format!(
                "scaled and grouped problems: {from_before}, since {problems} were measured; {LEAST_SERVED} are needed"
            ));
        }
        return Ok(before.cloned());
    }
    let options = TrainOptions { seed, ..serving_options() };
    let mut observe = |epoch: usize, epochs: usize, loss: f32| {
        tell(format!("scaled and grouped problems: epoch {epoch} of {epochs}, loss {loss:.4}"));
        if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let mut part = match train_serving(&learnt, &options, &mut observe) {
        // None of them has features: the hardware has no peak for their types.
        Err(TrainError::Empty { .. }) => return Ok(before.cloned()),
        trained => trained?,
    };
    if stop.load(Ordering::Relaxed) {
        return Err(TrainError::Stopped);
    }
    let judged = judge_serving(&part, &kept)?;
    part.about.judged = serving_figures(&judged);
    if let Some(before) = before {
        let speed = share(&judged) / share(&judge_serving(before, &kept)?);
        let number = judged.len();
        if number < LEAST_PROBLEMS || speed < 1.0 - MARGIN {
            tell(format!(
                "scaled and grouped problems: {from_before}, since on {number} kept problems new picks are {speed:.4} times \
                 as fast"
            ));
            return Ok(Some(before.clone()));
        }
    }
    tell(format!("scaled and grouped problems: learnt from {problems}"));
    Ok(Some(part))
}

/// The share of the best speed that first picks reach.
fn share(judged: &[JudgedServing]) -> f64 {
    geomean(judged.iter().map(|one| one.best / one.first))
}

#[cfg(test)]
mod tests {
    use diode_core::hardware::find;
    use diode_core::simulated::SimulatedDevice;
    use diode_core::space::{Space, SpaceName};
    use diode_core::{
        ConfigDictionary, DType, Op, Problem, ProblemFields, Provenance, Scaling, Solution, TimeColumn,
    };

    use super::*;

    fn released() -> Model {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../trained_models/matmul/nvidia-h200");
        let file = std::fs::read(format!("{folder}/matmul-nvidia-h200.safetensors")).unwrap();
        Model::from_bytes(&file).unwrap()
    }

    /// Problems scaled by row, with the times that a simulated device takes for one config in twenty.
    fn measured(problems: u64) -> Dataset {
        let hardware = find("nvidia-h200").unwrap();
        let device = SimulatedDevice::new(hardware.clone(), 1);
        let mut configs = ConfigDictionary::default();
        let solution = |m: u64| {
            let plain = ProblemFields::plain(Op::ScaledMm, 1, m, 4096, 2048, DType::Float8E4M3);
            let problem = Problem::new(ProblemFields { scaling: Scaling::Row, ..plain }).unwrap();
            let timed = Space::Named(SpaceName::Full).configs(&hardware, &problem).unwrap();
            let timed: Vec<_> = timed.into_iter().step_by(20).collect();
            let times = timed.iter().map(|config| device.nanos(&problem, config) as u64).collect();
            Solution {
                configs: timed.iter().map(|config| configs.intern(*config)).collect(),
                times: TimeColumn::from_nanos(times).unwrap(),
                problem,
                method: Method::MEDIAN_COLD_EVENT,
                minimum_ns: None,
                spread_ns: None,
                repeats: None,
                failures: Vec::new(),
            }
        };
        let solutions = (1..=problems).map(solution).collect();
        Dataset { hardware, provenance: Provenance::default(), configs, solutions }
    }

    fn part_of(dataset: &Dataset, in_force: Option<&Model>) -> (Option<Serving>, String) {
        let mut said = String::new();
        let method = Method::MEDIAN_COLD_EVENT;
        let mut tell = |words: String| said = words;
        let part = part(dataset, method, 0, in_force, &AtomicBool::new(false), &mut tell).unwrap();
        (part, said)
    }

    #[test]
    fn a_model_keeps_the_published_part_until_enough_was_measured() {
        let published = released();
        let (part, said) = part_of(&measured(8), Some(&published));
        assert_eq!(part.as_ref(), published.serving());
        assert!(said.contains("the part of the published model is kept, since 7 were measured"), "{said}");
        assert_eq!(part_of(&measured(8), None).0, None);
    }

    #[test]
    fn a_part_is_learnt_from_what_was_measured() {
        let dataset = measured(90);
        let (part, said) = part_of(&dataset, None);
        let part = part.unwrap();
        let kept = dataset.solutions.iter().filter(|solution| is_kept(&solution.problem)).count();
        assert_eq!(part.about.problems, 90 - kept as u64);
        assert!(said.contains("learnt from"), "{said}");
        let [figures] = &part.about.judged[..] else { panic!("one kind") };
        assert_eq!(figures.problems, kept as u64);
        assert!(figures.first.0 > 0.8, "{figures:?}");
        let stopped =
            super::part(&dataset, Method::MEDIAN_COLD_EVENT, 0, None, &AtomicBool::new(true), &mut |_| {});
        assert!(matches!(stopped, Err(TrainError::Stopped)));
    }
}
