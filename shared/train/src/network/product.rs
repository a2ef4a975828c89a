//! The matrix product that candle itself uses, on slices and on one thread.
//!
//! The networks of a training are trained side by side, so threads within a product would only wait for each
//! other.
#![allow(unsafe_code)]

use candle_core::{CpuStorage, Layout, Result, bail};
use gemm::{Parallelism, gemm};

/// A matrix whose values lie row by row or, if it is transposed, column by column.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a> {
    values: &'a [f32],
    rows: usize,
    columns: usize,
    /// The distance from one row to the next, and from one column to the next.
    strides: (usize, usize),
}

impl<'a> Matrix<'a> {
    pub(super) fn new(values: &'a [f32], rows: usize, columns: usize) -> Result<Self> {
        if rows.checked_mul(columns) != Some(values.len()) {
            bail!("matrix: got {} values, expected {rows} times {columns}", values.len());
        }
        Ok(Self { values, rows, columns, strides: (columns, 1) })
    }

    /// The values of a two-dimensional tensor.
    pub(super) fn of(storage: &'a CpuStorage, layout: &Layout) -> Result<Self> {
        let (rows, columns) = layout.shape().dims2()?;
        Self::new(values(storage, layout)?, rows, columns)
    }

    pub(super) fn transposed(self) -> Self {
        let Self { values, rows, columns, strides: (down, across) } = self;
        Self { values, rows: columns, columns: rows, strides: (across, down) }
    }

    /// The last columns alone.
    pub(super) fn last_columns(self, columns: usize) -> Result<Self> {
        let (Some(left_out), (_, 1)) = (self.columns.checked_sub(columns), self.strides) else {
            bail!("matrix: got {} columns, expected at least {columns}, row by row", self.columns);
        };
        Ok(Self { values: self.values.get(left_out..).unwrap_or_default(), columns, ..self })
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// The sum over the rows, for each column.
    pub(super) fn column_sums(&self) -> Vec<f32> {
        let mut sums = vec![0.0; self.columns];
        for row in self.values.chunks_exact(self.columns) {
            sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        }
        sums
    }

    /// Adds the product with another matrix to `sums`, row by row.
    pub(super) fn add_product(self, other: Matrix<'_>, sums: &mut [f32]) -> Result<()> {
        if self.columns != other.rows || sums.len() != self.rows * other.columns {
            let (a, b) = ((self.rows, self.columns), (other.rows, other.columns));
            bail!("product: got {a:?} times {b:?} into {} values", sums.len());
        }
        let stride = |stride: usize| stride as isize;
        // SAFETY: `new` has checked that each slice holds its whole matrix at these strides, and `last_columns`
        // leaves out only what comes before the first value that it keeps. The check above ensures that `sums`
        // holds the whole result. `sums` is borrowed mutably, so it overlaps neither matrix.
        unsafe {
            gemm(
                self.rows,
                other.columns,
                self.columns,
                sums.as_mut_ptr(),
                1,
                stride(other.columns),
                true,
                self.values.as_ptr(),
                stride(self.strides.1),
                stride(self.strides.0),
                other.values.as_ptr(),
                stride(other.strides.1),
                stride(other.strides.0),
                1.0,
                1.0,
                false,
                false,
                false,
                Parallelism::None,
            );
        }
        Ok(())
    }
}

/// The values of a tensor, which must lie in one piece.
pub(super) fn values<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    let Some((from, to)) = layout.contiguous_offsets() else {
        bail!("tensor: its values are not in one piece")
    };
    Ok(&storage.as_slice()?[from..to])
}
