//! The cells of sizes that the plan covers.

use crate::agents::plan::kind::SizeBin;

/// The most cells of a bin. With M, N and K, that makes 64³ = 262,144 problems of a kind, more than many agents
/// together measure in years.
const MOST_CELLS: u64 = 64;

/// The sizes of a bin that are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    Any,
    /// Multiples of the number of elements in 16 bytes, which is 4 or 8.
    Aligned(u64),
    /// All sizes except the multiples of this number.
    Unaligned(u64),
}

/// The sizes of a bin, divided into cells. The number of cells is a power of two. The ratio of the largest to the
/// smallest size is about the same in each cell, so sizes are drawn evenly on a logarithmic scale. A problem
/// takes one size of a cell, so problems of different cells differ.
#[derive(Debug, Clone)]
pub(super) struct Cells {
    /// Where each cell begins, and where the last one ends. Aligned sizes are counted in multiples of the step.
    bounds: Vec<u64>,
    /// The logarithm, to base 2, of the number of cells.
    pub(super) bits: u32,
    rows: Rows,
}

impl Cells {
    /// `None` if the bin has no wanted size.
    fn new(bin: SizeBin, rows: Rows) -> Option<Self> {
        let (least, end, narrowest) = match rows {
            Rows::Any => (bin.least(), bin.most() + 1, 1),
            Rows::Aligned(step) => (bin.least().div_ceil(step), bin.most() / step + 1, 1),
            // A cell has at least two sizes, so that one of them is no multiple.
            Rows::Unaligned(_) => (bin.least(), bin.most() + 1, 2),
        };
        let number = MOST_CELLS.min(1 << ((end - least) / narrowest).checked_ilog2()?);
        let ratio = end as f64 / least as f64;
        let mut bounds = vec![least];
        for cell in 1..number {
            let even = (least as f64 * ratio.powf(cell as f64 / number as f64)) as u64;
            bounds.push(even.max(bounds[cell as usize - 1] + narrowest));
        }
        bounds.push(end);
        Some(Self { bounds, bits: number.ilog2(), rows })
    }

    /// One size of a cell, chosen by the lowest 16 bits of `chosen`. No cell has more than 2¹⁶ sizes.
    pub(super) fn size(&self, cell: usize, chosen: u64) -> u64 {
        let (from, end) = (self.bounds[cell], self.bounds[cell + 1]);
        let at = from + (((chosen & 0xffff) * (end - from)) >> 16);
        match self.rows {
            Rows::Any => at,
            Rows::Aligned(step) => at * step,
            Rows::Unaligned(step) if !at.is_multiple_of(step) => at,
            Rows::Unaligned(_) if at + 1 < end => at + 1,
            Rows::Unaligned(_) => at - 1,
        }
    }
}

/// The cells of every bin.
pub(super) struct AllCells(Vec<[Option<Cells>; 5]>);

impl AllCells {
    pub(super) fn new() -> Self {
        let rows = [Rows::Any, Rows::Aligned(4), Rows::Aligned(8), Rows::Unaligned(4), Rows::Unaligned(8)];
        Self(SizeBin::ALL.map(|bin| rows.map(|rows| Cells::new(bin, rows))).into())
    }

    pub(super) fn of(&self, bin: SizeBin, rows: Rows) -> Option<&Cells> {
        let place = match rows {
            Rows::Any => 0,
            Rows::Aligned(4) => 1,
            Rows::Aligned(_) => 2,
            Rows::Unaligned(4) => 3,
            Rows::Unaligned(_) => 4,
        };
        self.0[bin.place()][place].as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_divide_a_bin_into_what_was_asked_for() {
        for bin in SizeBin::ALL {
            for rows in
                [Rows::Any, Rows::Aligned(4), Rows::Aligned(8), Rows::Unaligned(4), Rows::Unaligned(8)]
            {
                let Some(cells) = Cells::new(bin, rows) else {
                    assert!(bin == SizeBin::ONE && matches!(rows, Rows::Aligned(_)), "{bin} {rows:?}");
                    continue;
                };
                let mut before = 0;
                for cell in 0..1 << cells.bits {
                    let sizes = [0, 1 << 15, 0xffff].map(|chosen| cells.size(cell, chosen));
                    for size in sizes {
                        assert!(SizeBin::of(size) == Some(bin) && size > before, "{bin} {rows:?} {sizes:?}");
                        match rows {
                            Rows::Any => {}
                            Rows::Aligned(step) => assert!(size.is_multiple_of(step)),
                            Rows::Unaligned(step) => assert!(!size.is_multiple_of(step)),
                        }
                    }
                    before = sizes[2];
                }
            }
        }
        let largest = Cells::new(SizeBin::ALL[7], Rows::Any).unwrap();
        assert_eq!(largest.bits, 6);
        assert_eq!(largest.size(32, 0), 32_768, "half of the cells are below half of the way");
    }
}
