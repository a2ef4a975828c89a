//! The config of each layer and batch size: the measured one where both it and what runs untuned were timed, else the
//! one that the published model predicts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use diode_api::{WorkloadBacking, WorkloadBatch, WorkloadLayer, WorkloadTime};
use diode_core::hardware::Hardware;
use diode_core::ids::ProblemId;
use diode_core::table::inductor::InductorOptions;
use diode_core::{Config, Problem, Table};
use diode_model::{Model, Question, Ranker};
use diode_workloads::agreed::{Backing, Taken, TimedTile};
use diode_workloads::file_body::BATCH_SIZES;
use diode_workloads::file_names::Consumer;
use diode_workloads::layers::LayersError;
use diode_workloads::published::Published;
use diode_workloads::served::{LOOKUP_TABLE, Reader, ServedLayer};
use diode_workloads::tuning::{Choice, Tuned, TuningError};

use crate::boards::consensus::{AgreedTime, Consensus};
use crate::http::{ApiFault, ApiResult};

/// What was measured of each problem.
pub(super) type Measured = BTreeMap<ProblemId, Consensus>;

/// The configs of some layers.
#[derive(Default)]
pub(super) struct Described {
    pub(super) layers: Vec<WorkloadLayer>,
    pub(super) notes: BTreeSet<String>,
    /// The files' names and texts, in order.
    pub(super) files: BTreeMap<String, String>,
}

pub(super) struct Describing<'a> {
    pub(super) hardware: &'a Hardware,
    pub(super) reader: Reader,
    pub(super) model: Option<Arc<Model>>,
    /// The release whose files are compared.
    pub(super) release: Option<&'a Published>,
    pub(super) measured: &'a Measured,
}

impl Describing<'_> {
    /// Takes some tenths of a second, so it must not run on an async thread.
    pub(super) fn describe(&self, layers: &[ServedLayer]) -> ApiResult<Described> {
        let mut described = Described::default();
        let mut ranker = self.model.clone().map(Ranker::new);
        let mut table = Vec::new();
        for layer in layers {
            let (n, k, count) = layer.sizes();
            let batches = match self.reader.server().filter(|_| !layer.files.is_empty()) {
                Some(consumer) => self.of_files(layer, consumer, &mut described),
                None => self
                    .of_library(layer, &mut ranker, &mut described.notes, &mut table)
                    .map_err(TuningError::Layers),
            };
            described.layers.push(WorkloadLayer {
                name: layer.name().to_owned(),
                n,
                k,
                count,
                files: layer.files.clone(),
                batches: batches.map_err(ApiFault::internal)?,
            });
        }
        if self.reader == Reader::Inductor && !table.is_empty() {
            let table = Table::from_choices(self.hardware.clone(), table)?;
            let table = table.to_inductor(&InductorOptions::default())?;
            let text = serde_json::to_string_pretty(&table).map_err(ApiFault::internal)?;
            described.files.insert(LOOKUP_TABLE.to_owned(), text + "\n");
        }
        if self.model.is_none() {
            let name = &self.hardware.name;
            described
                .notes
                .insert(format!("No model is published for {name}, so only what was measured is here."));
        }
        Ok(described)
    }

    /// A layer whose configs a server reads from files.
    fn of_files(
        &self,
        layer: &ServedLayer,
        consumer: Consumer,
        described: &mut Described,
    ) -> Result<Vec<WorkloadBatch>, TuningError> {
        let predicted = self.model.as_ref().map(|model| Tuned::of(model, &layer.layer, consumer));
        let (mut tuned, is_predicted) = match predicted {
            Some(Ok(tuned)) => (tuned, true),
            other => {
                let refused = other.and_then(Result::err).map(|error| format!("{}: {error}", layer.name()));
                described.notes.extend(refused);
                (Tuned::unpredicted(self.hardware, &layer.layer, consumer, &BATCH_SIZES)?, false)
            }
        };
        described.notes.extend(tuned.caveat.clone());
        if let Some(release) = self.release {
            tuned.add_published(self.hardware, None, &layer.layer, release)?;
        }
        let (mut batches, mut known) = (Vec::new(), Vec::new());
        for at in 0..tuned.choices.len() {
            let problems = layer.problems(tuned.choices[at].batch, self.hardware)?;
            let launches: Vec<_> = problems.iter().map(|problem| self.timed(problem)).collect();
            let taken = tuned.take_measured(at, &launches);
            let choice = &tuned.choices[at];
            let is_known = is_predicted || taken.is_some();
            known.push(is_known);
            let times = is_known.then(|| times_of(choice, taken));
            let keeps_default = choice.keeps_default && is_known;
            let mut batch = self.batch(choice.batch, &problems, times.unzip(), keeps_default);
            if taken.is_some()
                && let Some(pick) = choice.published
                && let Some((us, backing)) = pick.measured(&launches)
            {
                let (config, down) = (Config::Mm(pick.tile), pick.down.map(Config::Mm));
                batch.published = Some(WorkloadTime { config, down, us, measured: Some(shown(backing)) });
            }
            batches.push(batch);
        }
        let mut is_known = known.into_iter();
        tuned.choices.retain(|_| is_known.next().unwrap_or(false));
        if !tuned.choices.is_empty() {
            let bodies = [Some(tuned.body()), tuned.down_body()].into_iter().flatten();
            let texts = bodies.map(|body| body.to_text());
            described.files.extend(layer.files.iter().cloned().zip(texts));
        }
        Ok(batches)
    }

    /// A layer that the library computes untuned.
    fn of_library(
        &self,
        layer: &ServedLayer,
        ranker: &mut Option<Ranker<Arc<Model>>>,
        notes: &mut BTreeSet<String>,
        table: &mut Vec<(Problem, Vec<Config>)>,
    ) -> Result<Vec<WorkloadBatch>, LayersError> {
        let mut batches = Vec::new();
        for batch in BATCH_SIZES {
            let problems = layer.problems(batch, self.hardware)?;
            let times = match problems.as_slice() {
                [problem] => self.of_problem(problem, ranker, notes),
                _ => (None, None),
            };
            let keeps_untuned = times.1.is_some_and(|pick| pick.config.is_library());
            if let ([problem], (_, Some(pick))) = (problems.as_slice(), &times) {
                table.push((problem.clone(), vec![pick.config]));
            }
            batches.push(self.batch(batch, &problems, times, keeps_untuned));
        }
        Ok(batches)
    }

    /// The library's time of a problem, and the pick.
    fn of_problem(
        &self,
        problem: &Problem,
        ranker: &mut Option<Ranker<Arc<Model>>>,
        notes: &mut BTreeSet<String>,
    ) -> (Option<WorkloadTime>, Option<WorkloadTime>) {
        let of_board = |agreed: &AgreedTime| WorkloadTime {
            config: agreed.config,
            down: None,
            us: agreed.time.micros().0,
            measured: Some(shown(backing(agreed))),
        };
        let consensus = self.measured.get(&problem.id());
        let library = consensus.and_then(|known| known.library).map(|fastest| of_board(&fastest.agreed));
        let best = consensus.and_then(|known| known.leading().next()).map(of_board);
        if library.is_some() && best.is_some() {
            return (library, best);
        }
        let answer = ranker.as_mut().map(|ranker| ranker.answer(problem, &Question::default()));
        let answer = match answer {
            Some(Ok(answer)) => answer,
            Some(Err(error)) => {
                notes.insert(error.to_string());
                return (library, best);
            }
            None => return (library, best),
        };
        let predicted = |config, us| WorkloadTime { config, down: None, us, measured: None };
        notes.extend(answer.caveat);
        let untuned = answer.library.map(|library| predicted(library.config, library.alone.0));
        let pick = answer.picks.first().map(|pick| predicted(pick.config, pick.alone.0));
        (library.or(untuned), pick)
    }

    fn batch(
        &self,
        batch_size: u64,
        problems: &[Problem],
        (untuned, pick): (Option<WorkloadTime>, Option<WorkloadTime>),
        keeps_untuned: bool,
    ) -> WorkloadBatch {
        let problems: Vec<ProblemId> = problems.iter().map(Problem::id).collect();
        let measured = problems.iter().filter(|id| self.measured.contains_key(id)).count() as u64;
        let alike = untuned.zip(pick).filter(|(a, b)| a.measured.is_some() == b.measured.is_some());
        let gain = alike.map(|(untuned, pick)| untuned.us / pick.us);
        WorkloadBatch { batch_size, problems, measured, untuned, pick, published: None, keeps_untuned, gain }
    }

    fn timed(&self, problem: &Problem) -> Vec<TimedTile> {
        let consensus = self.measured.get(&problem.id());
        consensus.map_or_else(Vec::new, |consensus| timed_tiles(self.hardware, problem, consensus))
    }
}

/// The times of a launch that may stand first on a board, of configs that a file can name.
pub(crate) fn timed_tiles(hardware: &Hardware, problem: &Problem, consensus: &Consensus) -> Vec<TimedTile> {
    let timed = |agreed: &AgreedTime| {
        let us = agreed.time.micros().0;
        TimedTile::new(hardware, problem, &agreed.config, us, backing(agreed))
    };
    consensus.leading().filter_map(timed).collect()
}

fn times_of(choice: &Choice, taken: Option<Taken>) -> (WorkloadTime, WorkloadTime) {
    let time = |tile, down: Option<_>, us, backing: Option<Backing>| WorkloadTime {
        config: Config::Mm(tile),
        down: down.map(Config::Mm),
        us,
        measured: backing.map(shown),
    };
    let down = choice.down.map(|_| choice.default);
    (
        time(choice.default, down, choice.default_us, taken.map(|taken| taken.default)),
        time(choice.tile, choice.down, choice.us, taken.map(|taken| taken.taken)),
    )
}

fn backing(agreed: &AgreedTime) -> Backing {
    Backing { contributors: agreed.contributors.into(), confirmed_by: agreed.confirmed_by.into() }
}

fn shown(backing: Backing) -> WorkloadBacking {
    let Backing { contributors, confirmed_by } = backing;
    WorkloadBacking { contributors, confirmed_by }
}
