//! Checks figures with a model whose predicted times are known.

use crate::made_up::{dataset, h200, problem, tiles};
use diode_api::EvaluationReport;
use diode_core::hardware::Hardware;
use diode_core::space::Space;
use diode_core::{Config, ConfigDictionary, Dataset, Micros, Problem, Table, TimeColumn};
use diode_model::{ModelError, Predictor, RankedSpace, Shortlister, Training};
use diode_train::{Evaluation, TrainingSet, judge, without_a_model};

/// Predicts the times that the test gives it, config by config.
struct Told {
    us: Vec<f64>,
    library_us: Option<f64>,
}

impl Predictor for Told {
    fn predict_ln_us(&self, _: &Problem, configs: &[Config]) -> Result<Vec<f64>, ModelError> {
        let tiles = tiles();
        let place =
            |config: &Config| tiles.iter().position(|tile| Config::Mm(*tile) == *config).expect("known");
        Ok(configs.iter().map(|config| self.us[place(config)].ln()).collect())
    }

    fn shortlister(&self) -> Option<Box<dyn Shortlister + '_>> {
        self.library_us
            .map(|library_us| -> Box<dyn Shortlister> { Box::new(Listed { told: self, library_us }) })
    }

    fn hardware(&self) -> Option<&Hardware> {
        None
    }

    fn training(&self) -> Option<&Training> {
        None
    }

    fn evaluation(&self) -> Option<&EvaluationReport> {
        None
    }

    fn parameters(&self) -> u64 {
        0
    }
}

struct Listed<'a> {
    told: &'a Told,
    library_us: f64,
}

impl Shortlister for Listed<'_> {
    fn shortlist(&mut self, problem: &Problem, space: &Space) -> Result<RankedSpace, ModelError> {
        let configs = space.configs(&h200(), problem)?;
        let times = self.told.predict_ln_us(problem, &configs)?.into_iter().map(|ln| Micros(ln.exp()));
        let mut ranked: Vec<(Config, Micros)> = configs.iter().copied().zip(times).collect();
        ranked.sort_unstable_by(|a, b| a.1.0.total_cmp(&b.1.0));
        Ok(RankedSpace::new(ranked, Some(Micros(self.library_us)), 1.0))
    }
}

/// Four configs with 10, 20, 40 and 80 µs, and the library with a time of its own.
fn data(problem: Problem, library_us: Option<u64>) -> Dataset {
    let mut data = dataset([problem], &tiles()[..4]);
    let mut configs: ConfigDictionary = tiles()[..4].iter().map(|&tile| Config::Mm(tile)).collect();
    let mut nanos = vec![10_000, 20_000, 40_000, 80_000];
    if let Some(us) = library_us {
        data.solutions[0].configs.push(configs.intern(Config::Library));
        nanos.push(us * 1000);
    }
    data.configs = configs;
    data.solutions[0].times = TimeColumn::from_nanos(nanos).expect("the times are possible");
    data
}

fn set(problem: Problem, library_us: Option<u64>) -> TrainingSet {
    TrainingSet::from_datasets(&[data(problem, library_us)], None).expect("the data is valid")
}

/// With these predicted times, the configs with 20, 80, 10 and 40 µs are picked in this order.
const ORDER: [f64; 4] = [30.0, 10.0, 40.0, 20.0];

#[test]
fn shares_ranks_and_errors_are_right() {
    let model = Told { us: ORDER.to_vec(), library_us: None };
    let (evaluation, judged) = Evaluation::new(&model, &set(problem(64, 64, 64), None)).unwrap();
    let order: Vec<f64> = judged[0].rows.iter().map(|row| row.measured_us).collect();
    assert_eq!(order, [20.0, 80.0, 10.0, 40.0]);
    let row = &evaluation.per_problem[0];
    assert_eq!((row.best_us, row.picked_us, row.best_rank, row.configs), (10.0, 20.0, 3, 4));
    assert_eq!((row.shares["1"], row.shares["3"]), (0.5, 1.0));
    assert!((row.predicted_us - 10.0).abs() < 1e-9, "{}", row.predicted_us);
    // Two configs are within twice the best: 10 and 20 µs, predicted as 30 and 10 µs. The errors
    // are 2 and 1/2.
    assert!((row.near_error - 1.25).abs() < 1e-12, "{}", row.near_error);
    assert!((evaluation.report.mape_within_2x - 1.25).abs() < 1e-12);
    assert_eq!(evaluation.report.within_5_percent["1"], 0.0);
    assert_eq!(evaluation.report.within_5_percent["3"], 1.0);
    assert_eq!(evaluation.with_library, None);
    let kinds: Vec<(&str, &str)> =
        evaluation.groups.iter().map(|group| (group.by, group.value.as_str())).collect();
    assert_eq!(kinds, [("kind", "skinny"), ("dtype", "bfloat16"), ("op", "mm"), ("layout", "nn")]);
}

#[test]
fn the_library_is_picked_where_it_is_predicted_and_else_timed_beside() {
    let share = |library_us: u64, predicted: Option<f64>, k: &str| {
        let model = Told { us: ORDER.to_vec(), library_us: predicted };
        let set = set(problem(64, 64, 64), Some(library_us));
        let (evaluation, _) = Evaluation::new(&model, &set).unwrap();
        let with = evaluation.with_library.unwrap();
        assert_eq!((with.predicted, with.problems), (predicted.is_some(), 1));
        with.top_k[k].geomean
    };
    let near =
        |given: f64, expected: f64| assert!((given - expected).abs() < 1e-12, "{given} for {expected}");
    // The library is timed beside the first pick, which takes 20 µs.
    near(share(5, None, "1"), 1.0);
    near(share(16, None, "1"), 10.0 / 16.0);
    // The library is predicted to be slower than the first pick, then to be faster.
    near(share(5, Some(15.0), "1"), 5.0 / 20.0);
    near(share(5, Some(9.0), "1"), 1.0);
    // The three picks have 20 µs, 80 µs and the library's time. The best Triton config is not among
    // them.
    near(share(16, Some(12.0), "3"), 10.0 / 16.0);
}

#[test]
fn claims_beyond_all_numbers_are_judged_too() {
    let model = Told { us: vec![f64::MAX, 1.0, f64::INFINITY, 2.0], library_us: None };
    let (evaluation, judged) = Evaluation::new(&model, &set(problem(64, 64, 64), None)).unwrap();
    assert_eq!(judged[0].rows[3].predicted_us(), f64::INFINITY);
    assert_eq!(evaluation.report.top_k["1"].geomean, 0.5);
    assert!(evaluation.report.mape_all.is_infinite());
}

#[test]
fn what_one_gets_without_a_model_is_judged_by_the_same_times() {
    let model = Told { us: ORDER.to_vec(), library_us: None };
    let set = set(problem(512, 512, 512), Some(8));
    let judged = judge(&model, &set).unwrap();
    let alone = without_a_model(&judged, &set, None).unwrap();
    let exhaustive = &alone["exhaustive"];
    assert_eq!((exhaustive.timed, exhaustive.triton.unwrap().geomean), (4, 1.0));
    let without_library = exhaustive.with_library.unwrap().geomean;
    assert!((without_library - 0.8).abs() < 1e-12, "10 µs where the library takes 8: {without_library}");
    assert_eq!(alone["library"].with_library.unwrap().geomean, 1.0);
    assert_eq!(alone["library"].triton, None);
    assert!(alone["best_fixed"].what.contains("with hindsight"), "{}", alone["best_fixed"].what);
    assert!(!alone.contains_key("nearest"));

    // The neighbour's best config takes 20 µs here.
    let mut other = data(problem(512, 512, 520), None);
    other.solutions[0].times = TimeColumn::from_nanos(vec![20_000, 10_000, 40_000, 80_000]).unwrap();
    let table = Table::from_datasets(&[other], None, None).unwrap();
    assert_eq!(table.hardware(), &h200());
    let known = without_a_model(&judged, &set, Some(table)).unwrap();
    for name in ["nearest", "best_fixed"] {
        let baseline = &known[name];
        assert_eq!((baseline.timed, baseline.problems), (0, 1), "{name}");
        assert!((baseline.triton.unwrap().geomean - 0.5).abs() < 1e-12, "{name}: {baseline:?}");
        assert!((baseline.with_library.unwrap().geomean - 1.0).abs() < 1e-12, "{name}: {baseline:?}");
    }
    assert_eq!((known["nearest_5"].timed, known["nearest_5"].triton.unwrap().geomean), (5, 1.0));
}
