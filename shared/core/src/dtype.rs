//! Element types, under torch's names.

use crate::named_enum::named_enum;

named_enum! {
    /// The element type of a matrix.
    DType("dtype") {
        Float16 = "float16",
        BFloat16 = "bfloat16",
        Float32 = "float32",
        Float64 = "float64",
        Float8E4M3 = "float8_e4m3fn",
        Float8E5M2 = "float8_e5m2",
        Int8 = "int8",
        Int16 = "int16",
        Int32 = "int32",
        Int64 = "int64",
        Bool = "bool",
    }
}

impl DType {
    /// Bytes one element takes in memory.
    pub const fn size(self) -> u64 {
        match self {
            Self::Float64 | Self::Int64 => 8,
            Self::Float32 | Self::Int32 => 4,
            Self::Float16 | Self::BFloat16 | Self::Int16 => 2,
            Self::Float8E4M3 | Self::Float8E5M2 | Self::Int8 | Self::Bool => 1,
        }
    }

    /// Reads torch's aliases as well as the canonical names.
    pub fn from_torch_name(name: &str) -> Result<Self, crate::Invalid> {
        match name {
            "half" => Ok(Self::Float16),
            "float" => Ok(Self::Float32),
            "double" => Ok(Self::Float64),
            "short" => Ok(Self::Int16),
            "int" => Ok(Self::Int32),
            "long" => Ok(Self::Int64),
            other => other.parse(),
        }
    }
}
