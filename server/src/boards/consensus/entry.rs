//! The summary of a view that leaderboards read. It has the best config of all, the best Triton config and
//! the library kernel. Only this module decides which config counts as which.

use diode_api::{KernelResult, LeaderboardRow};
use diode_core::hardware::{Hardware, roofline};
use diode_core::space::{Space, SpaceName};
use diode_core::stats::TIE;
use diode_core::{Config, Method, Nanos, Problem, Tflops, Tile};
use serde::{Deserialize, Serialize};

use super::{AgreedTime, Consensus, Fastest};

/// The version of [`BoardEntry`]. It grows when a field is added or gets another meaning: entries of earlier versions are
/// then computed again.
pub(crate) const ENTRY_VERSION: i64 = 1;

/// The entry of a view, as it is stored in JSON. A new field needs a default for entries that are not computed again yet;
/// an `Option` has one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BoardEntry {
    pub best: Config,
    pub best_us: f64,
    /// `None` without a roofline: a time without a lower bound may be wrong, so no rate is computed.
    pub tflops: Option<f64>,
    pub roofline_share: Option<f64>,
    pub gain_over_defaults: Option<f64>,
    /// The fastest Triton config.
    pub triton: Option<KernelResult>,
    pub library: Option<KernelResult>,
    /// Library time / Triton time, if the two may be compared.
    pub triton_over_library: Option<f64>,
    /// Other Triton configs that tie with the best.
    pub triton_ties: u64,
    pub configs: u64,
    pub timings: u64,
    pub solutions: u64,
    /// Contributors that measured the problem.
    pub contributors: u64,
    /// Contributors that confirm the time of the best config.
    pub best_contributors: u64,
}

impl BoardEntry {
    /// The row of a board that shows this entry.
    pub(crate) fn row(self, problem: Problem, method: Method) -> LeaderboardRow {
        LeaderboardRow {
            problem_id: problem.id(),
            problem,
            method,
            best: self.best,
            best_us: self.best_us,
            tflops: self.tflops,
            roofline_share: self.roofline_share,
            gain_over_defaults: self.gain_over_defaults,
            triton: self.triton,
            library: self.library,
            triton_over_library: self.triton_over_library,
            triton_ties: self.triton_ties,
            configs: self.configs,
            solutions: self.solutions,
            contributors: self.contributors,
            unconfirmed: self.best_contributors < 2,
        }
    }
}

impl Consensus {
    /// `None` if no config has a time.
    pub(crate) fn board_entry(&self, problem: &Problem, hardware: &Hardware) -> Option<BoardEntry> {
        let best = self.leading().next()?;
        let default = self.best_default(problem, hardware);
        let judge = |agreed: &AgreedTime, spread| judged(agreed, spread, default, problem, hardware);
        let kernel = |fastest: Fastest| judge(&fastest.agreed, fastest.spread);
        let KernelResult { config, us, tflops, roofline_share, gain_over_defaults, .. } = judge(best, None);
        Some(BoardEntry {
            best: config,
            best_us: us,
            tflops,
            roofline_share,
            gain_over_defaults,
            triton: self.triton.map(kernel),
            library: self.library.map(kernel),
            triton_over_library: self.triton_over_library(problem),
            triton_ties: self.triton_ties(),
            configs: self.configs.len() as u64,
            timings: self.timings,
            solutions: self.solutions,
            contributors: self.contributors,
            best_contributors: u64::from(best.confirmed_by),
        })
    }

    /// Kernels that round float32 to TF32 do less work, so they are compared with each other only.
    fn triton_over_library(&self, problem: &Problem) -> Option<f64> {
        let (triton, library) = (self.triton?.agreed, self.library?.agreed);
        let are_alike = triton.config.rounds(problem) == library.config.rounds(problem);
        finite(are_alike.then_some(library.time.0 / triton.time.0))
    }

    fn triton_ties(&self) -> u64 {
        let Some(best) = self.triton else { return 0 };
        let reach = best.agreed.time.0 * (1.0 + TIE);
        let near = self.leading().take_while(|agreed| agreed.time.0 <= reach);
        near.filter(|agreed| !agreed.config.is_library()).count() as u64 - 1
    }

    /// The roofline time in nanoseconds, for the arithmetic that the best config may use.
    pub(crate) fn roofline(&self, problem: &Problem, hardware: &Hardware) -> Option<f64> {
        roof(&self.leading().next()?.config, problem, hardware)
    }

    /// The best time among Inductor's default configs for the problem. `None` if no default config was timed,
    /// or the hardware has no default list.
    fn best_default(&self, problem: &Problem, hardware: &Hardware) -> Option<Nanos> {
        let defaults = Space::Named(SpaceName::Default).configs(hardware, problem).ok()?;
        // The list is sorted by time, so the first match is the best.
        let hit = self.leading().find(|agreed| match agreed.config {
            Config::Mm(tile) | Config::Bmm(tile) => {
                defaults.iter().filter_map(Config::tile).any(|default| is_the_default(&tile, default))
            }
            Config::PersistentTma(_)
            | Config::DecomposeK { .. }
            | Config::Library
            | Config::RoundingLibrary => false,
        })?;
        Some(hit.time)
    }
}

fn judged(
    agreed: &AgreedTime,
    spread: Option<f64>,
    best_default: Option<Nanos>,
    problem: &Problem,
    hardware: &Hardware,
) -> KernelResult {
    let roof = roof(&agreed.config, problem, hardware);
    KernelResult {
        config: agreed.config,
        us: agreed.time.micros().0,
        tflops: finite(roof.map(|_| Tflops::from_work(problem.flops(), agreed.time.micros()).0)),
        roofline_share: finite(roof.map(|roof| roof / agreed.time.0)),
        gain_over_defaults: finite(best_default.map(|time| time.0 / agreed.time.0)),
        spread: finite(spread),
    }
}

fn roof(config: &Config, problem: &Problem, hardware: &Hardware) -> Option<f64> {
    Some(roofline(hardware.facts.as_ref()?, problem, config.rounds_to_tf32())?.nanos().0)
}

/// Old databases may have times of zero, from before the floor existed.
fn finite(ratio: Option<f64>) -> Option<f64> {
    ratio.filter(|ratio| ratio.is_finite())
}

/// Whether a timed tile is in Inductor's list. Imported files may lack ROCm's settings, which are then not
/// compared.
fn is_the_default(timed: &Tile, default: &Tile) -> bool {
    launch_shape(timed) == launch_shape(default) && (timed.rocm.is_none() || timed.rocm == default.rocm)
}

/// The settings of a tile that Inductor's list fixes. The other settings follow from the problem and from
/// torch's settings.
fn launch_shape(tile: &Tile) -> [u32; 6] {
    [tile.block_m, tile.block_n, tile.block_k, tile.group_m, tile.num_stages, tile.num_warps]
}

#[cfg(test)]
mod tests {
    use diode_core::{DType, Op, ProblemFields};

    use super::super::tests::{by, problem, tile};
    use super::*;

    #[test]
    fn the_entry_judges_the_best_against_roofline_and_defaults() {
        let hardware = diode_core::hardware::find("nvidia-h200").unwrap();
        // 128×128×64 s3 w4 is on Inductor's list, 64×128×64 s5 w4 is not.
        let consensus = Consensus::of(&[by(
            "a",
            &[(tile(128, 3), 200_000), (tile(64, 5), 160_000), (Config::Library, 180_000)],
        )]);
        let entry = consensus.board_entry(&problem(), &hardware).unwrap();
        assert_eq!(entry.best, tile(64, 5));
        assert_eq!(entry.gain_over_defaults, Some(1.25));
        assert_eq!((entry.triton_over_library, entry.triton_ties), (Some(1.125), 0));
        assert!((entry.tflops.unwrap() - 858.99).abs() < 0.01, "{:?}", entry.tflops);
        assert!((entry.roofline_share.unwrap() - 0.8677).abs() < 0.0001);
        assert_eq!(Consensus::of(&[by("a", &[])]).board_entry(&problem(), &hardware), None);
    }

    #[test]
    fn triton_and_the_library_stand_beside_each_other_whoever_is_faster() {
        let hardware = diode_core::hardware::find("nvidia-h200").unwrap();
        let times = [
            (Config::Library, 160_000),
            (tile(128, 3), 201_000),
            (tile(64, 5), 200_000),
            (tile(64, 4), 203_000),
        ];
        let entry = Consensus::of(&[by("a", &times)]).board_entry(&problem(), &hardware).unwrap();
        let (triton, library) = (entry.triton.unwrap(), entry.library.unwrap());
        assert_eq!((entry.best, entry.gain_over_defaults), (Config::Library, Some(201.0 / 160.0)));
        assert_eq!((triton.config, triton.us, triton.gain_over_defaults), (tile(64, 5), 200.0, Some(1.005)));
        assert_eq!((library.config, library.us, library.tflops), (Config::Library, 160.0, entry.tflops));
        // 201 is within 1 % of 200 and ties with it. 203 is not.
        assert_eq!((entry.triton_over_library, entry.triton_ties), (Some(0.8), 1));
        assert_eq!((triton.spread, library.spread), (None, None));
    }

    #[test]
    fn what_rounds_to_tf32_is_not_compared_with_a_library_that_does_not() {
        let hardware = diode_core::hardware::find("nvidia-h200").unwrap();
        let Config::Mm(plain) = tile(64, 5) else { unreachable!() };
        let times =
            [(Config::Mm(Tile { allow_tf32: true, ..plain }), 1_000_000), (Config::Library, 2_000_000)];
        let consensus = Consensus::of(&[by("a", &times)]);
        let float = Problem::new(ProblemFields::plain(Op::Mm, 1, 4096, 4096, 4096, DType::Float32)).unwrap();
        assert_eq!(consensus.board_entry(&float, &hardware).unwrap().triton_over_library, None);
        let also = [&times[..], &[(Config::RoundingLibrary, 1_500_000)]].concat();
        let entry = Consensus::of(&[by("a", &also)]).board_entry(&float, &hardware).unwrap();
        assert_eq!(entry.library.unwrap().config, Config::RoundingLibrary);
        assert_eq!((entry.triton_over_library, entry.triton_ties), (Some(1.5), 0));
        // For types other than float32, the flag `allow_tf32` has no effect.
        assert_eq!(consensus.board_entry(&problem(), &hardware).unwrap().triton_over_library, Some(2.0));
    }
}
