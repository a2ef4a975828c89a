//! The stack machine of pickle's protocol 2, as far as checkpoints need it.

use std::collections::HashMap;

use super::value::{Elements, Id, Known, Storage, Value, View};
use crate::bytes::{Corrupt, Cursor};
use crate::limits::{MAX_PICKLE_VALUES, MAX_TENSOR_DIMS};

/// The newest protocol that torch writes by itself.
const PROTOCOL: u8 = 2;

/// What a pickle built.
pub(super) struct Machine {
    values: Vec<Value>,
    stack: Vec<Slot>,
    memo: HashMap<u32, Id>,
}

#[derive(Clone, Copy)]
enum Slot {
    Value(Id),
    Mark,
}

/// Runs a pickle; its result is the machine's [`result`](Machine::result).
pub(super) fn run(pickle: &[u8]) -> Result<Machine, Corrupt> {
    let mut machine = Machine { values: Vec::new(), stack: Vec::new(), memo: HashMap::new() };
    let mut code = Cursor::new(pickle);
    while let Step::Next = machine.step(&mut code).map_err(|fault| fault.at(&code))? {}
    code.end()?;
    Ok(machine)
}

enum Step {
    Next,
    Stop,
}

/// What is wrong with an instruction.
enum Fault {
    Bytes(Corrupt),
    Meaning(String),
}

impl Fault {
    fn at(self, code: &Cursor<'_>) -> Corrupt {
        match self {
            Self::Bytes(corrupt) => corrupt,
            Self::Meaning(cause) => code.corrupt(cause),
        }
    }
}

impl From<Corrupt> for Fault {
    fn from(corrupt: Corrupt) -> Self {
        Self::Bytes(corrupt)
    }
}

impl From<&str> for Fault {
    fn from(cause: &str) -> Self {
        Self::Meaning(cause.to_owned())
    }
}

impl Machine {
    pub(super) fn value(&self, id: Id) -> &Value {
        &self.values[id.0]
    }

    /// The one value that the pickle leaves.
    pub(super) fn result(&self) -> Option<&Value> {
        match self.stack[..] {
            [Slot::Value(id)] => Some(self.value(id)),
            _ => None,
        }
    }

    fn step(&mut self, code: &mut Cursor<'_>) -> Result<Step, Fault> {
        match code.byte()? {
            0x80 => self.protocol(code.byte()?)?,
            b'.' => return Ok(Step::Stop),
            // Plain values
            b'N' => self.push(Value::Nothing)?,
            0x88 => self.push(Value::Flag(true))?,
            0x89 => self.push(Value::Flag(false))?,
            b'K' => {
                let byte = code.byte()?;
                self.push(Value::Whole(byte.into()))?;
            }
            b'M' => {
                let value = u16::from_le_bytes(array(code)?);
                self.push(Value::Whole(value.into()))?;
            }
            b'J' => {
                let value = i32::from_le_bytes(array(code)?);
                self.push(Value::Whole(value.into()))?;
            }
            0x8a => {
                let value = long(code)?;
                self.push(Value::Whole(value))?;
            }
            b'G' => {
                let value = f64::from_be_bytes(array(code)?);
                self.push(Value::Real(value))?;
            }
            b'X' => {
                let length = u32::from_le_bytes(array(code)?) as usize;
                let text = std::str::from_utf8(code.take(length)?).map_err(|_| "a text that is not UTF-8")?;
                self.push(Value::Text(text.to_owned()))?;
            }
            // Containers
            b'(' => self.stack.push(Slot::Mark),
            b')' => self.push(Value::Tuple(Vec::new()))?,
            b']' => self.push(Value::List(Vec::new()))?,
            b'}' => self.push(Value::Map(Vec::new()))?,
            b't' => {
                let items = self.pop_to_mark()?;
                self.push(Value::Tuple(items))?;
            }
            count @ 0x85..=0x87 => {
                let mut items = (0x85..=count).map(|_| self.pop()).collect::<Result<Vec<_>, _>>()?;
                items.reverse();
                self.push(Value::Tuple(items))?;
            }
            b'a' => {
                let item = self.pop()?;
                self.extend_list(&[item])?;
            }
            b'e' => {
                let items = self.pop_to_mark()?;
                self.extend_list(&items)?;
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.extend_map(&[key, value])?;
            }
            b'u' => {
                let items = self.pop_to_mark()?;
                self.extend_map(&items)?;
            }
            // The memo
            b'q' => {
                let key = code.byte()?;
                self.remember(key.into())?;
            }
            b'r' => {
                let key = u32::from_le_bytes(array(code)?);
                self.remember(key)?;
            }
            b'h' => {
                let key = code.byte()?;
                self.recall(key.into())?;
            }
            b'j' => {
                let key = u32::from_le_bytes(array(code)?);
                self.recall(key)?;
            }
            // What would be code
            b'c' => {
                let (module, name) = (line(code)?, line(code)?);
                let known = Known::of(&module, &name).ok_or_else(|| {
                    Fault::Meaning(format!(
                        "got `{module}.{name}`, expected only what the weights of a network take; nothing was run"
                    ))
                })?;
                self.push(Value::Known(known))?;
            }
            b'R' => self.call()?,
            b'b' => self.set_attributes()?,
            b'Q' => self.storage()?,
            other => {
                let cause = format!("instruction 0x{other:02x}, expected one that torch's checkpoints take");
                return Err(Fault::Meaning(cause));
            }
        }
        Ok(Step::Next)
    }

    fn protocol(&self, version: u8) -> Result<(), Fault> {
        if version == PROTOCOL {
            return Ok(());
        }
        Err(Fault::Meaning(format!("pickle protocol {version}, expected {PROTOCOL}")))
    }

    /// Calls one of the known functions.
    fn call(&mut self) -> Result<(), Fault> {
        let (arguments, function) = (self.pop()?, self.pop()?);
        let Value::Tuple(arguments) = self.value(arguments).clone() else {
            return Err("arguments that are not a tuple".into());
        };
        match self.value(function) {
            Value::Known(Known::OrderedDict) if arguments.is_empty() => self.push(Value::Map(Vec::new())),
            Value::Known(Known::RebuildTensor) => {
                let view = self.view(&arguments)?;
                self.push(Value::Tensor(view))
            }
            _ => Err("a call of something that is no function with such arguments".into()),
        }
    }

    /// The arguments: storage, offset, size, stride, whether it is trained, hooks.
    fn view(&self, arguments: &[Id]) -> Result<View, Fault> {
        let [storage, offset, size, stride, _, _] = arguments[..] else {
            return Err("a tensor without the six things that make one".into());
        };
        let Value::Storage(storage) = self.value(storage) else {
            return Err("a tensor of something that is no storage".into());
        };
        let (shape, stride) = (self.sizes(size)?, self.sizes(stride)?);
        if shape.len() > MAX_TENSOR_DIMS || stride != dense(&shape) {
            return Err(Fault::Meaning(format!(
                "a tensor of shape {shape:?} and strides {stride:?}, expected at most {MAX_TENSOR_DIMS} dense dimensions"
            )));
        }
        Ok(View { storage: storage.clone(), offset: self.size(offset)?, shape })
    }

    /// Attributes of a map say which versions its parts have, which changes nothing.
    fn set_attributes(&mut self) -> Result<(), Fault> {
        self.pop()?;
        match self.stack.last() {
            Some(&Slot::Value(id)) if matches!(self.value(id), Value::Map(_)) => Ok(()),
            _ => Err("attributes of something that is no map".into()),
        }
    }

    /// A reference to an entry: ("storage", type, key, device, count).
    fn storage(&mut self) -> Result<(), Fault> {
        let reference = self.pop()?;
        let wrong = || Fault::from("a reference to something that is no storage");
        let Value::Tuple(parts) = self.value(reference) else { return Err(wrong()) };
        let [word, elements, key, _, count] = parts[..] else { return Err(wrong()) };
        let (Value::Text(word), Value::Known(Known::Elements(elements)), Value::Text(key)) =
            (self.value(word), self.value(elements), self.value(key))
        else {
            return Err(wrong());
        };
        if word != "storage" {
            return Err(wrong());
        }
        let storage = Storage { elements: *elements, key: key.clone(), count: self.size(count)? };
        self.push(Value::Storage(storage))
    }

    fn sizes(&self, id: Id) -> Result<Vec<usize>, Fault> {
        match self.value(id) {
            Value::Tuple(items) => items.iter().map(|&item| self.size(item)).collect(),
            other => Err(Fault::Meaning(format!("got {}, expected a tuple of sizes", other.kind()))),
        }
    }

    fn size(&self, id: Id) -> Result<usize, Fault> {
        match self.value(id) {
            Value::Whole(number) => usize::try_from(*number)
                .map_err(|_| Fault::Meaning(format!("got {number}, expected a size of 0 or more"))),
            other => Err(Fault::Meaning(format!("got {}, expected a size", other.kind()))),
        }
    }

    fn push(&mut self, value: Value) -> Result<(), Fault> {
        if self.values.len() >= MAX_PICKLE_VALUES {
            return Err(Fault::Meaning(format!("more than {MAX_PICKLE_VALUES} values")));
        }
        self.stack.push(Slot::Value(Id(self.values.len())));
        self.values.push(value);
        Ok(())
    }

    fn pop(&mut self) -> Result<Id, Fault> {
        match self.stack.pop() {
            Some(Slot::Value(id)) => Ok(id),
            _ => Err("an instruction that finds no value on the stack".into()),
        }
    }

    fn pop_to_mark(&mut self) -> Result<Vec<Id>, Fault> {
        let mark = self.stack.iter().rposition(|slot| matches!(slot, Slot::Mark));
        let mark = mark.ok_or("an instruction that finds no mark on the stack")?;
        let items = self.stack.split_off(mark).into_iter();
        Ok(items
            .filter_map(|slot| match slot {
                Slot::Value(id) => Some(id),
                Slot::Mark => None,
            })
            .collect())
    }

    fn top(&mut self) -> Result<&mut Value, Fault> {
        match self.stack.last() {
            Some(&Slot::Value(id)) => Ok(&mut self.values[id.0]),
            _ => Err("an instruction that finds no value on the stack".into()),
        }
    }

    fn extend_list(&mut self, items: &[Id]) -> Result<(), Fault> {
        match self.top()? {
            Value::List(list) => list.extend(items),
            _ => return Err("items for something that is no list".into()),
        }
        Ok(())
    }

    fn extend_map(&mut self, items: &[Id]) -> Result<(), Fault> {
        let (pairs, rest) = items.as_chunks::<2>();
        match self.top()? {
            Value::Map(map) if rest.is_empty() => map.extend(pairs.iter().map(|&[key, value]| (key, value))),
            _ => return Err("entries for something that is no map".into()),
        }
        Ok(())
    }

    fn remember(&mut self, key: u32) -> Result<(), Fault> {
        let Some(&Slot::Value(id)) = self.stack.last() else {
            return Err("nothing to remember on the stack".into());
        };
        self.memo.insert(key, id);
        Ok(())
    }

    fn recall(&mut self, key: u32) -> Result<(), Fault> {
        let id = self.memo.get(&key).ok_or("a reference to something that was not remembered")?;
        self.stack.push(Slot::Value(*id));
        Ok(())
    }
}

/// The strides of a row-major tensor.
fn dense(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1_usize; shape.len()];
    for dim in (1..shape.len()).rev() {
        strides[dim - 1] = strides[dim].saturating_mul(shape[dim]);
    }
    strides
}

fn array<const N: usize>(code: &mut Cursor<'_>) -> Result<[u8; N], Corrupt> {
    let mut array = [0; N];
    array.copy_from_slice(code.take(N)?);
    Ok(array)
}

/// A number that takes more than 32 bits, as a count of bytes and the bytes.
fn long(code: &mut Cursor<'_>) -> Result<i64, Fault> {
    let count = usize::from(code.byte()?);
    if count > 8 {
        return Err(Fault::Meaning(format!("a whole number of {count} bytes, expected at most 8")));
    }
    let bytes = code.take(count)?;
    let filler = if bytes.last().is_some_and(|last| last & 0x80 != 0) { 0xff } else { 0 };
    let mut whole = [filler; 8];
    whole[..count].copy_from_slice(bytes);
    Ok(i64::from_le_bytes(whole))
}

/// A name, up to the end of its line.
fn line(code: &mut Cursor<'_>) -> Result<String, Fault> {
    /// The longest of the known names has 18 letters.
    const MAX_NAME: usize = 256;
    let mut name = String::new();
    loop {
        match code.byte()? {
            b'\n' => return Ok(name),
            byte if name.len() < MAX_NAME && byte.is_ascii_graphic() => name.push(byte.into()),
            _ => return Err("a name that no module or class of Python's has".into()),
        }
    }
}

impl Elements {
    pub(super) const fn size(self) -> usize {
        match self {
            Self::Float32 => 4,
            Self::Int64 => 8,
        }
    }
}
