//! Chooses between a tile and the library, with the epilogue counted.

use diode_core::hardware::Hardware;
use diode_core::{Config, Epilogue, Micros, Problem};
use serde::{Deserialize, Serialize};

use super::doubt::doubt;
use super::{Costs, Following};
use crate::RankedSpace;

/// How many picks are compared, with the epilogue counted. [`NEAR`] others are compared with them.
pub const WEIGHED: usize = 8;

/// How many further configs are compared beside the picks.
pub const NEAR: usize = 5;

/// A kernel, its time alone and the time of the epilogue.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Weighed {
    pub config: Config,
    pub alone: Micros,
    pub following: Micros,
}

impl Weighed {
    pub fn total(&self) -> Micros {
        Micros(self.alone.0 + self.following.0)
    }
}

/// Kernels and their times with the epilogue, if its costs are known. The best kernel stands first. A tile
/// stands before the library only if it is faster by the doubt about it, with the epilogue counted.
pub fn weighed(
    kernels: impl IntoIterator<Item = (Config, Micros)>,
    problem: &Problem,
    what_follows: Option<(&Costs, &Following)>,
) -> Vec<Weighed> {
    let following_us = |config: &Config, alone: Micros| match what_follows {
        None => 0.0,
        Some((costs, following)) if config.is_library() => costs.separate_us(following),
        Some((costs, following)) => costs.fused_us(following, problem, config, alone.0),
    };
    let one = |(config, alone)| Weighed { config, alone, following: Micros(following_us(&config, alone)) };
    let mut all: Vec<Weighed> = kernels.into_iter().map(one).collect();
    let library = all.iter().find(|one| one.config.is_library()).map(|one| one.alone);
    let doubtful_us = |one: &Weighed| one.total().0 * (1.0 + doubt(&one.config, problem, library));
    all.sort_by(|a, b| doubtful_us(a).total_cmp(&doubtful_us(b)));
    all
}

/// The kernels of a ranking with the epilogue counted, and whether a tile or the library is better.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The picks, other configs with short times, and the library.
    pub best_first: Vec<Weighed>,
    pub verdict: Verdict,
}

impl Decision {
    /// Compares at least `count` kernels, if there are so many. `None` if there is no epilogue or its costs
    /// are not known.
    pub fn new(
        ranked: &RankedSpace,
        hardware: &Hardware,
        problem: &Problem,
        epilogue: Epilogue,
        count: usize,
    ) -> Option<Self> {
        let (following, costs) = (Following::of(epilogue, problem)?, Costs::of(hardware)?);
        // The same kernels are compared however many are shown, so that all programs decide alike.
        let are_enough = count <= WEIGHED + NEAR;
        let mut kernels = ranked.picks(if are_enough { WEIGHED } else { count });
        kernels.extend(ranked.near(&kernels, NEAR));
        let has_library = kernels.iter().any(|(config, _)| config.is_library());
        let library = ranked.library.map(|time| (ranked.library_config(), time));
        kernels.extend(library.filter(|_| !has_library));
        let best_first = weighed(kernels, problem, Some((&costs, &following)));
        let first = |library: bool| best_first.iter().find(|one| one.config.is_library() == library);
        let [tile_us, library_us] = [false, true].map(|library| Some(first(library)?.total().0));
        let fuse = best_first.first().is_some_and(|one| !one.config.is_library());
        Some(Self { verdict: Verdict { epilogue, tile_us, library_us, fuse }, best_first })
    }
}

/// Whether a tile or the library is the better choice with this epilogue.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub epilogue: Epilogue,
    /// The time of the best tile with the epilogue fused.
    pub tile_us: Option<f64>,
    /// The time of the library and of a kernel for the epilogue.
    pub library_us: Option<f64>,
    /// Whether the tile is the better choice.
    pub fuse: bool,
}

impl Verdict {
    /// The verdict in one or two sentences. `time` formats microseconds.
    pub fn in_words(&self, time: impl Fn(f64) -> String) -> String {
        let what = in_words(self.epilogue);
        match (self.tile_us, self.library_us) {
            (None, None) => "No config fits the hardware.".to_owned(),
            (Some(tile), None) => format!(
                "With {what} fused, the best tile is predicted to take {}. The library's time is not known.",
                time(tile)
            ),
            (None, Some(library)) => {
                format!("The library and a kernel for {what} are predicted to take {}.", time(library))
            }
            (Some(tile), Some(library)) if self.fuse => format!(
                "Better: a tile with {what} fused. It is predicted to take {}, the library and a kernel for {what} {}.",
                time(tile),
                time(library)
            ),
            (Some(tile), Some(library)) => {
                let why = if tile < library {
                    let faster = 100.0 * (library / tile - 1.0);
                    format!(": only {faster:.1} % faster, which may be an error of the prediction")
                } else {
                    String::new()
                };
                format!(
                    "Better: the library and a kernel for {what}. They are predicted to take {}, the best tile with \
                     {what} fused {}{why}.",
                    time(library),
                    time(tile)
                )
            }
        }
    }
}

/// One sentence that says why times exclude the epilogue. `None` if they include it, or without an epilogue.
pub fn uncounted(epilogue: Epilogue, hardware: &Hardware, problem: &Problem) -> Option<String> {
    if epilogue == Epilogue::None {
        return None;
    }
    if Costs::of(hardware).is_none() {
        let name = &hardware.name;
        return Some(format!(
            "What an epilogue costs on {name} was not measured. The times are of the multiplication alone."
        ));
    }
    let is_nothing = Following::of(epilogue, problem).is_none();
    is_nothing.then(|| "The product is float32 already: no cast follows.".to_owned())
}

/// What a sentence calls the epilogue.
fn in_words(epilogue: Epilogue) -> &'static str {
    match epilogue {
        Epilogue::None => "nothing",
        Epilogue::Relu => "the ReLU",
        Epilogue::Gelu => "the GELU",
        Epilogue::GeluTanh => "the GELU by tanh",
        Epilogue::Silu => "the SiLU",
        Epilogue::SiluGate => "the SiLU and its gate",
        Epilogue::Residual => "the residual",
        Epilogue::Float32 => "the cast to float32",
    }
}

#[cfg(test)]
mod tests {
    use diode_core::hardware::find;
    use diode_core::{DType, Op, ProblemFields, Tile};

    use super::*;

    fn problem() -> Problem {
        Problem::new(ProblemFields::plain(Op::Mm, 1, 8192, 4096, 256, DType::BFloat16)).unwrap()
    }

    fn decided(tile_us: f64, library_us: f64, slug: &str) -> Option<Decision> {
        let tile = Config::Mm(Tile::new(64, 128, 64, 3, 4));
        let ranked = RankedSpace::new(vec![(tile, Micros(tile_us))], Some(Micros(library_us)), 1.0);
        Decision::new(&ranked, &find(slug).unwrap(), &problem(), Epilogue::Relu, 1)
    }

    fn words(tile_us: f64, library_us: f64) -> String {
        decided(tile_us, library_us, "nvidia-h100").unwrap().verdict.in_words(|us| format!("{us:.1} µs"))
    }

    #[test]
    fn a_big_epilogue_turns_the_decision() {
        // As a kernel, the ReLU reads and writes 64 MiB each: 42.6 µs. In the tile it takes no time.
        assert_eq!(
            words(50.0, 40.0),
            "Better: a tile with the ReLU fused. It is predicted to take 50.0 µs, the library and a kernel for the \
             ReLU 82.6 µs."
        );
        assert_eq!(decided(50.0, 40.0, "nvidia-a100"), None, "nobody has measured the costs there");
        let why = |slug: &str| uncounted(Epilogue::Relu, &find(slug).unwrap(), &problem());
        assert!(
            why("nvidia-a100")
                .unwrap()
                .starts_with("What an epilogue costs on NVIDIA A100 was not measured.")
        );
        assert_eq!(why("nvidia-h100"), None);
    }

    #[test]
    fn a_tile_is_taken_only_where_it_is_clearly_faster() {
        assert!(words(80.0, 40.0).ends_with(
            "with the ReLU fused 80.0 µs: only 3.2 % faster, which may be an error of the prediction."
        ));
        assert!(words(90.0, 40.0).ends_with("the best tile with the ReLU fused 90.0 µs."));
        let tile = Config::Mm(Tile::new(64, 128, 64, 3, 4));
        for (us, library) in [(39.0, true), (37.0, false)] {
            let kernels = [(tile, Micros(us)), (Config::Library, Micros(40.0))];
            assert_eq!(weighed(kernels, &problem(), None)[0].config.is_library(), library);
        }
    }
}
