//! Draws one dtype and one op per shape, as numpy's legacy `choice` does.

use super::mt19937::Mt19937;
use crate::error::Invalid;
use crate::{DType, Op};

/// For each shape in turn, draws a dtype and then an op.
pub struct OpSampler<'a> {
    mt: Mt19937,
    dtypes: &'a [DType],
    ops: &'a [Op],
}

impl<'a> OpSampler<'a> {
    pub fn new(seed: u32, dtypes: &'a [DType], ops: &'a [Op]) -> Result<Self, Invalid> {
        if dtypes.is_empty() {
            return Err(Invalid::new("dtypes", "none", "at least one"));
        }
        if ops.is_empty() {
            return Err(Invalid::new("ops", "none", "at least one"));
        }
        Ok(Self { mt: Mt19937::from_word(seed), dtypes, ops })
    }

    pub fn draw(&mut self) -> (DType, Op) {
        let dtype = self.dtypes[self.choice(self.dtypes.len())];
        let op = self.ops[self.choice(self.ops.len())];
        (dtype, op)
    }

    /// Draws an index by masking and rejection. A list with one element uses no random number.
    fn choice(&mut self, n: usize) -> usize {
        let last = n as u32 - 1;
        if last == 0 {
            return 0;
        }
        let mask = (last + 1).next_power_of_two() - 1;
        loop {
            let drawn = self.mt.next_u32() & mask;
            if drawn <= last {
                return drawn as usize;
            }
        }
    }
}
