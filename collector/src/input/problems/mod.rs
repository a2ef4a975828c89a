//! Which problems: drawn by the shape generators, those of a model, read from a list, or named by flags.

mod asked;
mod generator;
mod list;
mod models;
mod named;
mod shapeset;
mod short;

pub(crate) use asked::AskedArgs;
pub(crate) use generator::GeneratorArgs;
pub(crate) use list::read_problems;
use models::ModelArgs;
pub(crate) use named::ProblemArgs;
pub(crate) use shapeset::read_shapeset;
pub(crate) use short::ShortProblem;
