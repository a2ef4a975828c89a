//! What a pickle works with: its values, its stack and its memo.

use std::collections::HashMap;

use super::value::{Id, Value};
use crate::bytes::{Corrupt, Cursor};
use crate::limits::MAX_PICKLE_VALUES;

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
