//! What a kernel costs beyond the multiplication. An epilogue becomes part of a tile's kernel, but is a
//! kernel of its own after the library.

mod compiling;
mod costs;
mod decision;
mod doubt;
mod following;

pub use compiling::{hides_steps, soonest_first};
pub use costs::Costs;
pub use decision::{Decision, NEAR, Verdict, WEIGHED, Weighed, uncounted, weighed};
pub use following::Following;
