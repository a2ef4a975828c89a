//! Tests of torch-diode's files: real ones, forged ones and damaged ones.
#![cfg(test)]

mod checkpoint;
mod lists;
#[allow(dead_code, reason = "the tests of diode-train use all of it")]
#[path = "../../../train/tests/train/made_up.rs"]
mod made_up;
mod networks;
mod training;
