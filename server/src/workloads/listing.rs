//! How much of every model of the catalogue is known on a hardware.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use diode_api::WorkloadCount;
use diode_core::hardware::{Hardware, find};
use diode_core::{DType, Problem};
use diode_model::Model;
use diode_workloads::catalogue::models;
use diode_workloads::layers::Serving;
use diode_workloads::model_config::Quantization;
use diode_workloads::served::Reader;

/// Over how many GPUs a model is spread.
const PARALLEL: [u64; 4] = [1, 2, 4, 8];

/// The problems of all ways of serving all models, on hardware with one kind of fp8. It takes some tenths of a second to
/// make.
pub(super) struct Listing {
    pub(super) ways: Vec<ListedWay>,
    /// Each problem once.
    problems: Vec<Listed>,
    places: HashMap<String, u32>,
}

pub(super) struct ListedWay {
    /// The place of its model in the catalogue.
    pub(super) model: usize,
    pub(super) tensor_parallel: u64,
    pub(super) quantization: Quantization,
    problems: Vec<u32>,
}

/// What decides whether a problem is predicted.
struct Listed {
    is_plain: bool,
    dtype: DType,
}

static USUAL: LazyLock<Listing> = LazyLock::new(|| Listing::new("nvidia-h200"));

/// The listing for a hardware.
pub(super) fn listing(hardware: &Hardware) -> &'static Listing {
    static AMD: LazyLock<Listing> = LazyLock::new(|| Listing::new("amd-mi300x"));
    if hardware.scales(DType::Float8E4M3Fnuz) { &AMD } else { &USUAL }
}

impl Listing {
    /// The listing for most hardware.
    pub(super) fn usual() -> &'static Self {
        &USUAL
    }

    /// The listing for hardware whose fp8 is that of a hardware of the catalogue.
    fn new(like: &str) -> Self {
        let mut listing = Self { ways: Vec::new(), problems: Vec::new(), places: HashMap::new() };
        let Some(hardware) = find(like) else { return listing };
        for (place, model) in models().iter().enumerate() {
            let Ok(architecture) = model.architecture() else { continue };
            for tensor_parallel in PARALLEL {
                // Where it ships in a form without such kernels, it is served in 16 bits.
                let ships = if model.ships.is_empty() { &[Quantization::Bf16][..] } else { &model.ships };
                for &quantization in ships {
                    let serving = Serving { tensor_parallel, expert_parallel: 1, quantization };
                    let Ok(problems) = architecture.problems(&serving, Reader::Vllm, &hardware) else {
                        continue;
                    };
                    let problems = problems.iter().map(|problem| listing.place(problem)).collect();
                    listing.ways.push(ListedWay { model: place, tensor_parallel, quantization, problems });
                }
            }
        }
        listing
    }

    fn place(&mut self, problem: &Problem) -> u32 {
        let new = self.problems.len() as u32;
        let place = *self.places.entry(problem.id().as_str().to_owned()).or_insert(new);
        if place == new {
            self.problems.push(Listed { is_plain: problem.op.is_plain(), dtype: problem.a_dtype });
        }
        place
    }

    /// Counts what is measured, and what a model predicts of the rest, of each way.
    pub(super) fn count(
        &self,
        hardware: &Hardware,
        measured: &HashSet<String>,
        model: Option<&Model>,
    ) -> Vec<WorkloadCount> {
        let mut is_measured = vec![false; self.problems.len()];
        // The smaller of both is looked through.
        if measured.len() < self.places.len() {
            measured
                .iter()
                .filter_map(|id| self.places.get(id))
                .for_each(|&at| is_measured[at as usize] = true);
        } else {
            self.places
                .iter()
                .filter(|(id, _)| measured.contains(*id))
                .for_each(|(_, &at)| is_measured[at as usize] = true);
        }
        let predicts = |listed: &Listed| {
            model.is_some_and(|model| {
                if listed.is_plain {
                    model.metadata().dtypes.contains(&listed.dtype)
                } else {
                    model.serving().is_some() && (!listed.dtype.is_fp8() || hardware.scales(listed.dtype))
                }
            })
        };
        let of_way = |way: &ListedWay| {
            let mut count = WorkloadCount::default();
            for &at in &way.problems {
                let at = at as usize;
                count.measured += u64::from(is_measured[at]);
                count.predicted += u64::from(!is_measured[at] && predicts(&self.problems[at]));
            }
            count
        };
        self.ways.iter().map(of_way).collect()
    }
}

impl ListedWay {
    pub(super) fn problems(&self) -> u64 {
        self.problems.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_is_listed_and_counts_are_of_its_own_problems() {
        let hardware = find("nvidia-h200").unwrap();
        let listing = listing(&hardware);
        for place in 0..models().len() {
            assert!(listing.ways.iter().any(|way| way.model == place), "{}", models()[place].name);
        }
        let way = &listing.ways[0];
        let id = listing.places.iter().find(|(_, at)| **at == way.problems[0]).unwrap().0.clone();
        let counts = listing.count(&hardware, &[id, "unknown".to_owned()].into(), None);
        assert_eq!(counts[0], WorkloadCount { measured: 1, predicted: 0 });
        let shared = counts.iter().filter(|count| count.measured > 0).count();
        assert!(shared < listing.ways.len() / 2, "{shared}");
        // Hardware with another fp8 has other problems.
        let amd = super::listing(&find("amd-mi300x").unwrap());
        let fp8 = amd.problems.iter().filter(|listed| listed.dtype.is_fp8());
        assert!(
            fp8.clone().count() > 1000 && fp8.into_iter().all(|listed| listed.dtype == DType::Float8E4M3Fnuz)
        );
    }

    #[test]
    fn a_count_is_the_same_whichever_is_looked_through() {
        let hardware = find("nvidia-h200").unwrap();
        let listing = listing(&hardware);
        let some: HashSet<String> = listing.places.keys().take(100).cloned().collect();
        let many: HashSet<String> =
            some.iter().cloned().chain((0..listing.places.len()).map(|n| n.to_string())).collect();
        assert_eq!(listing.count(&hardware, &some, None), listing.count(&hardware, &many, None));
    }
}
