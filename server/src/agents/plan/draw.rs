use diode_core::mixing::{hash, mix};
use diode_core::{Bias, Layout, Op, Problem, ProblemFields};

use super::kind::Kind;
use super::size::SizeBin;

/// The problem of a kind with a number; the same number and seed give the same problem.
pub(super) fn draw(kind: Kind, number: u64, seed: u64) -> Option<Problem> {
    let mut random = Random::of(kind, number ^ seed.rotate_left(32));
    let mut size = |bin: SizeBin| bin.at(random.next());
    let (b, m) = (size(kind.b), size(kind.m));
    let (mut n, mut k) = (size(kind.n), size(kind.k));
    if kind.aligned {
        let step = 16 / kind.dtype.size();
        n = down_to(n, step, kind.n)?;
        k = down_to(k, step, kind.k)?;
    } else {
        // One of the two is enough, so both ways are drawn.
        let which = random.next();
        n |= u64::from(which < 0.66);
        k |= u64::from(which > 0.33);
    }
    let bias = match kind.op {
        Op::Mm | Op::Bmm => Bias::None,
        // That of a linear layer, whose weight lies in columns.
        Op::Addmm | Op::Baddbmm if kind.b_layout == Layout::Column => Bias::Vector,
        Op::Addmm | Op::Baddbmm => Bias::Matrix,
    };
    let plain = ProblemFields::plain(kind.op, b, m, n, k, kind.dtype);
    Problem::new(ProblemFields { b_layout: kind.b_layout, bias, ..plain }).ok()
}

/// A multiple of `step` in the bin; none if the bin has none.
fn down_to(size: u64, step: u64, bin: SizeBin) -> Option<u64> {
    let lower = size / step * step;
    let multiple = if lower < bin.least() { lower + step } else { lower };
    (multiple <= bin.most()).then_some(multiple)
}

/// A stream of numbers from 0 to 1.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn of(kind: Kind, number: u64) -> Self {
        let Kind { op, dtype, b_layout, aligned, b, m, n, k } = kind;
        let parts = [number, op as u64, dtype as u64, b_layout as u64, u64::from(aligned)];
        Self(hash(parts.into_iter().chain([b, m, n, k].map(SizeBin::least))))
    }

    pub(super) fn next(&mut self) -> f64 {
        self.0 = mix(self.0);
        // The highest 53 bits, as many as a double holds.
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}
