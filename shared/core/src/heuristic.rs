//! What Diode decides. Models, routes and storage name the heuristic, so that more can be added.

use crate::named_enum::named_enum;

named_enum! {
    /// A decision that Diode makes for the compiler.
    Heuristic("heuristic") {
        /// Which kernel computes a matrix multiplication.
        Matmul = "matmul",
    }
}
