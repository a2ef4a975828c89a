//! The best rate of every problem against what the hardware can do.

use diode_core::DType;
use diode_core::api::ProblemPoint;
use diode_core::hardware::Facts;
use leptos::prelude::*;

use super::scatter::{Axis, Line, Mark, Plot, Scatter};
use crate::format;

/// The roof over all problems of a hardware.
pub(crate) fn roofline(
    points: &[ProblemPoint],
    facts: Option<&Facts>,
    dtypes: &[DType],
    link: &dyn Fn(&ProblemPoint) -> String,
) -> impl IntoView + use<> {
    let roofs = facts.map(|facts| roofs(facts, dtypes)).unwrap_or_default();
    let marks = points.iter().map(|point| Mark {
        x: point.intensity,
        y: point.tflops,
        text: format!(
            "{}\n{} in {}\n{} FLOP/byte",
            point.dims,
            format::rate_text(point.tflops),
            format::time(point.best_us),
            format::three_digits(point.intensity),
        ),
        href: Some(link(point)),
    });
    let y_reach = roofs.iter().map(|roof| roof.peak).collect();
    let description = format!(
        "Scatter plot of {}: best rate in TFLOP/s against arithmetic intensity. The table below has the same data.",
        format::counted(points.len() as u64, "problem")
    );
    let plot = Plot {
        marks: marks.collect(),
        lines: Box::new(move |(low, high)| roofs.iter().map(|roof| roof.line(low, high)).collect()),
        y_reach,
        ring: None,
        x: Axis { title: "Arithmetic intensity, FLOP/byte", tick: format::tick },
        y: Axis { title: "TFLOP/s", tick: format::tick },
        fine: false,
        description,
    };
    view! { <Scatter plot /> }
}

/// A bound on the rate: bandwidth on the left, arithmetic on the right.
struct Roof {
    /// TFLOP/s.
    peak: f64,
    /// TFLOP/s per FLOP/byte.
    bandwidth: f64,
    label: String,
}

impl Roof {
    fn at(&self, intensity: f64) -> f64 {
        self.peak.min(self.bandwidth * intensity)
    }

    fn line(&self, low: f64, high: f64) -> Line {
        let bend = self.peak / self.bandwidth;
        let corner = (low..high).contains(&bend).then_some(bend);
        let points = [Some(low), corner, Some(high)].into_iter().flatten();
        Line {
            points: points.map(|x| (x, self.at(x))).collect(),
            dashed: false,
            label: Some(self.label.clone()),
        }
    }
}

/// One roof per distinct peak among the types in the data.
fn roofs(facts: &Facts, dtypes: &[DType]) -> Vec<Roof> {
    let mut roofs: Vec<Roof> = Vec::new();
    for dtype in dtypes {
        let Some(peak) = facts.peak(*dtype, false) else { continue };
        match roofs.iter_mut().find(|roof| roof.peak == peak.0) {
            Some(roof) => roof.label = format!("{}, {dtype}", roof.label),
            None => roofs.push(Roof {
                peak: peak.0,
                bandwidth: facts.dram_gbps / 1e3,
                label: format!("{} {dtype}", format::rate_text(peak.0)),
            }),
        }
    }
    roofs
}

#[cfg(test)]
mod tests {
    use super::*;
    use diode_core::hardware::find;

    #[test]
    fn the_roof_bends_where_bandwidth_meets_arithmetic() {
        let facts = find("NVIDIA H200").and_then(|hardware| hardware.facts).unwrap();
        let roofs = roofs(&facts, &[DType::BFloat16, DType::Float16, DType::Float32]);
        assert_eq!(roofs.len(), 2, "bfloat16 and float16 share a roof");
        assert_eq!(roofs[0].label, "990\u{a0}TFLOP/s bfloat16, float16");
        assert!((roofs[0].at(100.0) - 480.0).abs() < 1e-9);
        assert_eq!(roofs[0].at(1000.0), 990.0);
        assert_eq!(roofs[0].line(1.0, 1000.0).points.len(), 3);
        assert_eq!(roofs[0].line(500.0, 1000.0).points.len(), 2);
    }
}
