//! A model with made-up weights.

use diode_core::hardware::find;
use diode_core::ids::Digest;
use diode_core::{DType, Heuristic, Method, Op, Problem, ProblemFields};
use diode_model::{COLUMN_COUNT, FEATURE_SET, Layer, Metadata, Model, Network, Training};

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

pub(crate) fn problem(m: u64, n: u64, k: u64, dtype: DType) -> Problem {
    Problem::new(ProblemFields::plain(Op::Mm, 1, m, n, k, dtype)).expect("the sizes are valid")
}
