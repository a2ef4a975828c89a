//! Columns of numbers as bytes that compress well. Whole numbers are divided by their common factor and
//! written in byte planes: all lowest bytes, then all second lowest, and so on. High bytes are regular
//! and low bytes are noise, so both compress better apart. Nothing is rounded.

use diode_core::{AccType, Config, FailureReason, RocmExtras, Tile, TimeColumn};

use crate::bytes::{Corrupt, Cursor, write_varint};

const WHOLE_NANOSECONDS: u8 = 1;
const MILLISECONDS: u8 = 2;

/// Writes the greatest common divisor (varint), the bytes per value, and the planes, with the low plane
/// first.
pub(crate) fn write_numbers(out: &mut Vec<u8>, values: &[u64]) {
    let divisor = common_divisor(values);
    let mut scaled = values.to_vec();
    if divisor > 1 {
        scaled.iter_mut().for_each(|value| *value /= divisor);
    }
    let max = scaled.iter().copied().max().unwrap_or(0);
    let width = 8 - max.leading_zeros() / 8;
    write_varint(out, divisor);
    out.push(width as u8);
    write_planes(out, &scaled, width);
}

/// Reads a column of a known number of rows.
pub(crate) fn read_numbers(cursor: &mut Cursor<'_>, rows: usize) -> Result<Vec<u64>, Corrupt> {
    let divisor = cursor.varint()?;
    let width = cursor.byte()?;
    if width > 8 {
        return Err(cursor.corrupt(format!("a column of {width} bytes per value, expected at most 8")));
    }
    let mut values = read_planes(cursor, rows, width)?;
    if divisor != 1 {
        let max = values.iter().copied().max().unwrap_or(0);
        if max.checked_mul(divisor).is_none() {
            return Err(cursor.corrupt("a column with values beyond 64 bits"));
        }
        values.iter_mut().for_each(|value| *value *= divisor);
    }
    Ok(values)
}

pub(crate) fn write_u32s(out: &mut Vec<u8>, values: impl IntoIterator<Item = u32>) {
    let values: Vec<u64> = values.into_iter().map(u64::from).collect();
    write_numbers(out, &values);
}

pub(crate) fn read_u32s(cursor: &mut Cursor<'_>, rows: usize) -> Result<Vec<u32>, Corrupt> {
    read_numbers(cursor, rows)?.into_iter().map(|value| to_u32(cursor, value)).collect()
}

/// Writes each index as its distance from the expected index, which is 1 more than the index before it.
/// The sign goes into the lowest bit. A run in dictionary order becomes zeros.
pub(crate) fn write_indexes(out: &mut Vec<u8>, indexes: impl IntoIterator<Item = u32>) {
    let mut expected = 0_i64;
    let folded: Vec<u64> = indexes
        .into_iter()
        .map(|index| {
            let distance = i64::from(index) - expected;
            expected = i64::from(index) + 1;
            ((distance << 1) ^ (distance >> 63)) as u64
        })
        .collect();
    write_numbers(out, &folded);
}

pub(crate) fn read_indexes(cursor: &mut Cursor<'_>, rows: usize) -> Result<Vec<u32>, Corrupt> {
    let mut expected = 0_u64;
    read_numbers(cursor, rows)?
        .into_iter()
        .map(|folded| {
            let distance = (folded >> 1) ^ (folded & 1).wrapping_neg();
            let index = to_u32(cursor, expected.wrapping_add(distance))?;
            expected = u64::from(index) + 1;
            Ok(index)
        })
        .collect()
}

/// Writes a codec byte and the times: whole nanoseconds as numbers, f64 milliseconds as the 8 byte
/// planes of their bits.
pub(crate) fn write_times(out: &mut Vec<u8>, times: &TimeColumn) {
    match times {
        TimeColumn::Nanos(values) => {
            out.push(WHOLE_NANOSECONDS);
            write_numbers(out, values);
        }
        TimeColumn::Millis(values) => {
            out.push(MILLISECONDS);
            let bits: Vec<u64> = values.iter().map(|value| value.to_bits()).collect();
            write_planes(out, &bits, 8);
        }
    }
}

pub(crate) fn read_times(cursor: &mut Cursor<'_>, rows: usize) -> Result<TimeColumn, Corrupt> {
    let column = match cursor.byte()? {
        WHOLE_NANOSECONDS => TimeColumn::from_nanos(read_numbers(cursor, rows)?),
        MILLISECONDS => {
            let bits = read_planes(cursor, rows, 8)?;
            TimeColumn::from_millis(bits.into_iter().map(f64::from_bits).collect())
        }
        codec => {
            return Err(
                cursor.corrupt(format!("time codec {codec}, expected 1 or 2; update diode to read it"))
            );
        }
    };
    column.map_err(|invalid| cursor.corrupt(invalid.to_string()))
}

fn write_planes(out: &mut Vec<u8>, values: &[u64], width: u32) {
    for plane in 0..width {
        out.extend(values.iter().map(|value| (value >> (8 * plane)) as u8));
    }
}

fn read_planes(cursor: &mut Cursor<'_>, rows: usize, width: u8) -> Result<Vec<u64>, Corrupt> {
    let planes = cursor.take(rows.saturating_mul(usize::from(width)))?;
    let mut values = vec![0_u64; rows];
    if rows > 0 {
        for (number, plane) in planes.chunks_exact(rows).enumerate() {
            for (value, &byte) in values.iter_mut().zip(plane) {
                *value |= u64::from(byte) << (8 * number);
            }
        }
    }
    Ok(values)
}

/// The greatest common divisor, or 1 if all values are 0.
fn common_divisor(values: &[u64]) -> u64 {
    let mut divisor = 0;
    for &value in values {
        let (mut a, mut b) = (value, divisor);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        divisor = a;
        if divisor == 1 {
            break;
        }
    }
    divisor.max(1)
}

fn to_u32(cursor: &Cursor<'_>, value: u64) -> Result<u32, Corrupt> {
    u32::try_from(value).map_err(|_| cursor.corrupt(format!("{value}, expected a 32-bit number")))
}

/// The number of fields of a config. `docs/reference/formats.md` lists them in this order.
pub(crate) const FIELDS: usize = 13;

const EVEN_K: u32 = 1;
const ALLOW_TF32: u32 = 2;
const USE_FAST_ACCUM: u32 = 4;
const ROCM: u32 = 8;
const SWAP_AB: u32 = 16;

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
        | flag(t.rocm.is_some(), ROCM)
        | flag(t.swap_ab, SWAP_AB);
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
        if flags > (EVEN_K | ALLOW_TF32 | USE_FAST_ACCUM | ROCM | SWAP_AB) {
            return Err(format!("config flags {flags}, expected at most 31"));
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
            swap_ab: flags & SWAP_AB != 0,
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
    use proptest::prelude::*;

    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out);
        out
    }

    #[test]
    fn the_tick_of_the_clock_is_taken_out() {
        let bytes = written(|out| write_numbers(out, &[40_160, 31_520, 320]));
        assert_eq!(bytes, [0xa0, 1, 1, 251, 197, 2], "divisor 160 (varint), one byte each");
        assert_eq!(written(|out| write_numbers(out, &[0, 0])), [1, 0], "zeros take no plane");
    }

    #[test]
    fn runs_of_indexes_take_no_space() {
        assert_eq!(written(|out| write_indexes(out, 0..1000)), [1, 0]);
    }

    #[test]
    fn products_beyond_64_bits_are_refused() {
        let mut bytes = written(|out| write_varint(out, u64::MAX));
        bytes.extend([1, 2]);
        assert!(read_numbers(&mut Cursor::new(&bytes), 1).is_err());
        assert!(read_numbers(&mut Cursor::new(&[1, 9]), 1).is_err());
        assert!(read_numbers(&mut Cursor::new(&[1, 8]), usize::MAX).unwrap_err().truncated);
    }

    proptest! {
        #[test]
        fn every_column_round_trips(
            values: Vec<u64>,
            indexes: Vec<u32>,
            nanos in prop::collection::vec(1..3_600_000_000_000_u64, 0..20),
            millis in prop::collection::vec(1e-6..3.6e6_f64, 0..20),
        ) {
            let bytes = written(|out| write_numbers(out, &values));
            prop_assert_eq!(read_numbers(&mut Cursor::new(&bytes), values.len()).unwrap(), values);
            let bytes = written(|out| write_indexes(out, indexes.iter().copied()));
            prop_assert_eq!(read_indexes(&mut Cursor::new(&bytes), indexes.len()).unwrap(), indexes);
            for times in [TimeColumn::from_nanos(nanos).unwrap(), TimeColumn::from_millis(millis).unwrap()] {
                let bytes = written(|out| write_times(out, &times));
                prop_assert_eq!(read_times(&mut Cursor::new(&bytes), times.len()).unwrap(), times);
            }
        }
    }
}

#[cfg(test)]
mod dictionary_tests {
    use super::*;

    #[test]
    fn codes_outside_the_tables_are_refused() {
        let good = to_numbers(&Config::Mm(Tile::new(64, 64, 32, 3, 4)));
        assert!(from_numbers(good).is_ok());
        for (field, bad) in [(0, 5), (1, 48), (6, 0), (7, 32), (8, 3)] {
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
