use std::collections::BTreeMap;
use std::sync::Arc;

use diode_core::ids::{Digest, ProblemId};
use diode_core::{Config, Method};
use diode_formats::stored;

use super::{PackedSolution, PackedSolutions, StoreError, StoreResult};
use crate::measured::Measured;

/// Unpacked config lists, each unpacked once however many solutions share it.
#[derive(Default)]
pub(super) struct ConfigLists(BTreeMap<Digest, Arc<[Config]>>);

impl ConfigLists {
    pub(super) fn add(&mut self, packed: &BTreeMap<Digest, Vec<u8>>) -> StoreResult<()> {
        for (digest, bytes) in packed {
            if !self.0.contains_key(digest) {
                let configs = stored::decode_configs(bytes)
                    .map_err(|error| StoreError::damaged("config list")(format!("{digest}: {error}")))?;
                self.0.insert(digest.clone(), configs.into());
            }
        }
        Ok(())
    }

    pub(super) fn unpack(&self, solution: &PackedSolution) -> StoreResult<Measured> {
        let damaged = StoreError::damaged("solution");
        let configs = self.0.get(&solution.config_list);
        let configs = configs.ok_or_else(|| damaged(format!("no config list {}", solution.config_list)))?;
        Measured::unpack(Arc::clone(configs), &solution.columns).map_err(damaged)
    }
}

impl PackedSolutions {
    /// Unpacks every solution. Long work: not for an async task.
    pub fn unpack(&self) -> StoreResult<Vec<(ProblemId, Method, Measured)>> {
        let mut lists = ConfigLists::default();
        lists.add(&self.config_lists)?;
        let unpack = |solution: &PackedSolution| {
            Ok((solution.problem.clone(), solution.method, lists.unpack(solution)?))
        };
        self.solutions.iter().map(unpack).collect()
    }
}
