//! What may follow a multiplication.

use crate::named_enum::named_enum;

named_enum! {
    /// What follows a multiplication element by element. A tile computes it in its own kernel. After the
    /// library, a second kernel computes it.
    Epilogue("epilogue") {
        None = "none",
        Relu = "relu",
        Gelu = "gelu",
        /// GELU, approximated with `tanh`.
        GeluTanh = "gelu-tanh",
        Silu = "silu",
        /// The SiLU of the product, times another matrix.
        SiluGate = "silu-gate",
        /// The sum of the product and another matrix.
        Residual = "residual",
        /// The product, written as float32.
        Float32 = "float32",
    }
}
