//! Reference configs as text with columns.

use diode_core::{AccType, Config, Invalid, Tile};

use super::{DEFAULT_OP, ReferenceConfig, Scope};
use crate::FormatError;
use crate::input::delimited::{Delimited, locate};

const REQUIRED: [&str; 8] =
    ["name", "grid", "block_m", "block_n", "block_k", "group_m", "num_stages", "num_warps"];
const OPTIONAL: [&str; 5] = ["EVEN_K", "ALLOW_TF32", "USE_FAST_ACCUM", "ACC_TYPE", "operation"];

pub(super) fn read(text: &[u8]) -> Result<Vec<ReferenceConfig>, FormatError> {
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
