//! What the time of the vendor's library is predicted from: the problem, and what
//! the best Triton config is predicted to take.
//!
//! Which kernel the library chooses is unknown; how tiles of three common sizes would
//! fill the hardware tells most of what it can make of a problem.

use super::{PROBLEM_COLUMNS, ProblemFeatures};

/// Tiles that libraries have kernels for: rows and columns.
const TILES: [(f32, f32); 3] = [(128.0, 128.0), (256.0, 128.0), (64.0, 64.0)];

/// How many columns there are: the problem's, the best config's time, two per tile.
pub const LIBRARY_COLUMNS: usize = PROBLEM_COLUMNS + 1 + 2 * TILES.len();

impl ProblemFeatures {
    /// The columns that the library's time is predicted from.
    pub fn library_row(&self, best_us: f64) -> [f32; LIBRARY_COLUMNS] {
        let side = self.side(false);
        let mut row = [0.0; LIBRARY_COLUMNS];
        let (problem, rest) = row.split_at_mut(PROBLEM_COLUMNS);
        problem.copy_from_slice(&side.columns);
        let (best, tiles) = rest.split_at_mut(1);
        best[0] = libm::log(best_us / f64::from(side.terms.base_us)) as f32;
        let terms = &side.terms;
        for (columns, (m, n)) in tiles.chunks_exact_mut(2).zip(TILES) {
            let count = terms.b * libm::ceilf(terms.m / m) * libm::ceilf(terms.n / n);
            let per_sm = count / side.machine.sms;
            columns[0] = libm::log2f(per_sm);
            columns[1] = per_sm / libm::ceilf(per_sm);
        }
        row
    }
}
