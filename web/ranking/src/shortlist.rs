//! The best configs of one shape, also with rounding to TF32 and with an epilogue.

use std::sync::Arc;

use diode_core::hardware::Hardware;
use diode_core::{DType, Epilogue, Micros, Problem};
use diode_model::epilogue::{Decision, Verdict, Weighed};
use diode_model::{Model, ModelError, RankedSpace, Ranker};

/// The best configs of the model's own space. With `tf32`, configs round float32 inputs to TF32.
pub fn shortlist(
    model: &Model,
    ranker: &mut Ranker<Arc<Model>>,
    problem: &Problem,
    tf32: bool,
) -> Result<RankedSpace, ModelError> {
    if !tf32 || problem.a_dtype != DType::Float32 {
        return ranker.shortlist(problem, &model.space());
    }
    ranker.shortlist(problem, &model.rounding_space(problem)?)
}

/// The first `count` picks and the library. The epilogue is added if its costs are known.
pub fn followed(
    ranked: &RankedSpace,
    hardware: &Hardware,
    problem: &Problem,
    epilogue: Epilogue,
    count: usize,
) -> (Vec<Weighed>, Option<Weighed>, Option<Verdict>) {
    if let Some(Decision { mut best_first, verdict }) =
        Decision::of(ranked, hardware, problem, epilogue, count)
    {
        let library = best_first.iter().find(|one| one.config.is_library()).copied();
        best_first.truncate(count);
        return (best_first, library, Some(verdict));
    }
    let alone = |(config, alone)| Weighed { config, alone, following: Micros(0.0) };
    let picks = ranked.picks(count).into_iter().map(alone).collect();
    (picks, ranked.library.map(|time| alone((ranked.library_config(), time))), None)
}
