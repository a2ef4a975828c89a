//! Outputs and gradients against candle's.

use candle_core::{Device, Tensor, Var};
use rand::SeedableRng;

use super::*;

#[test]
fn outputs_and_gradients_equal_candles() {
    const ROWS: usize = 24;
    let cpu = &Device::Cpu;
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    for hidden in [&[32, 16][..], &[5], &[33, 7, 20]] {
        let idle = [false, true, false, false, false];
        let mlp = Mlp::new(&idle, hidden, &mut rng);
        let mut inputs = vec![0.0_f32; ROWS * mlp.stride()];
        for row in inputs.chunks_mut(mlp.stride()) {
            row[..5].fill_with(|| rng.random_range(-4.0..4.0));
        }
        // The loss is the sum of slope · output.
        let slopes: Vec<f32> = (0..ROWS).map(|_| rng.random_range(-1.0..1.0)).collect();
        let mut scratch = Scratch::default();
        mlp.forward(&inputs, &mut scratch);
        mlp.backward(&inputs, &slopes, &mut scratch);
        let gradient = Mlp { weights: scratch.gradient.clone(), ..mlp.clone() }.layers();

        let rows: Vec<f32> = inputs.chunks(mlp.stride()).flat_map(|row| row[..5].to_vec()).collect();
        let mut x = Tensor::from_vec(rows, (ROWS, 5), cpu).unwrap();
        let mut variables = Vec::new();
        let layers = mlp.layers();
        for (index, layer) in layers.iter().enumerate() {
            let shape = (layer.outputs, layer.inputs);
            let weights = Var::from_vec(layer.weights.clone(), shape, cpu).unwrap();
            let bias = Var::from_vec(layer.bias.clone(), layer.outputs, cpu).unwrap();
            x = x.matmul(&weights.t().unwrap()).unwrap().broadcast_add(&bias).unwrap();
            if index + 1 < layers.len() {
                x = x.silu().unwrap();
            }
            variables.push((weights, bias));
        }
        let expected: Vec<f32> = x.flatten_all().unwrap().to_vec1().unwrap();
        close(&scratch.outputs, &expected);
        let loss = (x.flatten_all().unwrap() * Tensor::from_vec(slopes, ROWS, cpu).unwrap()).unwrap();
        let expected = loss.sum_all().unwrap().backward().unwrap();
        for (layer, (weights, bias)) in gradient.iter().zip(&variables) {
            let of = |variable| -> Vec<f32> {
                expected.get(variable).unwrap().flatten_all().unwrap().to_vec1().unwrap()
            };
            close(&layer.weights, &of(weights.as_tensor()));
            close(&layer.bias, &of(bias.as_tensor()));
        }
    }
}

fn close(got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len());
    for (got, expected) in got.iter().zip(expected) {
        assert!((got - expected).abs() < 2e-4 * expected.abs().max(1.0), "{got}, candle says {expected}");
    }
}

#[test]
fn padding_and_idle_inputs_stay_zero() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mut mlp = Mlp::new(&[false, true, false], &[6], &mut rng);
    let mut adam = Adam::new(mlp.weights.len(), 0.01);
    let mut scratch = Scratch::default();
    let mut inputs = vec![0.0; 8 * mlp.stride()];
    for (index, row) in inputs.chunks_mut(16).enumerate() {
        row[0] = index as f32 - 3.0;
        row[2] = 0.5;
    }
    for _ in 0..20 {
        mlp.forward(&inputs, &mut scratch);
        let slopes: Vec<f32> = scratch.outputs.iter().zip(&inputs).map(|(o, x)| o - x.abs()).collect();
        mlp.backward(&inputs, &slopes, &mut scratch);
        adam.step(&mut mlp.weights, &scratch.gradient, 0.01);
    }
    let layers = mlp.layers();
    assert!(layers[0].weights.chunks(3).all(|row| row[0] != 0.0 && row[1] == 0.0 && row[2] != 0.0));
    let used = layers.iter().map(|layer| layer.weights.len() + layer.bias.len()).sum::<usize>() - 6;
    assert_eq!(mlp.weights.iter().filter(|&&w| w != 0.0).count(), used);
}
