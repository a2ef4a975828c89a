use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use diode_core::Problem;

use super::kind::Kind;

/// The problems of a hardware that have been measured or planned. Problems that the plan does not cover are
/// left out.
#[derive(Debug, Clone, Default)]
pub struct KnownProblems {
    /// How many problems of each kind are known.
    counts: HashMap<Kind, u32>,
    /// A hash of each known problem: whole problems would take ten times the memory. If two problems have the
    /// same hash, the plan skips one of them.
    hashes: HashSet<u64>,
}

impl KnownProblems {
    pub fn add(&mut self, problem: &Problem) {
        if let Some(kind) = Kind::of(problem)
            && self.hashes.insert(hash(problem))
        {
            *self.counts.entry(kind).or_default() += 1;
        }
    }

    pub(super) fn of_kind(&self, kind: Kind) -> u32 {
        self.counts.get(&kind).copied().unwrap_or_default()
    }

    pub(super) fn contains(&self, problem: &Problem) -> bool {
        self.hashes.contains(&hash(problem))
    }
}

impl<'a> FromIterator<&'a Problem> for KnownProblems {
    fn from_iter<I: IntoIterator<Item = &'a Problem>>(problems: I) -> Self {
        let mut known = Self::default();
        problems.into_iter().for_each(|problem| known.add(problem));
        known
    }
}

fn hash(problem: &Problem) -> u64 {
    let mut hasher = DefaultHasher::new();
    problem.hash(&mut hasher);
    hasher.finish()
}
