//! torch-diode's JSON: accepted input can be written and reads back the same.
#![no_main]

use diode_formats::{Format, decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if !data.starts_with(b"{") {
        return;
    }
    let Ok(decoded) = decode(data) else { return };
    let written = encode(Format::PredecessorJson, &decoded.datasets).expect("it came from this format");
    // Two problem keys may spell the same problem. Writing joins them.
    let again = decode(&written).expect("what is written is read").datasets;
    assert_eq!(timings(&again), timings(&decoded.datasets));
    assert_eq!(encode(Format::PredecessorJson, &again).expect("as before"), written);
});

fn timings(datasets: &[diode_core::Dataset]) -> (usize, usize) {
    datasets.iter().fold((0, 0), |(t, f), dataset| (t + dataset.timings(), f + dataset.failures()))
}
