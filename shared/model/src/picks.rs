//! Chooses which configs of a ranking to measure.

use diode_core::{Config, Micros, Tile};

use crate::features::Loading;
use crate::tile_network::tile_key;

/// Added to the logarithm of a config's predicted time for each earlier pick of which it is a near-copy.
/// Predictions of near-copies have similar errors, so measuring both finds little more than measuring one of
/// them.
const COPY_HANDICAP: f64 = 0.01;
/// How many of a ranking's first configs are considered for each pick.
const CHOICE: usize = 8;

/// The picks from a ranking, best first. A pick is chosen by its predicted time and by the number of
/// near-copies that were chosen before it. Of configs with one kernel, only the first is picked.
pub(crate) fn diverse(ranked: &[(Config, Micros)], count: usize) -> Vec<(Config, Micros)> {
    let choice = &ranked[..ranked.len().min(count.saturating_mul(CHOICE))];
    let mut handicaps: Vec<f64> = choice.iter().map(|(_, time)| libm::log(time.0)).collect();
    let mut chosen: Vec<usize> = Vec::with_capacity(count.min(choice.len()));
    while chosen.len() < count.min(choice.len()) {
        let open = (0..choice.len()).filter(|at| !chosen.contains(at) && handicaps[*at].is_finite());
        let Some(next) = open.min_by(|&a, &b| handicaps[a].total_cmp(&handicaps[b])) else { break };
        chosen.push(next);
        for (handicap, other) in handicaps.iter_mut().zip(choice) {
            if have_one_kernel(other, &choice[next]) {
                *handicap = f64::INFINITY;
            } else if near_copies(&other.0, &choice[next].0) {
                *handicap += COPY_HANDICAP;
            }
        }
    }
    chosen.sort_unstable();
    chosen.into_iter().map(|at| choice[at]).collect()
}

/// Whether two configs differ in their stages alone and have exactly the same predicted time. Then stages do
/// not matter for the problem.
pub(crate) fn have_one_kernel(a: &(Config, Micros), b: &(Config, Micros)) -> bool {
    let kernel = |config: &Config| config.tile().map(|tile| tile_key(tile, Loading::BY_THE_ELEMENT));
    a.1 == b.1 && kernel(&a.0).is_some_and(|key| kernel(&b.0) == Some(key))
}

/// Whether two configs have the same block sizes, stages that differ by at most 1, and warps that differ by at
/// most a factor of 2.
fn near_copies(a: &Config, b: &Config) -> bool {
    let (Some(a), Some(b)) = (a.tile(), b.tile()) else { return false };
    let plain = |tile: &Tile| Tile { num_stages: 1, num_warps: 1, rocm: None, group_m: 1, ..*tile };
    plain(a) == plain(b)
        && a.num_stages.abs_diff(b.num_stages) <= 1
        && a.num_warps.max(b.num_warps) <= 2 * a.num_warps.min(b.num_warps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tile(block_m: u32, stages: u32, warps: u32) -> Config {
        Config::Mm(Tile::new(block_m, 128, 64, stages, warps))
    }

    #[test]
    fn near_copies_do_not_fill_the_picks() {
        let ranked = [
            (tile(128, 3, 8), Micros(100.0)),
            (tile(128, 4, 8), Micros(100.1)),
            (tile(128, 3, 4), Micros(100.2)),
            (tile(64, 3, 4), Micros(100.9)),
            (tile(256, 3, 8), Micros(101.5)),
        ];
        let picked = |count| diverse(&ranked, count).iter().map(|(config, _)| *config).collect::<Vec<_>>();
        assert_eq!(picked(1), [ranked[0].0]);
        assert_eq!(picked(2), [ranked[0].0, ranked[3].0]);
        assert_eq!(picked(3), [ranked[0].0, ranked[1].0, ranked[3].0]);
        assert_eq!(picked(9).len(), 5);
        assert!(picked(0).is_empty());
    }

    #[test]
    fn what_is_clearly_better_is_picked_also_as_a_copy() {
        let ranked = [
            (tile(128, 3, 8), Micros(100.0)),
            (tile(128, 4, 8), Micros(100.5)),
            (tile(64, 3, 4), Micros(104.0)),
        ];
        assert_eq!(diverse(&ranked, 2), ranked[..2]);
    }
}
