//! The formats as their users see them: files of other programs, round trips,
//! and bytes that mean harm.
#![cfg(test)]

mod checkpoint;
mod goldens;
mod hostile;
mod reducing;
mod round_trips;
mod samples;
mod texts;
