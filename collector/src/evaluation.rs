//! Judges models by measured timings, and shows the results.

pub(crate) mod page;
pub(crate) mod words;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use diode_api::EvaluationReport;
use diode_compat::{AnyModel, Comparison, ReferenceConfigs, Speedups, compare};
use diode_core::hardware::{Hardware, catalogue, find};
use diode_core::{
    Config, DType, Dataset, Method, Op, OperandAlignment, Problem, ProblemFields, ProblemGroup, Solution,
    TimeColumn, mark_of_size,
};
use diode_formats::limits::MAX_DOCUMENT;
use diode_model::Predictor;
use diode_train::{Baselines, Evaluation, Judged, ProblemRow, TrainError, TrainingSet, learnt, split_of};
use serde::{Deserialize, Serialize};

use crate::failure::Usage;
use crate::input::datasets::{Selection, describe};
use crate::input::models;
use crate::output::count;
use crate::output::log::Progress;

/// Reads the timings to judge a model by. The library's times may come from a file of their own. If a
/// file states only the name of its hardware, the model's facts describe it.
pub(crate) fn read_timings(
    model: &AnyModel,
    dataset: &PathBuf,
    library: Option<&Path>,
    selection: &Selection,
) -> anyhow::Result<TrainingSet> {
    let mut datasets = selection.read(std::slice::from_ref(dataset))?;
    if let Some(library) = library {
        add_library_times(library, &mut datasets)?;
    }
    describe(&mut datasets, || Ok(model.ranked_hardware()?))?;
    let set = match model.training() {
        Some(training) => of_the_models_methods(model, &datasets, training.method)?,
        None => TrainingSet::from_datasets(&datasets, None)?,
    };
    let left_out = set.left_out();
    if left_out != diode_train::LeftOut::default() {
        say!("{left_out}");
    }
    Ok(set)
}

/// The model as it predicts for hardware that it was not trained on.
pub(crate) fn standing_in_for(model: AnyModel, name: &str) -> anyhow::Result<AnyModel> {
    let known = || catalogue().map(|hardware| hardware.slug.to_string()).collect::<Vec<_>>().join(", ");
    let Some(hardware) = find(name) else {
        return Err(Usage::new(format!("--as: got {name}, expected one of {}", known())).into());
    };
    match model {
        AnyModel::Ranking(model) => Ok(AnyModel::Ranking(Box::new(model.standing_in_for(hardware)?))),
        AnyModel::Predecessor(_) => Err(Usage::new(
            "--as: got a model of torch-diode, which reads no facts of hardware; expected a ranking one",
        )
        .into()),
    }
}

/// Timings by the model's method, or else by its second method. If there are none, timings by the
/// commonest method, with a warning: an old dataset does not state its method.
fn of_the_models_methods(
    model: &AnyModel,
    datasets: &[Dataset],
    method: Method,
) -> Result<TrainingSet, TrainError> {
    let second = model.as_ranking().and_then(|model| model.metadata().second_method);
    match TrainingSet::from_datasets(datasets, Some(method)) {
        Err(TrainError::NoSuchMethod { found, .. }) => {
            if let Some(second) = second
                && let Ok(set) = TrainingSet::from_datasets(datasets, Some(second))
            {
                say!("note: judged as times taken as {second}, which the model has learnt beside {method}");
                return Ok(set);
            }
            tell!(
                Warning,
                {},
                "warning: the model predicts times taken as {method}, the dataset has {found}"
            );
            TrainingSet::from_datasets(datasets, None)
        }
        other => other,
    }
}

/// Warns if a model is judged by problems that it was trained on. Returns how many these are, if that is known.
pub(crate) fn warn_if_trained_on(model: &AnyModel, set: &TrainingSet) -> anyhow::Result<Option<usize>> {
    let stands_in = model.as_ranking().is_some_and(|model| model.metadata().stands_in_from.is_some());
    let Some(training) = model.training().filter(|_| !stands_in) else { return Ok(None) };
    let seen = learnt(set, training, &models::training_sizes(model)?);
    match (seen, set.problems()) {
        (Some(0), _) | (None, _) => {}
        (Some(seen), all) if seen == all => tell!(
            Warning,
            { "problems": all, "trained_on": seen },
            "warning: the model was trained on these very problems, so these numbers are no test; use another dataset, \
             or `diode evaluate --folds 4`"
        ),
        (Some(seen), all) => tell!(
            Warning,
            { "problems": all, "trained_on": seen },
            "warning: the model was trained on {seen} of these {all} problems, so these numbers are no test; \
             `diode evaluate --unseen` judges the others only"
        ),
    }
    Ok(seen)
}

/// The problems of a set of whose sizes no model has seen a timing.
pub(crate) fn unseen(models: &[(&PathBuf, AnyModel)], set: &TrainingSet) -> anyhow::Result<TrainingSet> {
    let mut seen = BTreeSet::new();
    for (path, model) in models {
        let sizes = models::training_sizes(model)?;
        Usage::refuse_if(
            sizes.is_empty(),
            format!("--unseen: {} does not say what it was trained on; leave out --unseen", path.display()),
        )?;
        seen.extend(sizes);
    }
    let unseen = set.only(|problem| !seen.contains(&mark_of_size(problem)));
    if unseen.problems() == 0 {
        bail!(
            "--unseen: got {}, all of sizes that the model was trained on",
            count(set.problems(), "problem")
        );
    }
    let left_out = set.problems() - unseen.problems();
    say!("{} left out, of sizes that the model was trained on", count(left_out, "problem"));
    Ok(unseen)
}

/// Compares the picks with the reference configs of a file. Prints what readers of the numbers should know.
pub(crate) fn compare_with(
    path: &Path,
    reference: &ReferenceConfigs,
    judged: &[Judged],
) -> anyhow::Result<Comparison> {
    let Some(comparison) = compare(judged, reference) else {
        bail!(
            "{}: none of its {} is among the timings of any problem; the dataset must hold timings of the \
             reference configs too",
            path.display(),
            count(reference.configs.len(), "config")
        );
    };
    for note in &comparison.notes {
        say!("note: {note}");
    }
    Ok(comparison)
}

/// The contents of a file with the library's times. All inputs have one type and are row-major.
#[derive(Deserialize)]
struct LibraryTimes {
    hardware: String,
    op: Op,
    dtype: DType,
    unit: String,
    problems: Vec<LibraryTime>,
}

#[derive(Deserialize)]
#[serde(rename_all = "UPPERCASE")]
struct LibraryTime {
    m: u64,
    n: u64,
    k: u64,
    #[serde(rename = "us")]
    us: f64,
}

/// Adds the library's times from the file to the problems of some datasets. If a problem has a time of the
/// library already, or stands twice in the file, the first time stays.
fn add_library_times(path: &Path, datasets: &mut [Dataset]) -> anyhow::Result<()> {
    let name = || path.display().to_string();
    let text = diode_formats::read_text(path, MAX_DOCUMENT, "JSON")?;
    let file: LibraryTimes = serde_json::from_str(&text).with_context(name)?;
    if file.unit != "us" {
        bail!("{}: got the unit {:?}, expected \"us\"", name(), file.unit);
    }
    let hardware = Hardware::from_name(&file.hardware).with_context(name)?.slug;
    let mut joined = 0;
    for (number, LibraryTime { m, n, k, us }) in (1..).zip(&file.problems) {
        let place = || format!("{}: problem {number}", name());
        let problem = Problem::new(ProblemFields::plain(file.op, 1, *m, *n, *k, file.dtype));
        let problem = problem.with_context(place)?;
        let times = TimeColumn::from_millis(vec![us / 1e3]).with_context(place)?;
        for dataset in datasets.iter_mut().filter(|dataset| dataset.hardware.slug == hardware) {
            let library = dataset.configs.intern(Config::Library);
            let of_problem = dataset.solutions.iter().filter(|solution| solution.problem == problem);
            let (with, without): (Vec<_>, Vec<_>) =
                of_problem.partition(|solution| solution.configs.contains(&library));
            let has_one: BTreeSet<Method> = with.iter().map(|solution| solution.method).collect();
            let methods: BTreeSet<Method> = without.iter().map(|solution| solution.method).collect();
            let methods: Vec<Method> = methods.difference(&has_one).copied().collect();
            joined += usize::from(!methods.is_empty());
            for method in methods {
                dataset.solutions.push(Solution {
                    problem: problem.clone(),
                    method,
                    configs: vec![library],
                    times: times.clone(),
                    minimum_ns: None,
                    spread_ns: None,
                    repeats: None,
                    failures: Vec::new(),
                });
            }
        }
    }
    if joined == 0 {
        bail!(
            "{}: got no problem of the dataset, expected times of the same problems on the same hardware",
            name()
        );
    }
    say!("{}: the library's time of {}", name(), count(joined, "problem"));
    Ok(())
}

/// A model and what its evaluation found.
#[derive(Serialize)]
pub(crate) struct Contender {
    /// The name of the model's file.
    pub(crate) model: String,
    /// `ranking`, or a kind of torch-diode's models: `v1`, `base`, `deep`.
    pub(crate) kind: &'static str,
    /// How `v1` got its inputs: `right`, or `as the plug-in did`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fed: Option<&'static str>,
    pub(crate) parameters: u64,
    #[serde(flatten)]
    pub(crate) evaluation: Evaluation,
}

impl Contender {
    pub(crate) fn judge(
        path: &Path,
        model: &AnyModel,
        set: &TrainingSet,
    ) -> anyhow::Result<(Self, Vec<Judged>)> {
        let learnt = warn_if_trained_on(model, set)?;
        let progress = RefCell::new((0, Progress::new(set.problems() as u64, "problems")));
        let goes_on = || {
            let (done, shown) = &mut *progress.borrow_mut();
            shown.set(*done, &format!("judging {}", path.display()));
            *done += 1;
            true
        };
        let judged = Evaluation::of_while(model, set, &goes_on);
        let (mut evaluation, judged) = judged.with_context(|| path.display().to_string())?;
        evaluation.report.split = split_of(learnt, set);
        let fed = matches!(model, AnyModel::Predecessor(model) if model.as_the_plug_in_fed_it().is_some());
        Ok((Self::new(path, model, fed.then_some("right"), evaluation), judged))
    }

    /// Judges torch-diode's `v1` once more, with the inputs that torch-diode's plug-in gave it.
    /// Empty for all other models.
    pub(crate) fn fed_otherwise(
        path: &Path,
        model: &AnyModel,
        set: &TrainingSet,
    ) -> anyhow::Result<Vec<Self>> {
        let AnyModel::Predecessor(predecessor) = model else { return Ok(Vec::new()) };
        let Some(raw) = predecessor.as_the_plug_in_fed_it() else { return Ok(Vec::new()) };
        let (evaluation, _) = Evaluation::new(&raw, set)?;
        Ok(vec![Self::new(path, model, Some("as the plug-in did"), evaluation)])
    }

    fn new(path: &Path, model: &AnyModel, fed: Option<&'static str>, evaluation: Evaluation) -> Self {
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        Self { model: name, kind: model.kind(), fed, parameters: model.parameters(), evaluation }
    }

    pub(crate) fn name(&self) -> String {
        match self.fed {
            Some("right") | None => self.model.clone(),
            Some(fed) => format!("{}, fed {fed}", self.model),
        }
    }
}

/// What `evaluate` found about a model and about what it is compared with.
#[derive(Serialize)]
pub(crate) struct Document {
    /// The first model.
    #[serde(flatten)]
    pub(crate) main: Contender,
    /// `model` if the weights in the file were judged, `recipe` if newly trained weights were.
    pub(crate) judged: &'static str,
    pub(crate) worst: Vec<Worst>,
    /// Ways to choose without a model.
    pub(crate) baselines: Baselines,
    /// Further models, and torch-diode's `v1` with the inputs of torch-diode's plug-in.
    pub(crate) compared: Vec<Contender>,
    /// The picks compared with reference configs, if these were given. Times are in ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_autotune: Option<Speedups>,
}

/// What `evaluate --folds` found about the recipe.
#[derive(Serialize)]
pub(crate) struct RecipeDocument {
    #[serde(flatten)]
    pub(crate) report: EvaluationReport,
    pub(crate) judged: &'static str,
}

/// A problem whose first pick is far from the best, with its facts.
#[derive(Serialize)]
pub(crate) struct Worst {
    pub(crate) problem: Problem,
    pub(crate) kind: ProblemGroup,
    alignment: OperandAlignment,
    gflop: f64,
    flops_per_byte: f64,
    pub(crate) share: f64,
    pub(crate) picked: Config,
    pub(crate) picked_us: f64,
    predicted_us: f64,
    pub(crate) best: Config,
    pub(crate) best_us: f64,
    pub(crate) best_rank: usize,
    library_us: Option<f64>,
}

impl Worst {
    pub(crate) fn from_row(row: &ProblemRow) -> Self {
        Self {
            problem: row.problem.clone(),
            kind: row.kind,
            alignment: row.alignment,
            gflop: row.gflop,
            flops_per_byte: row.flops_per_byte,
            share: row.best_us / row.picked_us,
            picked: row.picked,
            picked_us: row.picked_us,
            predicted_us: row.predicted_us,
            best: row.best,
            best_us: row.best_us,
            best_rank: row.best_rank,
            library_us: row.library_us,
        }
    }
}
