//! Small charts of our own: log scales, a scatter plot, and the two plots made of it.

mod agreement;
mod along;
mod columns;
mod frame;
mod judged;
mod look;
mod plot;
mod roofline;
mod save;
mod scale;
mod scatter;
mod size;

pub(crate) use agreement::{Agreement, agreement};
pub(crate) use along::{SizePoint, along_size};
pub(crate) use columns::{Column, Columns};
pub(crate) use judged::{JudgedProblem, judged};
pub(crate) use look::{Shape, Tone};
pub(crate) use roofline::roofline;
