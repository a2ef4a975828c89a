use diode_core::kept::mix;

use super::draw::key;
use super::kind::{Kind, kinds};

/// The order in which kinds have their first turn. It is the same for all devices, so it is computed once.
pub struct Order {
    kinds: Vec<Kind>,
    seed: u64,
}

impl Order {
    /// A weighted shuffle: a kind with twice the weight comes first twice as often (Efraimidis and Spirakis).
    pub fn new(seed: u64) -> Self {
        let place = |kind: Kind| {
            // A number from 0 to 1, made of the highest 53 bits: a double holds that many.
            let random = (mix(key(kind, seed)) >> 11) as f64 / (1_u64 << 53) as f64;
            -random.max(f64::MIN_POSITIVE).ln() / kind.weight()
        };
        let mut placed: Vec<(f64, Kind)> = kinds().into_iter().map(|kind| (place(kind), kind)).collect();
        placed.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        Self { kinds: placed.into_iter().map(|(_, kind)| kind).collect(), seed }
    }

    pub(super) fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// The seed of the order, and of the draws of every kind.
    pub(super) fn seed(&self) -> u64 {
        self.seed
    }
}
