//! Small charts of our own: log scales, a scatter plot, and the two plots made of it.

mod agreement;
mod frame;
mod look;
mod plot;
mod roofline;
mod scale;
mod scatter;
mod size;

pub(crate) use agreement::{Agreement, agreement};
pub(crate) use look::{Shape, Tone};
pub(crate) use roofline::roofline;
