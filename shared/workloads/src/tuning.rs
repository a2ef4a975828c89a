//! The config of each batch size: what a server runs untuned, unless a model expects another to be clearly faster.

use diode_core::hardware::Hardware;
use diode_core::space::{Space, SpaceName};
use diode_core::{Config, Micros, Op, Problem, Tile};
use diode_model::{Model, ModelError, Serving as Networks, ServingFigures};

use crate::file_body::{Body, Entry};
use crate::file_names::Consumer;
use crate::layers::{DenseLayer, ExpertsLayer, LayersError};
use crate::model_config::Quantization;

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

/// The config of one batch size. Times are for all launches of the layer together.
#[derive(Debug, Clone, Copy, PartialEq)]
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
}

impl Choice {
    /// The default's predicted time / this one's.
    pub fn gain(&self) -> f64 {
        self.default_us / self.us
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

/// Where nobody has measured how good picks are, one must be predicted to be 5 % faster than a default.
const DOUBTFUL_HANDICAP: f64 = 1.0 / 1.05;

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

/// The tiles of both launches, and their predicted time together.
struct Best {
    tile: Tile,
    down: Option<Tile>,
    us: f64,
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
        let handicap = networks.about.default_handicap;
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
    fn best(&self, launches: &[&Problem]) -> Result<Best, TuningError> {
        let dense = launches.iter().all(|problem| problem.op == Op::ScaledMm);
        // In SGLang's dense kernel, a swap stands for another kernel, which splits K as well.
        let tile_of = |config: &Config| config.tile().filter(|tile| !(dense && tile.swap_ab)).copied();
        for all in [false, true] {
            let ranked = self.networks.rank(self.hardware, launches, None, all)?;
            let found = ranked.configs.iter().find_map(|(config, time)| Some((tile_of(config)?, time.0)));
            if let Some((tile, us)) = found {
                return Ok(Best { tile, down: None, us });
            }
        }
        Err(self.without_configs(launches[0]))
    }

    /// A config for each of both launches. They sort tokens once, so both have the same height.
    fn best_pair(&self, launches: [&Problem; 2]) -> Result<Best, TuningError> {
        let ranked = |problem: &Problem| {
            let ranked = self.networks.rank(self.hardware, &[problem], None, false)?;
            Ok::<_, ModelError>(ranked.configs)
        };
        let [up, down] = [ranked(launches[0])?, ranked(launches[1])?];
        // The first of a height is the fastest.
        let of_height = |configs: &[(Config, Micros)], height: u32| {
            let of = |(config, time): &(Config, Micros)| {
                Some((*config.tile().filter(|t| t.block_m == height)?, time.0))
            };
            configs.iter().find_map(of)
        };
        let mut best: Option<Best> = None;
        for height in [16, 32, 64, 128, 256] {
            let (Some((tile, first)), Some((second, then))) =
                (of_height(&up, height), of_height(&down, height))
            else {
                continue;
            };
            let us = first + then;
            if best.as_ref().is_none_or(|best| us < best.us) {
                best = Some(Best { tile, down: Some(second), us });
            }
        }
        match best {
            Some(best) => Ok(best),
            None => {
                let one = self.best(&launches)?;
                Ok(Best { down: Some(one.tile), ..one })
            }
        }
    }

    /// One config for both launches, among those of one depth.
    fn best_of_depth(&self, launches: [&Problem; 2], depth: u32) -> Result<Best, TuningError> {
        let mut configs = Space::Named(SpaceName::Full)
            .configs(self.hardware, launches[0])
            .map_err(|invalid| TuningError::Model(invalid.into()))?;
        configs.retain(|config| config.tile().is_some_and(|tile| tile.block_k == depth));
        let times = launches.map(|problem| self.model.predict(problem, &configs));
        let [up, down] = times;
        let bias = self.networks.about.pick_bias;
        let sums = up?.into_iter().zip(down?).map(|(up, down)| (up.0 + down.0) * bias);
        let fastest = configs.iter().zip(sums).min_by(|a, b| a.1.total_cmp(&b.1));
        let found = fastest.and_then(|(config, us)| Some((*config.tile()?, us)));
        let (tile, us) = found.ok_or_else(|| self.without_configs(launches[0]))?;
        Ok(Best { tile, down: None, us })
    }

    fn without_configs(&self, problem: &Problem) -> TuningError {
        TuningError::Unmeasured {
            what: "configs",
            given: format!("none for {} {} on {}", problem.op, problem.dims(), self.hardware.name),
            expected: "one that fits this hardware",
        }
    }

    /// Takes the best config, or keeps the default.
    fn choose(
        &mut self,
        batch: u64,
        launches: &[&Problem],
        default: Tile,
        best: Best,
    ) -> Result<(), TuningError> {
        let config = Config::Mm(default.for_k(launches[0].k));
        let default_us = self.networks.time_of(self.hardware, launches, config)?.0;
        let keeps_default = best.us >= default_us * self.tuned.handicap;
        let kept = Best { tile: default, down: best.down.map(|_| default), us: default_us };
        let Best { tile, down, us } = if keeps_default { kept } else { best };
        self.tuned.choices.push(Choice { batch, default, default_us, tile, down, us, keeps_default });
        Ok(())
    }
}
