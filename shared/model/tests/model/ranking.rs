//! From a model to picks.

use crate::sample::{metadata, model, network, problem};
use diode_core::hardware::find;
use diode_core::space::{Space, SpaceName};
use diode_core::{Config, DType, Epilogue, Micros, Problem, ProblemGroup, Tile};
use diode_model::{
    Answer, COLUMN_COUNT, GroupConfidence, LIBRARY_COLUMNS, Layer, Metadata, Model, ModelError, Network,
    Question, Ranker, TrainingRange, Unsure, rank,
};

fn answer(model: &Model, problem: &Problem, picks: usize, epilogue: Epilogue) -> Answer {
    let question = Question { picks, epilogue, ..Question::default() };
    Ranker::new(model).answer(problem, &question).expect("the problem can be ranked")
}

#[test]
fn the_whole_space_is_ranked_best_first() {
    let model = model();
    let problem = problem(4096, 4096, 4096, DType::BFloat16);
    let ranked = rank(&model, &problem, &model.space()).unwrap().configs;
    assert_eq!(ranked.len(), 1534);
    assert!(ranked.is_sorted_by(|a, b| a.1 <= b.1));
    let picks = answer(&model, &problem, 5, Epilogue::None).picks;
    assert_eq!(
        (picks[0].config, picks[0].alone, picks[0].following),
        (ranked[0].0, ranked[0].1, Micros(0.0))
    );
    assert_eq!(picks.len(), 5);
    assert!(picks.is_sorted_by(|a, b| a.alone <= b.alone));
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
fn what_cannot_be_launched_is_not_picked() {
    let model = model();
    let ask = |problem: &Problem, question| Ranker::new(&model).answer(problem, &question).unwrap();
    // These tiles faulted on unaligned rows, and large ones transpose float32 in shared memory.
    let faulting = |config: &Config| {
        config.tile().is_some_and(|tile| tile.block_m >= 128 && tile.block_k >= 128 && tile.num_warps <= 2)
    };
    let all = Question { picks: 2000, ..Question::default() };
    let (aligned, unaligned) =
        (problem(512, 512, 512, DType::BFloat16), problem(512, 511, 512, DType::BFloat16));
    let count = |problem| ask(problem, all).picks.iter().filter(|pick| faulting(&pick.config)).count();
    assert!(count(&aligned) > 0 && count(&unaligned) == 0);
    let float32 = ask(&problem(512, 512, 512, DType::Float32), all);
    assert!(
        float32
            .picks
            .iter()
            .all(|pick| pick.config.tile().is_some_and(|tile| tile.block_m * tile.block_n < 1 << 16))
    );
    let small = ask(&aligned, Question { shared_memory: Some(65536), ..all });
    assert!(!small.picks.is_empty() && small.considered < ask(&aligned, all).considered);
    let error =
        Ranker::new(&model).answer(&aligned, &Question { shared_memory: Some(16), ..all }).unwrap_err();
    assert_eq!(error.to_string(), "space: got no config that fits the hardware, expected at least one");
    // A space that the user names is ranked as it is.
    let named = Question { space: Some(SpaceName::InductorExhaustive), ..all };
    assert!(ask(&unaligned, named).picks.iter().any(|pick| faulting(&pick.config)));
}

#[test]
fn what_no_device_can_hold_is_refused() {
    let error = Ranker::new(&model())
        .answer(&problem(1 << 20, 1 << 20, 1 << 20, DType::BFloat16), &Question::default());
    assert!(matches!(error, Err(ModelError::TooLargeForHardware(_))), "{error:?}");
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
        range: TrainingRange::from_problems(seen.iter()),
        ..metadata()
    };
    let model = Model::new(metadata, network(&[64, 64])).unwrap();
    let ask = |problem| answer(&model, &problem, 1, Epilogue::None);
    let share = |answer: &Answer| Some(answer.confidence.as_ref()?.within_5_percent[0]);
    let decode = ask(problem(16, 8000, 2048, DType::BFloat16));
    assert_eq!((decode.group(), share(&decode)), (ProblemGroup::Decode, Some((1, 0.8))));
    let known = decode.confidence.unwrap();
    assert_eq!(
        [0, 1, 2, 3, 9].map(|picks| known.for_picks(picks)),
        [None, Some(0.8), Some(0.8), Some(0.97), Some(0.97)]
    );
    let (low, high) = known.first_us.unwrap();
    let us = decode.picks[0].alone.0;
    assert!((low - 0.9 * us).abs() < 1e-9 && (high - 1.2 * us).abs() < 1e-9);
    assert_eq!(share(&ask(problem(512, 512, 512, DType::BFloat16))), Some((1, 0.9)));
    // No skinny problem was judged, and no fp32 problem was in the training data.
    assert_eq!(ask(problem(64, 512, 512, DType::BFloat16)).confidence, None);
    let outside = ask(problem(512, 512, 512, DType::Float32));
    assert_eq!(outside.confidence, None);
    assert!(outside.caveat.unwrap().contains("float32"));
    // Less shared memory, a space that the user names, and rounding to TF32 that was never judged.
    let known = problem(512, 512, 512, DType::BFloat16);
    let own = find("nvidia-h200").unwrap().facts.unwrap().smem_per_block;
    let is_sure = |question| Ranker::new(&model).answer(&known, &question).unwrap().confidence.is_some();
    for (shared_memory, sure) in [(own, true), (own + 1024, true), (own - 1024, false)] {
        assert_eq!(is_sure(Question { shared_memory: Some(shared_memory), ..Question::default() }), sure);
    }
    for (space, sure) in [(SpaceName::Full, true), (SpaceName::InductorExhaustive, false)] {
        assert_eq!(is_sure(Question { space: Some(space), ..Question::default() }), sure);
    }
    let float32 = problem(512, 512, 512, DType::Float32);
    let metadata = Metadata {
        range: TrainingRange::from_problems([float32.clone()].iter()),
        ..model.metadata().clone()
    };
    let unsure = Model::new(metadata, network(&[64, 64])).unwrap();
    let asked =
        |tf32| Ranker::new(&unsure).answer(&float32, &Question { tf32, ..Question::default() }).unwrap();
    assert!(asked(false).confidence.is_some() && asked(true).confidence.is_none());
    let tf32 = Question { tf32: true, ..Question::default() };
    assert_eq!(unsure.picks_for(&float32, &Question::default(), 0.95), Ok(3));
    assert_eq!(unsure.picks_for(&float32, &tf32, 0.95), Err(Unsure::Unmeasured { why: None }));
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
    let ask = |epilogue| answer(&model, &problem, 10, epilogue);
    let (alone, gated) = (ask(Epilogue::None), ask(Epilogue::SiluGate));
    assert!(alone.verdict.is_none() && alone.picks.iter().all(|one| one.following.0 == 0.0));
    let verdict = gated.verdict.unwrap();
    assert_eq!((gated.picks.len(), verdict.epilogue), (10, Epilogue::SiluGate));
    assert!(gated.picks.is_sorted_by(|a, b| a.total() <= b.total()));
    assert_eq!(verdict.tile_us, Some(gated.picks[0].total().0));
    assert_eq!(gated.confidence, None);
}
