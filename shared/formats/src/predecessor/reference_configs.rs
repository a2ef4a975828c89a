//! Reference configs: configs to compare a choice with, such as those that Inductor's max-autotune
//! would try. They have no times. torch-diode calls a file of them a solution.

mod csv;
mod json;

use std::path::Path;

use diode_core::space::config_for;
use diode_core::{Config, Op, Problem, Tile};

use crate::FormatError;
use crate::input::contents::{FileKind, expect};
use crate::input::document::Document;
use crate::input::file::read_with;
use crate::input::malformed::refused;

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
            Document::Text(text) => csv::read(text)?,
            _ => document.parse::<json::File>()?.map_or_else(Vec::new, |file| file.0),
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
