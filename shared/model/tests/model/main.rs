//! The model as its users meet it: files, predictions, rankings.

mod file;
mod legacy;
mod oracle;
mod ranking;
mod sample;
mod shortlist;
