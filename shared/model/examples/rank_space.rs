//! Measures ranking the whole space for problems that were never ranked before:
//! `cargo run --release -p diode-model --example rank_space -- MODEL`.

use std::hint::black_box;
use std::time::Instant;

use diode_core::{DType, Op, Problem, ProblemFields};
use diode_model::{Model, Ranker};

const PROBLEMS: usize = 400;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let shipped = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../trained_models/matmul/nvidia-h200/matmul-nvidia-h200.safetensors"
    );
    let path = std::env::args().nth(1).unwrap_or_else(|| shipped.to_owned());
    let model = Model::from_bytes(&std::fs::read(path)?)?;
    let space = model.space();
    let mut ranker = Ranker::new(&model);
    let mut rank = |name: &str, all: bool| -> Result<(), Box<dyn std::error::Error>> {
        let mut took_us = Vec::new();
        let mut configs = 0;
        for number in 0..PROBLEMS as u64 {
            let size = |step: u64| 8 * (1 + number * step % 1021);
            let fields = ProblemFields::plain(Op::Mm, 1, size(7), size(331), size(97), DType::BFloat16);
            let problem = Problem::new(fields)?;
            let begin = Instant::now();
            let ranked = if all {
                ranker.rank(black_box(&problem), &space)?
            } else {
                ranker.shortlist(black_box(&problem), &space)?
            };
            configs = black_box(ranked).configs.len();
            took_us.push(begin.elapsed().as_secs_f64() * 1e6);
        }
        took_us.sort_by(f64::total_cmp);
        let at = |share: f64| took_us[((took_us.len() - 1) as f64 * share) as usize];
        println!(
            "{name}, {configs} predicted: median {:.0} µs, 10 % within {:.0} µs, 90 % within {:.0} µs, {PROBLEMS} problems",
            at(0.5),
            at(0.1),
            at(0.9)
        );
        Ok(())
    };
    rank("rank for picks, features included (goal: 300 µs)", false)?;
    rank("rank every config", true)?;
    let problem = Problem::new(ProblemFields::plain(Op::Mm, 1, 4096, 4096, 4096, DType::BFloat16))?;
    let begin = Instant::now();
    black_box(Ranker::new(&model).shortlist(&problem, &space)?);
    println!("the first of all, with what is kept for later: {:.0} µs", begin.elapsed().as_secs_f64() * 1e6);
    Ok(())
}
