//! torch-diode's MessagePack: accepted input can be written, and its JSON says the same.
#![no_main]

use diode_formats::{Format, content_digest, decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // MessagePack datasets begin with a map. JSON and columnar files have their own targets.
    if !matches!(data.first(), Some(0x80..=0x8f | 0xde | 0xdf)) {
        return;
    }
    let Ok(decoded) = decode(data) else { return };
    if decoded.format != Format::PredecessorMsgpack {
        return;
    }
    let written = encode(Format::PredecessorMsgpack, &decoded.datasets).expect("it came from this format");
    let again = decode(&written).expect("what is written is read").datasets;
    let json = encode(Format::PredecessorJson, &again).expect("the two forms hold the same");
    let from_json = decode(&json).expect("what is written is read").datasets;
    assert_eq!(content_digest(&from_json), content_digest(&again));
    assert_eq!(encode(Format::PredecessorMsgpack, &from_json).expect("as before"), written);
});
