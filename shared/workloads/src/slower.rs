//! Tuned files whose configs are predicted to be slower than the defaults that they replace.

use diode_core::Config;
use diode_core::hardware::Hardware;
use diode_model::{Model, ModelError};

use crate::catalogue::{User, users};
use crate::file_body::{BATCH_SIZES, Body};
use crate::file_check::{Finding, Judged, Rule, Severity};
use crate::file_names::{Consumer, FileName, hardware_of};
use crate::named::Named;
use crate::tuning::{TuningError, of_server};

/// A config counts as slower if its predicted time is this much longer. The model's usual error is less.
const CLEARLY: f64 = 1.05;

/// Findings about the files for the model's hardware, by the layers of experts of the served model that is named, or else of
/// the catalogue's.
pub fn slower_than_default(
    files: &[Judged<'_>],
    consumer: Consumer,
    model: &Model,
    named: Option<&Named>,
) -> Result<Vec<Finding>, TuningError> {
    let hardware = &model.metadata().hardware;
    let mut findings = Vec::new();
    for file in files {
        let name = FileName::parse(file.path.rsplit('/').next().unwrap_or_default());
        let (Ok(FileName::Experts(key)), Ok(body)) = (name, Body::parse(file.text)) else { continue };
        // Both launches take the file for the first one, unless the second has its own.
        if key.down {
            continue;
        }
        if hardware_of(&key.device).is_none_or(|device| device.slug != hardware.slug) {
            continue;
        }
        // Nobody has measured other blocks of scales.
        if key.block.is_some_and(|block| block != [128, 128]) {
            continue;
        }
        let mut of_file = match named {
            Some(named) => named.user(&key, consumer).into_iter().collect(),
            None => users(&key, consumer),
        };
        of_file.retain(|user| named.is_some() || user.is_usual());
        for user in &of_file {
            if let Some(finding) = judge(file.path, &body, user, consumer, hardware, model)? {
                findings.push(finding);
            }
        }
    }
    Ok(findings)
}

fn judge(
    path: &str,
    body: &Body,
    user: &User<'_>,
    consumer: Consumer,
    hardware: &Hardware,
    model: &Model,
) -> Result<Option<Finding>, TuningError> {
    let (mut slower, mut worst) = (Vec::new(), 1.0_f64);
    for batch in BATCH_SIZES {
        let Some((_, Some(entry))) = body.nearest(batch) else { continue };
        let nominal = user.layer.nominal(batch)?;
        let Ok(tuned) = entry.config(consumer, hardware, &nominal) else { continue };
        let Some(untuned) = consumer.default_config().config(hardware, &nominal) else { continue };
        let [up, down] = user.layer.problems(batch)?;
        let networks = model.serving_for(&up)?;
        let us = |config: Config| {
            let time = networks.time_of(hardware, &[&up, &down], config)?.0;
            let tile = config.tile();
            Ok::<_, ModelError>(tile.map_or(time, |tile| of_server(consumer, hardware, &up, tile, time)))
        };
        let ratio = us(tuned)? / us(untuned)?;
        if ratio > CLEARLY {
            slower.push(batch);
            worst = worst.max(ratio);
        }
    }
    let Some(first) = slower.first() else { return Ok(None) };
    let title = consumer.title();
    Ok(Some(Finding {
        severity: Severity::Slow,
        rule: Rule::Default,
        file: path.to_owned(),
        what: format!(
            "for {} at tensor parallel {}, {} of the {} usual batch sizes, from {first} on, are predicted to be slower than \
             {title}'s default, by up to {:.0} %",
            user.model,
            user.serving.tensor_parallel,
            slower.len(),
            BATCH_SIZES.len(),
            (worst - 1.0) * 100.0
        ),
        batches: slower,
        why: "the server takes them all the same".to_owned(),
        todo: "tune these batch sizes, or remove them".to_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use diode_core::Tile;

    use super::*;
    use crate::file_body::Entry;
    use crate::tuning::Tuned;

    #[test]
    fn bad_configs_are_slower_than_the_default_and_picks_are_not() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../trained_models/matmul/nvidia-h200/matmul-nvidia-h200.safetensors"
        );
        let model = Model::from_bytes(&std::fs::read(path).unwrap()).unwrap();
        let path = "E=128,N=384,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json";
        let mut bad = Body::default();
        for batch in BATCH_SIZES {
            bad.insert(batch, Entry::of(&Tile { group_m: 1, ..Tile::new(128, 128, 128, 2, 8) }));
        }
        let judge = |body: &Body| {
            let text = body.to_text();
            slower_than_default(&[Judged { path, text: &text }], Consumer::Vllm, &model, None).unwrap()
        };
        let of = |found: Vec<Finding>| {
            found.into_iter().find(|finding| finding.what.contains("Qwen3-235B-A22B at tensor parallel 4"))
        };
        let found = of(judge(&bad)).unwrap();
        assert!(found.what.contains("slower than vLLM's default, by up to"), "{}", found.what);
        assert!(found.batches.contains(&1), "{:?}", found.batches);
        let name = FileName::parse(path).unwrap();
        let FileName::Experts(key) = name else { panic!("a file of experts") };
        let user =
            users(&key, Consumer::Vllm).into_iter().find(|user| user.model == "Qwen3-235B-A22B").unwrap();
        let picked = Tuned::experts(&model, &user.layer, Consumer::Vllm, &BATCH_SIZES).unwrap().body();
        assert_eq!(of(judge(&picked)), None);
    }
}
