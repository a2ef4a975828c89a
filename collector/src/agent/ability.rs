//! What a device can measure, and which configs it times on a problem.

use std::collections::HashSet;

use clap::Args;
use diode_api::{Ability, Breadth, LeasedProblem};
use diode_core::baselines::Baseline;
use diode_core::hardware::{Hardware, Vendor};
use diode_core::ids::Digest;
use diode_core::space::{Space, SpaceName};
use diode_core::{Alignment, Bias, Config, DType, Invalid, KernelVariant, Layout, Op, Problem, Scaling};
use diode_model::{Model, Ranker};

use crate::devices::gpu::most_operand_bytes;
use crate::input::arguments::dtype;
use crate::input::models::shipped_for;
use crate::kernels::{Held, Plan, hardware_of};
use crate::node::available_memory;

/// The most memory that a problem's operands may take on any GPU. Larger problems take too long.
const GPU_BYTES: u64 = 8 << 30;

/// The share of a CPU's free memory that operands may take. Other programs use the node, too.
const CPU_SHARE: f64 = 0.25;

/// What the server is told that a device can measure that needs no packs, as far as `--ops` and `--dtypes` allow it.
pub(crate) fn ability(hardware: &Hardware, allowed: &Allowed) -> Ability {
    let memory_bytes = match hardware.vendor {
        Vendor::Cpu => available_memory().map_or(1 << 30, |bytes| (bytes as f64 * CPU_SHARE) as u64),
        Vendor::Nvidia | Vendor::Amd => GPU_BYTES,
    };
    let mut ability = Ability::of(hardware, memory_bytes);
    if !allowed.ops.is_empty() {
        ability.ops.clone_from(&allowed.ops);
    }
    if !allowed.dtypes.is_empty() {
        ability.dtypes.clone_from(&allowed.dtypes);
    }
    ability
}

/// How many bytes operands may take on a GPU with this much memory.
pub(crate) fn gpu_bytes(memory_bytes: u64) -> u64 {
    most_operand_bytes(memory_bytes).min(GPU_BYTES)
}

/// What a GPU can measure with kernels for these variants, if operands may take `memory_bytes`.
pub(crate) fn ability_with(variants: Vec<KernelVariant>, memory_bytes: u64) -> Ability {
    Ability {
        ops: distinct(variants.iter().map(|variant| variant.op())),
        dtypes: distinct(variants.iter().map(|variant| variant.dtype)),
        layouts: distinct(variants.iter().map(|variant| variant.b_layout)),
        unaligned: variants.iter().any(|variant| !variant.is_aligned()),
        memory_bytes,
        variants: Some(variants),
    }
}

fn distinct<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// What `--ops` and `--dtypes` let an agent measure. An empty list allows all.
#[derive(Debug, Clone, Args)]
pub(crate) struct Allowed {
    /// Operators to measure, separated by commas [default: all that there are kernels for]
    #[arg(long, value_name = "OPS", value_delimiter = ',')]
    pub(crate) ops: Vec<Op>,

    /// Types to measure, separated by commas [default: all that there are kernels for]
    #[arg(long, value_name = "DTYPES", value_delimiter = ',', value_parser = dtype)]
    pub(crate) dtypes: Vec<DType>,
}

impl Allowed {
    /// The variants of a pack that these lists allow.
    pub(super) fn keep(&self, held: Vec<Held>) -> Vec<Held> {
        let admits = |Held { variant, .. }: &Held| {
            (self.ops.is_empty() || self.ops.contains(&variant.op()))
                && (self.dtypes.is_empty() || self.dtypes.contains(&variant.dtype))
        };
        held.into_iter().filter(admits).collect()
    }

    /// The kernels to build if there is no pack. Without limits by the user, these are only the most usual ones,
    /// because building takes minutes: mm and what models are served with, in bfloat16 and in fp8 or, on GPUs without
    /// fp8, in int8.
    pub(super) fn plan(&self, arch: &str) -> Plan {
        let usual = [Op::Mm, Op::ScaledMm, Op::GroupedMm, Op::ScaledGroupedMm, Op::FusedMoe];
        let scaled = |hardware: &Hardware| {
            let fp8_first = [DType::Float8E4M3, DType::Float8E4M3Fnuz, DType::Int8];
            fp8_first.into_iter().find(|dtype| hardware.scales(*dtype))
        };
        // Of an unknown architecture, building says which are known.
        let scaled = hardware_of(arch).ok().as_ref().and_then(scaled);
        let dtypes = || std::iter::once(DType::BFloat16).chain(scaled).collect();
        Plan {
            ops: if self.ops.is_empty() { usual.to_vec() } else { self.ops.clone() },
            dtypes: if self.dtypes.is_empty() { dtypes() } else { self.dtypes.clone() },
            layouts: vec![(Layout::Row, Layout::Row), (Layout::Row, Layout::Column)],
            alignments: vec![Alignment::Bytes16],
            biases: Bias::ALL.to_vec(),
            scalings: Scaling::ALL.to_vec(),
            ..Plan::of_space(arch, Space::Named(SpaceName::Full))
        }
    }
}

/// A sample holds this many of the configs that the model predicts to be the fastest.
const EXPECTED: usize = 200;
/// A sample holds this many further configs, drawn from the full space. It also holds the default configs.
const DRAWN: usize = 100;

/// Chooses the configs to time on a problem, apart from the library kernel. Every node with the same version
/// of this program takes the same sample of a problem. So a confirmation times what the first contributor
/// timed.
pub(super) struct ConfigChooser {
    hardware: Hardware,
    /// The model that comes with this program, for a GPU with known facts.
    model: Option<Ranker<Box<Model>>>,
}

impl ConfigChooser {
    pub(super) fn new(hardware: Hardware) -> Self {
        let is_gpu = hardware.vendor != Vendor::Cpu;
        let model = is_gpu.then(|| shipped_for(&hardware).ok()).flatten();
        Self { hardware, model: model.map(|model| Ranker::new(Box::new(model))) }
    }

    pub(super) fn choose(&mut self, work: &LeasedProblem) -> Result<Vec<Config>, Invalid> {
        let space = |name| Space::Named(name).configs(&self.hardware, &work.problem);
        let full = space(SpaceName::Full)?;
        if work.breadth == Breadth::Full {
            return Ok(full);
        }
        let mut configs = match work.problem.op.is_plain() {
            true => space(SpaceName::Default)?,
            // Every space is the full one here.
            false => self.baselines(&work.problem),
        };
        // Some tiles of the default list, made for small problems, are in no pack.
        let in_packs: HashSet<&Config> = full.iter().collect();
        configs.retain(|config| in_packs.contains(config));
        let mut known: HashSet<Config> = configs.iter().copied().collect();
        // If the model cannot rank the problem, the sample is the default configs and the drawn ones.
        let ranked = self
            .model
            .as_mut()
            .and_then(|model| model.rank(&work.problem, &Space::Named(SpaceName::Full)).ok());
        let best = ranked.iter().flat_map(|ranked| &ranked.configs).take(EXPECTED).map(|(config, _)| *config);
        configs.extend(best.filter(|config| known.insert(*config)));
        let id = work.problem.id();
        // The order must be the same in every build of this program. A digest is; a hash of std may differ.
        let place = |config: &Config| Digest::of(format!("{id} {}", config.canonical()).as_bytes());
        let mut others: Vec<Config> = full.into_iter().filter(|config| !known.contains(config)).collect();
        others.sort_by_cached_key(place);
        configs.extend(others.into_iter().take(DRAWN));
        Ok(configs)
    }

    /// What vLLM and SGLang run if nobody has tuned anything.
    fn baselines(&self, problem: &Problem) -> Vec<Config> {
        let mut configs: Vec<Config> =
            Baseline::ALL.iter().filter_map(|baseline| baseline.config(&self.hardware, problem)).collect();
        configs.dedup();
        configs
    }
}

#[cfg(test)]
mod tests {
    use diode_api::Purpose;
    use diode_core::hardware::find;
    use diode_core::problem::serving_problems;
    use diode_core::{DType, Op, Problem, ProblemFields};

    use super::*;

    fn work(m: u64, breadth: Breadth) -> LeasedProblem {
        LeasedProblem {
            problem: Problem::new(ProblemFields::plain(Op::Mm, 1, m, 512, 512, DType::BFloat16)).unwrap(),
            purpose: Purpose::Hole,
            why: String::new(),
            breadth,
            kept: false,
            seconds: 1.0,
        }
    }

    #[test]
    fn a_sample_holds_the_defaults_that_packs_have_and_is_the_same_everywhere() {
        let hardware = find("nvidia-h200").unwrap();
        let mut chooser = ConfigChooser::new(hardware.clone());
        let sample = chooser.choose(&work(512, Breadth::Sample)).unwrap();
        let full = chooser.choose(&work(512, Breadth::Full)).unwrap();
        let defaults = Space::Named(SpaceName::Default);
        let mut defaults = defaults.configs(&hardware, &work(512, Breadth::Sample).problem).unwrap();
        defaults.retain(|config| full.contains(config));
        assert!(defaults.len() > 10);
        assert_eq!(sample[..defaults.len()], defaults);
        let distinct: HashSet<&Config> = sample.iter().collect();
        assert_eq!(distinct.len(), sample.len());
        assert!(full.len() > 1000);
        assert!(sample.iter().all(|config| full.contains(config)));
        let mut another = ConfigChooser::new(hardware);
        assert_eq!(another.choose(&work(512, Breadth::Sample)).unwrap(), sample);
        assert_ne!(another.choose(&work(520, Breadth::Sample)).unwrap(), sample);
    }

    #[test]
    fn a_sample_of_what_models_are_served_with_holds_their_defaults() {
        let hardware = find("nvidia-h200").unwrap();
        for text in ["moe 128x768x2048 top8 64 tokens fp8 block", "16x4096x14336 fp8 row"] {
            let problem = serving_problems(text, DType::BFloat16).unwrap().unwrap().remove(0);
            let work = |breadth| LeasedProblem { problem: problem.clone(), ..work(64, breadth) };
            let mut chooser = ConfigChooser::new(hardware.clone());
            let [sample, full] =
                [Breadth::Sample, Breadth::Full].map(|breadth| chooser.choose(&work(breadth)).unwrap());
            let distinct: HashSet<&Config> = sample.iter().collect();
            assert_eq!(distinct.len(), sample.len());
            assert!(sample.len() <= EXPECTED + DRAWN + 2 && sample.len() < full.len(), "{text}");
            assert!(sample.iter().all(|config| full.contains(config)));
            assert!(chooser.baselines(&problem).iter().all(|config| sample.contains(config)), "{text}");
        }
    }

    /// What is built without a pack is what the GPU can run.
    #[test]
    fn kernels_of_fp8_are_built_for_gpus_that_have_it() {
        let none = Allowed { ops: Vec::new(), dtypes: Vec::new() };
        let variants = |arch: &str| -> HashSet<(Op, DType, Scaling)> {
            let kernels = none.plan(arch).kernels().unwrap();
            let variants = kernels.iter().filter_map(|kernel| KernelVariant::of_kernel(&kernel.key));
            variants.map(|variant| (variant.op(), variant.dtype, variant.scaling)).collect()
        };
        let narrow =
            [("sm_90", DType::Float8E4M3), ("sm_80", DType::Int8), ("gfx942", DType::Float8E4M3Fnuz)];
        for (arch, dtype) in narrow {
            let built = variants(arch);
            for (op, dtype, scaling) in [
                (Op::Mm, DType::BFloat16, Scaling::None),
                (Op::GroupedMm, DType::BFloat16, Scaling::None),
                (Op::FusedMoe, DType::BFloat16, Scaling::None),
                (Op::ScaledMm, dtype, Scaling::Row),
                (Op::ScaledGroupedMm, dtype, Scaling::Row),
                (Op::FusedMoe, dtype, Scaling::Row),
            ] {
                assert!(built.contains(&(op, dtype, scaling)), "{arch} {op} {dtype}");
            }
            assert!(built.iter().all(|(_, built, _)| [DType::BFloat16, dtype].contains(built)), "{arch}");
        }
    }

    #[test]
    fn a_sample_holds_what_the_model_expects_to_be_fastest_and_a_random_share() {
        let hardware = find("nvidia-h100").unwrap();
        let work = work(4096, Breadth::Sample);
        let sample = ConfigChooser::new(hardware.clone()).choose(&work).unwrap();
        let model = shipped_for(&hardware).unwrap();
        let space = Space::Named(SpaceName::Full);
        let ranked = diode_model::rank(&model, &work.problem, &space).unwrap().configs;
        assert!(ranked[..EXPECTED].iter().all(|(config, _)| sample.contains(config)));
        let others =
            sample.iter().filter(|config| ranked[EXPECTED..].iter().any(|(other, _)| other == *config));
        assert!(others.count() >= DRAWN);
        // Hardware without a model gets the default configs and the drawn ones.
        let mut without = ConfigChooser { hardware, model: None };
        assert!(without.choose(&work).unwrap().len() < sample.len() - DRAWN);
    }
}
