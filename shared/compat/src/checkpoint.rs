//! torch checkpoints: a ZIP archive of a pickle and raw tensors.
//!
//! A pickle is a program for a stack machine, and it may call any function. The weights of a
//! network need few instructions and four named functions and classes. Only these are known here.
//! Anything else is an error, and no code from the file ever runs.

mod pickle;

use std::collections::BTreeMap;
use std::path::Path;

use crate::checkpoint::pickle::{Elements, Id, Machine, Value, View};
use diode_formats::FileKind;
use diode_formats::FormatError;
use diode_formats::limits::{MAX_CHECKPOINT, MAX_CHECKPOINT_ENTRIES, MAX_CHECKPOINT_VALUES, MAX_PICKLE};
use diode_formats::reading::expect;
use diode_formats::reading::read_with;
use diode_formats::reading::{Corrupt, Cursor};

/// Reads a checkpoint that torch wrote.
pub fn read_checkpoint(path: &Path) -> Result<TorchCheckpoint, FormatError> {
    read_with(path, decode_checkpoint)
}

/// Decodes a checkpoint: a map with `model_state_dict` and some plain values.
pub fn decode_checkpoint(bytes: &[u8]) -> Result<TorchCheckpoint, FormatError> {
    expect(FileKind::TorchCheckpoint, bytes, || {
        if bytes.len() > MAX_CHECKPOINT {
            let cause = format!("{} bytes, expected at most {MAX_CHECKPOINT}", bytes.len());
            return Err(malformed("file", Corrupt::invalid(0, cause)));
        }
        let archive = Archive::open(bytes).map_err(|corrupt| malformed("file", corrupt))?;
        if let Some(order) = archive.entry("byteorder").filter(|order| *order != b"little") {
            let cause = format!("got {}, expected little", String::from_utf8_lossy(order));
            return Err(malformed("byteorder", Corrupt::invalid(0, cause)));
        }
        let pickle = archive.pickle().map_err(|corrupt| malformed("file", corrupt))?;
        let machine = pickle::run(pickle).map_err(|corrupt| malformed("data.pkl", corrupt))?;
        checkpoint(&archive, &machine)
            .map_err(|cause| malformed("data.pkl", Corrupt::invalid(pickle.len(), cause)))
    })
}

fn malformed(part: &str, corrupt: Corrupt) -> FormatError {
    corrupt.malformed("torch checkpoint", |at| format!("{part} byte {at}"))
}

const END_MARK: [u8; 4] = *b"PK\x05\x06";
const LISTED_MARK: [u8; 4] = *b"PK\x01\x02";
const LOCAL_MARK: [u8; 4] = *b"PK\x03\x04";
/// The length of the end record without a comment, and with the longest comment.
const END_BYTES: usize = 22;
const MAX_END_BYTES: usize = END_BYTES + u16::MAX as usize;
/// The name of the pickle within the archive's only folder.
const PICKLE: &str = "data.pkl";

/// The entries of an archive, by their names within its only folder.
struct Archive<'a> {
    entries: BTreeMap<String, &'a [u8]>,
}

impl<'a> Archive<'a> {
    fn open(bytes: &'a [u8]) -> Result<Self, Corrupt> {
        let end = find_end(bytes)?;
        let mut record = Cursor::new(&bytes[end..]);
        record.take(10)?;
        let count = usize::from(u16_of(&mut record)?);
        let (size, start) = (u32_of(&mut record)? as usize, u32_of(&mut record)? as usize);
        if count > MAX_CHECKPOINT_ENTRIES {
            return Err(Corrupt::invalid(
                end,
                format!("{count} entries, expected at most {MAX_CHECKPOINT_ENTRIES}"),
            ));
        }
        let directory = bytes
            .get(start..start.saturating_add(size))
            .ok_or_else(|| Corrupt::invalid(end, "its list of entries lies outside of the file"))?;
        let mut list = Cursor::new(directory);
        let mut all = Vec::with_capacity(count);
        for _ in 0..count {
            all.push(entry(bytes, &mut list)?);
        }
        let folder = all
            .iter()
            .find_map(|(name, _)| name.strip_suffix(PICKLE))
            .ok_or_else(|| {
                Corrupt::invalid(end, format!("no entry {PICKLE}, expected a file that torch.save wrote"))
            })?
            .to_owned();
        let mut entries = BTreeMap::new();
        for (name, content) in all {
            let Some(inner) = name.strip_prefix(&folder) else { continue };
            if entries.insert(inner.to_owned(), content).is_some() {
                return Err(Corrupt::invalid(end, format!("entry {name} twice")));
            }
        }
        Ok(Self { entries })
    }

    fn entry(&self, name: &str) -> Option<&'a [u8]> {
        self.entries.get(name).copied()
    }

    fn pickle(&self) -> Result<&'a [u8], Corrupt> {
        let pickle = self.entry(PICKLE).unwrap_or_default();
        if pickle.len() > MAX_PICKLE {
            let cause = format!("{PICKLE} of {} bytes, expected at most {MAX_PICKLE}", pickle.len());
            return Err(Corrupt::invalid(0, cause));
        }
        Ok(pickle)
    }
}

/// The position of the record at the end. A comment may follow the record.
fn find_end(bytes: &[u8]) -> Result<usize, Corrupt> {
    let first = bytes.len().saturating_sub(MAX_END_BYTES);
    let last = bytes.len().checked_sub(END_BYTES);
    last.and_then(|last| (first..=last).rev().find(|&at| bytes[at..].starts_with(&END_MARK))).ok_or(Corrupt {
        truncated: true,
        at: bytes.len(),
        cause: "expected the list of entries that ends an archive".to_owned(),
    })
}

/// The next entry of the archive's list, with its content.
fn entry<'a>(bytes: &'a [u8], list: &mut Cursor<'_>) -> Result<(String, &'a [u8]), Corrupt> {
    if list.take(4)? != LISTED_MARK {
        return Err(list.corrupt("expected an entry of the archive's list"));
    }
    list.take(6)?;
    let method = u16_of(list)?;
    list.take(4)?;
    let checksum = u32_of(list)?;
    let (packed, size) = (u32_of(list)? as usize, u32_of(list)? as usize);
    let [name, extra, comment] = [u16_of(list)?, u16_of(list)?, u16_of(list)?].map(usize::from);
    list.take(8)?;
    let local = u32_of(list)? as usize;
    let name = String::from_utf8_lossy(list.take(name)?).into_owned();
    list.take(extra + comment)?;
    if method != 0 || packed != size {
        return Err(list.corrupt(format!("entry {name} is compressed, expected it stored as torch does")));
    }
    let outside = || Corrupt {
        truncated: true,
        at: local,
        cause: format!("entry {name} lies outside of the file, or is not where the list says"),
    };
    let mut header = Cursor::new(bytes.get(local..).ok_or_else(outside)?);
    if header.take(4).map_err(|_| outside())? != LOCAL_MARK {
        return Err(outside());
    }
    header.take(22).map_err(|_| outside())?;
    let before = usize::from(u16_of(&mut header)?) + usize::from(u16_of(&mut header)?);
    header.take(before).map_err(|_| outside())?;
    let content = header.take(size).map_err(|_| outside())?;
    if crc32fast::hash(content) != checksum {
        let cause = format!(
            "entry {name} differs from its checksum: the file is damaged, or torch was told to write no checksums"
        );
        return Err(Corrupt::invalid(local, cause));
    }
    Ok((name, content))
}

fn u16_of(cursor: &mut Cursor<'_>) -> Result<u16, Corrupt> {
    let bytes = cursor.take(2)?;
    Ok(u16::from_le_bytes([bytes[0], bytes[1]]))
}

fn u32_of(cursor: &mut Cursor<'_>) -> Result<u32, Corrupt> {
    let bytes = cursor.take(4)?;
    Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

/// The key under which torch-diode saves the weights.
const WEIGHTS: &str = "model_state_dict";

fn checkpoint(archive: &Archive<'_>, machine: &Machine) -> Result<TorchCheckpoint, String> {
    let Some(Value::Map(entries)) = machine.result() else {
        return Err(format!("got something other than a map, expected one with `{WEIGHTS}`"));
    };
    let mut checkpoint = TorchCheckpoint::default();
    let mut weights = None;
    for (key, value) in named(machine, entries)? {
        if key == WEIGHTS {
            weights = Some(value);
        } else if checkpoint.settings.insert(key.clone(), setting(machine, &key, value)?).is_some() {
            return Err(format!("`{key}` twice"));
        }
    }
    let Some(Value::Map(weights)) = weights.map(|id| machine.value(id)) else {
        return Err(format!("no map `{WEIGHTS}`, expected a checkpoint that torch-diode saved"));
    };
    let mut budget = MAX_CHECKPOINT_VALUES;
    for (name, value) in named(machine, weights)? {
        let Value::Tensor(view) = machine.value(value) else {
            return Err(format!("`{name}`: got {}, expected a tensor", machine.value(value).kind()));
        };
        let tensor = tensor(archive, view, &mut budget).map_err(|cause| format!("`{name}`: {cause}"))?;
        if checkpoint.tensors.insert(name.clone(), tensor).is_some() {
            return Err(format!("`{name}` twice"));
        }
    }
    Ok(checkpoint)
}

fn named(machine: &Machine, entries: &[(Id, Id)]) -> Result<Vec<(String, Id)>, String> {
    let name = |key: Id| match machine.value(key) {
        Value::Text(text) => Ok(text.clone()),
        other => Err(format!("got {} as a key, expected a text", other.kind())),
    };
    entries.iter().map(|&(key, value)| Ok((name(key)?, value))).collect()
}

fn setting(machine: &Machine, key: &str, value: Id) -> Result<Setting, String> {
    let refuse =
        |value: &Value| format!("`{key}`: got {}, expected a number, text or list of numbers", value.kind());
    Ok(match machine.value(value) {
        Value::Nothing => Setting::Nothing,
        Value::Flag(flag) => Setting::Flag(*flag),
        Value::Whole(number) => Setting::Whole(*number),
        Value::Real(number) => Setting::Real(*number),
        Value::Text(text) => Setting::Text(text.clone()),
        Value::List(items) | Value::Tuple(items) => {
            let whole = |&item: &Id| match machine.value(item) {
                Value::Whole(number) => Ok(*number),
                other => Err(refuse(other)),
            };
            Setting::Wholes(items.iter().map(whole).collect::<Result<_, _>>()?)
        }
        other => return Err(refuse(other)),
    })
}

/// All tensors share one budget of values, because many of them may refer to the same storage.
fn tensor(archive: &Archive<'_>, view: &View, budget: &mut usize) -> Result<SavedTensor, String> {
    let View { storage, offset, shape } = view;
    let entry = format!("data/{}", storage.key);
    let bytes = archive.entry(&entry).ok_or_else(|| format!("no entry {entry} in the archive"))?;
    let size = storage.elements.size();
    if storage.count.checked_mul(size) != Some(bytes.len()) {
        let cause = format!("{entry} has {} bytes, expected {} values of {size}", bytes.len(), storage.count);
        return Err(cause);
    }
    let count = shape.iter().try_fold(1_usize, |count, &dim| count.checked_mul(dim));
    let end = count.and_then(|count| offset.checked_add(count)).filter(|&end| end <= storage.count);
    let end = end.ok_or_else(|| {
        format!("a shape of {shape:?} from value {offset}, where {entry} has {}", storage.count)
    })?;
    *budget = budget
        .checked_sub(end - offset)
        .ok_or_else(|| format!("more than {MAX_CHECKPOINT_VALUES} values in all"))?;
    let bytes = &bytes[offset * size..end * size];
    let values = match storage.elements {
        Elements::Float32 => {
            SavedValues::Float32(bytes.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect())
        }
        Elements::Int64 => {
            SavedValues::Int64(bytes.as_chunks().0.iter().map(|&b| i64::from_le_bytes(b)).collect())
        }
    };
    Ok(SavedTensor { shape: shape.clone(), values })
}

/// What a torch checkpoint holds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TorchCheckpoint {
    /// The weights, under the names of the network's parts.
    pub tensors: BTreeMap<String, SavedTensor>,
    /// The settings that are saved with the weights, such as the widths of layers.
    pub settings: BTreeMap<String, Setting>,
}

/// A tensor with its values in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedTensor {
    pub shape: Vec<usize>,
    pub values: SavedValues,
}

/// The element types that checkpoints have.
#[derive(Debug, Clone, PartialEq)]
pub enum SavedValues {
    Float32(Vec<f32>),
    /// Counters, such as the number of batches seen.
    Int64(Vec<i64>),
}

/// One setting.
#[derive(Debug, Clone, PartialEq)]
pub enum Setting {
    Nothing,
    Flag(bool),
    Whole(i64),
    Real(f64),
    Text(String),
    Wholes(Vec<i64>),
}
