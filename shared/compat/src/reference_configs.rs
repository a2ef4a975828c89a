//! Reference configs: configs to compare a choice with, such as those that Inductor's max-autotune
//! would try. They have no times. torch-diode calls a file of them a solution.

use std::fmt;
use std::path::Path;

use diode_core::space::config_for;
use diode_core::{AccType, Config, Field, Invalid, Op, Problem, Tile};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use diode_formats::FileKind;
use diode_formats::FormatError;
use diode_formats::reading::Document;
use diode_formats::reading::PredecessorConfig;
use diode_formats::reading::expect;
use diode_formats::reading::read_with;
use diode_formats::reading::refused;
use diode_formats::reading::{Delimited, locate};

/// A list of reference configs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceConfigs {
    /// The configs in file order.
    pub configs: Vec<ReferenceConfig>,
}

/// A reference config, and the problems for which it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReferenceConfig {
    pub scope: Scope,
    pub tile: Tile,
}

/// The problems for which a reference config counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Everything,
    Op(Op),
    /// One size, with any op.
    Size {
        m: u64,
        n: u64,
        k: u64,
    },
}

impl Scope {
    /// Whether a problem belongs to this scope.
    pub fn covers(self, problem: &Problem) -> bool {
        match self {
            Self::Everything => true,
            Self::Op(op) => problem.op == op,
            Self::Size { m, n, k } => (problem.m, problem.n, problem.k) == (m, n, k),
        }
    }
}

impl ReferenceConfigs {
    /// The configs for a problem, in file order.
    pub fn for_problem(&self, problem: &Problem) -> Vec<Config> {
        self.configs
            .iter()
            .filter(|config| config.scope.covers(problem))
            .map(|config| config_for(problem.op, config.tile))
            .collect()
    }
}

/// Reads reference configs in any form, whatever the file's name.
pub fn read_reference_configs(path: &Path) -> Result<ReferenceConfigs, FormatError> {
    read_with(path, decode_reference_configs)
}

/// Decodes reference configs in any form, recognised by content:
/// `{"config": […]}` for every op, `{"<op>": {"config": […]}}` per op,
/// `{"name", "configs": [{"M", "N", "K", "block_m", …}]}` per problem, or columns.
pub fn decode_reference_configs(bytes: &[u8]) -> Result<ReferenceConfigs, FormatError> {
    expect(FileKind::ReferenceConfigs, bytes, || {
        let document = Document::open(bytes)?;
        let configs = match &document {
            Document::Text(text) => read(text)?,
            _ => document.parse::<File>()?.map_or_else(Vec::new, |file| file.0),
        };
        if configs.is_empty() {
            let place = "its top level".to_owned();
            return Err(refused("solution", place, "no configs under `config`, `configs` or an operation"));
        }
        Ok(ReferenceConfigs { configs })
    })
}

/// What torch-diode's CSV converter calls the op of rows that name none.
const DEFAULT_OP: &str = "default";

const REQUIRED: [&str; 8] =
    ["name", "grid", "block_m", "block_n", "block_k", "group_m", "num_stages", "num_warps"];
const OPTIONAL: [&str; 5] = ["EVEN_K", "ALLOW_TF32", "USE_FAST_ACCUM", "ACC_TYPE", "operation"];

fn read(text: &[u8]) -> Result<Vec<ReferenceConfig>, FormatError> {
    let mut reader = Delimited::new(text, delimiter(text));
    let header = reader.record()?.map(<[String]>::to_vec).unwrap_or_default();
    let required = locate(&header, REQUIRED).map_err(|cause| reader.refuse(cause))?;
    let optional = locate(&header, OPTIONAL).map_err(|cause| reader.refuse(cause))?;
    let mut columns = [0; REQUIRED.len()];
    for ((column, place), name) in columns.iter_mut().zip(required).zip(REQUIRED) {
        let missing = || reader.refuse(format_args!("no column `{name}`, expected {}", REQUIRED.join(",")));
        *column = place.ok_or_else(missing)?;
    }
    let mut configs = Vec::new();
    while let Some(record) = reader.record()? {
        let config = if record.len() == header.len() {
            csv_config(columns.map(|c| record[c].trim()), optional.map(|c| c.map(|c| record[c].trim())))
        } else {
            Err(format!("{} fields, expected {} as in the header", record.len(), header.len()))
        };
        configs.push(config.map_err(|cause| reader.refuse(cause))?);
    }
    Ok(configs)
}

/// The delimiter: the most frequent of `,`, `;` and tab in the header.
fn delimiter(text: &[u8]) -> u8 {
    let header = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let count = |delimiter: u8| header.iter().filter(|&&byte| byte == delimiter).count();
    // `max_by_key` returns the last of equals, so the comma stands last.
    [b'\t', b';', b','].into_iter().max_by_key(|&delimiter| count(delimiter)).unwrap_or(b',')
}

fn csv_config(
    required: [&str; REQUIRED.len()],
    optional: [Option<&str>; OPTIONAL.len()],
) -> Result<ReferenceConfig, String> {
    let number = |column: usize| {
        let text = required[column];
        text.parse::<u32>()
            .map_err(|_| format!("{}: got {text:?}, expected a whole number", REQUIRED[column]))
    };
    let flag = |column: usize| match optional[column].unwrap_or_default().to_lowercase().as_str() {
        "true" | "t" | "1" | "yes" | "y" => Ok(true),
        "false" | "f" | "0" | "no" | "n" | "" => Ok(false),
        other => Err(format!("{}: got {other:?}, expected true or false", OPTIONAL[column])),
    };
    number(1)?;
    let in_words = |invalid: Invalid| invalid.to_string();
    let tile = Tile {
        group_m: number(5)?,
        even_k: flag(0)?,
        allow_tf32: flag(1)?,
        use_fast_accum: flag(2)?,
        acc_type: match optional[3] {
            None | Some("") => AccType::Float32,
            Some(name) => name.parse().map_err(in_words)?,
        },
        ..Tile::new(number(2)?, number(3)?, number(4)?, number(6)?, number(7)?)
    };
    Config::Mm(tile).validate().map_err(in_words)?;
    let scope = match optional[4] {
        None | Some("" | DEFAULT_OP) => Scope::Everything,
        Some(op) => Scope::Op(op.parse().map_err(in_words)?),
    };
    Ok(ReferenceConfig { scope, tile })
}

/// A file in one of three JSON forms. The top-level keys tell which.
struct File(Vec<ReferenceConfig>);

impl<'de> Deserialize<'de> for File {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FileVisitor)
    }
}

struct FileVisitor;

impl<'de> Visitor<'de> for FileVisitor {
    type Value = File;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map with `config`, `configs` or operations")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<File, A::Error> {
        let mut configs = Vec::new();
        let mut seen: Vec<String> = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            if seen.contains(&key) {
                return Err(A::Error::custom(format_args!("duplicate key {key:.200?}")));
            }
            let mut add = |scope, list: Vec<PredecessorConfig>| {
                for (number, config) in (1..).zip(list) {
                    let tile = config.tile().map_err(|invalid| {
                        A::Error::custom(format_args!("config {number} of {key:.200?}: {invalid}"))
                    })?;
                    configs.push(ReferenceConfig { scope, tile });
                }
                Ok(())
            };
            match key.as_str() {
                "config" => add(Scope::Everything, map.next_value()?)?,
                "configs" => {
                    for (number, config) in (1..).zip(map.next_value::<Vec<SizedConfig>>()?) {
                        let config = config.reference().map_err(|invalid| {
                            A::Error::custom(format_args!("config {number} of \"configs\": {invalid}"))
                        })?;
                        configs.push(config);
                    }
                }
                DEFAULT_OP => add(Scope::Everything, map.next_value::<ConfigList>()?.config)?,
                other => match other.parse() {
                    Ok(op) => add(Scope::Op(op), map.next_value::<ConfigList>()?.config)?,
                    Err(_) => {
                        map.next_value::<IgnoredAny>()?;
                    }
                },
            }
            seen.push(key);
        }
        Ok(File(configs))
    }
}

#[derive(Deserialize)]
struct ConfigList {
    config: Vec<PredecessorConfig>,
}

/// A config for one size. Missing fields have Triton's usual settings.
#[derive(Deserialize)]
struct SizedConfig {
    #[serde(rename = "M")]
    m: u64,
    #[serde(rename = "N")]
    n: u64,
    #[serde(rename = "K")]
    k: u64,
    block_m: u32,
    block_n: u32,
    block_k: u32,
    num_stages: u32,
    num_warps: u32,
    group_m: Option<u32>,
    #[serde(rename = "EVEN_K")]
    even_k: Option<bool>,
    #[serde(rename = "ALLOW_TF32")]
    allow_tf32: Option<bool>,
    #[serde(rename = "USE_FAST_ACCUM")]
    use_fast_accum: Option<bool>,
    #[serde(rename = "ACC_TYPE")]
    acc_type: Option<AccType>,
}

impl SizedConfig {
    fn reference(self) -> Result<ReferenceConfig, Invalid> {
        let plain = Tile::new(self.block_m, self.block_n, self.block_k, self.num_stages, self.num_warps);
        let tile = Tile {
            group_m: self.group_m.unwrap_or(plain.group_m),
            even_k: self.even_k.unwrap_or(plain.even_k),
            allow_tf32: self.allow_tf32.unwrap_or(plain.allow_tf32),
            use_fast_accum: self.use_fast_accum.unwrap_or(plain.use_fast_accum),
            acc_type: self.acc_type.unwrap_or(plain.acc_type),
            ..plain
        };
        Config::Mm(tile).validate()?;
        for (field, size) in [(Field::M, self.m), (Field::N, self.n), (Field::K, self.k)] {
            if size == 0 || size > Problem::MAX_DIM {
                let expected = format!("a size from 1 to {}", Problem::MAX_DIM);
                return Err(Invalid::new(field, size, expected));
            }
        }
        Ok(ReferenceConfig { scope: Scope::Size { m: self.m, n: self.n, k: self.k }, tile })
    }
}

#[cfg(test)]
mod tests {
    use diode_core::{AccType, DType, ProblemFields};

    use super::*;

    const CONFIG: &str = r#"{"ACC_TYPE": "tl.float16", "block_k": 16, "block_m": 64, "block_n": 32, "grid": 1,
        "group_m": 8, "name": "triton_mm", "num_stages": 2, "num_warps": 4, "version": 1}"#;

    fn tile() -> Tile {
        Tile { acc_type: AccType::Float16, ..Tile::new(64, 32, 16, 2, 4) }
    }

    fn decode(text: &str) -> Result<Vec<ReferenceConfig>, String> {
        decode_reference_configs(text.as_bytes()).map(|file| file.configs).map_err(|error| error.to_string())
    }

    #[test]
    fn the_three_json_forms_say_where_their_configs_apply() {
        let read = |text: String, scope| {
            assert_eq!(decode(&text), Ok(vec![ReferenceConfig { scope, tile: tile() }]))
        };
        read(format!(r#"{{"config": [{CONFIG}], "version": 1}}"#), Scope::Everything);
        read(format!(r#"{{"addmm": {{"config": [{CONFIG}]}}, "note": 1}}"#), Scope::Op(Op::Addmm));
        read(format!(r#"{{"default": {{"config": [{CONFIG}]}}}}"#), Scope::Everything);
        let size = CONFIG.replacen('{', r#"{"M": 5, "N": 6, "K": 7, "#, 1);
        read(format!(r#"{{"name": "x", "configs": [{size}]}}"#), Scope::Size { m: 5, n: 6, k: 7 });
        let sparse = r#"{"configs": [{"M":5,"N":6,"K":7,"block_m":64,"block_n":32,"block_k":16,"num_stages":2,"num_warps":4}]}"#;
        assert_eq!(decode(sparse).unwrap()[0].tile, Tile::new(64, 32, 16, 2, 4));
    }

    #[test]
    fn columns_say_the_same_with_any_delimiter() {
        let text = "name,grid,block_m,block_n,block_k,group_m,num_stages,num_warps,EVEN_K,ACC_TYPE,operation\n\
                    a,1,64,32,16,8,2,4,No,\"tl.float16\",\nb,1,64,32,16,8,2,4,f,tl.float16,bmm\n";
        let scopes = [Scope::Everything, Scope::Op(Op::Bmm)];
        let expected = scopes.map(|scope| ReferenceConfig { scope, tile: tile() });
        for delimiter in [",", ";", "\t"] {
            assert_eq!(decode(&text.replace(',', delimiter)).unwrap(), expected);
        }
        assert!(decode(&text.replace("64", "48")).unwrap_err().contains("line 2: block_m: got 48"));
        assert!(decode(&text.replace("grid", "girt")).unwrap_err().contains("no column `grid`"));
        assert!(decode(&text.replace(",No", "")).unwrap_err().contains("10 fields, expected 11"));
    }

    #[test]
    fn a_problem_gets_the_configs_that_speak_of_it() {
        let problem = |op, m| Problem::new(ProblemFields::plain(op, 1, m, 6, 7, DType::Float16)).unwrap();
        let scopes = [Scope::Op(Op::Mm), Scope::Size { m: 5, n: 6, k: 7 }];
        let reference = ReferenceConfigs {
            configs: scopes.map(|scope| ReferenceConfig { scope, tile: tile() }).to_vec(),
        };
        assert_eq!(reference.for_problem(&problem(Op::Mm, 5)).len(), 2);
        assert_eq!(reference.for_problem(&problem(Op::Mm, 4)).len(), 1);
        assert_eq!(reference.for_problem(&problem(Op::Bmm, 5)), [Config::Bmm(tile())]);
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let bad = CONFIG.replace("64", "65");
        let error = decode(&format!(r#"{{"config": [{CONFIG}, {bad}]}}"#)).unwrap_err();
        assert!(
            error.contains("line 3") && error.contains("config 2 of \"config\": block_m: got 65"),
            "{error}"
        );
        assert!(decode(r#"{"config": [], "config": []}"#).unwrap_err().contains("duplicate key"));
        assert!(decode(r#"{"conv": {"config": []}}"#).unwrap_err().contains("no configs under"));
        assert!(decode(r#"{"shapes": []}"#).unwrap_err().contains("got a shape set"));
    }
}
