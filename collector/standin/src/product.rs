//! Multiplications by a kernel or by the library.

use std::collections::BTreeMap;

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

/// The scales of an operand's rows or columns. Distances are in elements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scales {
    pub(crate) address: u64,
    /// How many rows share a scale.
    pub(crate) block: u64,
    pub(crate) row: u64,
    /// Between those of 128 elements and of the next 128.
    pub(crate) depth: u64,
    pub(crate) group: u64,
    /// How many elements there are in all.
    pub(crate) count: u64,
}

impl Scales {
    fn read(&self, memory: &mut Memory) -> Result<Vec<u8>, Outside> {
        Ok(memory.bytes_mut(self.address, 4 * self.count)?.to_vec())
    }

    fn at(&self, bytes: &[u8], [group, row, depth]: [u64; 3]) -> f64 {
        let at = group * self.group + row / self.block * self.row + depth / 128 * self.depth;
        Number::Single.read(bytes, at)
    }
}

/// A row of the output: its place, its row of A, and its group, which says which B it is multiplied by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) out: u64,
    pub(crate) a: u64,
    pub(crate) group: u64,
}

/// What a multiplication of scaled or grouped operands does besides.
#[derive(Debug, Clone)]
pub(crate) struct Served {
    pub(crate) rows: Vec<Row>,
    pub(crate) a_rows: u64,
    pub(crate) groups: u64,
    /// The scales of A and of B.
    pub(crate) scales: Option<[Scales; 2]>,
    /// Where the weights of rows are.
    pub(crate) weights: Option<u64>,
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
    /// With scales or groups, the bias and `kept` are not used.
    pub(crate) served: Option<Served>,
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
        if let Some(served) = &self.served {
            for scales in served.scales.iter().flatten() {
                memory.check(scales.address, 4 * scales.count)?;
            }
            if let Some(weights) = served.weights {
                memory.check(weights, 4 * self.size[1])?;
            }
        }
        self.bias.map_or(Ok(()), |bias| memory.check(bias.address, bias.bytes(out)))
    }

    fn sizes(&self) -> [[u64; 3]; 3] {
        let [batches, m, n, k] = self.size;
        let (a_rows, groups) =
            self.served.as_ref().map_or((m, batches), |served| (served.a_rows, served.groups));
        [[batches, a_rows, k], [groups, k, n], [batches, m, n]]
    }

    /// Computes the product. [`Self::check`] must have succeeded before.
    pub(crate) fn compute(&self, memory: &mut Memory) -> Result<(), Outside> {
        if let Some(served) = &self.served {
            return self.compute_served(served, memory);
        }
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

    fn compute_served(&self, served: &Served, memory: &mut Memory) -> Result<(), Outside> {
        let [_, m, n, k] = self.size;
        let [size_a, size_b, size_out] = self.sizes();
        let (a, b) = (self.a.read(memory, size_a)?, self.b.read(memory, size_b)?);
        let scales = match served.scales {
            Some(scales) => Some((scales, [scales[0].read(memory)?, scales[1].read(memory)?])),
            None => None,
        };
        let weights = match served.weights {
            Some(weights) => Some(memory.bytes_mut(weights, 4 * m)?.to_vec()),
            None => None,
        };
        let out = memory.bytes_mut(self.out.address, self.out.bytes(size_out))?;
        for &Row { out: row, a: a_row, group } in &served.rows {
            let weight = weights.as_ref().map_or(1.0, |weights| Number::Single.read(weights, row));
            let left = |depth| {
                let scale = scales.as_ref().map_or(1.0, |([of_a, _], [a, _])| of_a.at(a, [0, a_row, depth]));
                weight * scale * self.a.number.read(&a, self.a.at([0, a_row, depth]))
            };
            let left: Vec<f64> = (0..k).map(left).collect();
            for column in 0..n {
                let right = |depth| {
                    let scale =
                        scales.as_ref().map_or(1.0, |([_, of_b], [_, b])| of_b.at(b, [group, column, depth]));
                    scale * self.b.number.read(&b, self.b.at([group, depth, column]))
                };
                let mut sum: f64 = (0..k).zip(&left).map(|(depth, left)| left * right(depth)).sum();
                if self.wrong && (row, column) == (m - 1, n - 1) {
                    sum += 1e5;
                }
                self.out.number.write(out, self.out.at([0, row, column]), sum);
            }
        }
        Ok(())
    }
}

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
