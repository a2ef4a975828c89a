//! The calls in a pickle. Only known functions are called. They make maps and tensors.

use super::machine::{Fault, Machine};
use super::value::{Id, Known, Storage, Value, View};
use crate::limits::MAX_TENSOR_DIMS;

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
