//! Pieces that several pages are made of.

mod bar;
mod copy;
mod footer;
mod header;
mod loaded;
mod logo;
mod select;
mod stat;
mod theme;
mod title;

pub(crate) use bar::{bar, bar_cell};
pub(crate) use copy::snippet;
pub(crate) use footer::footer;
pub(crate) use header::header;
pub(crate) use loaded::{absent, empty, failure, loaded, loaded_or_absent, skeleton};
pub(crate) use select::{chips, select};
pub(crate) use stat::{Stat, stats};
pub(crate) use title::title;
