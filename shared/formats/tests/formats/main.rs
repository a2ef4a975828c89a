//! Tests of the formats from outside: files of other programs, round trips and hostile bytes.
#![cfg(test)]

mod caps;
mod damage;
mod goldens;
mod properties;
mod reducing;
mod refusals;
mod round_trips;
mod samples;
mod serving;
mod texts;
