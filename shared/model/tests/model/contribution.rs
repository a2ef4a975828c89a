//! Models from strangers, and why they are refused.

use diode_api::{EvaluationReport, MAX_MODEL_BYTES, TopK};
use diode_core::ids::Digest;
use diode_model::contribution::examine;
use diode_model::{Metadata, Model, Training};

use crate::sample::{metadata, model, network};

fn of(metadata: Metadata) -> Vec<u8> {
    Model::new(metadata, network(&[8])).unwrap().to_bytes().unwrap()
}

fn refusal(metadata: Metadata) -> String {
    examine(&of(metadata)).unwrap_err().to_string()
}

fn report() -> EvaluationReport {
    let top = TopK { geomean: 0.98, worst: 0.9 };
    EvaluationReport {
        problems: 3,
        configs: 8,
        top_k: [("1".to_owned(), top)].into(),
        mape_all: 0.1,
        mape_within_2x: 0.05,
        spearman_median: 0.9,
        rank_us_per_problem: 0.0,
        within_5_percent: [("1".to_owned(), 0.8)].into(),
        split: "4-fold cross-validation".to_owned(),
    }
}

#[test]
fn what_a_training_writes_is_taken() {
    let model = model();
    assert_eq!(examine(&model.to_bytes().unwrap()).unwrap(), model);
    let judged = Metadata { evaluation: Some(report()), ..metadata() };
    assert!(examine(&of(judged)).is_ok());
    for hardware in ["nvidia-h100", "nvidia-h200"] {
        let path = format!("../../trained_models/matmul/{hardware}/matmul-{hardware}.safetensors");
        examine(&std::fs::read(path).unwrap()).unwrap();
    }
}

#[test]
fn a_file_holds_a_model_and_nothing_else() {
    let good = model().to_bytes().unwrap();
    let with = |from: &str, to: &str| {
        let length = u64::from_le_bytes(good[..8].try_into().unwrap()) as usize;
        let header = String::from_utf8(good[8..8 + length].to_vec()).unwrap();
        assert!(header.contains(from), "{header}");
        let header = header.replacen(from, to, 1);
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &good[8 + length..]].concat()
    };
    let hidden = with(r#"{"__metadata__":{"#, r#"{"__metadata__":{"more":"hidden","#);
    assert!(Model::from_bytes(&hidden).is_ok(), "it is refused for what it holds beside the model");
    for bytes in [hidden, with(r#"\"heuristic\""#, r#"\"more\":1,\"heuristic\""#)] {
        let error = examine(&bytes).unwrap_err().to_string();
        assert!(error.contains("more or other than a model holds"), "{error}");
    }
    let error = examine(&vec![0; MAX_MODEL_BYTES + 1]).unwrap_err().to_string();
    assert!(error.contains(&format!("expected at most {MAX_MODEL_BYTES}")), "{error}");
}

/// A model file with another last weight, and with the digest that fits it.
fn with_last_weight(value: f32) -> Vec<u8> {
    let mut bytes = model().to_bytes().unwrap();
    let tensors = |bytes: &[u8]| {
        let tensors = safetensors::SafeTensors::deserialize(bytes).unwrap();
        let mut named: Vec<_> =
            tensors.iter().map(|(name, view)| (name.to_owned(), view.data().to_vec())).collect();
        named.sort();
        Digest::of(
            &named.iter().flat_map(|(name, data)| [name.as_bytes(), &[0], data].concat()).collect::<Vec<_>>(),
        )
    };
    let before = tensors(&bytes);
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&value.to_le_bytes());
    let after = tensors(&bytes);
    let place = bytes.windows(64).position(|text| text == before.as_str().as_bytes()).unwrap();
    bytes[place..place + 64].copy_from_slice(after.as_str().as_bytes());
    bytes
}

#[test]
fn every_weight_is_a_finite_number() {
    assert!(examine(&with_last_weight(0.25)).is_ok(), "the digest fits");
    for (value, name) in [(f32::NAN, "NaN"), (f32::INFINITY, "inf")] {
        let error = examine(&with_last_weight(value)).unwrap_err().to_string();
        assert!(error.contains(&format!("got {name}, expected only finite numbers")), "{error}");
    }
}

#[test]
fn what_a_model_says_of_itself_is_checked() {
    let trained = |change: fn(&mut Training)| {
        let mut training = metadata().training;
        change(&mut training);
        refusal(Metadata { training, ..metadata() })
    };
    assert!(trained(|about| about.problems = 0).contains("training problems: got 0"));
    assert!(trained(|about| about.timings = u64::MAX).contains("training timings: got 18446744073709551615"));
    assert!(
        trained(|about| about.created_at = "yesterday".to_owned()).contains("created_at: got `yesterday`")
    );
    assert!(trained(|about| about.tool = "<script>".to_owned()).contains("tool: got `<script>`"));
    assert!(refusal(Metadata { ops: Vec::new(), ..metadata() }).contains("no operators or types"));
    let stands_in = model().standing_in_for(diode_core::hardware::find("nvidia-h100").unwrap()).unwrap();
    let error = examine(&stands_in.to_bytes().unwrap()).unwrap_err().to_string();
    assert!(error.contains("a model of nvidia-h200 that stands in for nvidia-h100"), "{error}");

    let judged = |change: fn(&mut EvaluationReport)| {
        let mut evaluation = report();
        change(&mut evaluation);
        refusal(Metadata { evaluation: Some(evaluation), ..metadata() })
    };
    assert!(judged(|report| report.split = "a\nb".to_owned()).contains("split: got"));
    assert!(judged(|report| _ = report.within_5_percent.insert("2".to_owned(), 1.0)).contains("got `2`"));
    assert!(judged(|report| _ = report.within_5_percent.insert("3".to_owned(), 1.5)).contains("got 1.5"));
}
