//! What a server stores per solution. The fuzzed bytes are those inside the compression.
#![no_main]

use diode_formats::stored::{decode_columns, decode_configs, encode_columns, encode_configs};
use libfuzzer_sys::fuzz_target;

/// The codec version that precedes the frame.
const VERSION: u8 = 1;

fuzz_target!(|data: &[u8]| {
    let frame = zstd::bulk::compress(data, 1).expect("any bytes compress");
    let blob = [&[VERSION], &frame[..]].concat();
    if let Ok(columns) = decode_columns(&blob) {
        assert_eq!(decode_columns(&encode_columns(&columns)).expect("what is written is read"), columns);
    }
    if let Ok(configs) = decode_configs(&blob) {
        assert_eq!(decode_configs(&encode_configs(&configs)).expect("what is written is read"), configs);
    }
});
