//! AdamW with a bound on the gradient's length.

use super::kernel::Instructions;

/// Gradients longer than this are shortened to it.
const MAX_GRADIENT: f64 = 5.0;
/// How much of the past the two averages keep.
const FIRST_DECAY: f32 = 0.9;
const SECOND_DECAY: f32 = 0.999;
const EPSILON: f32 = 1e-8;

pub(crate) struct Adam {
    first: Vec<f32>,
    second: Vec<f32>,
    steps: i32,
    weight_decay: f32,
    instructions: Instructions,
}

impl Adam {
    pub(crate) fn new(weights: usize, weight_decay: f64) -> Self {
        Self {
            first: vec![0.0; weights],
            second: vec![0.0; weights],
            steps: 0,
            weight_decay: weight_decay as f32,
            instructions: Instructions::detect(),
        }
    }

    pub(crate) fn step(&mut self, weights: &mut [f32], gradient: &[f32], learning_rate: f64) {
        self.steps += 1;
        let length = gradient.iter().map(|&g| f64::from(g) * f64::from(g)).sum::<f64>().sqrt();
        let scale = if length > MAX_GRADIENT { (MAX_GRADIENT / length) as f32 } else { 1.0 };
        let rate = learning_rate as f32;
        let kept = 1.0 - rate * self.weight_decay;
        // Both averages began at zero.
        let (begun_first, begun_second) =
            (1.0 - FIRST_DECAY.powi(self.steps), 1.0 - SECOND_DECAY.powi(self.steps));
        let averages = self.first.iter_mut().zip(&mut self.second);
        self.instructions.run(
            #[inline(always)]
            || {
                for ((weight, &gradient), (first, second)) in weights.iter_mut().zip(gradient).zip(averages) {
                    let gradient = gradient * scale;
                    *first = FIRST_DECAY * *first + (1.0 - FIRST_DECAY) * gradient;
                    *second = SECOND_DECAY * *second + (1.0 - SECOND_DECAY) * gradient * gradient;
                    let step = (*first / begun_first) / ((*second / begun_second).sqrt() + EPSILON);
                    *weight = *weight * kept - rate * step;
                }
            },
        );
    }
}
