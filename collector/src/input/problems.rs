//! Where problems come from: the generators, the layers of a model, a list, or flags that name one
//! problem.

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
