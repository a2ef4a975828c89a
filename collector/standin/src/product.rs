//! Multiplications by a kernel or by the library.

use crate::memory::{Memory, Outside};
use crate::number::Number;

/// A matrix, or a batch of matrices. Distances are in elements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matrix {
    pub(crate) address: u64,
    pub(crate) number: Number,
    pub(crate) row: u64,
    pub(crate) column: u64,
    pub(crate) batch: u64,
}

impl Matrix {
    /// How many bytes there are from the first element to the end of the last one.
    fn bytes(&self, [batches, rows, columns]: [u64; 3]) -> u64 {
        let last = (batches - 1) * self.batch + (rows - 1) * self.row + (columns - 1) * self.column;
        (last + 1) * self.number.size()
    }

    fn at(&self, [batch, row, column]: [u64; 3]) -> u64 {
        batch * self.batch + row * self.row + column * self.column
    }

    fn read(&self, memory: &mut Memory, size: [u64; 3]) -> Result<Vec<u8>, Outside> {
        Ok(memory.bytes_mut(self.address, self.bytes(size))?.to_vec())
    }
}

/// out = A · B + bias + `kept` · out
#[derive(Debug, Clone)]
pub(crate) struct Product {
    /// The number of batches, M, N and K.
    pub(crate) size: [u64; 4],
    pub(crate) a: Matrix,
    pub(crate) b: Matrix,
    pub(crate) bias: Option<Matrix>,
    pub(crate) out: Matrix,
    pub(crate) kept: f64,
    /// Whether one element is to be wrong.
    pub(crate) wrong: bool,
}

impl Product {
    /// Fails unless all matrices lie within allocations.
    pub(crate) fn check(&self, memory: &mut Memory) -> Result<(), Outside> {
        let [a, b, out] = self.sizes();
        for (matrix, size) in [(self.a, a), (self.b, b), (self.out, out)] {
            memory.check(matrix.address, matrix.bytes(size))?;
        }
        self.bias.map_or(Ok(()), |bias| memory.check(bias.address, bias.bytes(out)))
    }

    fn sizes(&self) -> [[u64; 3]; 3] {
        let [batches, m, n, k] = self.size;
        [[batches, m, k], [batches, k, n], [batches, m, n]]
    }

    /// Computes the product. [`Self::check`] must have succeeded before.
    pub(crate) fn compute(&self, memory: &mut Memory) -> Result<(), Outside> {
        let [batches, m, n, k] = self.size;
        let [size_a, size_b, size_out] = self.sizes();
        let (a, b) = (self.a.read(memory, size_a)?, self.b.read(memory, size_b)?);
        let bias = self.bias.map(|bias| Ok((bias, bias.read(memory, size_out)?))).transpose()?;
        let out = memory.bytes_mut(self.out.address, self.out.bytes(size_out))?;
        for batch in 0..batches {
            for row in 0..m {
                let left: Vec<f64> =
                    (0..k).map(|depth| self.a.number.read(&a, self.a.at([batch, row, depth]))).collect();
                for column in 0..n {
                    let terms = (0..k).zip(&left).map(|(depth, left)| {
                        left * self.b.number.read(&b, self.b.at([batch, depth, column]))
                    });
                    let mut sum: f64 = terms.sum();
                    if let Some((bias, bytes)) = &bias {
                        sum += bias.number.read(bytes, bias.at([batch, row, column]));
                    }
                    let at = self.out.at([batch, row, column]);
                    if self.kept != 0.0 {
                        sum += self.kept * self.out.number.read(out, at);
                    }
                    if self.wrong && (batch, row, column) == (batches - 1, m - 1, n - 1) {
                        sum += 100.0;
                    }
                    self.out.number.write(out, at, sum);
                }
            }
        }
        Ok(())
    }
}
