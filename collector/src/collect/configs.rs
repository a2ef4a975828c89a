//! Which configs to time on a problem.

use std::path::PathBuf;

use clap::Args;
use diode_core::hardware::Hardware;
use diode_core::space::{Space, SpaceName};
use diode_core::{Config, Problem};
use diode_model::AnyModel;

use crate::input::arguments::at_least_one;
use crate::input::models::read_model;
use crate::input::space::SpaceArg;

/// Which configs to time.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// Which configs to time: default, inductor-exhaustive, full, or a JSON file with a list of them;
    /// default, or with --model full, if not given
    #[arg(long, alias = "search-space")]
    space: Option<SpaceArg>,

    /// Time only the configs of the space that a model ranks best (see --top) and, unless the space is a
    /// list of configs, the default configs
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,

    /// How many configs of the space to take from the model
    #[arg(long, value_name = "N", default_value_t = 200, requires = "model", value_parser = at_least_one)]
    top: usize,
}

/// The choice that [`ConfigArgs`] describes, after its files were read.
pub(super) struct ConfigChoice {
    space: Space,
    model: Option<AnyModel>,
    top: usize,
}

impl ConfigArgs {
    /// All configs of a space.
    pub(crate) fn all_of(space: SpaceName) -> Self {
        Self { space: Some(SpaceArg::Named(space)), model: None, top: 0 }
    }

    pub(super) fn read(&self) -> anyhow::Result<ConfigChoice> {
        let space = self.space().read()?;
        let model = self.model.as_deref().map(read_model).transpose()?;
        Ok(ConfigChoice { space, model, top: self.top })
    }

    fn space(&self) -> SpaceArg {
        let usual = if self.model.is_some() { SpaceName::Full } else { SpaceName::Default };
        self.space.clone().unwrap_or(SpaceArg::Named(usual))
    }

    pub(super) fn in_words(&self) -> String {
        let space = self.space();
        match &self.model {
            Some(model) => {
                let defaults =
                    if matches!(space, SpaceArg::File(_)) { "" } else { "the default configs and " };
                format!("{defaults}the {} best of {space} by {}", self.top, model.display())
            }
            None => format!("the {space} space"),
        }
    }
}

impl ConfigChoice {
    /// Says so if the configs are ranked by a model of other hardware.
    pub(super) fn mention_other_hardware(&self, hardware: &Hardware) -> anyhow::Result<()> {
        if let Some(model) = &self.model {
            let ranked = model.ranked_hardware()?;
            if ranked.slug != hardware.slug {
                say!("note: the model ranks configs for {}, not for {}", ranked.name, hardware.name);
            }
        }
        Ok(())
    }

    /// The configs to time on a problem, apart from the library kernel.
    pub(super) fn of(&self, hardware: &Hardware, problem: &Problem) -> anyhow::Result<Vec<Config>> {
        let Some(model) = &self.model else { return Ok(self.space.configs(hardware, problem)?) };
        let mut configs = match &self.space {
            Space::Named(_) => Space::Named(SpaceName::Default).configs(hardware, problem)?,
            Space::List(_) => Vec::new(),
        };
        let ranked = model.rank(problem, &self.space)?.configs.into_iter().map(|(config, _)| config);
        let more: Vec<Config> = ranked.take(self.top).filter(|config| !configs.contains(config)).collect();
        configs.extend(more);
        Ok(configs)
    }
}
