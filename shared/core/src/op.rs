//! The matrix multiplications that Inductor chooses kernels for.

use crate::named_enum::named_enum;

named_enum! {
    /// A matrix multiplication operator.
    Op("op") {
        /// `A @ B`
        Mm = "mm",
        /// `bias + A @ B`; `nn.Linear` with a bias becomes this.
        Addmm = "addmm",
        /// `A @ B` for each matrix of a batch.
        Bmm = "bmm",
        /// `bias + A @ B` for each matrix of a batch.
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
