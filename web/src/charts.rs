//! Small charts: log scales, a scatter plot, and the plots made of it.

mod agreement;
mod along;
mod columns;
mod frame;
mod judged;
mod legend;
mod look;
mod plot;
mod roofline;
mod save;
mod scale;
mod scatter;
mod size;
mod training;
mod written;

pub(crate) use agreement::{Agreement, agreement};
pub(crate) use along::{SizePoint, along_size};
pub(crate) use columns::{Column, Columns};
pub(crate) use judged::{JudgedProblem, judged};
pub(crate) use legend::legend;
pub(crate) use look::{Shape, Tone};
pub(crate) use roofline::{Point, roofline};
pub(crate) use training::{Curve, training};
