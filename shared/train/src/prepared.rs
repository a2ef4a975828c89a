//! Problems as training reads them. Every row is computed and scaled only once.

use std::collections::BTreeSet;

use diode_core::Tile;
use diode_model::features::{self, Loading, ProblemFeatures, featured_tile};
use diode_model::{COLUMN_COUNT, TileKey, normalise, tile_key};
use wide::f32x8;

use crate::TrainError;
use crate::set::{TrainingProblem, TrainingSet};

/// Added to the deviation of every column that is not idle.
const LEAST_DEVIATION: f64 = 1e-3;
/// A column that varies less than this says nothing in this set, so it is idle. Divided by so small a
/// deviation, any other value at prediction would become enormous.
const CONSTANT: f64 = 1e-3;

/// Scales columns to mean 0 and deviation 1.
///
/// The scale is computed from all problems of a set, even those that a fold leaves out. It tells nothing
/// about their times, because columns hold no times.
#[derive(Debug, Clone)]
pub(crate) struct Normalisation {
    pub(crate) mean: Vec<f32>,
    pub(crate) std: Vec<f32>,
    /// The columns that never vary in the set.
    pub(crate) idle: Vec<bool>,
}

/// The rows of one problem in the given order. Measured rows begin with the fastest.
#[derive(Debug, Clone)]
pub(crate) struct TrainingRows {
    /// Equally many values per row, mostly [`COLUMN_COUNT`].
    pub(crate) inputs: Vec<f32>,
    pub(crate) ln_us: Vec<f32>,
    pub(crate) ln_base: Vec<f32>,
    /// The tile of each row, as its place in [`Prepared::tiles`].
    pub(crate) tiles: Vec<u32>,
    /// Whether the times were taken by one of the two methods that are predicted. Otherwise only their
    /// order counts.
    pub(crate) times_count: bool,
}

impl TrainingRows {
    pub(crate) fn rows(&self) -> usize {
        self.ln_us.len()
    }

    /// The number of columns.
    pub(crate) fn width(&self) -> usize {
        self.inputs.len() / self.rows().max(1)
    }

    /// The columns of one row.
    pub(crate) fn row(&self, row: usize) -> &[f32] {
        let width = self.width();
        &self.inputs[row * width..(row + 1) * width]
    }

    /// The columns of a measured problem, not scaled yet.
    fn raw(set: &TrainingSet, problem: &TrainingProblem, known: &[TileKey]) -> Result<Self, TrainError> {
        let missing = || TrainError::Empty { left_out: set.left_out() };
        let features = if problem.method == set.method() {
            ProblemFeatures::new(set.facts(), &problem.problem)
        } else {
            ProblemFeatures::by_second_method(set.facts(), &problem.problem)
        };
        let features = features.ok_or_else(missing)?;
        let tiles = set.configs(problem).map(featured_tile).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            ln_us: problem.timings.iter().map(|timed| timed.us.ln() as f32).collect(),
            tiles: tiles.iter().map(|tile| place(known, tile, features.loading())).collect(),
            times_count: [Some(set.method()), set.second_method()].contains(&Some(problem.method)),
            ..Self::of_tiles(&features, &tiles)
        })
    }

    /// The columns of tiles, not scaled and without times.
    pub(crate) fn of_tiles(features: &ProblemFeatures, tiles: &[&Tile]) -> Self {
        let mut inputs = vec![0.0; tiles.len() * COLUMN_COUNT];
        let mut ln_base = Vec::with_capacity(tiles.len());
        let mut block = [f32x8::ZERO; COLUMN_COUNT];
        for group in features::groups(tiles) {
            features.fill(group, &mut block);
            let from = ln_base.len() * COLUMN_COUNT;
            for (column, values) in block.iter().enumerate() {
                let rows = inputs[from..].chunks_exact_mut(COLUMN_COUNT);
                for (row, value) in rows.zip(&values.to_array()[..group.len()]) {
                    row[column] = *value;
                }
            }
            ln_base.extend(group.iter().map(|tile| features.base_us(tile.allow_tf32).ln()));
        }
        Self { inputs, ln_us: Vec::new(), ln_base, tiles: Vec::new(), times_count: true }
    }
}

/// What a training learns from.
pub(crate) struct Prepared {
    /// All problems, scaled, in the set's order.
    pub(crate) problems: Vec<TrainingRows>,
    pub(crate) normalisation: Normalisation,
    /// All tiles that were timed, sorted.
    pub(crate) tiles: Vec<TileKey>,
}

/// Prepares all problems of a training.
pub(crate) fn prepare(set: &TrainingSet) -> Result<Prepared, TrainError> {
    let tiles = tiles(set)?;
    let mut problems = set
        .learnt_from()
        .map(|(set, problem)| TrainingRows::raw(set, problem, &tiles))
        .collect::<Result<Vec<_>, _>>()?;
    let normalisation = Normalisation::of(&problems);
    for problem in &mut problems {
        normalisation.apply(&mut problem.inputs);
    }
    Ok(Prepared { problems, normalisation, tiles })
}

fn tiles(set: &TrainingSet) -> Result<Vec<TileKey>, TrainError> {
    let mut tiles = BTreeSet::new();
    for (set, problem) in set.learnt_from() {
        let loading = Loading::for_problem(&problem.problem);
        for config in set.configs(problem) {
            tiles.insert(tile_key(featured_tile(config)?, loading));
        }
    }
    Ok(tiles.into_iter().collect())
}

fn place(known: &[TileKey], tile: &Tile, loading: Loading) -> u32 {
    let (Ok(place) | Err(place)) = known.binary_search(&tile_key(tile, loading));
    place as u32
}

impl Normalisation {
    /// Computes the scale over all rows with equal weights.
    pub(crate) fn of(problems: &[TrainingRows]) -> Self {
        let mut count = 0.0;
        let width = problems.first().map_or(0, TrainingRows::width);
        let mut sums = vec![(0.0, 0.0); width];
        for row in problems.iter().flat_map(|problem| problem.inputs.chunks_exact(width)) {
            count += 1.0;
            for ((sum, squares), &value) in sums.iter_mut().zip(row) {
                let value = f64::from(value);
                *sum += value;
                *squares += value * value;
            }
        }
        let deviation = |&(sum, squares): &(f64, f64)| {
            let mean: f64 = sum / count;
            (squares / count - mean * mean).max(0.0).sqrt()
        };
        let idle: Vec<bool> = sums.iter().map(|column| deviation(column) < CONSTANT).collect();
        let std = sums
            .iter()
            .zip(&idle)
            .map(|(column, &idle)| if idle { 1.0 } else { (deviation(column) + LEAST_DEVIATION) as f32 });
        Self { mean: sums.iter().map(|(sum, _)| (sum / count) as f32).collect(), std: std.collect(), idle }
    }

    /// Scales rows. Idle columns become 0, so that their weights get no gradient.
    pub(crate) fn apply(&self, inputs: &mut [f32]) {
        for row in inputs.chunks_exact_mut(self.mean.len()) {
            let scales = self.mean.iter().zip(&self.std).zip(&self.idle);
            for (value, ((&mean, &std), &idle)) in row.iter_mut().zip(scales) {
                *value = if idle { 0.0 } else { normalise(*value, mean, std) };
            }
        }
    }
}
