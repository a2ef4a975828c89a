//! The instructions of pickle's protocol 2, as far as checkpoints need them.

use std::collections::HashMap;

use diode_formats::limits::{MAX_PICKLE_VALUES, MAX_TENSOR_DIMS};
use diode_formats::reading::{Corrupt, Cursor};

/// The newest protocol that torch writes by default.
const PROTOCOL: u8 = 2;

/// Runs a pickle. Its result is the machine's [`result`](Machine::result).
pub(super) fn run(pickle: &[u8]) -> Result<Machine, Corrupt> {
    let mut machine = Machine::default();
    let mut code = Cursor::new(pickle);
    while let Step::Next = step(&mut machine, &mut code).map_err(|fault| fault.at(&code))? {}
    code.end()?;
    Ok(machine)
}

enum Step {
    Next,
    Stop,
}

fn step(machine: &mut Machine, code: &mut Cursor<'_>) -> Result<Step, Fault> {
    match code.byte()? {
        0x80 => check_protocol(code.byte()?)?,
        b'.' => return Ok(Step::Stop),
        // Plain values
        b'N' => machine.push(Value::Nothing)?,
        0x88 => machine.push(Value::Flag(true))?,
        0x89 => machine.push(Value::Flag(false))?,
        b'K' => {
            let byte = code.byte()?;
            machine.push(Value::Whole(byte.into()))?;
        }
        b'M' => {
            let value = u16::from_le_bytes(array(code)?);
            machine.push(Value::Whole(value.into()))?;
        }
        b'J' => {
            let value = i32::from_le_bytes(array(code)?);
            machine.push(Value::Whole(value.into()))?;
        }
        0x8a => {
            let value = long(code)?;
            machine.push(Value::Whole(value))?;
        }
        b'G' => {
            let value = f64::from_be_bytes(array(code)?);
            machine.push(Value::Real(value))?;
        }
        b'X' => {
            let length = u32::from_le_bytes(array(code)?) as usize;
            let text = std::str::from_utf8(code.take(length)?).map_err(|_| "a text that is not UTF-8")?;
            machine.push(Value::Text(text.to_owned()))?;
        }
        // Containers
        b'(' => machine.mark(),
        b')' => machine.push(Value::Tuple(Vec::new()))?,
        b']' => machine.push(Value::List(Vec::new()))?,
        b'}' => machine.push(Value::Map(Vec::new()))?,
        b't' => {
            let items = machine.pop_to_mark()?;
            machine.push(Value::Tuple(items))?;
        }
        count @ 0x85..=0x87 => {
            let mut items = (0x85..=count).map(|_| machine.pop()).collect::<Result<Vec<_>, _>>()?;
            items.reverse();
            machine.push(Value::Tuple(items))?;
        }
        b'a' => {
            let item = machine.pop()?;
            machine.extend_list(&[item])?;
        }
        b'e' => {
            let items = machine.pop_to_mark()?;
            machine.extend_list(&items)?;
        }
        b's' => {
            let (value, key) = (machine.pop()?, machine.pop()?);
            machine.extend_map(&[key, value])?;
        }
        b'u' => {
            let items = machine.pop_to_mark()?;
            machine.extend_map(&items)?;
        }
        // The memo
        b'q' => {
            let key = code.byte()?;
            machine.remember(key.into())?;
        }
        b'r' => {
            let key = u32::from_le_bytes(array(code)?);
            machine.remember(key)?;
        }
        b'h' => {
            let key = code.byte()?;
            machine.recall(key.into())?;
        }
        b'j' => {
            let key = u32::from_le_bytes(array(code)?);
            machine.recall(key)?;
        }
        // Code
        b'c' => {
            let (module, name) = (line(code)?, line(code)?);
            let known = Known::of(&module, &name).ok_or_else(|| {
                Fault::Meaning(format!(
                    "got `{module}.{name}`, expected only what the weights of a network take; nothing was run"
                ))
            })?;
            machine.push(Value::Known(known))?;
        }
        b'R' => machine.call()?,
        b'b' => machine.set_attributes()?,
        b'Q' => machine.storage()?,
        other => {
            let cause = format!("instruction 0x{other:02x}, expected one that torch's checkpoints take");
            return Err(Fault::Meaning(cause));
        }
    }
    Ok(Step::Next)
}

fn check_protocol(version: u8) -> Result<(), Fault> {
    if version == PROTOCOL {
        return Ok(());
    }
    Err(Fault::Meaning(format!("pickle protocol {version}, expected {PROTOCOL}")))
}

fn array<const N: usize>(code: &mut Cursor<'_>) -> Result<[u8; N], Corrupt> {
    let mut array = [0; N];
    array.copy_from_slice(code.take(N)?);
    Ok(array)
}

/// A number of more than 32 bits, written as a count of bytes and the bytes.
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

/// A name, which goes to the end of its line.
fn line(code: &mut Cursor<'_>) -> Result<String, Fault> {
    /// The longest known name has 18 letters.
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

#[derive(Default)]
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

/// What is wrong with an instruction.
pub(super) enum Fault {
    Bytes(Corrupt),
    Meaning(String),
}

impl Fault {
    pub(super) fn at(self, code: &Cursor<'_>) -> Corrupt {
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

    /// The value that the pickle leaves, if it leaves exactly one.
    pub(super) fn result(&self) -> Option<&Value> {
        match self.stack[..] {
            [Slot::Value(id)] => Some(self.value(id)),
            _ => None,
        }
    }

    pub(super) fn push(&mut self, value: Value) -> Result<(), Fault> {
        if self.values.len() >= MAX_PICKLE_VALUES {
            return Err(Fault::Meaning(format!("more than {MAX_PICKLE_VALUES} values")));
        }
        self.stack.push(Slot::Value(Id(self.values.len())));
        self.values.push(value);
        Ok(())
    }

    /// Marks the place on the stack where the items of a later instruction begin.
    pub(super) fn mark(&mut self) {
        self.stack.push(Slot::Mark);
    }

    pub(super) fn pop(&mut self) -> Result<Id, Fault> {
        match self.stack.pop() {
            Some(Slot::Value(id)) => Ok(id),
            _ => Err("an instruction that finds no value on the stack".into()),
        }
    }

    pub(super) fn pop_to_mark(&mut self) -> Result<Vec<Id>, Fault> {
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

    pub(super) fn top(&mut self) -> Result<&mut Value, Fault> {
        match self.stack.last() {
            Some(&Slot::Value(id)) => Ok(&mut self.values[id.0]),
            _ => Err("an instruction that finds no value on the stack".into()),
        }
    }

    pub(super) fn extend_list(&mut self, items: &[Id]) -> Result<(), Fault> {
        match self.top()? {
            Value::List(list) => list.extend(items),
            _ => return Err("items for something that is no list".into()),
        }
        Ok(())
    }

    pub(super) fn extend_map(&mut self, items: &[Id]) -> Result<(), Fault> {
        let (pairs, rest) = items.as_chunks::<2>();
        match self.top()? {
            Value::Map(map) if rest.is_empty() => map.extend(pairs.iter().map(|&[key, value]| (key, value))),
            _ => return Err("entries for something that is no map".into()),
        }
        Ok(())
    }

    pub(super) fn remember(&mut self, key: u32) -> Result<(), Fault> {
        let Some(&Slot::Value(id)) = self.stack.last() else {
            return Err("nothing to remember on the stack".into());
        };
        self.memo.insert(key, id);
        Ok(())
    }

    pub(super) fn recall(&mut self, key: u32) -> Result<(), Fault> {
        let id = self.memo.get(&key).ok_or("a reference to something that was not remembered")?;
        self.stack.push(Slot::Value(*id));
        Ok(())
    }
}

/// The number of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Id(pub(super) usize);

/// A value of the pickle. Values lie in one list and refer to each other by number, so that cycles and deep nesting do
/// no harm.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Nothing,
    Flag(bool),
    Whole(i64),
    Real(f64),
    Text(String),
    Tuple(Vec<Id>),
    List(Vec<Id>),
    Map(Vec<(Id, Id)>),
    Known(Known),
    Storage(Storage),
    Tensor(View),
}

/// The functions and classes that a pickle may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    OrderedDict,
    RebuildTensor,
    Elements(Elements),
}

/// The type of the values in a storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Elements {
    Float32,
    Int64,
}

impl Elements {
    pub(super) const fn size(self) -> usize {
        match self {
            Self::Float32 => 4,
            Self::Int64 => 8,
        }
    }
}

/// Raw values, which are one entry of the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Storage {
    pub(super) elements: Elements,
    pub(super) key: String,
    pub(super) count: usize,
}

/// A tensor. Its values are a part of a storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct View {
    pub(super) storage: Storage,
    pub(super) offset: usize,
    pub(super) shape: Vec<usize>,
}

impl Known {
    /// The function or class of a name. Other names are refused.
    pub(super) fn of(module: &str, name: &str) -> Option<Self> {
        match (module, name) {
            ("collections", "OrderedDict") => Some(Self::OrderedDict),
            ("torch._utils", "_rebuild_tensor_v2") => Some(Self::RebuildTensor),
            ("torch", "FloatStorage") => Some(Self::Elements(Elements::Float32)),
            ("torch", "LongStorage") => Some(Self::Elements(Elements::Int64)),
            _ => None,
        }
    }
}

impl Value {
    /// What an error message calls the value.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Nothing => "None",
            Self::Flag(_) => "a flag",
            Self::Whole(_) => "a whole number",
            Self::Real(_) => "a real number",
            Self::Text(_) => "a text",
            Self::Tuple(_) => "a tuple",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
            Self::Known(_) => "a function or class",
            Self::Storage(_) => "a storage",
            Self::Tensor(_) => "a tensor",
        }
    }
}

impl Machine {
    /// Calls the function on the stack, which is one of the known ones.
    pub(super) fn call(&mut self) -> Result<(), Fault> {
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

    /// Reads a tensor's six arguments: storage, offset, size, stride, whether it is trained, and
    /// hooks.
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

    /// Takes the attributes of a map and drops them. They only say which versions the map's parts have.
    pub(super) fn set_attributes(&mut self) -> Result<(), Fault> {
        self.pop()?;
        match self.top() {
            Ok(Value::Map(_)) => Ok(()),
            _ => Err("attributes of something that is no map".into()),
        }
    }

    /// Reads a reference to an entry of the archive: ("storage", type, key, device, count).
    pub(super) fn storage(&mut self) -> Result<(), Fault> {
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
}

/// The strides of a row-major tensor with this shape.
fn dense(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1_usize; shape.len()];
    for dim in (1..shape.len()).rev() {
        strides[dim - 1] = strides[dim].saturating_mul(shape[dim]);
    }
    strides
}
