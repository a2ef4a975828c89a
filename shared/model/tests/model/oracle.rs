//! Compares our forward pass with candle's.

use crate::sample::{metadata, model_with_further, model_with_values, network, problem};
use candle_core::{Device, Result, Tensor};
use candle_nn::{Linear, Module};
use diode_core::{DType, Tile};
use diode_model::features::{ProblemFeatures, featured_tile};
use diode_model::{Model, TileNetwork};

/// The logarithm of time / base time, computed by candle.
fn oracle(network: &TileNetwork, features: &ProblemFeatures, tiles: &[&Tile]) -> Result<Vec<f32>> {
    let cpu = &Device::Cpu;
    let values =
        |tile: &Tile| network.values().map(|known| known.of(&[tile], features.loading())).unwrap_or_default();
    let row = |tile: &&Tile| [features.row(tile).to_vec(), values(tile)].concat();
    let rows: Vec<f32> = tiles.iter().flat_map(row).collect();
    let network = network.dense();
    let inputs = Tensor::new(rows, cpu)?.reshape((tiles.len(), network.inputs()))?;
    let mut x = inputs
        .broadcast_sub(&Tensor::new(network.mean(), cpu)?)?
        .broadcast_div(&Tensor::new(network.std(), cpu)?)?
        .clamp(-8_f32, 8_f32)?;
    let layers = network.layers();
    for (index, layer) in layers.iter().enumerate() {
        let weights = Tensor::new(layer.weights.as_slice(), cpu)?.reshape((layer.outputs, layer.inputs))?;
        x = Linear::new(weights, Some(Tensor::new(layer.bias.as_slice(), cpu)?)).forward(&x)?;
        if index + 1 < layers.len() {
            x = x.silu()?;
        }
    }
    x.flatten_all()?.to_vec1()
}

#[test]
fn predictions_equal_candles() {
    // Some widths are multiples of the number of outputs that are computed together, and some are
    // not.
    let plain = [&[64, 64][..], &[16], &[33, 7, 5], &[]];
    let plain = plain.map(|hidden| Model::new(metadata(), network(hidden)).unwrap());
    for model in plain.into_iter().chain([model_with_values(), model_with_further()]) {
        for (m, n, k) in [(4096, 4096, 4096), (1, 4096, 11_008), (53_840, 168, 528), (77, 99, 333)] {
            let problem = problem(m, n, k, DType::BFloat16);
            let hardware = &model.metadata().hardware;
            let configs = model.space().configs(hardware, &problem).unwrap();
            let features = ProblemFeatures::new(&hardware.facts.unwrap(), &problem).unwrap();
            let tiles: Vec<_> = configs.iter().map(|config| featured_tile(config).unwrap()).collect();
            let mut expected = vec![0.0; tiles.len()];
            let networks = model.networks().count() as f32;
            for network in model.networks() {
                let outputs = oracle(network, &features, &tiles).unwrap();
                expected.iter_mut().zip(outputs).for_each(|(mean, output)| *mean += output / networks);
            }
            let predicted = model.predict(&problem, &configs).unwrap();
            for ((time, tile), expected) in predicted.iter().zip(tiles).zip(expected) {
                let got = libm::log(time.0 / f64::from(features.base_us(tile.allow_tf32)));
                assert!((got - f64::from(expected)).abs() < 1e-5, "{tile:?}: {got}, candle says {expected}");
            }
        }
    }
}
