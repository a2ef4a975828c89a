//! Draws the losses of a training.

use std::fmt::Write as _;

/// The loss of one epoch of one phase.
#[derive(Debug, Clone, PartialEq)]
pub struct EpochLoss {
    /// The network that was trained: `final` or `fold 1 of 4`.
    pub phase: String,
    /// Counts from 1.
    pub epoch: usize,
    pub loss: f32,
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 44.0;
/// These colours differ even for people who cannot see red or green. Names stand at the ends of the
/// lines, too.
const COLOURS: [&str; 6] = ["#0b5fff", "#e07b00", "#5b7f95", "#8a4fbe", "#008577", "#a33b20"];

/// An SVG document with a line for each phase. The scale of the loss is logarithmic.
pub fn curves(losses: &[EpochLoss]) -> String {
    let epochs = losses.iter().map(|at| at.epoch).max().unwrap_or(1).max(2) as f64;
    let logs = || losses.iter().map(|at| f64::from(at.loss.max(f32::MIN_POSITIVE)).log10());
    let low = logs().fold(f64::INFINITY, f64::min).min(0.0).floor();
    let high = logs().fold(f64::NEG_INFINITY, f64::max).max(low + 1.0).ceil();
    let x = |epoch: f64| LEFT + (epoch - 1.0) / (epochs - 1.0) * (WIDTH - LEFT - RIGHT);
    let y = |log: f64| HEIGHT - BOTTOM - (log - low) / (high - low) * (HEIGHT - TOP - BOTTOM);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\" role=\"img\"><title>Training loss by epoch</title>\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>"
    );
    // Writing to a String cannot fail.
    for power in low as i32..=high as i32 {
        let at = y(f64::from(power));
        let value = 10_f64.powi(power);
        let _ = write!(
            svg,
            "<path d=\"M{LEFT} {at:.1}H{:.1}\" stroke=\"#ddd\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            at + 4.0
        );
    }
    for epoch in [1.0, (epochs / 2.0).round(), epochs] {
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{epoch}</text>",
            x(epoch),
            HEIGHT - BOTTOM + 18.0
        );
    }
    let _ = write!(
        svg,
        "<text x=\"{LEFT}\" y=\"16\">loss</text><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">epoch</text>",
        WIDTH - RIGHT,
        HEIGHT - 8.0
    );
    for (index, phase) in losses.chunk_by(|a, b| a.phase == b.phase).enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let points: Vec<String> = phase
            .iter()
            .map(|at| {
                let log = f64::from(at.loss.max(f32::MIN_POSITIVE)).log10();
                format!("{:.1},{:.1}", x(at.epoch as f64), y(log))
            })
            .collect();
        let points = points.join(" ");
        let _ = write!(
            svg,
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{}</text>",
            WIDTH - RIGHT + 10.0,
            TOP + 12.0 + 18.0 * index as f64,
            phase[0].phase
        );
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phase_has_a_line_and_its_name() {
        let at = |phase: &str, epoch, loss| EpochLoss { phase: phase.to_owned(), epoch, loss };
        let svg = curves(&[at("final", 1, 10.0), at("final", 3, 0.1), at("fold 1 of 2", 1, 1.0)]);
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(svg.contains("points=\"64.0,24.0 570.0,316.0\""), "{svg}");
        assert!(svg.contains(">fold 1 of 2</text>") && svg.contains(">0.1</text>"));
        assert!(curves(&[]).ends_with("</svg>\n"));
    }
}
