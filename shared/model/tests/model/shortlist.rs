//! A shortlist finds the same picks as the whole space, with little work.

use crate::sample::{model, problem};
use diode_core::hardware::find;
use diode_core::space::{Space, SpaceName};
use diode_core::{Config, DType, Op, Problem, ProblemFields, Tile};
use diode_model::{MOST_PICKS, Metadata, Model, Ranker, rank};

fn shipped() -> Model {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../trained_models/matmul/nvidia-h200/matmul-nvidia-h200.safetensors"
    );
    Model::from_bytes(&std::fs::read(path).expect("the file is there")).expect("a model")
}

fn plain(op: Op, m: u64, n: u64, k: u64, dtype: DType) -> Problem {
    Problem::new(ProblemFields::plain(op, 1, m, n, k, dtype)).expect("the sizes are valid")
}

#[test]
fn the_first_picks_are_those_of_the_whole_ranking() {
    let model = shipped();
    let mut ranker = Ranker::new(&model);
    let (mut first, mut five, mut all, problems) = (0, 0, 0, 150);
    for number in 0..problems {
        let size = |step: u64, most: u32| 8 << (number * step % u64::from(most));
        let (m, n, k) = (1 + size(7, 11), size(5, 12) + 8 * (number % 5), size(3, 12));
        let problem = plain(Op::Mm, m, n, k, DType::BFloat16);
        let few = ranker.shortlist(&problem, &model.space()).unwrap();
        let whole = ranker.rank(&problem, &model.space()).unwrap();
        assert_eq!(few.configs.len(), 2 * MOST_PICKS, "so many get the mean of all networks");
        assert_eq!((few.considered, whole.considered), (1534, 1534));
        first += u64::from(few.picks(1) == whole.picks(1));
        five += u64::from(few.picks(5) == whole.picks(5));
        all += u64::from(few.picks(MOST_PICKS) == whole.picks(MOST_PICKS));
    }
    // All configs of the whole ranking have the mean of all networks. In a shortlist, the configs that the first
    // network ranks low have no time.
    let shares = [first, five, all].map(|same| same as f64 / problems as f64);
    assert!(shares[0] >= 0.98 && shares[1] >= 0.85 && shares[2] >= 0.4, "{shares:?}");
}

#[test]
fn what_is_kept_from_problem_to_problem_changes_no_prediction() {
    let model = model();
    let mut ranker = Ranker::new(&model);
    let list = Space::List(vec![Config::Library; 1]);
    assert!(
        ranker.rank(&problem(64, 64, 64, DType::BFloat16), &list).is_err(),
        "it does not know the library"
    );
    let full = model.space();
    let default = Space::Named(SpaceName::Default);
    for (problem, space) in [
        (plain(Op::Mm, 512, 512, 512, DType::BFloat16), &full),
        (plain(Op::Mm, 512, 512, 520, DType::BFloat16), &full),
        (plain(Op::Mm, 512, 511, 520, DType::BFloat16), &full),
        (plain(Op::Mm, 512, 511, 521, DType::BFloat16), &full),
        (plain(Op::Mm, 512, 512, 520, DType::BFloat16), &full),
        (plain(Op::Bmm, 512, 512, 520, DType::BFloat16), &full),
        (plain(Op::Bmm, 512, 512, 520, DType::Float32), &full),
        (plain(Op::Mm, 512, 512, 520, DType::Float32), &default),
        (plain(Op::Mm, 16, 16, 16, DType::Float32), &default),
    ] {
        let kept = ranker.rank(&problem, space).unwrap();
        assert_eq!(kept, rank(&model, &problem, space).unwrap(), "{problem:?}");
        assert!(kept.configs.iter().all(|(config, _)| *config == config.for_k(problem.k)));
    }
}

#[test]
fn a_kernel_that_is_the_same_for_all_stages_is_ranked_once() {
    let model = model();
    let problem = plain(Op::Mm, 512, 511, 521, DType::BFloat16);
    let ranked = rank(&model, &problem, &model.space()).unwrap();
    assert_eq!(ranked.configs.len(), 354, "one config of each family");
    // A list may hold several configs with one kernel. They have the same time, and one of them is picked.
    let of = |block_m, stages| Config::Mm(Tile::new(block_m, 64, 32, stages, 4));
    let list = [of(64, 2), of(64, 3), of(64, 5), of(128, 2), of(128, 4)];
    let ranked = rank(&model, &problem, &Space::List(list.to_vec())).unwrap();
    assert_eq!(ranked.configs.len(), 5);
    let picks = ranked.picks(5);
    assert_eq!(picks.len(), 2 + usize::from(ranked.library.is_some()), "{picks:?}");
    assert!(ranked.near(&picks, 5).is_empty());
}

#[test]
fn lists_that_differ_in_even_k_alone_keep_their_own_configs() {
    let model = model();
    let mut ranker = Ranker::new(&model);
    for k in [512, 520, 2048, 24] {
        let problem = problem(512, 512, k, DType::BFloat16);
        let hardware = find("nvidia-h200").unwrap();
        let list = Space::List(model.space().configs(&hardware, &problem).unwrap());
        let kept = ranker.rank(&problem, &list).unwrap();
        assert_eq!(kept, rank(&model, &problem, &list).unwrap());
        assert!(kept.configs.iter().all(|(config, _)| *config == config.for_k(k)));
    }
}

#[test]
fn hardware_whose_space_follows_the_sizes_is_asked_anew() {
    let hardware = find("nvidia-h200").unwrap();
    assert!(!Space::Named(SpaceName::Full).follows_sizes(&hardware));
    assert!(Space::Named(SpaceName::Default).follows_sizes(&hardware));
    let cpu = diode_core::hardware::Hardware { vendor: diode_core::hardware::Vendor::Cpu, ..hardware };
    assert!(Space::Named(SpaceName::Full).follows_sizes(&cpu));
    let model = model();
    let model =
        Model::from_network(Metadata { hardware: cpu, ..model.metadata().clone() }, model.network().clone())
            .unwrap();
    let mut ranker = Ranker::new(&model);
    let mut count = |size| {
        let problem = problem(size, size, size, DType::BFloat16);
        ranker.rank(&problem, &model.space()).unwrap().configs.len()
    };
    assert!(count(16) < count(256));
}
