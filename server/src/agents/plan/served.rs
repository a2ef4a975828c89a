//! The kinds of multiplications that models are served with. Their sizes are those of layers of real models, at the
//! degrees of tensor parallelism that such models run with.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use diode_core::kept::mix;
use diode_core::{DType, Groups, Layout, Op, Problem, ProblemFields, Rows, Scaling};
use diode_workloads::catalogue::{Model, Tag, models};
use diode_workloads::file_names::Consumer;
use diode_workloads::layers::Serving;
use diode_workloads::model_config::Quantization;
use diode_workloads::served::has_kernels;

use crate::agents::plan::planner::{MOST_CELLS, shuffled};
use crate::agents::plan::{Kind, SizeBin};

/// What is planned. The GPUs of each vendor have an fp8 of their own.
const FORMS: [(Op, DType, Scaling); 15] = {
    use {DType as D, Op as O, Scaling as S};
    [
        (O::ScaledMm, D::Float8E4M3, S::Tensor),
        (O::ScaledMm, D::Float8E4M3, S::Row),
        (O::ScaledMm, D::Float8E4M3, S::Block),
        (O::ScaledMm, D::Float8E4M3Fnuz, S::Tensor),
        (O::ScaledMm, D::Float8E4M3Fnuz, S::Row),
        (O::ScaledMm, D::Float8E4M3Fnuz, S::Block),
        (O::ScaledMm, D::Int8, S::Row),
        (O::GroupedMm, D::BFloat16, S::None),
        (O::ScaledGroupedMm, D::Float8E4M3, S::Row),
        (O::ScaledGroupedMm, D::Float8E4M3Fnuz, S::Row),
        (O::FusedMoe, D::BFloat16, S::None),
        (O::FusedMoe, D::Float8E4M3, S::Row),
        (O::FusedMoe, D::Float8E4M3, S::Block),
        (O::FusedMoe, D::Float8E4M3Fnuz, S::Row),
        (O::FusedMoe, D::Float8E4M3Fnuz, S::Block),
    ]
};

/// Over how many GPUs the weights of a layer are divided.
const PARALLEL: [u64; 4] = [1, 2, 4, 8];

/// The bins of rows or tokens, up to 16,383.
const TOKENS: &[SizeBin] = SizeBin::ALL.split_at(7).0;

/// The weights of one multiplication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layer {
    n: u64,
    k: u64,
    groups: Option<Groups>,
}

impl Layer {
    /// M counts rows of all groups, so it is a multiple of this.
    fn rows_per_token(&self) -> u64 {
        self.groups.filter(|groups| groups.stage.is_none()).map_or(1, |groups| groups.top_k.into())
    }

    fn problem(&self, (op, dtype, scaling): (Op, DType, Scaling), m: u64) -> Option<Problem> {
        let plain = ProblemFields::plain(op, 1, m, self.n, self.k, dtype);
        Problem::new(ProblemFields { scaling, groups: self.groups, ..plain }).ok()
    }
}

/// The layers of every kind.
static LAYERS: LazyLock<BTreeMap<Kind, Vec<Layer>>> = LazyLock::new(|| {
    let mut kinds: BTreeMap<Kind, Vec<Layer>> = BTreeMap::new();
    for form in FORMS {
        for layer in layers(form.0) {
            let each = layer.rows_per_token();
            for m in TOKENS.iter().filter(|m| m.most() / each >= m.least().div_ceil(each)) {
                let problem = layer.problem(form, m.least().div_ceil(each) * each);
                let measurable = problem.filter(has_kernels);
                let Some(kind) = measurable.as_ref().and_then(describe) else { continue };
                let known = kinds.entry(kind).or_default();
                if !known.contains(&layer) {
                    known.push(layer);
                }
            }
        }
    }
    kinds
});

/// Every kind, in a fixed order.
pub(super) fn kinds() -> impl Iterator<Item = Kind> {
    LAYERS.keys().copied()
}

/// The kind of a problem, if the plan covers it.
pub(super) fn kind_of(problem: &Problem) -> Option<Kind> {
    let usual = ProblemFields::plain(problem.op, 1, problem.m, problem.n, problem.k, problem.a_dtype);
    let is_usual = problem.out_dtype == usual.out_dtype
        && problem.out_layout.is_none()
        && problem.groups.is_none_or(|groups| groups.rows == Rows::Routed);
    describe(problem).filter(|kind| is_usual && LAYERS.contains_key(kind))
}

fn describe(problem: &Problem) -> Option<Kind> {
    Some(Kind {
        op: problem.op,
        dtype: problem.a_dtype,
        scaling: problem.scaling,
        stage: problem.groups.and_then(|groups| groups.stage),
        b_layout: Layout::Column,
        aligned: true,
        b: SizeBin::of(problem.groups.map_or(1, |groups| groups.count.into()))?,
        m: SizeBin::of(problem.m)?,
        n: SizeBin::of(problem.n)?,
        k: SizeBin::of(problem.k)?,
    })
}

/// The problem of a kind that has this number. Different numbers give different problems. Layers take turns. `None` if
/// the layer has fewer sizes.
pub(super) fn draw(kind: Kind, number: u64, key: u64) -> Option<Problem> {
    let layers = LAYERS.get(&kind)?;
    let count = layers.len() as u64;
    let layer = layers[((number % count + key % count) % count) as usize];
    let each = layer.rows_per_token();
    let least = kind.m.least().div_ceil(each);
    let sizes = (kind.m.most() / each + 1).checked_sub(least)?;
    let bits = sizes.min(MOST_CELLS).checked_ilog2()?;
    let cell = shuffled(number / count, bits, key)?;
    let [from, end] = [cell, cell + 1].map(|cell| least + ((cell * sizes) >> bits));
    let m = (from + mix(key ^ number) % (end - from)) * each;
    layer.problem((kind.op, kind.dtype, kind.scaling), m)
}

/// The multiplications of the catalogue's language models that can be scaled, or their layers of experts.
fn layers(op: Op) -> Vec<Layer> {
    let is_language = |model: &&Model| model.tags.iter().any(|tag| matches!(tag, Tag::Dense | Tag::Experts));
    let architectures = models().iter().filter(is_language).filter_map(|model| model.architecture().ok());
    let mut layers = Vec::new();
    for architecture in architectures {
        for tensor_parallel in PARALLEL {
            let serving = Serving { tensor_parallel, expert_parallel: 1, quantization: Quantization::Bf16 };
            if op.is_grouped() {
                let launches =
                    architecture.experts_layer(&serving, Consumer::Vllm).and_then(|layer| layer.problems(1));
                layers.extend(launches.into_iter().flatten().map(|launch| {
                    let groups = launch.groups.map(|groups| match op {
                        Op::FusedMoe => groups,
                        _ => Groups { stage: None, ..groups },
                    });
                    Layer { n: launch.n, k: launch.k, groups }
                }));
            } else {
                let dense = architecture.dense_layers(&serving).unwrap_or_default();
                let quantized = dense.iter().filter(|layer| layer.quantized);
                layers.extend(quantized.map(|layer| Layer { n: layer.n, k: layer.k, groups: None }));
            }
        }
    }
    layers
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use diode_core::Stage;

    use super::*;

    #[test]
    fn every_kind_draws_different_problems_that_kernels_compute() {
        let count = kinds().count();
        assert!((500..4000).contains(&count), "{count}");
        for (place, kind) in kinds().enumerate() {
            let drawn = (0..200).filter_map(|number| draw(kind, number, mix(place as u64)));
            let drawn: Vec<Problem> = drawn.collect();
            let distinct: HashSet<&Problem> = drawn.iter().collect();
            assert!(!drawn.is_empty() && distinct.len() == drawn.len(), "{kind}: {}", drawn.len());
            for problem in &drawn {
                assert_eq!(kind_of(problem), Some(kind));
                assert!(has_kernels(problem), "{kind}");
            }
        }
        for form in FORMS {
            assert!(kinds().any(|kind| (kind.op, kind.dtype, kind.scaling) == form), "{form:?}");
        }
    }

    #[test]
    fn what_no_model_is_served_with_has_no_kind() {
        let layer = Layer { n: 4096, k: 14_336, groups: None };
        let row = |m| layer.problem((Op::ScaledMm, DType::Float8E4M3, Scaling::Row), m).unwrap();
        assert!(kind_of(&row(16)).is_some());
        assert_eq!(kind_of(&row(20_000)), None);
        let half = ProblemFields { out_dtype: DType::Float16, ..row(16).into_fields() };
        assert_eq!(kind_of(&Problem::new(half).unwrap()), None);
        let tiny = Layer { n: 64, k: 64, groups: None };
        assert_eq!(
            kind_of(&tiny.problem((Op::ScaledMm, DType::Float8E4M3, Scaling::Row), 16).unwrap()),
            None
        );
        let even = Groups { rows: Rows::Even, ..Groups::routed(8, 1) };
        let even = Layer { n: 4096, k: 14_336, groups: Some(even) };
        assert_eq!(
            kind_of(&even.problem((Op::GroupedMm, DType::BFloat16, Scaling::None), 64).unwrap()),
            None
        );
    }

    #[test]
    fn a_kind_says_what_is_served() {
        let groups = Some(Groups { stage: Some(Stage::GateUp), ..Groups::routed(128, 8) });
        let layer = Layer { n: 1536, k: 2048, groups };
        let of = |form| kind_of(&layer.problem(form, 64).unwrap()).unwrap().to_string();
        assert_eq!(
            of((Op::FusedMoe, DType::Float8E4M3, Scaling::Block)),
            "fused_moe float8_e4m3fn scaled by block, gate-up, 64–255 groups, M 64–255, N 1024–4095, K 1024–4095"
        );
        assert!(
            of((Op::FusedMoe, DType::BFloat16, Scaling::None)).starts_with("fused_moe bfloat16, gate-up, 64")
        );
    }
}
