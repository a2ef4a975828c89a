//! The matrix multiplications that Inductor chooses kernels for.

use crate::named_enum::named_enum;

named_enum! {
    /// A matrix multiplication operator.
    Op("op") {
        /// `A @ B`
        Mm = "mm",
        /// `bias + A @ B`; what `nn.Linear` becomes.
        Addmm = "addmm",
        /// `A @ B` over a batch.
        Bmm = "bmm",
        /// `bias + A @ B` over a batch.
        Baddbmm = "baddbmm",
    }
}

impl Op {
    /// Whether the operator adds a bias.
    pub const fn has_bias(self) -> bool {
        matches!(self, Self::Addmm | Self::Baddbmm)
    }

    /// Whether the operator has a batch dimension.
    pub const fn is_batched(self) -> bool {
        matches!(self, Self::Bmm | Self::Baddbmm)
    }
}
