//! Decides between a tile and the library if an epilogue follows the multiplication. Inductor fuses the
//! epilogue into a tile's kernel; after the library it is a kernel of its own.

mod compiling;
mod costs;

use std::ops::RangeInclusive;

use diode_core::hardware::Hardware;
use diode_core::{Config, DType, Epilogue, Micros, Op, Problem};
use serde::{Deserialize, Serialize};

use crate::{Question, RankedSpace};

use crate::epilogue::compiling::soonest_first;

pub use crate::epilogue::compiling::hides_steps;
pub use crate::epilogue::costs::Costs;
pub use crate::epilogue::costs::Following;

/// How many picks are compared, with the epilogue counted. [`NEAR`] others are compared with them.
const WEIGHED: usize = 8;

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
fn weighed(
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
    /// `None` without an epilogue that has a name.
    pub verdict: Option<Verdict>,
    /// Why the first is the first, if it is not the one that is predicted to be fastest alone.
    pub why: Option<String>,
}

impl Decision {
    /// Compares at least as many kernels as are asked for, if there are so many. `None` if the order of the ranking holds:
    /// the pick does not run alone, and nothing follows or its costs are not known.
    pub fn new(
        ranked: &RankedSpace,
        hardware: &Hardware,
        problem: &Problem,
        question: &Question<'_>,
    ) -> Option<Self> {
        let Question { epilogue, alone, picks: count, .. } = *question;
        let costs = Costs::for_hardware(hardware);
        let following = question.following.cloned().or_else(|| Following::after(epilogue, problem));
        let what_follows = costs.as_ref().zip(following.as_ref());
        if what_follows.is_none() && !alone {
            return None;
        }
        // The same kernels are compared however many are shown, so that all programs decide alike.
        let are_enough = count <= WEIGHED + NEAR;
        let mut kernels = ranked.picks(if are_enough { WEIGHED } else { count });
        kernels.extend(ranked.near(&kernels, NEAR));
        let has_library = kernels.iter().any(|(config, _)| config.is_library());
        let library = ranked.library.map(|time| (ranked.library_config(), time));
        kernels.extend(library.filter(|_| !has_library));
        let fastest = ranked.picks(1).first().map(|(config, _)| *config);
        let mut best_first = weighed(kernels, problem, what_follows);
        // Costs are known of Hopper's GPUs only, on which some tiles take long to compile.
        if alone && costs.is_some() {
            soonest_first(&mut best_first, problem);
        }
        let first = |library: bool| best_first.iter().find(|one| one.config.is_library() == library);
        let [tile_us, library_us] = [false, true].map(|library| Some(first(library)?.total().0));
        let fuse = best_first.first().is_some_and(|one| !one.config.is_library());
        let is_named = what_follows.is_some() && question.following.is_none();
        let why = best_first.first().map(|best| best.config) != fastest || what_follows.is_some();
        let why = why.then(|| Self::why(&best_first, ranked.considered, what_follows.is_some())).flatten();
        Some(Self {
            verdict: is_named.then_some(Verdict { epilogue, tile_us, library_us, fuse }),
            best_first,
            why,
        })
    }

    /// Why the first is picked, in words that complete a sentence.
    fn why(best_first: &[Weighed], considered: usize, is_followed: bool) -> Option<String> {
        let best = best_first.first()?;
        let least = best_first.iter().map(|one| one.total().0).fold(f64::INFINITY, f64::min);
        let longer = best.total().0 / least - 1.0;
        Some(if longer > 0.0 && !best.config.is_library() {
            let longer = 100.0 * longer;
            format!("compiled sooner than the fastest tile, and predicted to take {longer:.1}% longer")
        } else if best.config.is_library() && (longer > 0.0 || !is_followed) {
            let with = if is_followed { ", with what follows" } else { "" };
            format!("no tile is predicted to be clearly faster than the library{with}")
        } else if is_followed {
            format!(
                "predicted fastest with what follows, of the {WEIGHED} likeliest of {considered} configs and the library"
            )
        } else {
            return None;
        })
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
    if Costs::for_hardware(hardware).is_none() {
        let name = &hardware.name;
        return Some(format!(
            "What an epilogue costs on {name} was not measured. The times are of the multiplication alone."
        ));
    }
    let is_nothing = Following::after(epilogue, problem).is_none();
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

/// With this share fewer picks are slower than the library, and the mean speed changes by less than 0.3 %.
const DOUBT: f64 = 0.07;

/// The share for [`FEW_ROWS`] in half precision, if the library takes [`FROM_US`] or more, and for scaled tiles that
/// multiply the transposes. Most of the time goes into reading B once, and is predicted more exactly.
const DOUBT_OF_FEW_ROWS: f64 = 0.04;
const FEW_ROWS: RangeInclusive<u64> = 8..=32;
const FROM_US: f64 = 10.0;

/// The share for a tile of [`LEAST_ROWS`], or for [`FEW_ROWS`] also of twice as many, whose threads hold
/// [`MANY_VALUES`] of the product or more. If such a kernel knows its sizes, as Inductor's does, `ptxas` gives it
/// few registers for some sizes. Then it takes up to 2.2 times as long as the kernel that was timed, which does
/// not know them.
const DOUBT_OF_REGISTERS: f64 = 0.13;
const LEAST_ROWS: u32 = 16;
const MANY_VALUES: u32 = 16;

/// The share for a batched tile of [`LEAST_ROWS`] that has all rows of the product and takes all of K in one step.
/// A kernel that knows K then has no loop, and takes up to 1.16 times as long as the kernel that was timed.
const DOUBT_OF_ONE_STEP: f64 = 0.13;

/// The share for scaled products of more than [`ROWS_OF_SCALED`] rows. With large tiles, the kernels that Inductor makes of them
/// have too few registers, unlike those that were timed: on an H200, the best takes 1.03 to 1.5 times as long as the library.
const DOUBT_OF_SCALED: f64 = 0.3;
const ROWS_OF_SCALED: u64 = 256;

/// The share for grouped products. On 29 of them that Inductor compiled for an H200, tiles were never slower than the library
/// where they were predicted to be faster (`comparison.py --parts grouped`).
const DOUBT_OF_GROUPS: f64 = 0.03;

/// The share of its time that is added to a kernel's time before times are compared. 0 for the library, whose
/// time alone is `library`.
fn doubt(config: &Config, problem: &Problem, library: Option<Micros>) -> f64 {
    let has_few_rows = !problem.op.is_batched()
        && FEW_ROWS.contains(&problem.m)
        && problem.a_dtype != DType::Float32
        && (config.tile().is_some_and(|tile| tile.swap_ab) || library.is_some_and(|time| time.0 >= FROM_US));
    let rows_in_doubt = if has_few_rows { 2 * LEAST_ROWS } else { LEAST_ROWS };
    match config {
        _ if config.is_library() => 0.0,
        _ if problem.op == Op::GroupedMm => DOUBT_OF_GROUPS,
        _ if problem.op == Op::ScaledMm && problem.m > ROWS_OF_SCALED => DOUBT_OF_SCALED,
        // The template for batches has another loop. A warp has 32 threads wherever doubts were measured.
        Config::Mm(tile)
            if tile.block_m <= rows_in_doubt
                && tile.block_m * tile.block_n / (32 * tile.num_warps) >= MANY_VALUES =>
        {
            DOUBT_OF_REGISTERS
        }
        Config::Bmm(tile)
            if tile.block_m <= LEAST_ROWS
                && problem.m <= u64::from(tile.block_m)
                && problem.k <= u64::from(tile.block_k) =>
        {
            DOUBT_OF_ONE_STEP
        }
        _ if has_few_rows => DOUBT_OF_FEW_ROWS,
        _ => DOUBT,
    }
}

#[cfg(test)]
mod decision_tests {
    use diode_core::hardware::find;
    use diode_core::{DType, Op, ProblemFields, Tile};

    use super::*;

    fn problem() -> Problem {
        Problem::new(ProblemFields::plain(Op::Mm, 1, 8192, 4096, 256, DType::BFloat16)).unwrap()
    }

    fn decided(tile_us: f64, library_us: f64, slug: &str) -> Option<Decision> {
        let tile = Config::Mm(Tile::new(64, 128, 64, 3, 4));
        let ranked = RankedSpace::new(vec![(tile, Micros(tile_us))], Some(Micros(library_us)), 1.0);
        let question = Question { epilogue: Epilogue::Relu, ..Question::default() };
        Decision::new(&ranked, &find(slug).unwrap(), &problem(), &question)
    }

    fn words(tile_us: f64, library_us: f64) -> String {
        decided(tile_us, library_us, "nvidia-h100")
            .unwrap()
            .verdict
            .unwrap()
            .in_words(|us| format!("{us:.1} µs"))
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

    #[test]
    fn a_pick_that_runs_alone_beats_the_library_clearly_or_compiles_soon() {
        let problem =
            Problem::new(ProblemFields::plain(Op::Mm, 1, 4096, 1024, 1024, DType::BFloat16)).unwrap();
        let [long, soon] = [256, 128].map(|block_n| Config::Mm(Tile::new(128, block_n, 64, 3, 8)));
        let decided = |soon_us: f64, library_us: f64, slug: &str, alone: bool| {
            let configs = vec![(long, Micros(19.4)), (soon, Micros(soon_us))];
            let ranked = RankedSpace::new(configs, Some(Micros(library_us)), 1.0);
            let question = Question { alone, ..Question::default() };
            let decision = Decision::new(&ranked, &find(slug).unwrap(), &problem, &question)?;
            Some((decision.best_first[0].config, decision.why.unwrap_or_default()))
        };
        let h100 = |soon_us, library_us| decided(soon_us, library_us, "nvidia-h100", true).unwrap();
        let sooner = "compiled sooner than the fastest tile, and predicted to take 0.5% longer";
        assert_eq!(h100(19.5, 30.0), (soon, sooner.to_owned()));
        assert_eq!(h100(20.0, 30.0), (long, String::new()));
        assert_eq!(
            decided(19.5, 30.0, "nvidia-a100", true).unwrap().0,
            long,
            "nobody has timed its compiles"
        );
        let unclear = "no tile is predicted to be clearly faster than the library";
        assert_eq!(h100(19.5, 20.0), (Config::Library, unclear.to_owned()));
        assert_eq!(decided(19.5, 20.0, "nvidia-h100", false), None, "a list is in the order of its times");
    }

    #[test]
    fn what_a_graph_says_follows_is_weighed_like_an_epilogue_with_a_name() {
        let tile = Config::Mm(Tile::new(64, 128, 64, 3, 4));
        let ranked = RankedSpace::new(vec![(tile, Micros(50.0))], Some(Micros(40.0)), 1.0);
        let read = Following::after(Epilogue::Relu, &problem()).unwrap();
        let question = Question { alone: true, following: Some(&read), ..Question::default() };
        let on = |slug: &str| Decision::new(&ranked, &find(slug).unwrap(), &problem(), &question).unwrap();
        let [h100, a100] = ["nvidia-h100", "nvidia-a100"].map(on);
        assert_eq!((h100.best_first[0].config, h100.verdict), (tile, None));
        assert!(h100.why.unwrap().starts_with("predicted fastest with what follows, of the 8 likeliest"));
        assert!(a100.best_first[0].config.is_library(), "nobody has measured its costs");
    }
}

#[cfg(test)]
mod doubt_tests {
    use diode_core::{Layout, Op, ProblemFields, Tile};

    use super::*;

    fn asked(tile: [u32; 2], warps: u32, op: Op, rows: u64, library_us: f64) -> f64 {
        let fields = ProblemFields::plain(op, 1, rows, 4096, 14336, DType::BFloat16);
        let problem = Problem::new(ProblemFields { b_layout: Layout::Column, ..fields }).unwrap();
        let tile = Tile::new(tile[0], tile[1], 256, 4, warps);
        let config = if op.is_batched() { Config::Bmm(tile) } else { Config::Mm(tile) };
        doubt(&config, &problem, Some(Micros(library_us)))
    }

    #[test]
    fn more_is_asked_of_a_batched_tile_that_takes_all_of_k_in_one_step() {
        let asked = |tile: [u32; 3], rows: u64, k: u64| {
            let fields = ProblemFields::plain(Op::Bmm, 128, rows, 2048, k, DType::BFloat16);
            let problem = Problem::new(ProblemFields { b_layout: Layout::Column, ..fields }).unwrap();
            doubt(&Config::Bmm(Tile::new(tile[0], tile[1], tile[2], 2, 4)), &problem, Some(Micros(28.0)))
        };
        assert_eq!(asked([16, 64, 128], 4, 128), DOUBT_OF_ONE_STEP);
        assert_eq!(asked([16, 64, 64], 4, 128), DOUBT, "two steps");
        assert_eq!(asked([16, 64, 128], 77, 128), DOUBT, "many rows");
        assert_eq!(asked([64, 64, 128], 4, 128), DOUBT, "a tile of many rows");
    }

    #[test]
    fn less_is_asked_of_a_grouped_tile() {
        let groups = Some(diode_core::Groups::routed(8, 2));
        let fields = ProblemFields::plain(Op::GroupedMm, 1, 64, 4096, 14336, DType::BFloat16);
        let problem = Problem::new(ProblemFields { groups, ..fields }).unwrap();
        let config = Config::PersistentTma(Tile::new(64, 128, 64, 4, 4));
        assert_eq!(doubt(&config, &problem, Some(Micros(400.0))), DOUBT_OF_GROUPS);
    }

    #[test]
    fn more_is_asked_of_a_scaled_tile_of_many_rows() {
        let asked = |rows| {
            let fields = ProblemFields::plain(Op::ScaledMm, 1, rows, 2560, 8192, DType::Float8E4M3);
            let problem =
                Problem::new(ProblemFields { scaling: diode_core::Scaling::Row, ..fields }).unwrap();
            let of = |swap_ab| Config::Mm(Tile { swap_ab, ..Tile::new(16, 64, 256, 4, 4) });
            [false, true].map(|swap_ab| doubt(&of(swap_ab), &problem, Some(Micros(7.0))))
        };
        assert_eq!(asked(256), [DOUBT; 2]);
        assert_eq!(asked(257), [DOUBT_OF_SCALED; 2]);
        assert_eq!(asked(16), [DOUBT, DOUBT_OF_FEW_ROWS], "transposes");
        assert_eq!([asked(7), asked(33)], [[DOUBT; 2]; 2]);
    }

    #[test]
    fn less_is_asked_of_a_tile_for_few_rows() {
        assert_eq!(asked([16, 32], 4, Op::Mm, 16, 42.0), DOUBT_OF_FEW_ROWS);
        assert_eq!(asked([16, 32], 4, Op::Mm, 1, 42.0), DOUBT, "cuBLAS has other kernels for one row");
        assert_eq!(asked([16, 32], 4, Op::Mm, 64, 42.0), DOUBT, "many rows");
        assert_eq!(asked([16, 32], 4, Op::Mm, 16, 9.0), DOUBT, "a short time");
        assert_eq!(asked([16, 32], 4, Op::Bmm, 16, 42.0), DOUBT, "batched");
    }

    #[test]
    fn more_is_asked_of_a_tile_that_may_get_few_registers() {
        assert_eq!(asked([16, 64], 2, Op::Mm, 16, 42.0), DOUBT_OF_REGISTERS);
        assert_eq!(asked([16, 64], 4, Op::Mm, 16, 42.0), DOUBT_OF_FEW_ROWS, "8 values per thread");
        assert_eq!(asked([32, 32], 2, Op::Mm, 32, 42.0), DOUBT_OF_REGISTERS);
        assert_eq!(asked([32, 32], 2, Op::Mm, 64, 42.0), DOUBT, "many rows");
        assert_eq!(asked([64, 64], 4, Op::Mm, 64, 42.0), DOUBT, "other instructions");
        assert_eq!(asked([16, 64], 2, Op::Bmm, 16, 42.0), DOUBT, "batched");
    }
}
