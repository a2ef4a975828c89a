//! Times that contributors agree on, in place of predicted ones.

use diode_core::hardware::Hardware;
use diode_core::space::serving::is_swapped;
use diode_core::{Config, Problem, Tile};

use crate::file_names::Consumer;
use crate::layers::LayersError;
use crate::measured::LEAST_GAIN;
use crate::model_config::Quantization;
use crate::served::Layer;
use crate::tuning::{Choice, Pick, Tuned};

/// The time of a config of one launch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimedTile {
    tile: Tile,
    us: f64,
    backing: Backing,
}

/// Who measured a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backing {
    pub contributors: u64,
    /// How many of them confirm the time.
    pub confirmed_by: u64,
}

/// Who measured the default, and the config that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    pub default: Backing,
    pub taken: Backing,
}

impl Backing {
    /// Of the times of several launches, what holds for all.
    pub fn least(self, other: Self) -> Self {
        Self {
            contributors: self.contributors.min(other.contributors),
            confirmed_by: self.confirmed_by.min(other.confirmed_by),
        }
    }
}

impl TimedTile {
    /// `None` for a config that no file can name: another kernel, or operands swapped where the server does not.
    pub fn new(
        hardware: &Hardware,
        problem: &Problem,
        config: &Config,
        us: f64,
        backing: Backing,
    ) -> Option<Self> {
        let Config::Mm(tile) = *config else { return None };
        let as_run = tile.swap_ab == is_swapped(hardware, problem, tile.block_m, tile.block_n);
        as_run.then(|| Self { tile: plain(&tile), us, backing })
    }
}

impl Pick {
    /// Its measured time, and who measured it, if all launches have times of it.
    pub fn measured(&self, launches: &[Vec<TimedTile>]) -> Option<(f64, Backing)> {
        let mut sum = None;
        for (launch, tile) in launches.iter().zip([self.tile, self.down.unwrap_or(self.tile)]) {
            let TimedTile { us, backing, .. } = *launch.iter().find(|one| one.tile == plain(&tile))?;
            sum = Some(sum.map_or((us, backing), |(before, least): (f64, Backing)| {
                (before + us, least.least(backing))
            }));
        }
        sum
    }
}

/// A tile without what follows from the problem.
fn plain(tile: &Tile) -> Tile {
    Tile { swap_ab: false, ..tile.for_k(1) }
}

impl Tuned {
    /// The defaults of a layer, for hardware that no model predicts. Their times are not known before they are measured.
    pub fn unpredicted(
        hardware: &Hardware,
        layer: &Layer,
        consumer: Consumer,
        batches: &[u64],
    ) -> Result<Self, LayersError> {
        let mut choices = Vec::new();
        for &batch in batches {
            let (nominal, has_own) = match layer {
                Layer::Experts(layer) => (layer.nominal(batch)?, consumer == Consumer::Sglang),
                Layer::Dense(layer) => (layer.problem(batch, Quantization::Fp8Block)?, false),
            };
            let default = consumer.default_config().config(hardware, &nominal);
            let Some(&default) = default.as_ref().and_then(Config::tile) else { continue };
            let (default_us, us, down) = (f64::INFINITY, f64::INFINITY, has_own.then_some(default));
            choices.push(Choice {
                batch,
                default,
                default_us,
                tile: default,
                down,
                us,
                keeps_default: true,
                picks: Vec::new(),
                published: None,
                measured: None,
            });
        }
        Ok(Self { choices, handicap: 1.0, figures: None, caveat: None })
    }

    /// Takes the config of a choice from measured times, if all launches have some of the default. Times are those of
    /// each launch that may stand first on a board.
    pub fn take_measured(&mut self, at: usize, launches: &[Vec<TimedTile>]) -> Option<Taken> {
        let choice = self.choices.get_mut(at)?;
        let pairs = pairs(choice, launches);
        let kept = plain(&choice.default);
        let default =
            pairs.iter().find(|pair| pair.tile == kept && pair.down.is_none_or(|down| down == kept))?;
        let best = pairs.iter().min_by(|a, b| a.us.total_cmp(&b.us))?;
        let keeps_default = best.us >= default.us * (1.0 - LEAST_GAIN);
        let taken = if keeps_default { default } else { best };
        (choice.default_us, choice.us, choice.keeps_default) = (default.us, taken.us, keeps_default);
        (choice.tile, choice.down) = (taken.tile, taken.down);
        Some(Taken { default: default.backing, taken: taken.backing })
    }
}

/// A config of all launches, or one of each.
struct Pair {
    tile: Tile,
    down: Option<Tile>,
    us: f64,
    backing: Backing,
}

/// What was timed of all launches. Where each has a config of its own, both have the same height.
fn pairs(choice: &Choice, launches: &[Vec<TimedTile>]) -> Vec<Pair> {
    let alone = |one: &TimedTile| Pair { tile: one.tile, down: None, us: one.us, backing: one.backing };
    match launches {
        [only] => only.iter().map(alone).collect(),
        [up, down] => {
            let has_own = choice.down.is_some();
            let together = |one: &TimedTile, other: &TimedTile| {
                let fits =
                    if has_own { one.tile.block_m == other.tile.block_m } else { one.tile == other.tile };
                fits.then(|| Pair {
                    tile: one.tile,
                    down: has_own.then_some(other.tile),
                    us: one.us + other.us,
                    backing: one.backing.least(other.backing),
                })
            };
            up.iter().flat_map(|one| down.iter().filter_map(move |other| together(one, other))).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use diode_core::hardware::find;

    use super::*;
    use crate::layers::DenseLayer;

    const ONE: Backing = Backing { contributors: 1, confirmed_by: 1 };
    const BOTH: Option<Taken> = Some(Taken { default: ONE, taken: ONE });

    fn tile(block_m: u32, block_n: u32) -> Tile {
        Tile::new(block_m, block_n, 128, 3, 4)
    }

    fn tuned(down: bool) -> Tuned {
        let (default, fastest) = (tile(64, 128), tile(16, 64));
        let choice = Choice {
            batch: 16,
            default,
            default_us: 50.0,
            tile: fastest,
            down: down.then_some(fastest),
            us: 40.0,
            keeps_default: false,
            picks: Vec::new(),
            published: None,
            measured: None,
        };
        Tuned { choices: vec![choice], handicap: 1.0, figures: None, caveat: None }
    }

    fn times(times: &[(Tile, f64)]) -> Vec<TimedTile> {
        times.iter().map(|&(tile, us)| TimedTile { tile: plain(&tile), us, backing: ONE }).collect()
    }

    #[test]
    fn the_fastest_of_all_launches_replaces_what_was_predicted() {
        let up = times(&[(tile(64, 128), 30.0), (tile(16, 64), 29.0), (tile(32, 64), 25.0)]);
        let down = times(&[
            (tile(64, 128), 30.0),
            (tile(16, 64), 25.0),
            (tile(32, 64), 34.0),
            (tile(32, 128), 26.0),
        ]);
        let mut vllm = tuned(false);
        assert_eq!(vllm.take_measured(0, &[up.clone(), down.clone()]), BOTH);
        let choice = &vllm.choices[0];
        assert_eq!(
            (choice.tile, choice.down, choice.default_us, choice.us),
            (plain(&tile(16, 64)), None, 60.0, 54.0)
        );
        let mut sglang = tuned(true);
        sglang.take_measured(0, &[up, down]).unwrap();
        let choice = &sglang.choices[0];
        assert_eq!(
            (choice.tile, choice.down, choice.us),
            (plain(&tile(32, 64)), Some(plain(&tile(32, 128))), 51.0)
        );
        assert!(!choice.keeps_default);
    }

    #[test]
    fn a_default_stays_unless_something_is_clearly_faster_and_what_has_no_default_says_nothing() {
        let mut one = tuned(false);
        assert_eq!(one.take_measured(0, &[times(&[(tile(64, 128), 30.0), (tile(16, 64), 29.8)])]), BOTH);
        assert!(one.choices[0].keeps_default && one.choices[0].tile == plain(&tile(64, 128)));
        let before = tuned(false);
        for launches in [
            vec![times(&[(tile(16, 64), 1.0)])],
            vec![times(&[(tile(64, 128), 30.0)]), Vec::new()],
            Vec::new(),
        ] {
            let mut none = before.clone();
            assert_eq!((none.take_measured(0, &launches), &none), (None, &before));
        }
    }

    #[test]
    fn a_published_choice_has_the_times_of_all_launches() {
        let pick = |down| Pick { tile: tile(16, 64), down, us: f64::NAN };
        let up = times(&[(tile(64, 128), 30.0), (tile(16, 64), 29.0)]);
        let down = times(&[(tile(16, 64), 25.0), (tile(16, 128), 24.0)]);
        assert_eq!(pick(None).measured(&[up.clone(), down.clone()]), Some((54.0, ONE)));
        assert_eq!(pick(Some(tile(16, 128))).measured(&[up.clone(), down.clone()]), Some((53.0, ONE)));
        assert_eq!(pick(Some(tile(32, 128))).measured(&[up.clone(), down]), None);
        assert_eq!(pick(None).measured(&[up]), Some((29.0, ONE)));
        assert_eq!(pick(None).measured(&[]), None);
    }

    #[test]
    fn a_config_counts_as_the_server_runs_it() {
        let hardware = find("nvidia-h200").unwrap();
        let problem = DenseLayer::of_sizes(4096, 7168).problem(16, Quantization::Fp8Block).unwrap();
        let timed = |config| TimedTile::new(&hardware, &problem, &config, 10.0, ONE);
        let default = Consumer::Sglang.default_config().config(&hardware, &problem).unwrap();
        assert_eq!(timed(default).unwrap().tile, plain(default.tile().unwrap()));
        let swapped = Config::Mm(Tile { swap_ab: true, ..*default.tile().unwrap() });
        assert_eq!([timed(swapped), timed(Config::Library)], [None, None]);
    }
}
