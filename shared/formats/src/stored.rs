//! What a server stores per solution: a codec version byte, then one zstd frame.
//!
//! A list of configs is stored once for all solutions with the same configs. It has the timed configs in row
//! order and then the failed configs, so that columns need no references to configs.

use std::cell::RefCell;
use std::io::Read as _;

use diode_core::{Config, FailureReason, TimeColumn};
use zstd::bulk::{Compressor, Decompressor};

use crate::FormatError;
use crate::bytes::{Corrupt, Cursor, write_varint};
use crate::columns::{read_configs, reason_code, reason_from_code, write_configs};
use crate::columns::{
    read_indexes, read_numbers, read_times, read_u32s, write_indexes, write_numbers, write_times, write_u32s,
};
use crate::limits::MAX_TIMINGS_PER_PROBLEM;

/// The only version so far. Readers refuse others, so no stored blob is misread.
const VERSION: u8 = 1;

/// zstd's default level. Higher levels gain little, because the low bytes of times are noise.
const LEVEL: i32 = 3;

/// The most configs in one list, timed and failed.
const MAX_LIST: usize = 2 * MAX_TIMINGS_PER_PROBLEM;

/// The bytes to which a blob may unpack: 64 bytes for each entry of the longest list.
const MAX_BLOB: u64 = 64 * MAX_LIST as u64;

/// A blob that states at most this size is unpacked in one step, into memory of that size.
const SMALL: u64 = 1 << 20;

thread_local! {
    /// zstd's working memory, kept for each thread. A server packs and unpacks thousands of blobs of some
    /// kilobytes, and allocating this memory would take most of the time for that.
    static PACKER: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static UNPACKER: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

const HAS_SPREAD: u8 = 1;
const HAS_REPEATS: u8 = 2;
const HAS_MINIMUM: u8 = 4;

/// The columns of one solution. Row `i` is about config `i` of its list.
#[derive(Debug, Clone, PartialEq)]
pub struct Columns {
    pub times: TimeColumn,
    pub minimum_ns: Option<Vec<u64>>,
    pub spread_ns: Option<Vec<u64>>,
    pub repeats: Option<Vec<u32>>,
    /// The failed configs, as positions in the list, with the reasons. The list has them after the timed
    /// configs.
    pub failures: Vec<(u32, FailureReason)>,
}

/// Encodes a config list.
pub fn encode_configs(configs: &[Config]) -> Vec<u8> {
    let mut plain = Vec::new();
    write_configs(&mut plain, configs.iter());
    compress(&plain)
}

/// Decodes a config list.
pub fn decode_configs(bytes: &[u8]) -> Result<Vec<Config>, FormatError> {
    decompress(bytes, "packed config list", |cursor| read_configs(cursor, MAX_LIST))
}

/// Encodes the columns of a solution.
pub fn encode_columns(columns: &Columns) -> Vec<u8> {
    let mut plain = Vec::with_capacity(8 * columns.times.len());
    write_varint(&mut plain, columns.times.len() as u64);
    write_varint(&mut plain, columns.failures.len() as u64);
    let spread = columns.spread_ns.as_ref().map_or(0, |_| HAS_SPREAD);
    let repeats = columns.repeats.as_ref().map_or(0, |_| HAS_REPEATS);
    let minimum = columns.minimum_ns.as_ref().map_or(0, |_| HAS_MINIMUM);
    plain.push(spread | repeats | minimum);
    write_times(&mut plain, &columns.times);
    if let Some(spread_ns) = &columns.spread_ns {
        write_numbers(&mut plain, spread_ns);
    }
    if let Some(repeats) = &columns.repeats {
        write_u32s(&mut plain, repeats.iter().copied());
    }
    if let Some(minimum_ns) = &columns.minimum_ns {
        write_numbers(&mut plain, minimum_ns);
    }
    write_indexes(&mut plain, columns.failures.iter().map(|&(position, _)| position));
    write_u32s(&mut plain, columns.failures.iter().map(|&(_, reason)| reason_code(reason)));
    compress(&plain)
}

/// Decodes the columns of a solution.
pub fn decode_columns(bytes: &[u8]) -> Result<Columns, FormatError> {
    decompress(bytes, "packed columns", |cursor| {
        let rows = cursor.count("timings", MAX_TIMINGS_PER_PROBLEM)?;
        let failed = cursor.count("failures", MAX_TIMINGS_PER_PROBLEM)?;
        let flags = cursor.byte()?;
        if flags > (HAS_SPREAD | HAS_REPEATS | HAS_MINIMUM) {
            return Err(cursor.corrupt(format!("column flags {flags}, expected at most 7")));
        }
        Ok(Columns {
            times: read_times(cursor, rows)?,
            spread_ns: (flags & HAS_SPREAD != 0).then(|| read_numbers(cursor, rows)).transpose()?,
            repeats: (flags & HAS_REPEATS != 0).then(|| read_u32s(cursor, rows)).transpose()?,
            minimum_ns: (flags & HAS_MINIMUM != 0).then(|| read_numbers(cursor, rows)).transpose()?,
            failures: read_failures(cursor, failed)?,
        })
    })
}

fn read_failures(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<(u32, FailureReason)>, Corrupt> {
    let positions = read_indexes(cursor, count)?;
    let codes = read_u32s(cursor, count)?;
    positions
        .into_iter()
        .zip(codes)
        .map(|(position, code)| {
            let reason = reason_from_code(code).map_err(|cause| cursor.corrupt(cause))?;
            Ok((position, reason))
        })
        .collect()
}

fn compress(plain: &[u8]) -> Vec<u8> {
    let packed = PACKER.with_borrow_mut(|packer| {
        let packer = match packer {
            Some(packer) => packer,
            none => {
                let mut new = Compressor::new(LEVEL)?;
                new.include_checksum(true)?;
                none.insert(new)
            }
        };
        packer.compress(plain)
    });
    let mut out = vec![VERSION];
    out.extend(packed.expect("zstd compresses any bytes into memory"));
    out
}

/// The content of a small frame; `None` if the frame is larger or damaged.
fn unpack_small(frame: &[u8]) -> Option<Vec<u8>> {
    let size = zstd::zstd_safe::get_frame_content_size(frame).ok()?.filter(|&size| size <= SMALL)?;
    UNPACKER.with_borrow_mut(|unpacker| {
        let unpacker = match unpacker {
            Some(unpacker) => unpacker,
            none => none.insert(Decompressor::new().ok()?),
        };
        unpacker.decompress(frame, size as usize).ok()
    })
}

/// The content of a frame of any size, or what is wrong with it.
fn unpack(frame: &[u8]) -> Result<Vec<u8>, Corrupt> {
    let mut plain = Vec::new();
    let read = zstd::stream::read::Decoder::with_buffer(frame)
        .and_then(|frame| frame.take(MAX_BLOB + 1).read_to_end(&mut plain));
    match read {
        Ok(_) => Ok(plain),
        Err(error) => {
            let truncated = error.kind() == std::io::ErrorKind::UnexpectedEof;
            Err(Corrupt { truncated, at: plain.len(), cause: error.to_string() })
        }
    }
}

fn decompress<T>(
    bytes: &[u8],
    what: &'static str,
    read: impl FnOnce(&mut Cursor<'_>) -> Result<T, Corrupt>,
) -> Result<T, FormatError> {
    let malformed = |corrupt: Corrupt| corrupt.malformed(what, |at| format!("unpacked byte {at}"));
    let mut blob = Cursor::new(bytes);
    let version = blob.byte().map_err(malformed)?;
    if version != VERSION {
        let cause = format!("codec version {version}, expected {VERSION}; update diode to read it");
        return Err(malformed(blob.corrupt(cause)));
    }
    let plain = match unpack_small(&bytes[1..]) {
        Some(plain) => plain,
        None => unpack(&bytes[1..]).map_err(malformed)?,
    };
    let mut cursor = Cursor::new(&plain);
    if plain.len() as u64 > MAX_BLOB {
        return Err(malformed(cursor.corrupt(format!("more than {MAX_BLOB} bytes unpacked"))));
    }
    let value = read(&mut cursor).map_err(malformed)?;
    cursor.end().map_err(malformed)?;
    Ok(value)
}
