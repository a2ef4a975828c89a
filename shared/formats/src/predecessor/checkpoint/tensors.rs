//! Makes tensors with values from what the pickle has built.

use diode_core::{SavedTensor, SavedValues, Setting, TorchCheckpoint};

use super::archive::Archive;
use super::machine::Machine;
use super::value::{Elements, Id, Value, View};
use crate::limits::MAX_CHECKPOINT_VALUES;

/// The key under which torch-diode saves the weights.
const WEIGHTS: &str = "model_state_dict";

pub(super) fn checkpoint(archive: &Archive<'_>, machine: &Machine) -> Result<TorchCheckpoint, String> {
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
