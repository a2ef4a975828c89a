//! Lists of configs as columns, one per field. Within a space each field has only a few values, so
//! columns compress well.

use diode_core::{AccType, Config, FailureReason, RocmExtras, Tile};

use crate::bytes::{Corrupt, Cursor, write_varint};
use crate::columns::{read_u32s, write_u32s};

/// The number of fields of a config. `docs/reference/formats.md` lists them in this order.
pub(crate) const FIELDS: usize = 13;

const EVEN_K: u32 = 1;
const ALLOW_TF32: u32 = 2;
const USE_FAST_ACCUM: u32 = 4;
const ROCM: u32 = 8;

/// A config as numbers. Fields that its template does not have are 0.
pub(crate) fn to_numbers(config: &Config) -> [u32; FIELDS] {
    let (template, tile, k_split) = match *config {
        Config::Mm(tile) => (0, Some(tile), 0),
        Config::Bmm(tile) => (1, Some(tile), 0),
        Config::PersistentTma(tile) => (2, Some(tile), 0),
        Config::DecomposeK { k_split } => (3, None, k_split),
        Config::Library | Config::RoundingLibrary => (4, None, 0),
    };
    let Some(t) = tile else {
        let flags = if *config == Config::RoundingLibrary { ALLOW_TF32 } else { 0 };
        return [template, 0, 0, 0, 0, 0, 0, flags, 0, 0, 0, 0, k_split];
    };
    let flag = |set: bool, bit: u32| if set { bit } else { 0 };
    let flags = flag(t.even_k, EVEN_K)
        | flag(t.allow_tf32, ALLOW_TF32)
        | flag(t.use_fast_accum, USE_FAST_ACCUM)
        | flag(t.rocm.is_some(), ROCM);
    let acc_type = match t.acc_type {
        AccType::Float32 => 0,
        AccType::Float16 => 1,
        AccType::Int32 => 2,
    };
    let (nonkdim, waves, kpack) =
        t.rocm.map_or((0, 0, 0), |r| (r.matrix_instr_nonkdim, r.waves_per_eu, r.kpack));
    [
        template,
        t.block_m,
        t.block_n,
        t.block_k,
        t.group_m,
        t.num_stages,
        t.num_warps,
        flags,
        acc_type,
        nonkdim,
        waves,
        kpack,
        0,
    ]
}

fn from_numbers(numbers: [u32; FIELDS]) -> Result<Config, String> {
    let [
        template,
        block_m,
        block_n,
        block_k,
        group_m,
        num_stages,
        num_warps,
        flags,
        acc_type,
        matrix_instr_nonkdim,
        waves_per_eu,
        kpack,
        k_split,
    ] = numbers;
    let tile = || {
        if flags > (EVEN_K | ALLOW_TF32 | USE_FAST_ACCUM | ROCM) {
            return Err(format!("config flags {flags}, expected at most 15"));
        }
        Ok(Tile {
            block_m,
            block_n,
            block_k,
            group_m,
            num_stages,
            num_warps,
            even_k: flags & EVEN_K != 0,
            allow_tf32: flags & ALLOW_TF32 != 0,
            use_fast_accum: flags & USE_FAST_ACCUM != 0,
            acc_type: match acc_type {
                0 => AccType::Float32,
                1 => AccType::Float16,
                2 => AccType::Int32,
                other => return Err(format!("ACC_TYPE code {other}, expected 0 to 2")),
            },
            rocm: (flags & ROCM != 0).then_some(RocmExtras { matrix_instr_nonkdim, waves_per_eu, kpack }),
        })
    };
    let config = match template {
        0 => Config::Mm(tile()?),
        1 => Config::Bmm(tile()?),
        2 => Config::PersistentTma(tile()?),
        3 => Config::DecomposeK { k_split },
        4 => Config::library(flags & ALLOW_TF32 != 0),
        other => return Err(format!("template code {other}, expected 0 to 4")),
    };
    config.validate().map_err(|invalid| invalid.to_string())?;
    Ok(config)
}

/// Writes the number of configs, then one column per field.
pub(crate) fn write_configs<'a>(out: &mut Vec<u8>, configs: impl ExactSizeIterator<Item = &'a Config>) {
    write_varint(out, configs.len() as u64);
    let rows: Vec<[u32; FIELDS]> = configs.map(to_numbers).collect();
    for field in 0..FIELDS {
        write_u32s(out, rows.iter().map(|row| row[field]));
    }
}

/// Reads configs. Each config takes at least a byte, either for its tile or for its template.
pub(crate) fn read_configs(cursor: &mut Cursor<'_>, limit: usize) -> Result<Vec<Config>, Corrupt> {
    let count = cursor.count("configs", limit)?;
    let mut rows = vec![[0; FIELDS]; count];
    for field in 0..FIELDS {
        for (row, value) in rows.iter_mut().zip(read_u32s(cursor, count)?) {
            row[field] = value;
        }
    }
    rows.into_iter()
        .enumerate()
        .map(|(index, numbers)| {
            from_numbers(numbers).map_err(|cause| cursor.corrupt(format!("config {index}: {cause}")))
        })
        .collect()
}

/// The number of a failure reason in a file. It is never 0, so every failure takes at least a byte
/// and a short file cannot claim many failures.
pub(crate) const fn reason_code(reason: FailureReason) -> u32 {
    match reason {
        FailureReason::OutOfResources => 1,
        FailureReason::Compile => 2,
        FailureReason::Launch => 3,
        FailureReason::WrongResult => 4,
        FailureReason::Timeout => 5,
        FailureReason::OutOfMemory => 6,
        FailureReason::NotFinite => 7,
    }
}

pub(crate) fn reason_from_code(code: u32) -> Result<FailureReason, String> {
    FailureReason::ALL
        .iter()
        .copied()
        .find(|&reason| reason_code(reason) == code)
        .ok_or_else(|| format!("failure reason code {code}, expected 1 to 7"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_outside_the_tables_are_refused() {
        let good = to_numbers(&Config::Mm(Tile::new(64, 64, 32, 3, 4)));
        assert!(from_numbers(good).is_ok());
        for (field, bad) in [(0, 5), (1, 48), (6, 0), (7, 16), (8, 3)] {
            let mut numbers = good;
            numbers[field] = bad;
            assert!(from_numbers(numbers).is_err(), "field {field} = {bad}");
        }
        assert!(reason_from_code(0).is_err());
    }

    #[test]
    fn a_claimed_million_of_configs_is_refused_before_it_is_believed() {
        let mut bytes = Vec::new();
        write_varint(&mut bytes, 1 << 40);
        assert!(read_configs(&mut Cursor::new(&bytes), 1000).is_err());
        // A column of zeros takes two bytes, however many rows it claims.
        let mut zeros = vec![200, 1];
        zeros.extend([1, 0].repeat(FIELDS));
        let error = read_configs(&mut Cursor::new(&zeros), 1000).unwrap_err().to_string();
        assert!(error.contains("200 configs, expected at most 26"), "{error}");
    }
}
