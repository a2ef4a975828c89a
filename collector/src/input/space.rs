//! A space on the command line: a name, or a file with a list.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context as _, bail};
use diode_core::space::{Space, SpaceName};
use diode_core::{Config, numbered};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A space whose file has not been read yet.
#[derive(Debug, Clone)]
pub(crate) enum SpaceArg {
    Named(SpaceName),
    File(PathBuf),
}

/// The most bytes of a list, enough for some 50,000 configs. The exhaustive space has 1,875.
const MAX_BYTES: u64 = 16 << 20;

/// What a message says that the file must hold.
const EXPECTED: &str = "a JSON list of configs, or the output of `diode predict --json`";

/// A list of configs, either alone or in the output of `diode predict --json`.
struct List(Vec<Config>);

impl<'de> Deserialize<'de> for List {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ListVisitor)
    }
}

struct ListVisitor;

impl<'de> Visitor<'de> for ListVisitor {
    type Value = List;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of configs, or a map with `candidates`")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<List, A::Error> {
        numbered(SeqAccessDeserializer::new(list), "config").map(List)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<List, A::Error> {
        let mut list = None;
        while let Some(key) = map.next_key::<String>()? {
            if key == "candidates" {
                list = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        list.ok_or_else(|| A::Error::missing_field("candidates"))
    }
}

impl SpaceArg {
    /// The space. If it is a list, its file is read.
    pub(crate) fn read(&self) -> anyhow::Result<Space> {
        let path = match self {
            Self::Named(name) => return Ok(Space::Named(*name)),
            Self::File(path) => path,
        };
        let shown = path.display();
        let text = diode_formats::read_text(path, MAX_BYTES, EXPECTED)?;
        let List(configs) =
            serde_json::from_str(&text).with_context(|| format!("{shown}: expected {EXPECTED}"))?;
        if configs.is_empty() {
            bail!("{shown}: expected at least one config");
        }
        Ok(Space::List(configs))
    }
}

impl FromStr for SpaceArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match super::arguments::space(text) {
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
