use diode_core::kept::{hash, mix};
use diode_core::shapes::{Transformer, Workload};
use diode_core::{Bias, DType, Layout, Op, Problem, ProblemFields};

const TRANSFORMERS: [&str; 6] = [
    "hidden=768,intermediate=3072,heads=12,vocab=50257",
    "hidden=2048,intermediate=8192,heads=32,kv_heads=8,vocab=128256",
    "hidden=4096,intermediate=11008,heads=32,vocab=32000",
    "hidden=5120,intermediate=13824,heads=40,vocab=32000",
    "hidden=3584,intermediate=18944,heads=28,kv_heads=4,vocab=152064",
    "hidden=8192,intermediate=28672,heads=64,kv_heads=8,vocab=128256",
];

/// Problems of real programs: the linear layers of some transformers.
pub(crate) fn layers() -> anyhow::Result<Vec<Problem>> {
    let workload = Workload {
        prefill_tokens: vec![512, 1024, 2048, 4096, 8192],
        decode_batches: vec![1, 8, 32, 64, 128, 256],
        tensor_parallel: 1,
    };
    let mut problems = Vec::new();
    for transformer in TRANSFORMERS {
        problems.extend(transformer.parse::<Transformer>()?.problems(&workload, DType::BFloat16)?);
    }
    Ok(problems)
}

/// Shapes without a plan, within the limits of the plan: any operator, type and layout, half of them aligned. Sizes
/// are drawn evenly on a logarithmic scale.
pub(crate) fn anywhere(seed: u64) -> impl Iterator<Item = Problem> {
    (0..).filter_map(move |number| {
        let mut state = hash([seed, number]);
        let mut next = || {
            state = mix(state);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let one_of = |place: f64, number: usize| (place * number as f64) as usize;
        let op = Op::PLAIN[one_of(next(), Op::PLAIN.len())];
        let dtype = [DType::BFloat16, DType::Float16, DType::Float32][one_of(next(), 3)];
        let b_layout = Layout::ALL[one_of(next(), Layout::ALL.len())];
        let step = if next() < 0.5 { 16 / dtype.size() } else { 1 };
        let size = |place: f64, least: f64| (least * (65_536.0 / least).powf(place)) as u64;
        let b = if op.is_batched() { (4.0 * 64.0_f64.powf(next())) as u64 } else { 1 };
        let m = size(next(), 1.0);
        let [n, k] = [size(next(), 4.0), size(next(), 4.0)].map(|side| (side / step * step).max(step));
        let bias = match op {
            Op::Addmm | Op::Baddbmm if b_layout == Layout::Column => Bias::Vector,
            Op::Addmm | Op::Baddbmm => Bias::Matrix,
            _ => Bias::None,
        };
        let plain = ProblemFields::plain(op, b, m, n, k, dtype);
        Problem::new(ProblemFields { b_layout, bias, ..plain }).ok()
    })
}
