use diode_core::kept::{hash, mix};
use diode_core::{Bias, Layout, Op, Problem, ProblemFields};

use super::cells::{AllCells, Cells, Rows};
use super::kind::Kind;

/// The key of a kind's draws. The same seed gives the same draws.
pub(super) fn key(kind: Kind, seed: u64) -> u64 {
    let Kind { op, dtype, b_layout, aligned, b, m, n, k } = kind;
    let parts = [seed, op as u64, dtype as u64, b_layout as u64, u64::from(aligned)];
    hash(parts.into_iter().chain([b, m, n, k].map(|bin| bin.place() as u64)))
}

/// The problem of a kind that has this number. Different numbers give different problems. `None` beyond the
/// last number.
pub(super) fn draw(kind: Kind, number: u64, key: u64, cells: &AllCells) -> Option<Problem> {
    // The number of elements in 16 bytes.
    let step = 16 / kind.dtype.size();
    let (aligned, unaligned) = (Rows::Aligned(step), Rows::Unaligned(step));
    // A problem can be unaligned in three ways. Kinds begin with different ways, since most kinds get only one
    // problem.
    let way = (number % 3 + key % 3) % 3;
    let (number, n_rows, k_rows) = match (kind.aligned, way) {
        (true, _) => (number, aligned, aligned),
        // An unaligned N or K makes a problem unaligned. So N, K or both are unaligned in turn.
        (false, 0) => (number / 3, unaligned, aligned),
        (false, 1) => (number / 3, aligned, unaligned),
        (false, _) => (number / 3, unaligned, unaligned),
    };
    let batch = cells.of(kind.b, Rows::Any).filter(|_| kind.op.is_batched());
    let sides = [cells.of(kind.m, Rows::Any)?, cells.of(kind.n, n_rows)?, cells.of(kind.k, k_rows)?];
    let bits = sides.into_iter().chain(batch).map(|side| side.bits).sum();
    let mut place = shuffled(number, bits, key)?;
    let mut chosen = mix(key ^ number);
    let mut size = |side: &Cells| {
        let cell = place & ((1 << side.bits) - 1);
        let size = side.size(cell as usize, chosen);
        place >>= side.bits;
        chosen >>= 16;
        size
    };
    let [m, n, k] = sides.map(&mut size);
    let b = batch.map_or(1, size);
    let bias = match kind.op {
        Op::Mm | Op::Bmm => Bias::None,
        // The bias of a linear layer, whose weight lies in columns.
        Op::Addmm | Op::Baddbmm if kind.b_layout == Layout::Column => Bias::Vector,
        Op::Addmm | Op::Baddbmm => Bias::Matrix,
    };
    let plain = ProblemFields::plain(kind.op, b, m, n, k, kind.dtype);
    Problem::new(ProblemFields { b_layout: kind.b_layout, bias, ..plain }).ok()
}

/// Permutes the numbers of `bits` bits. No two numbers get the same place, because each step can be undone.
fn shuffled(number: u64, bits: u32, key: u64) -> Option<u64> {
    let mask = (1 << bits) - 1;
    if number > mask {
        return None;
    }
    let half = (bits / 2).max(1);
    let mut place = number.wrapping_add(key) & mask;
    for odd in [(key >> 20) | 1, 0x9E37_79B9_7F4A_7C15] {
        place = place.wrapping_mul(odd) & mask;
        place ^= place >> half;
    }
    Some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffling_loses_nothing_and_adds_nothing() {
        for bits in [0, 1, 2, 5, 12] {
            for key in [0, 1, u64::MAX >> 1, 0x1234_5678_9abc_def0] {
                let mut places: Vec<u64> =
                    (0..1 << bits).map(|number| shuffled(number, bits, key).unwrap()).collect();
                assert!(bits < 5 || !places.is_sorted());
                places.sort_unstable();
                assert!(places.into_iter().eq(0..1 << bits), "{bits} bits, key {key}");
                assert_eq!(shuffled(1 << bits, bits, key), None);
            }
        }
    }
}
