//! What a kernel's choice costs beyond the multiplication: what follows it is part of a tile, but a kernel of its
//! own after the library.

mod costs;
mod decision;
mod following;

pub use costs::Costs;
pub use decision::{DOUBT, Decision, NEAR, Verdict, WEIGHED, Weighed, uncounted, weighed};
pub use following::Following;
