//! Scaled, grouped and experts problems, asked of the released models.

use diode_core::hardware::find;
use diode_core::{Config, DType, Groups, Op, Problem, ProblemFields, Scaling, Stage, Tile};
use diode_model::{Forms, Limits, Model, Question, Ranker};

fn released(hardware: &str) -> Model {
    let path = format!(
        "{}/../../trained_models/matmul/{hardware}/matmul-{hardware}.safetensors",
        env!("CARGO_MANIFEST_DIR")
    );
    Model::from_bytes(&std::fs::read(path).expect("the file is there")).expect("a model")
}

fn by_row(m: u64) -> Problem {
    let plain = ProblemFields::plain(Op::ScaledMm, 1, m, 14_336, 4096, DType::Float8E4M3);
    Problem::new(ProblemFields { scaling: Scaling::Row, ..plain }).expect("valid")
}

fn experts(m: u64, stage: Stage) -> Problem {
    let (n, k) = if stage == Stage::GateUp { (1536, 2048) } else { (2048, 768) };
    let groups = Some(Groups { stage: Some(stage), ..Groups::routed(128, 8) });
    let plain = ProblemFields::plain(Op::FusedMoe, 1, m, n, k, DType::BFloat16);
    Problem::new(ProblemFields { groups, ..plain }).expect("valid")
}

#[test]
fn the_h200s_model_knows_them() {
    let model = released("nvidia-h200");
    let mut ranker = Ranker::new(&model);
    for m in [1, 16, 64, 1024] {
        let answer = ranker.answer(&by_row(m), &Question { picks: 5, ..Question::default() }).unwrap();
        assert_eq!(answer.picks.len(), 5);
        assert_eq!(answer.caveat, None);
        assert!(answer.confidence.unwrap().problems > 100);
        assert!(answer.library.unwrap().alone.0 > 5.0);
    }
    // Few rows are read by tiles faster than by torch's kernel.
    let answer = ranker.answer(&by_row(16), &Question::default()).unwrap();
    assert!(!answer.picks_library());
}

#[test]
fn a_caller_that_runs_fewer_forms_gets_no_others() {
    let model = released("nvidia-h200");
    let mut ranker = Ranker::new(&model);
    let mut picks = |m, swapped, tma| {
        let question =
            Question { picks: 2000, forms: Forms { swapped, tma }, alone: true, ..Question::default() };
        ranker.answer(&by_row(m), &question).unwrap().picks
    };
    let is_swapped = |config: &Config| config.tile().is_some_and(|tile| tile.swap_ab);
    let is_tma = |config: &Config| matches!(config, Config::PersistentTma(_));
    let [all, plain] = [picks(16, true, true), picks(16, false, false)];
    assert!(is_swapped(&all[0].config) && all.iter().any(|pick| is_tma(&pick.config)));
    assert!(plain.iter().all(|pick| !is_swapped(&pick.config) && !is_tma(&pick.config)));
    let best_plain = all.iter().find(|pick| !is_swapped(&pick.config) && !is_tma(&pick.config)).unwrap();
    assert_eq!((plain[0].config, plain[0].alone), (best_plain.config, best_plain.alone));
    assert!(picks(1024, false, true).iter().any(|pick| is_tma(&pick.config)));
}

#[test]
fn a_swapped_tile_multiplies_with_the_rows_of_its_columns() {
    let tile = Tile { swap_ab: true, ..Tile::new(16, 64, 512, 4, 4) };
    let bytes = 4 * (16 + 64) * 512;
    let fits = |bytes| Limits::new(&by_row(16), bytes, false).obstacle(&Config::Mm(tile)).is_none();
    assert_eq!([fits(bytes), fits(bytes - 1)], [true, false]);
}

#[test]
fn a_layer_of_experts_gets_one_config_for_both_launches() {
    let model = released("nvidia-h200");
    let mut ranker = Ranker::new(&model);
    for m in [1, 64, 1024] {
        let stages = [experts(m, Stage::GateUp), experts(m, Stage::Down)];
        let layer = ranker.answer_layer(&[&stages[0], &stages[1]], 3).unwrap();
        assert_eq!((layer.picks.len(), layer.caveat.as_deref()), (3, None));
        let (_, untuned) = layer.untuned.unwrap();
        assert!(layer.picks[0].1.0 <= untuned.0 || layer.keeps_untuned);
        let alone = stages.map(|stage| ranker.answer(&stage, &Question::default()).unwrap().picks[0].alone.0);
        assert!(layer.picks[0].1.0 > 0.9 * (alone[0] + alone[1]));
    }
}

#[test]
fn what_is_not_known_is_said_in_words() {
    let caveat = |model: &Model, problem: &Problem| {
        Ranker::new(model).answer(problem, &Question::default()).unwrap().caveat.unwrap()
    };
    let text = caveat(&released("nvidia-h100"), &by_row(16));
    assert!(text.starts_with("Predicted by the model of nvidia-h200 standing in"), "{text}");
    let model = released("nvidia-h200");
    let on = |name: &str| model.standing_in_for(find(name).unwrap()).unwrap();
    assert!(caveat(&on("amd-mi300x"), &by_row(16)).contains("AMD Instinct MI300X"));
    let refused = Ranker::new(&on("nvidia-a100")).answer(&by_row(16), &Question::default()).unwrap_err();
    assert!(refused.to_string().contains("float8_e4m3fn, for which NVIDIA A100 has no matrix unit"));
}

#[test]
fn the_older_part_of_a_file_does_not_depend_on_it() {
    let model = released("nvidia-h200");
    let bytes = model.to_bytes().unwrap();
    let again = Model::from_bytes(&bytes).unwrap();
    assert_eq!(again, model);
    let serving = again.serving().unwrap();
    assert_eq!(serving.networks().len(), 4);
    assert!(serving.figures(&by_row(16)).unwrap().first.0 > 0.985);
}
