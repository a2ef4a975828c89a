//! The config of each batch size: what a server runs untuned, unless a model expects another to be clearly faster, or
//! times that were measured show it.

use diode_core::hardware::{Hardware, Vendor};
use diode_core::space::{Space, SpaceName};
use diode_core::{Config, Micros, Op, Problem, Scaling, Tile};
use diode_model::{Model, ModelError, Serving as Networks, ServingFigures};

use crate::file_body::{BATCH_SIZES, Body, Entry};
use crate::file_names::{Consumer, FileKey, FileName, device_name};
use crate::layers::{DenseLayer, ExpertsLayer, LayersError};
use crate::measured::{Measured, judge, middle};
use crate::model_config::Quantization;
use crate::published::Published;
use crate::served::Layer;

/// The configs of a layer's files.
#[derive(Debug, Clone, PartialEq)]
pub struct Tuned {
    pub choices: Vec<Choice>,
    /// A default stays unless something is predicted to take less than its time multiplied by this.
    pub handicap: f64,
    /// How good the model's picks were on models that it had not learnt. `None` where there is a caveat, or nobody has
    /// judged them.
    pub figures: Option<ServingFigures>,
    /// A reason to doubt the predicted times.
    pub caveat: Option<String>,
}

/// The configs of a layer's launches, and their predicted time together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pick {
    pub tile: Tile,
    /// The second launch's config, for servers that take one of its own.
    pub down: Option<Tile>,
    pub us: f64,
}

/// The most picks that a choice lists.
pub const MOST_PICKS: usize = 16;

/// The config of one batch size. Times are for all launches of the layer together.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// Tokens.
    pub batch: u64,
    pub default: Tile,
    pub default_us: f64,
    /// What the file holds.
    pub tile: Tile,
    /// The second launch's config, for servers that take one of its own.
    pub down: Option<Tile>,
    pub us: f64,
    /// Whether the default stays.
    pub keeps_default: bool,
    /// The configs that are predicted to be fastest, in order.
    pub picks: Vec<Pick>,
    /// What a published file holds. Its time is not finite if nothing can be predicted for it.
    pub published: Option<Pick>,
    /// What was measured. The choice follows it.
    pub measured: Option<Measured>,
}

impl Choice {
    /// The default's time / this one's, as measured or else as predicted.
    pub fn gain(&self) -> f64 {
        self.measured.map_or(self.default_us / self.us, |measured| measured.gain)
    }

    /// The default, the published choice, and so many of the first picks, each once.
    pub fn candidates(&self, picks: usize) -> Vec<Pick> {
        let down = self.picks.first().and_then(|pick| pick.down).map(|_| self.default);
        let default = Pick { tile: self.default, down, us: self.default_us };
        let mut all = vec![default];
        for pick in self.published.iter().chain(self.picks.iter().take(picks)) {
            if !all.iter().any(|known| known.runs_as(pick)) {
                all.push(*pick);
            }
        }
        all
    }

    /// Follows what was measured: rounds of times of the default, and of other configs.
    pub fn settle(&mut self, default: &[f64], others: &[(Pick, &[f64])]) {
        let times: Vec<&[f64]> = others.iter().map(|(_, times)| *times).collect();
        let Some(default_us) = middle(default) else { return };
        let of = |wanted: &Pick| {
            let found = others.iter().find(|(pick, _)| pick.runs_as(wanted));
            found.and_then(|(_, times)| middle(times))
        };
        let verdict = judge(default, &times);
        let down = self.picks.first().and_then(|pick| pick.down).map(|_| self.default);
        let default = Pick { tile: self.default, down, us: self.default_us };
        let published_us = self.published.and_then(|published| {
            if published.runs_as(&default) { Some(default_us) } else { of(&published) }
        });
        let chosen = verdict.replaces.map(|at| others[at].0);
        let us = chosen.and_then(|pick| of(&pick)).unwrap_or(default_us);
        let gain = if chosen.is_some() { verdict.gain } else { 1.0 };
        let Pick { tile, down, us: predicted } = chosen.unwrap_or(default);
        (self.tile, self.down, self.us, self.keeps_default) = (tile, down, predicted, chosen.is_none());
        let (spread, rounds) = (verdict.spread, times.first().map_or(0, |times| times.len()));
        self.measured = Some(Measured { default_us, us, published_us, gain, spread, rounds });
    }
}

impl Pick {
    /// Whether both launch the same kernels.
    pub fn runs_as(&self, other: &Self) -> bool {
        // Kernels of experts always mask the depth.
        let same = |a: Tile, b: Tile| Tile { even_k: b.even_k, ..a } == b;
        let downs = match (self.down, other.down) {
            (Some(a), Some(b)) => same(a, b),
            (a, b) => a == b,
        };
        same(self.tile, other.tile) && downs
    }
}

/// Why there is no config.
#[derive(Debug, thiserror::Error)]
pub enum TuningError {
    #[error(transparent)]
    Layers(#[from] LayersError),
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error("{what}: got {given}, expected {expected}")]
    Unmeasured { what: &'static str, given: String, expected: &'static str },
}

impl Tuned {
    /// Chooses the configs of a layer's files, at every usual batch size.
    pub fn of(model: &Model, layer: &Layer, consumer: Consumer) -> Result<Self, TuningError> {
        match layer {
            Layer::Experts(layer) => Self::experts(model, layer, consumer, &BATCH_SIZES),
            Layer::Dense(layer) => Self::dense(model, layer, consumer, &BATCH_SIZES),
        }
    }

    /// Chooses the configs of a layer of experts.
    pub fn experts(
        model: &Model,
        layer: &ExpertsLayer,
        consumer: Consumer,
        batches: &[u64],
    ) -> Result<Self, TuningError> {
        let depth = refined_depth(layer)?;
        let refined = depth.map(|_| "The server divides blocks of scales here, which nobody has measured.");
        let [first, _] = layer.problems(1)?;
        let mut all = Tuning::new(model, consumer, &first, refined)?;
        for &batch in batches {
            let problems = layer.problems(batch)?;
            let launches = [&problems[0], &problems[1]];
            let mut default = all.default(&layer.nominal(batch)?)?;
            if let Some(depth) = depth {
                (default.block_n, default.block_k) = (default.block_n.min(depth), depth);
            }
            let best = match (depth, consumer) {
                (Some(depth), _) => all.best_of_depth(launches, depth)?,
                (None, Consumer::Vllm) => all.best(&launches)?,
                (None, Consumer::Sglang) => all.best_pair(launches)?,
            };
            all.choose(batch, &launches, default, best)?;
        }
        Ok(all.tuned)
    }

    /// Chooses the configs of a multiplication by block-scaled weights.
    pub fn dense(
        model: &Model,
        layer: &DenseLayer,
        consumer: Consumer,
        batches: &[u64],
    ) -> Result<Self, TuningError> {
        let first = layer.problem(1, Quantization::Fp8Block)?;
        let mut all = Tuning::new(model, consumer, &first, None)?;
        for &batch in batches {
            let problem = layer.problem(batch, Quantization::Fp8Block)?;
            let default = all.default(&problem)?;
            let best = all.best(&[&problem])?;
            all.choose(batch, &[&problem], default, best)?;
        }
        Ok(all.tuned)
    }

    /// Adds what a release's file of this layer holds. Without a model, its time is unknown.
    pub fn add_published(
        &mut self,
        hardware: &Hardware,
        model: Option<&Model>,
        layer: &Layer,
        release: &Published,
    ) -> Result<(), TuningError> {
        match layer {
            Layer::Experts(layer) => self.add_published_experts(hardware, model, layer, release),
            Layer::Dense(layer) => self.add_published_dense(hardware, model, layer, release),
        }
    }

    fn add_published_experts(
        &mut self,
        hardware: &Hardware,
        model: Option<&Model>,
        layer: &ExpertsLayer,
        release: &Published,
    ) -> Result<(), TuningError> {
        let consumer = release.project;
        let key = layer.key(device_name(hardware, consumer, false), consumer);
        let depth = layer.block.filter(|_| consumer == Consumer::Vllm).map(|[_, depth]| depth);
        for choice in &mut self.choices {
            let nominal = layer.nominal(choice.batch)?;
            let tile_of = |down| {
                let name = FileName::Experts(FileKey { down, ..key.clone() });
                let found = release.choose(&name, consumer.triton(), choice.batch)?;
                let config = found.config(consumer, hardware, &nominal)?.ok()?;
                let mut tile = *config.tile()?;
                tile.block_k = depth.map_or(tile.block_k, |depth| tile.block_k.min(depth));
                Some(tile)
            };
            let Some(tile) = tile_of(false) else { continue };
            let mut down = choice.down.and_then(|_| tile_of(true));
            if let Some(down) = &mut down {
                // Both launches sort tokens once.
                down.block_m = tile.block_m;
            }
            let problems = layer.problems(choice.batch)?;
            let us = model
                .and_then(|model| predicted(model, consumer, &problems, tile, down).ok())
                .unwrap_or(f64::NAN);
            choice.published = Some(Pick { tile, down, us });
        }
        Ok(())
    }

    fn add_published_dense(
        &mut self,
        hardware: &Hardware,
        model: Option<&Model>,
        layer: &DenseLayer,
        release: &Published,
    ) -> Result<(), TuningError> {
        let device = device_name(hardware, release.project, true);
        let name = FileName::Dense(layer.key(device));
        for choice in &mut self.choices {
            let problem = layer.problem(choice.batch, Quantization::Fp8Block)?;
            let found = release.choose(&name, release.project.triton(), choice.batch);
            let config = found.and_then(|found| found.config(release.project, hardware, &problem));
            if let Some(tile) = config.and_then(|config| config.ok()?.tile().copied()) {
                // SGLang swaps operands in another kernel alone.
                let tile = Tile { swap_ab: false, ..tile };
                let us = model
                    .and_then(|model| predicted(model, release.project, &[problem], tile, None).ok())
                    .unwrap_or(f64::NAN);
                choice.published = Some(Pick { tile, down: None, us });
            }
        }
        Ok(())
    }

    /// The file of the first or only launch.
    pub fn body(&self) -> Body {
        self.body_of(|choice| Some(choice.tile)).unwrap_or_default()
    }

    /// The file of the second launch, if it has configs of its own.
    pub fn down_body(&self) -> Option<Body> {
        self.body_of(|choice| choice.down)
    }

    fn body_of(&self, tile: impl Fn(&Choice) -> Option<Tile>) -> Option<Body> {
        let mut body = Body::default();
        for choice in &self.choices {
            body.insert(choice.batch, Entry::of(&tile(choice)?));
        }
        Some(body)
    }
}

/// The predicted time of both launches, or of one.
fn predicted(
    model: &Model,
    consumer: Consumer,
    problems: &[Problem],
    tile: Tile,
    down: Option<Tile>,
) -> Result<f64, ModelError> {
    let first = &problems[0];
    let networks = model.serving_for(first)?;
    let hardware = &model.metadata().hardware;
    let us = |launches: &[&Problem], tile: Tile| {
        let time = networks.time_of(hardware, launches, Config::Mm(tile.for_k(launches[0].k)))?.0;
        Ok::<_, ModelError>(of_server(consumer, hardware, launches[0], &tile, time))
    };
    match (down, problems) {
        (Some(down), [up, second]) => Ok(us(&[up], tile)? + us(&[second], down)?),
        (_, all) => us(&all.iter().collect::<Vec<_>>(), tile),
    }
}

/// Where nobody has measured how good picks are, one must be predicted to be 5 % faster than a default.
const DOUBTFUL_HANDICAP: f64 = 1.0 / 1.05;

/// With SGLang's kernel, one must be predicted to be 8 % faster. On an H200, of 108 batch sizes in bf16 (six models, SGLang
/// 0.5.23) two ran at 0.97 and 0.98 of their default's speed where 6 % were enough.
const SGLANG_HANDICAP: f64 = 1.0 / 1.08;

/// A predicted time as a server's kernel takes it.
pub(crate) fn of_server(
    consumer: Consumer,
    hardware: &Hardware,
    problem: &Problem,
    tile: &Tile,
    us: f64,
) -> f64 {
    /// SGLang's kernel multiplies a tile by one number if all its columns are in one block of scales. Ours, which was
    /// measured, multiplies each column. On an H200, SGLang's defaults take this share of our time (six models, 108 batch
    /// sizes); where operands are swapped, there is no difference.
    const ONE_SCALE: f64 = 0.89;
    let has_one = consumer == Consumer::Sglang
        && hardware.vendor == Vendor::Nvidia
        && problem.op == Op::FusedMoe
        && problem.scaling == Scaling::Block
        && u64::from(tile.block_n) <= Scaling::BLOCK;
    if has_one && !tile.swap_ab { us * ONE_SCALE } else { us }
}

/// The depth of a step where a server has made blocks of scales smaller. A step never spans two of them.
fn refined_depth(layer: &ExpertsLayer) -> Result<Option<u32>, TuningError> {
    /// The smallest depth of a tile that was measured.
    const LEAST: u32 = 64;
    match layer.block {
        None | Some([_, 128]) => Ok(None),
        Some([_, depth]) if depth >= LEAST => Ok(Some(depth)),
        Some([_, depth]) => Err(TuningError::Unmeasured {
            what: "block scales",
            given: format!("{} columns of an expert on each GPU, so blocks of {depth}×{depth}", layer.n),
            expected: "a multiple of 64: nobody has measured smaller blocks; use fewer GPUs, expert parallelism or bf16",
        }),
    }
}

/// The choices for a layer, as far as they are made.
struct Tuning<'a> {
    model: &'a Model,
    networks: &'a Networks,
    consumer: Consumer,
    hardware: &'a Hardware,
    tuned: Tuned,
}

impl<'a> Tuning<'a> {
    fn new(
        model: &'a Model,
        consumer: Consumer,
        problem: &Problem,
        doubt: Option<&str>,
    ) -> Result<Self, ModelError> {
        let networks = model.serving_for(problem)?;
        let hardware = &model.metadata().hardware;
        let caveat = networks.caveat(hardware, model.metadata().stands_in_from.as_ref(), problem);
        let caveats: Vec<&str> = caveat.as_deref().into_iter().chain(doubt).collect();
        let caveat = (!caveats.is_empty()).then(|| caveats.join(" "));
        let mut handicap = networks.about.default_handicap;
        if consumer == Consumer::Sglang && problem.op == Op::FusedMoe {
            handicap = handicap.min(SGLANG_HANDICAP);
        }
        let tuned = Tuned {
            choices: Vec::new(),
            handicap: if caveat.is_some() { handicap.min(DOUBTFUL_HANDICAP) } else { handicap },
            figures: networks.figures(problem).filter(|_| caveat.is_none()).cloned(),
            caveat,
        };
        Ok(Self { model, networks, consumer, hardware, tuned })
    }

    fn default(&self, problem: &Problem) -> Result<Tile, TuningError> {
        let default = self.consumer.default_config();
        let tile = default.config(self.hardware, problem).and_then(|config| config.tile().copied());
        tile.ok_or_else(|| TuningError::Unmeasured {
            what: "default config",
            given: format!("{} by {} scales", problem.op, problem.scaling),
            expected: "a kernel that reads tuned configs",
        })
    }

    /// One config for all launches.
    fn best(&self, launches: &[&Problem]) -> Result<Vec<Pick>, TuningError> {
        let dense = launches.iter().all(|problem| problem.op == Op::ScaledMm);
        // In SGLang's dense kernel, a swap stands for another kernel, which splits K as well.
        let tile_of = |config: &Config| config.tile().filter(|tile| !(dense && tile.swap_ab)).copied();
        for all in [false, true] {
            let ranked = self.networks.rank(self.hardware, launches, None, all)?;
            let pick = |(config, time): &(Config, Micros)| {
                Some(Pick { tile: tile_of(config)?, down: None, us: time.0 })
            };
            let found: Vec<Pick> = ranked.configs.iter().filter_map(pick).take(MOST_PICKS).collect();
            if !found.is_empty() {
                return Ok(found);
            }
        }
        Err(self.without_configs(launches[0]))
    }

    /// A config for each of both launches. They sort tokens once, so both have the same height.
    fn best_pair(&self, launches: [&Problem; 2]) -> Result<Vec<Pick>, TuningError> {
        /// So many of each launch's fastest configs of a height are combined.
        const OF_EACH: usize = 4;
        let ranked = |problem: &Problem| {
            let ranked = self.networks.rank(self.hardware, &[problem], None, false)?;
            let of = |(config, time): &(Config, Micros)| {
                let tile = *config.tile()?;
                Some((tile, of_server(self.consumer, self.hardware, problem, &tile, time.0)))
            };
            let mut tiles: Vec<(Tile, f64)> = ranked.configs.iter().filter_map(of).collect();
            tiles.sort_by(|a, b| a.1.total_cmp(&b.1));
            Ok::<_, ModelError>(tiles)
        };
        let [up, down] = [ranked(launches[0])?, ranked(launches[1])?];
        let of_height = |tiles: &[(Tile, f64)], height: u32| -> Vec<(Tile, f64)> {
            tiles.iter().filter(|(tile, _)| tile.block_m == height).take(OF_EACH).copied().collect()
        };
        let mut picks: Vec<Pick> = Vec::new();
        for height in [16, 32, 64, 128, 256] {
            let seconds = of_height(&down, height);
            for (tile, first) in of_height(&up, height) {
                let pair = |&(down, then): &(Tile, f64)| Pick { tile, down: Some(down), us: first + then };
                picks.extend(seconds.iter().map(pair));
            }
        }
        picks.sort_by(|a, b| a.us.total_cmp(&b.us));
        picks.truncate(MOST_PICKS);
        if picks.is_empty() {
            let one = self.best(&launches)?;
            return Ok(one.into_iter().map(|pick| Pick { down: Some(pick.tile), ..pick }).collect());
        }
        Ok(picks)
    }

    /// One config for both launches, among those of one depth.
    fn best_of_depth(&self, launches: [&Problem; 2], depth: u32) -> Result<Vec<Pick>, TuningError> {
        let mut configs = Space::Named(SpaceName::Full)
            .configs(self.hardware, launches[0])
            .map_err(|invalid| TuningError::Model(invalid.into()))?;
        configs.retain(|config| config.tile().is_some_and(|tile| tile.block_k == depth));
        let times = launches.map(|problem| self.model.predict(problem, &configs));
        let [up, down] = times;
        let bias = self.networks.about.pick_bias;
        let sums = up?.into_iter().zip(down?).map(|(up, down)| (up.0 + down.0) * bias);
        let pick = |(config, us): (&Config, f64)| Some(Pick { tile: *config.tile()?, down: None, us });
        let mut picks: Vec<Pick> = configs.iter().zip(sums).filter_map(pick).collect();
        picks.sort_by(|a, b| a.us.total_cmp(&b.us));
        picks.truncate(MOST_PICKS);
        if picks.is_empty() { Err(self.without_configs(launches[0])) } else { Ok(picks) }
    }

    fn without_configs(&self, problem: &Problem) -> TuningError {
        TuningError::Unmeasured {
            what: "configs",
            given: format!("none for {} {} on {}", problem.op, problem.dims(), self.hardware.name),
            expected: "one that fits this hardware",
        }
    }

    /// Takes the first pick, or keeps the default.
    fn choose(
        &mut self,
        batch: u64,
        launches: &[&Problem],
        default: Tile,
        picks: Vec<Pick>,
    ) -> Result<(), TuningError> {
        let config = Config::Mm(default.for_k(launches[0].k));
        let default_us = self.networks.time_of(self.hardware, launches, config)?.0;
        let default_us = of_server(self.consumer, self.hardware, launches[0], &default, default_us);
        let best = picks.first().copied().ok_or_else(|| self.without_configs(launches[0]))?;
        let keeps_default = best.us >= default_us * self.tuned.handicap;
        let kept = Pick { tile: default, down: best.down.map(|_| default), us: default_us };
        let Pick { tile, down, us } = if keeps_default { kept } else { best };
        self.tuned.choices.push(Choice {
            batch,
            default,
            default_us,
            tile,
            down,
            us,
            keeps_default,
            picks,
            published: None,
            measured: None,
        });
        Ok(())
    }
}
