//! Compares the dense layer with candle's own operations and with finite differences, and trains
//! with it.

use rand_chacha::ChaCha8Rng;

use super::*;

const CPU: &Device = &Device::Cpu;

fn random(shape: (usize, usize), rng: &mut ChaCha8Rng) -> Tensor {
    let values = (0..shape.0 * shape.1).map(|_| rng.random_range(-2.0..2.0)).collect::<Vec<f32>>();
    Tensor::from_vec(values, shape, CPU).unwrap()
}

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

fn assert_close(got: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(got.len(), expected.len());
    for (got, expected) in got.iter().zip(expected) {
        assert!((got - expected).abs() < tolerance * expected.abs().max(1.0), "{got}, not {expected}");
    }
}

#[test]
fn outputs_and_gradients_equal_those_of_candles_own_operations() {
    const ROWS: usize = 24;
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    for hidden in [&[32, 16][..], &[5], &[33, 7, 20], &[64, 64]] {
        let mlp = Mlp::new(&[false, true, false, false, false], hidden, &mut rng).unwrap();
        let inputs = random((ROWS, 5), &mut rng);
        // The loss is the sum over slope · output.
        let slopes = random((ROWS, 1), &mut rng);
        let outputs = mlp.forward(&inputs).unwrap();
        let gradients = (&outputs * &slopes).unwrap().sum_all().unwrap().backward().unwrap();

        let mut x = inputs;
        for (index, Layer { weights, bias }) in mlp.layers.iter().enumerate() {
            x = x.matmul(&weights.t().unwrap()).unwrap().broadcast_add(bias).unwrap();
            if index < hidden.len() {
                x = x.silu().unwrap();
            }
        }
        assert_close(&values(&outputs), &values(&x), 2e-5);
        let expected = (x * slopes).unwrap().sum_all().unwrap().backward().unwrap();
        for variable in mlp.variables() {
            let of = |gradients: &GradStore| values(gradients.get(variable).unwrap());
            assert_close(&of(&gradients), &of(&expected), 2e-4);
        }
    }
}

#[test]
fn gradients_are_the_differences_of_the_loss() {
    const STEP: f32 = 5e-3;
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    for activation in [Activation::Silu, Activation::None] {
        let parts = [random((6, 3), &mut rng), random((4, 3), &mut rng), random((1, 4), &mut rng)];
        let parts = parts.map(|part| Var::from_tensor(&part).unwrap());
        let above = random((6, 4), &mut rng);
        let loss = |parts: &[Var; 3]| {
            let [x, weights, bias] = parts;
            let outputs = Dense::forward(x, weights, &bias.flatten_all().unwrap(), activation, 3).unwrap();
            (outputs * &above).unwrap().sum_all().unwrap()
        };
        let gradients = loss(&parts).backward().unwrap();
        for (index, part) in parts.iter().enumerate() {
            let at = |place: usize, step: f32| {
                let mut moved = values(part);
                moved[place] += step;
                let mut parts = parts.clone();
                parts[index] = Var::from_vec(moved, part.shape(), CPU).unwrap();
                loss(&parts).to_scalar::<f32>().unwrap()
            };
            let expected: Vec<f32> =
                (0..part.elem_count()).map(|i| (at(i, STEP) - at(i, -STEP)) / (2.0 * STEP)).collect();
            assert_close(&values(gradients.get(part).unwrap()), &expected, 5e-3);
        }
    }
}

#[test]
fn idle_inputs_get_no_weights_and_the_others_learn() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mlp = Mlp::new(&[false, true, false], &[6], &mut rng).unwrap();
    let mut descent = Descent::new(&mlp, 0.01).unwrap();
    let rows: Vec<[f32; 3]> = (0..8).map(|row| [row as f32 / 2.0 - 1.5, 0.0, 0.5]).collect();
    let wanted: Vec<f32> = rows.iter().map(|row| row[0].abs()).collect();
    let inputs = Tensor::from_vec(rows.concat(), (8, 3), CPU).unwrap();
    let wanted = Tensor::from_vec(wanted, (8, 1), CPU).unwrap();
    let loss = || (mlp.forward(&inputs).unwrap() - &wanted).unwrap().sqr().unwrap().mean_all().unwrap();
    let before = loss().to_scalar::<f32>().unwrap();
    for _ in 0..200 {
        descent.step(&loss(), 0.03).unwrap();
    }
    let after = loss().to_scalar::<f32>().unwrap();
    assert!(after < 0.05 * before, "{before} became {after}");
    let first = &mlp.layers().unwrap()[0];
    assert!(first.weights.chunks(3).all(|row| row[0] != 0.0 && row[1] == 0.0 && row[2] != 0.0));
}

/// A network of three features and two values for each of four tiles, and rows of inputs with their tiles.
fn network_of_tiles(rng: &mut ChaCha8Rng) -> (Mlp, Tensor, TileRows) {
    let options = TrainOptions { hidden: vec![6], tile_values: Some(2), ..TrainOptions::default() };
    let mlp = Mlp::untrained(&[false; 3], 4, &options).unwrap();
    mlp.tile_values.as_ref().unwrap().set(&random((4, 2), rng)).unwrap();
    let tiles = TileRows::new(vec![0, 2, 2, 1, 0], vec![1.0, 1.0, 0.0, 1.0, 1.0]).unwrap();
    (mlp, random((5, 3), rng), tiles)
}

#[test]
fn values_of_tiles_are_inputs_and_learn() {
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let (mlp, inputs, tiles) = network_of_tiles(&mut rng);
    let slopes = random((5, 1), &mut rng);
    let outputs = mlp.forward_tiles(&inputs, Some(&tiles)).unwrap();
    let gradients = (&outputs * &slopes).unwrap().sum_all().unwrap().backward().unwrap();

    let known = mlp.tile_values.as_ref().unwrap();
    let values_of_rows = known.index_select(&tiles.tiles, 0).unwrap().broadcast_mul(&tiles.kept).unwrap();
    let mut x = Tensor::cat(&[&inputs, &values_of_rows], 1).unwrap();
    for (index, Layer { weights, bias }) in mlp.layers.iter().enumerate() {
        x = x.matmul(&weights.t().unwrap()).unwrap().broadcast_add(bias).unwrap();
        x = if index == 0 { x.silu().unwrap() } else { x };
    }
    assert_close(&values(&outputs), &values(&x), 2e-5);
    let expected = (x * slopes).unwrap().sum_all().unwrap().backward().unwrap();
    for variable in mlp.variables() {
        let of = |gradients: &GradStore| values(gradients.get(variable).unwrap());
        assert_close(&of(&gradients), &of(&expected), 2e-4);
    }
    let of_tiles = values(gradients.get(known).unwrap());
    assert!(of_tiles[..6].iter().all(|&slope| slope != 0.0), "tiles 0 to 2 are in rows: {of_tiles:?}");
    assert_eq!(of_tiles[6..], [0.0, 0.0], "tile 3 is in no row");
}

#[test]
fn values_of_tiles_decay_and_go_into_another_network() {
    let mut rng = ChaCha8Rng::seed_from_u64(10);
    let (mlp, inputs, tiles) = network_of_tiles(&mut rng);
    let before = mlp.values_of_tiles().unwrap().unwrap();
    let loss = mlp.forward_tiles(&inputs, Some(&tiles)).unwrap().sum_all().unwrap();
    Descent::new(&mlp, 0.0).unwrap().step(&loss, 0.01).unwrap();
    let after = mlp.values_of_tiles().unwrap().unwrap();
    // Tile 3 is in no row, so it only decays.
    assert_close(&after[6..], &[before[6] * 0.97, before[7] * 0.97], 1e-6);
    assert!(before[..6].iter().zip(&after).all(|(before, after)| (before * 0.97 - after).abs() > 5e-3));

    let (other, ..) = network_of_tiles(&mut rng);
    other.set_weights(&mlp.weights().unwrap()).unwrap();
    assert_eq!(other.values_of_tiles().unwrap().unwrap(), after);
}

#[test]
fn long_gradients_are_shortened() {
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let mlp = Mlp::new(&[false; 3], &[4], &mut rng).unwrap();
    let inputs = random((5, 3), &mut rng);
    let length = |factor: f64| {
        let loss = (mlp.forward(&inputs).unwrap().sum_all().unwrap() * factor).unwrap();
        let mut gradients = loss.backward().unwrap();
        Descent::new(&mlp, 0.0).unwrap().bound(&mut gradients).unwrap();
        let all = mlp.variables().flat_map(|variable| values(gradients.get(variable).unwrap()));
        all.map(|slope| slope * slope).sum::<f32>().sqrt()
    };
    assert!((length(1e4) - 5.0).abs() < 1e-3);
    let short = length(1e-2);
    assert!(short < 1.0 && (length(2e-2) / short - 2.0).abs() < 1e-3, "{short} is left as it is");
}

#[test]
fn weights_go_into_another_network_of_the_same_layers_only() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let mut mlp = |hidden: &[usize]| Mlp::new(&[false; 3], hidden, &mut rng).unwrap();
    let (one, other, wider) = (mlp(&[4, 2]), mlp(&[4, 2]), mlp(&[5]));
    let weights = one.weights().unwrap();
    assert_ne!(other.weights().unwrap(), weights);
    other.set_weights(&weights).unwrap();
    assert_eq!(other.weights().unwrap(), weights);
    assert!(wider.set_weights(&weights[..10]).is_err());
    let too_many = [&weights[..], &[1.0]].concat();
    assert!(other.set_weights(&too_many).is_err());
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let (x, weights) = (random((6, 3), &mut rng), random((4, 2), &mut rng));
    let bias = Tensor::zeros(4, DType::F32, CPU).unwrap();
    let error = Dense::forward(&x, &weights, &bias, Activation::None, 3).unwrap_err().to_string();
    assert!(error.contains("got (6, 3) times (2, 4) into 24 values"), "{error}");
}
