//! A config as files and JSON hold it: a flat record of fields.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use crate::config::{AccType, Config, RocmExtras, Template, Tile};
use crate::error::{Field, Invalid};

/// A config as one flat record: the form of files, JSON and tables. Fields that
/// a template does not have are null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ConfigFields {
    pub template: Template,
    pub block_m: Option<u32>,
    pub block_n: Option<u32>,
    pub block_k: Option<u32>,
    pub group_m: Option<u32>,
    pub num_stages: Option<u32>,
    pub num_warps: Option<u32>,
    pub even_k: Option<bool>,
    #[serde(default)]
    pub allow_tf32: Option<bool>,
    #[serde(default)]
    pub use_fast_accum: Option<bool>,
    #[serde(default)]
    pub acc_type: Option<AccType>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rocm: Option<RocmExtras>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub k_split: Option<u32>,
}

impl From<Config> for ConfigFields {
    fn from(config: Config) -> Self {
        let tile = config.tile();
        Self {
            template: config.template(),
            block_m: tile.map(|t| t.block_m),
            block_n: tile.map(|t| t.block_n),
            block_k: tile.map(|t| t.block_k),
            group_m: tile.map(|t| t.group_m),
            num_stages: tile.map(|t| t.num_stages),
            num_warps: tile.map(|t| t.num_warps),
            even_k: tile.map(|t| t.even_k),
            allow_tf32: match config {
                Config::RoundingLibrary => Some(true),
                _ => tile.map(|t| t.allow_tf32),
            },
            use_fast_accum: tile.map(|t| t.use_fast_accum),
            acc_type: tile.map(|t| t.acc_type),
            rocm: tile.and_then(|t| t.rocm),
            k_split: match config {
                Config::DecomposeK { k_split } => Some(k_split),
                _ => None,
            },
        }
    }
}

impl ConfigFields {
    /// Refuses fields that belong to another template. With this template they would have no effect.
    fn check_template(&self) -> Result<(), Invalid> {
        let flag = |flag: Option<bool>| flag.filter(|&set| set).map(|_| "true".to_owned());
        let number = |number: Option<u32>| number.map(|number| number.to_string());
        let template = self.template;
        let of_tiles = [
            (Field::BlockM, number(self.block_m)),
            (Field::BlockN, number(self.block_n)),
            (Field::BlockK, number(self.block_k)),
            (Field::GroupM, number(self.group_m)),
            (Field::NumStages, number(self.num_stages)),
            (Field::NumWarps, number(self.num_warps)),
            (Field::EvenK, flag(self.even_k)),
            (Field::AllowTf32, flag(self.allow_tf32).filter(|_| template != Template::Aten)),
            (Field::UseFastAccum, flag(self.use_fast_accum)),
            (Field::Rocm, self.rocm.map(|_| "parameters".to_owned())),
        ];
        let foreign = of_tiles
            .into_iter()
            .filter(|_| !template.has_tile())
            .chain([(Field::KSplit, number(self.k_split).filter(|_| template != Template::DecomposeK))])
            .find_map(|(field, value)| Some((field, value?)));
        match foreign {
            Some((field, value)) => {
                Err(Invalid::new(field, value, format!("none, since the template is {template}")))
            }
            None => Ok(()),
        }
    }
}

impl TryFrom<ConfigFields> for Config {
    type Error = Invalid;

    fn try_from(fields: ConfigFields) -> Result<Self, Invalid> {
        fields.check_template()?;
        let need = |field: Field, value: Option<u32>| {
            value.ok_or_else(|| {
                Invalid::new(field, "null", format!("a number, since the template is {}", fields.template))
            })
        };
        let tile = || -> Result<Tile, Invalid> {
            Ok(Tile {
                block_m: need(Field::BlockM, fields.block_m)?,
                block_n: need(Field::BlockN, fields.block_n)?,
                block_k: need(Field::BlockK, fields.block_k)?,
                group_m: need(Field::GroupM, fields.group_m)?,
                num_stages: need(Field::NumStages, fields.num_stages)?,
                num_warps: need(Field::NumWarps, fields.num_warps)?,
                even_k: fields.even_k.unwrap_or(false),
                allow_tf32: fields.allow_tf32.unwrap_or(false),
                use_fast_accum: fields.use_fast_accum.unwrap_or(false),
                acc_type: fields.acc_type.unwrap_or(AccType::Float32),
                rocm: fields.rocm,
            })
        };
        let config = match fields.template {
            Template::TritonMm => Self::Mm(tile()?),
            Template::TritonBmm => Self::Bmm(tile()?),
            Template::TritonMmPersistentTma => Self::PersistentTma(tile()?),
            Template::DecomposeK => Self::DecomposeK { k_split: need(Field::KSplit, fields.k_split)? },
            Template::Aten => Self::library(fields.allow_tf32.unwrap_or(false)),
        };
        config.validate()?;
        Ok(config)
    }
}

impl Serialize for Config {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ConfigFields::from(*self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Config {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::try_from(ConfigFields::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configs_round_trip_through_their_flat_form() {
        for config in [
            Config::Mm(Tile::new(128, 64, 32, 3, 4)),
            Config::PersistentTma(Tile::new(128, 128, 64, 3, 8).for_k(128)),
            Config::DecomposeK { k_split: 4 },
            Config::Library,
            Config::RoundingLibrary,
        ] {
            let text = serde_json::to_string(&config).unwrap();
            assert_eq!(serde_json::from_str::<Config>(&text).unwrap(), config);
        }
    }

    #[test]
    fn tiles_are_checked() {
        let bad = ConfigFields::from(Config::Mm(Tile::new(48, 64, 32, 3, 4)));
        let error = Config::try_from(bad).unwrap_err();
        assert_eq!(error.to_string(), "block_m: got 48, expected a power of two up to 1024");
        let missing = ConfigFields { block_k: None, ..Config::Mm(Tile::new(64, 64, 32, 3, 4)).into() };
        assert!(Config::try_from(missing).unwrap_err().to_string().contains("block_k: got null"));
    }

    #[test]
    fn what_a_template_has_not_got_is_refused() {
        let refused = |fields: ConfigFields| Config::try_from(fields).unwrap_err().to_string();
        let library = ConfigFields::from(Config::Library);
        let error = refused(ConfigFields { block_m: Some(64), ..library.clone() });
        assert_eq!(error, "block_m: got 64, expected none, since the template is aten");
        assert!(
            refused(ConfigFields { even_k: Some(true), ..library.clone() }).starts_with("even_k: got true")
        );
        assert!(refused(ConfigFields { k_split: Some(4), ..library.clone() }).starts_with("k_split: got 4"));
        let split = ConfigFields::from(Config::DecomposeK { k_split: 4 });
        assert!(refused(ConfigFields { num_warps: Some(4), ..split }).contains("template is decompose_k"));
        let tiled = ConfigFields::from(Config::Mm(Tile::new(64, 64, 32, 3, 4)));
        assert!(refused(ConfigFields { k_split: Some(4), ..tiled }).contains("template is triton::mm"));
        // Other programs may write these fields for the library kernel, too. They change nothing there.
        let of_a_row = ConfigFields { even_k: Some(false), acc_type: Some(AccType::Float32), ..library };
        assert_eq!(Config::try_from(of_a_row), Ok(Config::Library));
    }
}
