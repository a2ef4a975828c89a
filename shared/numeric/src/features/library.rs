//! The features from which the library's time is predicted: the problem, and the predicted time of
//! the best Triton config.
//!
//! Nobody knows which kernel the library chooses. So other columns say how tiles of three common
//! sizes would fill the hardware, which explains most of the library's time.

use super::{PROBLEM_COLUMNS, ProblemFeatures};

/// Common tiles of library kernels: rows and columns.
const TILES: [(f32, f32); 3] = [(128.0, 128.0), (256.0, 128.0), (64.0, 64.0)];

/// The number of columns: the problem's, one for the best config's time, and two per tile.
pub const LIBRARY_COLUMNS: usize = PROBLEM_COLUMNS + 1 + 2 * TILES.len();

impl ProblemFeatures {
    /// The columns from which the library's time is predicted. If it rounds to TF32, so does the best config.
    pub fn library_row(&self, best_us: f64, rounds: bool) -> [f32; LIBRARY_COLUMNS] {
        let side = self.side(rounds);
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
