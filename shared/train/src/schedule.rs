//! The one-cycle learning rate: it rises along a cosine, and then falls along a longer cosine.

use std::f64::consts::PI;

/// The share of the steps in which the rate rises.
const WARM_UP: f64 = 0.15;
/// The first rate is the highest rate divided by this …
const FIRST: f64 = 25.0;
/// … and the last rate is the first rate divided by this.
const LAST: f64 = 1e4;

/// The learning rate of a step. Steps count from 0.
pub(crate) fn one_cycle(step: usize, steps: usize, highest: f64) -> f64 {
    let first = highest / FIRST;
    let last = first / LAST;
    let warm_up = WARM_UP * steps as f64 - 1.0;
    let end = steps as f64 - 1.0;
    let step = step as f64;
    if step < warm_up {
        cosine(first, highest, step / warm_up)
    } else {
        cosine(highest, last, ((step - warm_up) / (end - warm_up)).clamp(0.0, 1.0))
    }
}

fn cosine(from: f64, to: f64, share: f64) -> f64 {
    to + (from - to) * (1.0 + (PI * share).cos()) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_rises_then_falls_to_almost_nothing() {
        let rates: Vec<f64> = (0..1000).map(|step| one_cycle(step, 1000, 1.0)).collect();
        assert!((rates[0] - 0.04).abs() < 1e-12);
        assert!((rates[149] - 1.0).abs() < 1e-12);
        assert!(rates[..150].is_sorted());
        assert!(rates[149..].is_sorted_by(|a, b| a >= b));
        assert!((rates[999] - 4e-6).abs() < 1e-12);
    }

    #[test]
    fn a_few_steps_are_enough() {
        for steps in 1..20 {
            for step in 0..steps {
                let rate = one_cycle(step, steps, 1.0);
                assert!(rate > 0.0 && rate <= 1.0, "{step} of {steps}: {rate}");
            }
        }
    }
}
