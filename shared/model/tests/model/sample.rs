//! A model with made-up weights.

use diode_core::hardware::find;
use diode_core::ids::Digest;
use diode_core::{DType, Heuristic, Method, Op, Problem, ProblemFields, RocmExtras, Tile};
use diode_model::features::Loading;
use diode_model::{
    COLUMN_COUNT, FEATURE_SET, Layer, Metadata, Model, Network, TileNetwork, TileValues, Training, tile_key,
};

/// Random numbers between -0.5 and 0.5 from a linear congruence.
struct Numbers(u32);

impl Numbers {
    pub(crate) fn draw(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as f32 / (1 << 24) as f32 - 0.5
    }

    pub(crate) fn take(&mut self, count: usize, scale: f32) -> Vec<f32> {
        (0..count).map(|_| self.draw() * scale).collect()
    }
}

pub(crate) fn metadata() -> Metadata {
    Metadata {
        heuristic: Heuristic::Matmul,
        hardware: find("nvidia-h200").expect("the catalogue has it"),
        stands_in_from: None,
        ops: vec![Op::Mm],
        dtypes: vec![DType::Float16, DType::BFloat16],
        second_method: None,
        feature_set: FEATURE_SET.to_owned(),
        training: Training {
            data_digest: Digest::of(b"data"),
            problems: 3,
            timings: 4602,
            method: Method::MEDIAN_COLD_EVENT,
            related: Vec::new(),
            seed: 42,
            created_at: "2026-01-01T00:00:00Z".to_owned(),
            tool: "diode 0.1.0".to_owned(),
            without_kept: false,
            losses: Vec::new(),
            sizes: Vec::new(),
        },
        range: None,
        evaluation: None,
        confidence: Vec::new(),
        pick_bias: 1.0,
        library_handicap: 1.0,
    }
}

pub(crate) fn network(hidden: &[usize]) -> Network {
    let mut numbers = Numbers(7);
    let mut inputs = COLUMN_COUNT;
    let mut layers = Vec::new();
    for &outputs in hidden.iter().chain(&[1]) {
        let scale = 2.0 / (inputs as f32).sqrt();
        layers.push(Layer {
            inputs,
            outputs,
            weights: numbers.take(outputs * inputs, scale),
            bias: numbers.take(outputs, scale),
        });
        inputs = outputs;
    }
    let mean = numbers.take(COLUMN_COUNT, 20.0);
    let std = numbers.take(COLUMN_COUNT, 4.0).into_iter().map(|s| s.abs() + 4.0).collect();
    Network::new(mean, std, layers).expect("the shapes fit")
}

pub(crate) fn model() -> Model {
    Model::new(metadata(), network(&[64, 64])).expect("the metadata is valid")
}

/// A model whose network has two values for each of some tiles.
pub(crate) fn model_with_values() -> Model {
    Model::from_network(metadata(), network_with_values(11)).expect("the metadata is valid")
}

/// The same with two further networks.
pub(crate) fn model_with_further() -> Model {
    let further = [12, 13].map(network_with_values).to_vec();
    model_with_values().with_further(further).expect("all know the same tiles")
}

fn network_with_values(seed: u32) -> TileNetwork {
    let plain = network(&[16, 8]);
    let mut numbers = Numbers(seed);
    let tiles = [(64, 3), (64, 4), (128, 3)];
    let mut tiles = tiles.map(|(m, stages)| Tile::new(m, 128, 64, stages, 4)).to_vec();
    let rocm = Some(RocmExtras { matrix_instr_nonkdim: 16, waves_per_eu: 0, kpack: 2 });
    tiles.push(Tile { rocm, ..tiles[2] });
    let values = TileValues::new(
        tiles.iter().map(|tile| tile_key(tile, Loading::ALIGNED)).collect(),
        numbers.take(8, 1.0),
    )
    .expect("the tiles are in order");
    let mut layers = plain.layers().to_vec();
    let first = &mut layers[0];
    let rows = first.weights.chunks_exact(COLUMN_COUNT);
    first.weights = rows.flat_map(|row| [row, &numbers.take(2, 0.5)].concat()).collect();
    first.inputs += 2;
    let (mean, std) = ([plain.mean(), &[0.0; 2]].concat(), [plain.std(), &[1.0; 2]].concat());
    let dense = Network::new(mean, std, layers).expect("the shapes fit");
    TileNetwork::new(dense, Some(values)).expect("there is an input for each value")
}

pub(crate) fn problem(m: u64, n: u64, k: u64, dtype: DType) -> Problem {
    Problem::new(ProblemFields::plain(Op::Mm, 1, m, n, k, dtype)).expect("the sizes are valid")
}
