//! A space as the command line gives it: by name, or as a file with a list.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context as _, bail};
use diode_core::Config;
use diode_core::space::{Space, SpaceName};
use serde::Deserialize;

/// A space that has not been read yet.
#[derive(Debug, Clone)]
pub(crate) enum SpaceArg {
    Named(SpaceName),
    File(PathBuf),
}

/// A list of configs, bare or as `diode predict --json` prints it.
#[derive(Deserialize)]
#[serde(untagged)]
enum ListFile {
    Bare(Vec<Config>),
    Prediction { candidates: Vec<Config> },
}

impl SpaceArg {
    /// The space itself.
    pub(crate) fn read(&self) -> anyhow::Result<Space> {
        let path = match self {
            Self::Named(name) => return Ok(Space::Named(*name)),
            Self::File(path) => path,
        };
        let shown = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
        let list = serde_json::from_str(&text).map_err(|error| {
            anyhow::anyhow!(
                "{shown}: expected a JSON list of configs, or the output of `diode predict --json` ({error})"
            )
        })?;
        let (ListFile::Bare(configs) | ListFile::Prediction { candidates: configs }) = list;
        if configs.is_empty() {
            bail!("{shown}: expected at least one config");
        }
        Ok(Space::List(configs))
    }
}

impl FromStr for SpaceArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match crate::arguments::space(text) {
            Ok(name) => Ok(Self::Named(name)),
            Err(_) if text.ends_with(".json") => Ok(Self::File(text.into())),
            Err(invalid) => Err(format!("{invalid}, or a .json file with a list of configs")),
        }
    }
}

impl std::fmt::Display for SpaceArg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Named(name) => name.fmt(f),
            Self::File(path) => path.display().fmt(f),
        }
    }
}
