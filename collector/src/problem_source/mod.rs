//! Which problems: drawn by the shape generators, or read from a shape set.

mod generator;
mod shapeset;

pub(crate) use generator::GeneratorArgs;
pub(crate) use shapeset::read_shapeset;
