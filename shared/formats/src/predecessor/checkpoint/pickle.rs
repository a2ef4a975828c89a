//! The instructions of pickle's protocol 2, as far as checkpoints need them.

use super::machine::{Fault, Machine};
use super::value::{Known, Value};
use crate::bytes::{Corrupt, Cursor};

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
