//! Judges models by measured timings, and shows the results.

pub(crate) mod contender;
pub(crate) mod document;
pub(crate) mod judging;
mod library_times;
pub(crate) mod page;
pub(crate) mod reference;
pub(crate) mod report;
pub(crate) mod speedups;
mod svg;
mod tables;
pub(crate) mod words;
