//! From a model to picks.

use crate::sample::{metadata, model, network, problem};
use diode_core::hardware::find;
use diode_core::space::Space;
use diode_core::{Config, DType, Epilogue, Micros, ProblemGroup, Tile};
use diode_model::{
    COLUMN_COUNT, Candidate, GroupConfidence, LIBRARY_COLUMNS, Layer, Metadata, Model, ModelError, Network,
    TrainingRange, predict, rank,
};

#[test]
fn the_whole_space_is_ranked_best_first() {
    let model = model();
    let problem = problem(4096, 4096, 4096, DType::BFloat16);
    let ranked = rank(&model, &problem, &model.space()).unwrap().configs;
    assert_eq!(ranked.len(), 1534);
    assert!(ranked.is_sorted_by(|a, b| a.1 <= b.1));
    let prediction = predict(&model, &problem, &model.space(), 5, Epilogue::None).unwrap();
    let (config, Micros(predicted_us)) = ranked[0];
    assert_eq!(prediction.candidates[0], Candidate::from((config, Micros(predicted_us))));
    assert_eq!(prediction.candidates.len(), 5);
    assert!(prediction.candidates.is_sorted_by(|a, b| a.predicted_us <= b.predicted_us));
}

#[test]
fn hardware_of_another_vendor_is_ranked_over_its_own_space() {
    let hardware = find("amd-mi300x").unwrap();
    let model = Model::new(Metadata { hardware, ..metadata() }, network(&[64, 64])).unwrap();
    let problem = problem(4096, 4096, 4096, DType::BFloat16);
    let ranked = rank(&model, &problem, &model.space()).unwrap().configs;
    assert_eq!(ranked.len(), 2400);
    assert!(ranked.iter().all(|(config, _)| config.tile().is_some_and(|tile| tile.rocm.is_some())));
}

#[test]
fn the_bias_of_picks_is_corrected() {
    let plain = model();
    let corrected = Model::new(Metadata { pick_bias: 1.25, ..metadata() }, network(&[64, 64])).unwrap();
    let problem = problem(512, 512, 512, DType::BFloat16);
    let best = |model: &Model| rank(model, &problem, &model.space()).unwrap().configs[0];
    let ((config, time), (same, longer)) = (best(&plain), best(&corrected));
    assert_eq!(config, same);
    assert!((longer.0 / time.0 - 1.25).abs() < 1e-12);
}

#[test]
fn kinds_of_problems_beyond_the_training_data_are_named() {
    let model = model();
    assert_eq!(model.extrapolates(&problem(512, 512, 512, DType::BFloat16)), None);
    let warning = model.extrapolates(&problem(512, 512, 512, DType::Float32)).unwrap();
    assert!(warning.contains("for mm in float32 it extrapolates"), "{warning}");
}

#[test]
fn equal_times_keep_the_order_of_configs() {
    let zero = Layer { inputs: COLUMN_COUNT, outputs: 1, weights: vec![0.0; COLUMN_COUNT], bias: vec![0.0] };
    let network = Network::new(vec![0.0; COLUMN_COUNT], vec![1.0; COLUMN_COUNT], vec![zero]).unwrap();
    let model = Model::new(metadata(), network).unwrap();
    let configs = [(64, 4), (16, 2), (128, 8), (32, 4)].map(|(m, w)| Config::Mm(Tile::new(m, 64, 32, 3, w)));
    let problem = problem(512, 512, 512, DType::BFloat16);
    let ranked = rank(&model, &problem, &Space::List(configs.to_vec())).unwrap().configs;
    assert!(ranked.is_sorted_by(|a, b| a.0 < b.0 && a.1 == b.1));
}

#[test]
fn json_is_flat() {
    let model = model();
    let problem = problem(512, 512, 512, DType::BFloat16);
    let json =
        serde_json::to_value(predict(&model, &problem, &model.space(), 2, Epilogue::None).unwrap()).unwrap();
    let first = &json["candidates"][0];
    assert_eq!(first["template"], "triton::mm");
    assert!(first["block_m"].is_u64() && first["predicted_us"].is_f64(), "{first}");
    assert_eq!(json["within_5_percent"], serde_json::json!({}));
}

#[test]
fn what_has_no_features_is_named() {
    let model = model();
    let bf16 = problem(512, 512, 512, DType::BFloat16);
    for (config, name) in [(Config::Library, "aten"), (Config::DecomposeK { k_split: 4 }, "decompose_k")] {
        let error = model.predict(&bf16, &[config]).unwrap_err();
        assert!(matches!(error, ModelError::NoFeatures(_)) && error.to_string().contains(name), "{error}");
    }
    let bad = Config::Mm(Tile::new(0, 64, 32, 3, 4));
    assert!(matches!(model.predict(&bf16, &[bad]), Err(ModelError::Invalid(_))));
}

#[test]
fn other_dtypes_need_a_peak() {
    let model = model();
    let config = [Config::Mm(Tile::new(64, 64, 32, 3, 4))];
    assert!(model.predict(&problem(512, 512, 512, DType::Float32), &config).is_ok());
    let error = model.predict(&problem(512, 512, 512, DType::Int32), &config).unwrap_err().to_string();
    assert!(error.contains("got int32") && error.contains("trained on float16, bfloat16"), "{error}");
}

#[test]
fn tf32_is_a_faster_base() {
    let hardware = find("nvidia-h200").unwrap();
    let problem = problem(8192, 8192, 8192, DType::Float32);
    let features = diode_model::features::ProblemFeatures::new(&hardware.facts.unwrap(), &problem).unwrap();
    let tf32 = features.base_us(true);
    assert!(features.base_us(false) > 7.0 * tf32);
}

#[test]
fn weights_that_overflow_are_an_error_not_a_time() {
    let weights =
        (0..COLUMN_COUNT).map(|column| if column % 2 == 0 { f32::MAX } else { -f32::MAX }).collect();
    let layer = Layer { inputs: COLUMN_COUNT, outputs: 1, weights, bias: vec![0.0] };
    let network = Network::new(vec![0.0; COLUMN_COUNT], vec![1e-3; COLUMN_COUNT], vec![layer]).unwrap();
    let model = Model::new(metadata(), network).unwrap();
    let config = [Config::Mm(Tile::new(64, 64, 32, 3, 4))];
    let error = model.predict(&problem(512, 512, 512, DType::BFloat16), &config).unwrap_err();
    assert!(matches!(error, ModelError::NotFinite { .. }), "{error}");
}

/// A network that ignores its inputs: the library takes a fixed factor of the best config's time.
fn library(ln_factor: f32) -> Network {
    let layer = Layer {
        inputs: LIBRARY_COLUMNS,
        outputs: 1,
        weights: vec![0.0; LIBRARY_COLUMNS],
        bias: vec![ln_factor],
    };
    Network::new(vec![0.0; LIBRARY_COLUMNS], vec![1.0; LIBRARY_COLUMNS], vec![layer]).expect("the shapes fit")
}

#[test]
fn the_library_is_picked_where_it_is_faster_and_one_of_several_where_it_may_be() {
    let problem = problem(4096, 4096, 4096, DType::BFloat16);
    let picks = |ln_factor, count| {
        let model = model().with_library(library(ln_factor)).unwrap();
        let picks = rank(&model, &problem, &model.space()).unwrap().picks(count);
        (picks.len(), picks.iter().position(|(config, _)| *config == Config::Library))
    };
    assert_eq!(picks(-0.1, 1), (1, Some(0)));
    assert_eq!(picks(0.1, 1), (1, None));
    assert_eq!(picks(-0.1, 5), (5, Some(0)));
    assert_eq!(picks(0.2, 5), (5, Some(4)));
    assert_eq!(picks(0.5, 5), (5, None));
    assert_eq!(picks(-0.1, 0), (0, None));
}

#[test]
fn a_model_that_knows_the_library_predicts_it_among_other_configs() {
    let model = model().with_library(library(0.25)).unwrap();
    let problem = problem(512, 512, 512, DType::BFloat16);
    let ranked = rank(&model, &problem, &model.space()).unwrap();
    let best = ranked.configs[0];
    let predicted = model.predict(&problem, &[best.0, Config::Library]).unwrap();
    assert_eq!(predicted[0], best.1);
    assert!((predicted[1].0 / predicted[0].0 - libm::exp(0.25)).abs() < 1e-5, "{predicted:?}");
    assert_eq!(Some(predicted[1]), ranked.library);
}

#[test]
fn how_sure_a_pick_is_depends_on_the_group_and_on_the_training_range() {
    let sure = |group, first| GroupConfidence {
        group,
        problems: 50,
        within_5_percent: vec![(1, first), (3, 0.97)],
        time_range: (0.9, 1.2),
    };
    let seen = [problem(1, 64, 512, DType::BFloat16), problem(4096, 4096, 4096, DType::BFloat16)];
    let metadata = Metadata {
        confidence: vec![sure(ProblemGroup::Decode, 0.8), sure(ProblemGroup::Rest, 0.9)],
        range: TrainingRange::of(seen.iter()),
        ..metadata()
    };
    let model = Model::new(metadata, network(&[64, 64])).unwrap();
    let ask = |problem| predict(&model, &problem, &model.space(), 1, Epilogue::None).unwrap();
    let decode = ask(problem(16, 8000, 2048, DType::BFloat16));
    assert_eq!((decode.group, decode.within_5_percent["1"]), (ProblemGroup::Decode, 0.8));
    let (low, high) = decode.first_candidate_us.unwrap();
    let us = decode.candidates[0].predicted_us;
    assert!((low - 0.9 * us).abs() < 1e-9 && (high - 1.2 * us).abs() < 1e-9);
    assert_eq!(ask(problem(512, 512, 512, DType::BFloat16)).within_5_percent["1"], 0.9);
    // No skinny problem was judged, and no fp32 problem was in the training data.
    assert!(ask(problem(64, 512, 512, DType::BFloat16)).within_5_percent.is_empty());
    let outside = ask(problem(512, 512, 512, DType::Float32));
    assert!(outside.within_5_percent.is_empty() && outside.first_candidate_us.is_none());
    assert!(outside.outside_training_range.unwrap().contains("float32"));
}

#[test]
fn candidates_that_differ_in_roc_settings_alone_do_not_tie() {
    let hardware = find("amd-mi300x").unwrap();
    let model = Model::new(Metadata { hardware, ..metadata() }, network(&[64, 64])).unwrap();
    let ranked = rank(&model, &problem(4096, 4096, 4096, DType::BFloat16), &model.space()).unwrap().configs;
    let ties = ranked.windows(2).filter(|pair| pair[0].1 == pair[1].1).count();
    assert!(ties < ranked.len() / 50, "{ties} ties");
}

#[test]
fn an_epilogue_changes_the_order_and_is_told_apart_from_the_time() {
    let model = model();
    let problem = problem(4096, 4096, 4096, DType::BFloat16);
    let ask = |epilogue| predict(&model, &problem, &model.space(), 10, epilogue).unwrap();
    let (alone, gated) = (ask(Epilogue::None), ask(Epilogue::SiluGate));
    assert!(alone.epilogue.is_none() && alone.candidates.iter().all(|one| one.epilogue_us.is_none()));
    let verdict = gated.epilogue.unwrap();
    let total = |one: &Candidate| one.predicted_us + one.epilogue_us.unwrap();
    assert!(gated.candidates.is_sorted_by(|a, b| total(a) <= total(b)));
    assert_eq!(verdict.tile_us, Some(total(&gated.candidates[0])));
    assert!(gated.within_5_percent.is_empty() && gated.first_candidate_us.is_none());
    let json = serde_json::to_value(&gated).unwrap();
    assert_eq!(json["epilogue"]["epilogue"], "silu-gate");
}
