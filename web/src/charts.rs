//! Small charts: log scales, a scatter plot, and the plots made of it.

mod agreement;
mod columns;
mod curves;
mod plot;
mod roofline;
mod save;
mod scale;
mod scatter;

pub(crate) use agreement::{Agreement, of_configs, of_problems};
pub(crate) use columns::{Column, Columns};
pub(crate) use curves::{Curve, SizePoint, along_size, training};
pub(crate) use plot::{Shape, Tone, legend};
pub(crate) use roofline::{Point, roofline};
