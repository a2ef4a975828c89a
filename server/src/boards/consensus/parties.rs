//! Who confirms whom: the contributors of a view as parties, and the time that the parties agree on.
//!
//! What the operator vouches for is one party and the first. Else the first party is who sent the view's first time.
//! Accounts that appeared together count as one party, unless the first party is among them: nobody could contradict
//! them. A copy of others' times is no second measurement.

use diode_core::ids::AccountId;
use diode_core::stats::median;

use crate::boards::consensus::gathered::{Combined, Gathered};

/// Accounts that were made within this time of each other appeared together.
pub(crate) const TOGETHER: i64 = 7 * 24 * 3600 * 1000;

/// Times that differ by at most this factor confirm each other. Clocks and drivers explain such differences.
pub(crate) const CONFIRMS: f64 = 1.1;

/// Two runs on GPUs differ by more than this, a copy does not.
const EQUAL: f64 = 0.002;

/// A copy has this many configs in common with what it copies, and of them this share with equal times. Few short times
/// may be equal by chance: clocks have steps.
const LEAST_COMMON: u32 = 4;
const EQUAL_SHARE: f64 = 0.9;

/// Each contributor is compared with so many earlier ones at most.
const MOST_COMPARED: usize = 16;

/// The parties of a view. The first has number 0.
pub(super) struct Parties {
    /// The party of each contributor, by its number.
    of: Vec<u32>,
    /// The parties whose times a contributor has copied.
    copied: Vec<Vec<u32>>,
    /// Whether the operator vouches for the first party.
    vouched: bool,
}

/// The time of one config.
pub(super) struct Agreed {
    pub(super) time: f64,
    /// How many parties it comes from that confirm each other. Those for whom the operator vouches count each.
    pub(super) confirmed_by: u32,
    /// Whether it may lead: it is the first party's, or others confirm it.
    pub(super) leads: bool,
}

/// Somebody who sent times of a view.
pub(super) struct Contributor {
    pub(super) account: Option<AccountId>,
    /// Whether the operator vouches for the times.
    pub(super) vouched: bool,
    /// When the account was made; `None` without an account, or if the operator vouches.
    pub(super) since: Option<i64>,
    /// The number of the first solution with times that counts; `None` if there is none.
    pub(super) first: Option<i64>,
    /// The number of the first with times, whether it counts or is fenced.
    pub(super) first_of_all: Option<i64>,
}

impl Parties {
    /// The parties among the contributors whose times count, or among all. `joins` says whether even the accounts that
    /// appeared together with this first contributor are one party.
    pub(super) fn of(gathered: &Gathered<'_>, counting: bool, joins: impl Fn(&Contributor) -> bool) -> Self {
        let contributors = &gathered.contributors;
        let first_of = |at: usize| {
            let one = &contributors[at];
            if counting { one.first } else { one.first_of_all }
        };
        let alone = Self { of: vec![0; contributors.len()], copied: Vec::new(), vouched: true };
        if contributors.iter().all(|one| one.vouched) {
            return alone;
        }
        // The first party comes before the others.
        let mut order: Vec<usize> = (0..contributors.len()).filter(|&at| first_of(at).is_some()).collect();
        order.sort_by_key(|&at| (!contributors[at].vouched, first_of(at)));
        let Some(&first) = order.first() else { return alone };
        let cohorts = cohorts(contributors);
        let (vouched, joins) = (contributors[first].vouched, joins(&contributors[first]));
        let mut parties = Self { of: vec![u32::MAX; contributors.len()], copied: Vec::new(), vouched };
        let (mut next, mut of_cohort) = (0_u32, vec![None; contributors.len()]);
        for &at in &order {
            let one = &contributors[at];
            if one.vouched {
                (parties.of[at], next) = (0, 1);
                continue;
            }
            let is_merged = vouched || joins || cohorts[at] != cohorts[first];
            let joined = if is_merged { of_cohort[cohorts[at]] } else { None };
            parties.of[at] = joined.unwrap_or(next);
            next = next.max(parties.of[at] + 1);
            of_cohort[cohorts[at]] = Some(parties.of[at]);
        }
        parties.copied = parties.copies(&order, gathered, counting);
        parties
    }

    /// For each contributor, the parties whose times it has copied.
    fn copies(&self, order: &[usize], gathered: &Gathered<'_>, counting: bool) -> Vec<Vec<u32>> {
        let contributors = &gathered.contributors;
        let mut copied = vec![Vec::new(); contributors.len()];
        if order.len() < 2 {
            return copied;
        }
        let compared = &order[..order.len().min(MOST_COMPARED)];
        // For each of `compared` and each contributor: the configs in common, and those with equal times.
        let mut counts = vec![(0_u32, 0_u32); compared.len() * contributors.len()];
        let (mut combined, mut times) = (Combined::default(), vec![None; contributors.len()]);
        for (_, samples) in gathered.times() {
            combined.set(gathered, samples, |source| source.counts || !counting);
            times.fill(None);
            for (contributor, time) in &combined.times {
                times[*contributor as usize] = Some(*time);
            }
            for (place, &earlier) in compared.iter().enumerate() {
                let Some(theirs) = times[earlier] else { continue };
                for &(later, time) in &combined.times {
                    let count = &mut counts[place * contributors.len() + later as usize];
                    count.0 += 1;
                    count.1 += u32::from((time / theirs).ln().abs() <= EQUAL);
                }
            }
        }
        for (at, &later) in order.iter().enumerate() {
            if contributors[later].vouched {
                continue;
            }
            for (place, &earlier) in compared.iter().enumerate().take(at) {
                let (common, equal) = counts[place * contributors.len() + later];
                if common >= LEAST_COMMON && f64::from(equal) >= EQUAL_SHARE * f64::from(common) {
                    copied[later].push(self.of[earlier]);
                }
            }
        }
        copied
    }

    /// The number of a contributor's party.
    pub(super) fn party(&self, contributor: u32) -> u32 {
        self.of[contributor as usize]
    }

    /// The time of a config from the times of its contributors, which are not empty. With three parties it is their
    /// median. With fewer it is the first's: one alone moves nothing that others have measured.
    pub(super) fn agree(&self, times: &[(u32, f64)], by_party: &mut Vec<(u32, f64)>) -> Option<Agreed> {
        let (parties, vouching) = self.times(times, by_party);
        let alone: Vec<f64> = parties.iter().map(|(_, time)| *time).collect();
        let time = if alone.len() < 3 { *alone.first()? } else { median(&mut alone.clone())? };
        let near = |other: &&f64| (*other / time).ln().abs() <= CONFIRMS.ln();
        let near = alone.iter().filter(near).count() as u32;
        Some(Agreed {
            time,
            // Those for whom the operator vouches count each.
            confirmed_by: near.max(1) + vouching.saturating_sub(1),
            leads: parties.first().is_some_and(|(party, _)| *party == 0) || near >= 2,
        })
    }

    /// One time for each party, the first party's before the others', and how many contributors the operator vouches for.
    pub(super) fn times(
        &self,
        times: &[(u32, f64)],
        by_party: &mut Vec<(u32, f64)>,
    ) -> (Vec<(u32, f64)>, u32) {
        by_party.clear();
        by_party.extend(times.iter().map(|&(contributor, time)| (self.party(contributor), time)));
        if !self.copied.is_empty() {
            // What copies a time that is there is left out.
            let there: Vec<u32> = by_party.iter().map(|(party, _)| *party).collect();
            let mut contributors = times.iter().map(|(contributor, _)| *contributor as usize);
            by_party.retain(|(party, _)| {
                let copied = contributors.next().map_or(&[][..], |at| self.copied[at].as_slice());
                !copied.iter().any(|of| of != party && there.contains(of))
            });
        }
        by_party.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let (mut own, mut parties, mut vouching) = (Vec::new(), Vec::new(), 0);
        for run in by_party.chunk_by(|a, b| a.0 == b.0) {
            own.clear();
            own.extend(run.iter().map(|(_, time)| *time));
            if run[0].0 == 0 && self.vouched {
                vouching = run.len() as u32;
            }
            parties.extend(median(&mut own).map(|time| (run[0].0, time)));
        }
        (parties, vouching)
    }
}

/// The number of each contributor's cohort: accounts of which each was made soon after another one.
fn cohorts(contributors: &[Contributor]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..contributors.len()).collect();
    order.sort_by_key(|&at| contributors[at].since);
    let mut cohorts = vec![0; contributors.len()];
    for pair in 1..order.len() {
        let (before, at) = (order[pair - 1], order[pair]);
        let together = match (contributors[before].since, contributors[at].since) {
            (Some(before), Some(since)) => since - before <= TOGETHER,
            _ => false,
        };
        cohorts[at] = if together { cohorts[before] } else { pair };
    }
    cohorts
}

#[cfg(test)]
mod tests {
    use diode_core::Config;

    use crate::boards::consensus::Consensus;
    use crate::boards::consensus::tests::{by, tile};
    use crate::uploads::solutions::DecodedSolution;

    const DAY: i64 = 24 * 3600 * 1000;

    /// A solution of an account that was made on a day; of the operator's on day 0. Later ones have higher numbers.
    fn sent(day: i64, number: i64, times: &[(Config, u64)]) -> DecodedSolution {
        let mut own = by(&format!("{day} {number}"), times);
        (own.number, own.vouched, own.since) = (number, day == 0, (day > 0).then_some(day * DAY));
        own
    }

    /// The time of a tile, how many confirm it, and whether it leads.
    fn found(measured: &[DecodedSolution], config: Config) -> (f64, u32, bool) {
        let consensus = Consensus::of(measured);
        let agreed = consensus.configs.iter().find(|agreed| agreed.config == config).unwrap();
        (agreed.time.0, agreed.confirmed_by, agreed.leads)
    }

    #[test]
    fn one_alone_moves_nothing_and_two_confirm() {
        let (known, new) = (tile(128, 3), tile(64, 5));
        for first in [0, 100] {
            let first = sent(first, 1, &[(known, 200_000)]);
            let lie = sent(200, 2, &[(known, 100_000), (new, 150_000)]);
            assert_eq!(found(&[lie.clone(), first.clone()], known), (200_000.0, 1, true));
            assert_eq!(found(&[lie.clone(), first.clone()], new), (150_000.0, 1, false));
            let other = sent(300, 3, &[(new, 151_000)]);
            assert_eq!(found(&[lie.clone(), first.clone(), other], new), (150_000.0, 2, true));
            // Who appeared together with the liar confirms nothing.
            let friend = sent(201, 3, &[(known, 100_100), (new, 151_000)]);
            let measured = [lie, first, friend];
            assert_eq!(found(&measured, known), (200_000.0, 1, true));
            assert_eq!(found(&measured, new), (150_500.0, 1, false));
        }
    }

    #[test]
    fn accounts_that_appear_with_the_first_one_count_each() {
        let known = tile(128, 3);
        let times = [200_000, 202_000, 300_000];
        let measured: Vec<DecodedSolution> =
            (1..).zip(times).map(|(number, time)| sent(100 + number, number, &[(known, time)])).collect();
        assert_eq!(found(&measured, known), (202_000.0, 2, true));
    }

    #[test]
    fn a_copy_is_no_second_measurement() {
        let tiles = [tile(128, 3), tile(128, 4), tile(64, 3), tile(64, 4)];
        let times = |factor: f64| {
            let time =
                |(at, tile): (usize, &Config)| (*tile, (2e5 * factor * (1.0 + 0.1 * at as f64)) as u64);
            tiles.iter().enumerate().map(time).collect::<Vec<_>>()
        };
        let (first, run) = (sent(100, 1, &times(1.0)), sent(200, 2, &times(1.01)));
        assert_eq!(found(&[first.clone(), run], tiles[0]), (200_000.0, 2, true));
        let copy = sent(200, 2, &[times(1.0005), vec![(tile(32, 2), 100_000)]].concat());
        assert_eq!(found(&[first.clone(), copy.clone()], tiles[0]), (200_000.0, 1, true));
        assert_eq!(found(&[first, copy], tile(32, 2)), (100_000.0, 1, false));
    }
}
