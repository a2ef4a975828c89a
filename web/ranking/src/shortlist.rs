//! The best configs of one shape, also with rounding to TF32 and with an epilogue.

use std::sync::Arc;

use diode_core::hardware::Hardware;
use diode_core::space::Space;
use diode_core::{Config, DType, Epilogue, Micros, Problem, Tile};
use diode_model::epilogue::{Decision, Verdict, Weighed};
use diode_model::{Model, ModelError, RankedSpace, Ranker};

/// The caveat that stands beside predicted times for configs that round to TF32.
pub const TF32_CAVEAT: &str = "These configs round float32 to TF32. The model does not know the library's time there, and its file does not say how good its picks are.";

/// Whether configs round a problem's inputs to TF32. `tf32` says whether the reader allows this.
pub fn rounds(problem: &Problem, tf32: bool) -> bool {
    tf32 && problem.a_dtype == DType::Float32
}

/// The best configs of the model's own space. With `tf32`, configs round float32 inputs to TF32.
pub fn shortlist(
    model: &Model,
    ranker: &mut Ranker<Arc<Model>>,
    problem: &Problem,
    tf32: bool,
) -> Result<RankedSpace, ModelError> {
    if !rounds(problem, tf32) {
        return ranker.shortlist(problem, &model.space());
    }
    let configs = model.space().configs(&model.metadata().hardware, problem)?;
    let rounding = configs.into_iter().map(|config| rounding(config).for_k(1)).collect();
    let ranked = ranker.shortlist(problem, &Space::List(rounding))?;
    let configs = ranked.configs.into_iter().map(|(config, time)| (config.for_k(problem.k), time)).collect();
    // The model predicts the library's time for full float32 only, so the library is left out.
    let mut rounded = RankedSpace::new(configs, None, 1.0);
    (rounded.considered, rounded.bounded) = (ranked.considered, ranked.bounded);
    Ok(rounded)
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
    (picks, ranked.library.map(|time| alone((Config::Library, time))), None)
}

fn rounding(config: Config) -> Config {
    let rounding = |tile: Tile| Tile { allow_tf32: true, ..tile };
    match config {
        Config::Mm(tile) => Config::Mm(rounding(tile)),
        Config::Bmm(tile) => Config::Bmm(rounding(tile)),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tiles_round() {
        let tile = Tile::new(64, 64, 32, 3, 4);
        assert!(rounding(Config::Mm(tile)).rounds_to_tf32() && rounding(Config::Bmm(tile)).rounds_to_tf32());
        assert_eq!(rounding(Config::Library), Config::Library);
    }
}
