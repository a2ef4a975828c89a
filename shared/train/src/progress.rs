//! The reports of a running training.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::ops::ControlFlow;

use diode_core::ids::Digest;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

use crate::options::Plan;
use crate::{TrainError, TrainingSet};

/// One report.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    Epoch {
        /// Which network is trained: `fold 1 of 4` or `final`.
        phase: String,
        /// The number of networks in the whole training. Several are trained at a time.
        phases: usize,
        /// Counts from 1.
        epoch: usize,
        epochs: usize,
        /// The mean loss over the epoch's steps.
        loss: f32,
    },
    /// A part of a long epoch is done. The training can be stopped here.
    PartOfEpoch,
    /// A network is finished. A later run can continue from a [`Checkpoint`](crate::Checkpoint) with it.
    Learnt { phase: String, network: LearntNetwork },
}

/// How far a training has come, computed from its reports.
#[derive(Debug, Clone, Default)]
pub struct Share {
    of_phases: BTreeMap<String, f64>,
}

impl Share {
    /// The share of the whole work that is done, from 0 to 1. `None` if the report does not change it.
    pub fn after(&mut self, step: &Progress) -> Option<f64> {
        let Progress::Epoch { phase, phases, epoch, epochs, .. } = step else { return None };
        self.of_phases.insert(phase.clone(), *epoch as f64 / *epochs as f64);
        Some((self.of_phases.values().sum::<f64>() / *phases as f64).min(1.0))
    }
}

/// Receives the reports, and can stop the training.
pub type Observer<'a> = &'a mut dyn FnMut(&Progress) -> ControlFlow<()>;

/// The name of the training's key in the file's metadata.
const KEY: &str = "diode-checkpoint";
/// The name of the networks' digest in the metadata.
const NETWORKS: &str = "networks";

/// What the file holds of each network. Files of another form are those of another training.
const FORM: &str = "weights and losses";

/// What comes before a phase in the name of its losses in the file.
const LOSSES_OF: &str = "losses of ";

/// A network that was trained to the end.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LearntNetwork {
    pub weights: Vec<f32>,
    /// The loss of each epoch, in order.
    pub losses: Vec<f32>,
}

/// Finished networks, by their phase of the training.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    key: String,
    networks: BTreeMap<String, LearntNetwork>,
}

impl Checkpoint {
    /// An empty checkpoint for a training.
    pub fn new(set: &TrainingSet, plan: &Plan) -> Self {
        let (digest, version) = (set.digest(), env!("CARGO_PKG_VERSION"));
        let key = format!("{digest} {:?} {} {version} {FORM}", plan.options, plan.folds);
        Self { key: Digest::of(key.as_bytes()).to_string(), networks: BTreeMap::new() }
    }

    /// Takes the networks from a file of [`Self::to_bytes`]. Refuses a damaged file, and a file of another
    /// training.
    pub fn resume(&mut self, bytes: &[u8]) -> Result<(), TrainError> {
        let (_, header) = SafeTensors::read_metadata(bytes)?;
        let stated = |name| header.metadata().as_ref().and_then(|entries| entries.get(name));
        if stated(KEY) != Some(&self.key) {
            return Err(TrainError::OtherCheckpoint);
        }
        let mut read = Self { key: self.key.clone(), networks: BTreeMap::new() };
        for (name, view) in SafeTensors::deserialize(bytes)?.iter() {
            let (values, _) = view.data().as_chunks::<4>();
            let values = values.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
            let losses_of = name.strip_prefix(LOSSES_OF);
            let network = read.networks.entry(losses_of.unwrap_or(name).to_owned()).or_default();
            if losses_of.is_some() {
                network.losses = values;
            } else {
                network.weights = values;
            }
        }
        if stated(NETWORKS) != Some(&read.digest()) {
            return Err(TrainError::DamagedCheckpoint);
        }
        self.networks.append(&mut read.networks);
        Ok(())
    }

    fn digest(&self) -> String {
        let mut all = Vec::new();
        for (name, data) in self.tensors() {
            all.extend_from_slice(name.as_bytes());
            all.extend(data);
        }
        Digest::of(&all).to_string()
    }

    /// The values that the file holds, each with its name there.
    fn tensors(&self) -> impl Iterator<Item = (String, Vec<u8>)> {
        let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.networks.iter().flat_map(move |(phase, LearntNetwork { weights, losses })| {
            [(phase.clone(), bytes(weights)), (format!("{LOSSES_OF}{phase}"), bytes(losses))]
        })
    }

    pub fn to_bytes(&self) -> Result<Vec<u8>, TrainError> {
        let data: Vec<(String, Vec<u8>)> = self.tensors().collect();
        let views = data
            .iter()
            .map(|(name, data)| Ok((name.as_str(), TensorView::new(Dtype::F32, vec![data.len() / 4], data)?)))
            .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()?;
        let stated = [(KEY, self.key.clone()), (NETWORKS, self.digest())];
        let metadata = HashMap::from(stated.map(|(name, value)| (name.to_owned(), value)));
        Ok(safetensors::serialize(views, Some(metadata))?)
    }

    pub fn add(&mut self, phase: String, network: LearntNetwork) {
        self.networks.insert(phase, network);
    }

    /// How many networks are finished.
    pub fn networks(&self) -> usize {
        self.networks.len()
    }

    pub(crate) fn network(&self, phase: &str) -> Option<&LearntNetwork> {
        self.networks.get(phase)
    }
}

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
    fn the_share_only_grows_whatever_the_order_of_phases() {
        let (mut share, mut last) = (Share::default(), 0.0);
        for (phase, epoch) in [("final", 1), ("final", 2), ("a", 1), ("b", 1), ("b", 2), ("a", 2)] {
            let step = Progress::Epoch { phase: phase.to_owned(), phases: 3, epoch, epochs: 2, loss: 0.5 };
            let now = share.after(&step).unwrap();
            assert!(now > last, "{phase} {epoch}: {now}");
            last = now;
        }
        assert_eq!(last, 1.0);
        assert_eq!(
            share.after(&Progress::Learnt { phase: "a".to_owned(), network: LearntNetwork::default() }),
            None
        );
    }
}

#[cfg(test)]
mod curves_tests {
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
