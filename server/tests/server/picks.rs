use diode_api::{ModelSummary, Picks, Ratios};
use diode_core::hardware::{Hardware, find};
use diode_core::ids::ProblemId;
use diode_core::space::{Space, SpaceName};
use diode_core::{Config, DType, Method, Op, Problem, ProblemFields, Tile, TimeColumn};
use diode_model::{Model, Ranker};
use diode_server::blobs::BlobKind;
use diode_server::store::Now;

use crate::models::summary;
use crate::samples::{columnar, dataset, h200, mm};
use crate::test_app::TestApp;

pub(crate) const MODEL: &str = "../trained_models/matmul/nvidia-h200/matmul-nvidia-h200.safetensors";
const OTHER_MODEL: &str = "../trained_models/matmul/nvidia-h100/matmul-nvidia-h100.safetensors";
const PICKS: &str = "/api/v1/hardware/nvidia-h200/picks?method=unspecified&problems=";

#[tokio::test]
async fn a_pick_is_compared_with_the_best_that_was_measured() {
    let app = TestApp::new().await;
    let problem = mm(4096, 4096, 4096);
    let bytes = std::fs::read(MODEL).unwrap();
    let model = Model::from_bytes(&bytes).unwrap().for_method(Method::Unspecified);
    let ranked = Ranker::new(&model).shortlist(&problem, &Space::Named(SpaceName::Full)).unwrap();
    let (expected, predicted) = ranked.picks(1)[0];
    let elsewhere = mm(2048, 2048, 4096);
    let shortlist = Ranker::new(&model).shortlist(&elsewhere, &Space::Named(SpaceName::Full)).unwrap();
    let (never_timed, _) = shortlist.picks(1)[0];

    // The pick takes 200 µs, and the best config 160 µs. The second problem has no time for the pick.
    let mut measured = dataset(h200(), &[problem.clone(), mm(2048, 2048, 4096)], 1.0);
    let picked = measured.configs.intern(expected);
    let [solution, other] = measured.solutions.as_mut_slice() else { unreachable!() };
    let left_out = measured.configs.index_of(&never_timed);
    other.configs.retain(|config| Some(*config) != left_out);
    other.times = TimeColumn::from_nanos(vec![90_000; other.configs.len()]).unwrap();
    solution.configs.retain(|config| *config != picked);
    solution.configs.truncate(1);
    solution.configs.push(picked);
    solution.times = TimeColumn::from_nanos(vec![160_000, 200_000]).unwrap();
    app.receipt(columnar(&measured)).await;

    let before: Picks = app.fetch(&format!("{PICKS}{}", problem.id())).await;
    assert_eq!(before, Picks { model: None, items: Vec::new() });

    let model = summary(&bytes);
    app.backend.blobs.put(BlobKind::Model, &model.digest, bytes.into()).await.unwrap();
    assert!(app.backend.store.add_shipped_model(&model, &h200(), &[], None, Now::read()).await.unwrap());
    let unknown = ProblemId::of(b"never measured");
    let ids = format!("{unknown},{},{}", problem.id(), mm(2048, 2048, 4096).id());
    let Picks { model: of, items } = app.fetch(&format!("{PICKS}{ids}")).await;
    assert_eq!(of, Some(model.id));
    let [first, second] = items.as_slice() else { panic!("{items:?}") };
    assert_eq!((&first.problem_id, first.config, first.predicted_us), (&problem.id(), expected, predicted.0));
    assert_eq!((first.us, first.share_of_best), (Some(200.0), Some(0.8)));
    assert_eq!((second.us, second.share_of_best), (None, None));
}

/// A config that rounds to TF32 is five times as fast as the pick, which does not round.
#[tokio::test]
async fn a_pick_is_not_compared_with_configs_that_compute_something_else() {
    let app = TestApp::new().await;
    let problem = Problem::new(ProblemFields::plain(Op::Mm, 1, 1024, 1024, 1024, DType::Float32)).unwrap();
    let bytes = std::fs::read(MODEL).unwrap();
    let model = Model::from_bytes(&bytes).unwrap().for_method(Method::Unspecified);
    let ranked = Ranker::new(&model).shortlist(&problem, &Space::Named(SpaceName::Full)).unwrap();
    let picks = ranked.picks(8);
    let tile = picks.iter().find_map(|(config, _)| config.tile()).unwrap();
    let rounding = Config::Mm(Tile { allow_tf32: true, ..*tile });
    let mut measured = dataset(h200(), std::slice::from_ref(&problem), 1.0);
    let configs = [rounding, picks[0].0].map(|config| measured.configs.intern(config)).to_vec();
    measured.solutions[0].configs = configs;
    measured.solutions[0].times = TimeColumn::from_nanos(vec![200_000, 1_000_000]).unwrap();
    app.receipt(columnar(&measured)).await;
    shipped(&app, &bytes, &h200()).await;

    let Picks { items, .. } = app.fetch(&format!("{PICKS}{}", problem.id())).await;
    assert_eq!((items[0].us, items[0].share_of_best), (Some(1000.0), Some(1.0)));
}

/// Adds a file as a shipped model of a hardware.
pub(crate) async fn shipped(app: &TestApp, bytes: &[u8], hardware: &Hardware) -> ModelSummary {
    let model = ModelSummary { hardware: hardware.slug.clone(), ..summary(bytes) };
    app.backend.blobs.put(BlobKind::Model, &model.digest, bytes.to_vec().into()).await.unwrap();
    assert!(app.backend.store.add_shipped_model(&model, hardware, &[], None, Now::read()).await.unwrap());
    model
}

#[tokio::test]
async fn two_models_are_compared_by_what_their_first_picks_take() {
    let app = TestApp::new().await;
    let files = [MODEL, OTHER_MODEL].map(|path| std::fs::read(path).unwrap());
    let picks = |problem: &Problem| {
        files.each_ref().map(|bytes| {
            let model = Model::from_bytes(bytes).unwrap().for_method(Method::Unspecified);
            let space = Space::Named(SpaceName::Full);
            Ranker::new(&model).shortlist(problem, &space).unwrap().picks(1)[0].0
        })
    };
    let mut differing = (1..).map(|n| mm(192 * n, 1024, 2048)).filter(|problem| {
        let [a, b] = picks(problem);
        a != b
    });
    // On the first problem, the second model's pick takes longer. On the second problem, its pick was not
    // timed.
    let problems: Vec<Problem> = differing.by_ref().take(2).collect();
    let mut measured = dataset(h200(), &problems, 1.0);
    for (place, problem) in problems.iter().enumerate() {
        let [a, b] = picks(problem).map(|config| measured.configs.intern(config));
        let solution = &mut measured.solutions[place];
        (solution.configs, solution.times) = match place {
            0 => (vec![a, b], TimeColumn::from_nanos(vec![160_000, 200_000]).unwrap()),
            _ => (vec![a], TimeColumn::from_nanos(vec![170_000]).unwrap()),
        };
    }
    app.receipt(columnar(&measured)).await;
    let [a, b] = [shipped(&app, &files[0], &h200()).await, shipped(&app, &files[1], &h200()).await];
    let path =
        |a: &ModelSummary, b: &ModelSummary| format!("/api/v1/comparisons/models?a={}&b={}", a.id, b.id);
    let ratios: Ratios = app.fetch(&path(&a, &b)).await;
    assert_eq!((ratios.problems, ratios.only_a, ratios.only_b, ratios.slower), (1, 1, 0, 1));
    assert_eq!((ratios.items[0].problem_id.clone(), ratios.b_over_a), (problems[0].id(), Some(0.8)));
    let same: Ratios = app.fetch(&path(&a, &a)).await;
    assert_eq!((same.problems, same.same), (2, 2));

    let elsewhere = shipped(&app, b"another file", &find("nvidia-h100").unwrap()).await;
    let message = app.get(&path(&a, &elsewhere)).await.refusal(422, "refused");
    assert!(message.contains("two models of one hardware"), "{message}");
    app.get(&path(&a, &summary(b"none"))).await.refusal(404, "not_found");
    let library = format!("{}&kernels=library", path(&a, &b));
    app.get(&library).await.refusal(400, "invalid");
}

#[tokio::test]
async fn what_cannot_be_asked_is_refused_by_name() {
    let app = TestApp::with_seven().await;
    let id = mm(4096, 4096, 4096).id();
    for (query, name) in [
        (format!("problems={id}"), "method"),
        ("method=unspecified".to_owned(), "problem"),
        ("method=unspecified&problems=x".to_owned(), "problem"),
        (format!("method=unspecified&problems={}", vec![id.to_string(); 51].join(",")), "50"),
    ] {
        let path = format!("/api/v1/hardware/nvidia-h200/picks?{query}");
        let message = app.get(&path).await.refusal(400, "invalid");
        assert!(message.contains(name), "{query}: {message}");
    }
}
