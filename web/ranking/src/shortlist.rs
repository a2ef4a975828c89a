//! The best configs of one shape, also where they round to TF32 or something follows them.

use std::sync::Arc;

use diode_core::hardware::Hardware;
use diode_core::space::Space;
use diode_core::{Config, DType, Epilogue, Micros, Problem, Tile};
use diode_model::epilogue::{Decision, Verdict, Weighed};
use diode_model::{Model, ModelError, RankedSpace, Ranker};

/// What is said of times of configs that round to TF32.
pub const TF32_CAVEAT: &str = "These configs round float32 to TF32. The model does not know the library's time there, and its file does not say how good its picks are.";

/// Whether configs round a problem's inputs to TF32, where the reader allows it.
pub fn rounds(problem: &Problem, tf32: bool) -> bool {
    tf32 && problem.a_dtype == DType::Float32
}

/// The best configs of a model's own space; with `tf32`, those of float32 round to TF32.
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
    // The library's predicted time is that of float32 in full.
    let mut rounded = RankedSpace::new(configs, None, 1.0);
    (rounded.considered, rounded.bounded) = (ranked.considered, ranked.bounded);
    Ok(rounded)
}

/// The first `count` of a ranking and the library, with an epilogue where its costs are known.
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
