//! What follows a multiplication.

use crate::named_enum::named_enum;

named_enum! {
    /// What follows a multiplication point by point. A tile does it in its own kernel, the library leaves it to
    /// another one.
    Epilogue("epilogue") {
        None = "none",
        Relu = "relu",
        Gelu = "gelu",
        /// The approximation by `tanh`.
        GeluTanh = "gelu-tanh",
        Silu = "silu",
        /// The product's SiLU times another matrix.
        SiluGate = "silu-gate",
        /// Another matrix is added.
        Residual = "residual",
        /// The product is written as float32.
        Float32 = "float32",
    }
}
