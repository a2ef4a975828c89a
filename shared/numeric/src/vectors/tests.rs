//! All instructions of this processor give the same results.

use wide::{bytemuck, f32x16};

use super::*;
use crate::features::COLUMNS;

/// Pseudo-random numbers from -1/2 to 1/2.
fn draws() -> impl FnMut() -> f32 {
    let mut state = 1_u32;
    move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32 - 0.5
    }
}

/// Does the work on equal values with all instructions. Returns the greatest difference from the plain ones.
fn difference(values: &[f32x16], work: impl Fn(Instructions, &mut [f32x16])) -> f32 {
    let with = |instructions| {
        let mut values = values.to_vec();
        work(instructions, &mut values);
        bytemuck::cast_slice::<f32x16, f32>(&values).to_vec()
    };
    let plain = with(Instructions::Plain);
    assert_ne!(plain, bytemuck::cast_slice::<f32x16, f32>(values), "the work was done");
    let all = Instructions::all().flat_map(with).collect::<Vec<_>>();
    let pairs = all.iter().zip(plain.iter().cycle());
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn sums_agree_to_a_millionth() {
    const INPUTS: usize = 71;
    const FIRST: usize = 9;
    let mut draw = draws();
    let mut lanes = || f32x16::from([0.0; 16].map(|_: f32| draw()));
    let input: Vec<f32x16> = (0..INPUTS).map(|_| lanes()).collect();
    let sums: Vec<f32x16> = (0..3 * UNROLL).map(|_| lanes()).collect();
    let weights: Vec<[f32; UNROLL]> =
        (0..3 * (FIRST + INPUTS)).map(|_| [0.0; UNROLL].map(|_: f32| draw())).collect();
    let difference = difference(&sums, |instructions, sums| {
        let weights = Weights { of_all: &weights, inputs: FIRST + INPUTS, first: FIRST };
        instructions.run(Dense { weights, input: &input, sums });
    });
    assert!(difference < 1e-6, "{difference:e}");
}

#[test]
fn activations_agree_to_a_few_in_ten_million() {
    let values: Vec<f32x16> = (0..4000).map(|at| f32x16::splat((at - 2000) as f32 * 7e-3)).collect();
    let difference = difference(&values, |instructions, values| instructions.run(Silu(values)));
    assert!(difference < 2e-6, "{difference:e}");
}

#[test]
fn scaling_has_the_same_bits() {
    let mut draw = draws();
    let mut raw = || f32x16::from([0.0; 16].map(|_: f32| 1e6 * draw()));
    let values: Vec<f32x16> = COLUMNS.iter().map(|_| raw()).collect();
    let log2 = difference(&values, |instructions, values| {
        instructions.run(Log2 { values: bytemuck::cast_slice_mut(values), columns: &COLUMNS });
    });
    let (mean, std) = ([100.0; COLUMNS.len()], [3e5; COLUMNS.len()]);
    let normalised = difference(&values, |instructions, columns| {
        instructions.run(Normalise { columns, mean: &mean, std: &std });
    });
    assert_eq!((log2, normalised), (0.0, 0.0));
}
