//! Multiplications that were launched and whose results were not read yet. Most results never are,
//! because the next launch overwrites them.

use std::collections::BTreeMap;

use crate::memory::{Memory, Outside};
use crate::product::Product;

/// The multiplications, by the address of their output.
#[derive(Debug, Default)]
pub(crate) struct Pending(BTreeMap<u64, Product>);

impl Pending {
    pub(crate) fn add(&mut self, product: Product, memory: &mut Memory) -> Result<(), Outside> {
        if product.kept != 0.0 {
            self.settle(product.out.address, 1, memory)?;
        }
        self.0.insert(product.out.address, product);
        Ok(())
    }

    /// Drops the multiplications whose output is overwritten.
    pub(crate) fn forget(&mut self, address: u64, bytes: u64) {
        self.0.retain(|&out, _| out < address || out >= address + bytes);
    }

    /// Computes the multiplications whose output lies in this memory.
    pub(crate) fn settle(&mut self, address: u64, bytes: u64, memory: &mut Memory) -> Result<(), Outside> {
        let there: Vec<u64> = self.0.range(address..address + bytes).map(|(&out, _)| out).collect();
        there
            .into_iter()
            .filter_map(|out| self.0.remove(&out))
            .try_for_each(|product| product.compute(memory))
    }
}
