//! What is decided. A dimension of models, routes and storage from the start.

use crate::named_enum::named_enum;

named_enum! {
    /// A compiler decision that Diode can make.
    Heuristic("heuristic") {
        /// Which kernel multiplies two matrices.
        Matmul = "matmul",
    }
}
