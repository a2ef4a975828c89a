use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use diode_core::Problem;

use super::kind::Kind;

/// The problems of a hardware that have been measured or are planned. Those that the plan never asks for are
/// left out.
#[derive(Debug, Clone, Default)]
pub struct KnownProblems {
    /// How many there are of each kind.
    counts: HashMap<Kind, u32>,
    /// A hash of each: whole problems would take ten times the memory. Where two have the same, the plan passes
    /// one of them over.
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
