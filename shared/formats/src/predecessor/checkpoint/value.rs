//! The values that a pickle makes. Values are in one list and refer to each other by number, so
//! that cycles and deep nesting do no harm.

/// The number of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Id(pub(super) usize);

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
