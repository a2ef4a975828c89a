//! Which problems: drawn by the shape generators, those of a model, or read from a shape set.

mod generator;
mod list;
mod models;
mod shapeset;

pub(crate) use generator::GeneratorArgs;
pub(crate) use list::read_problems;
use models::ModelArgs;
pub(crate) use shapeset::read_shapeset;
