//! The columnar format without its compression: accepted input reads back the same.
#![no_main]

use diode_formats::{Format, decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if data.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        return;
    }
    let Ok(decoded) = decode(data) else { return };
    if decoded.format != Format::Columnar {
        return;
    }
    let written = encode(Format::Columnar, &decoded.datasets).expect("every dataset can be written");
    assert_eq!(decode(&written).expect("what is written is read").datasets, decoded.datasets);
});
