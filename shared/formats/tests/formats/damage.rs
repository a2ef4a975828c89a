//! Files that are cut off, changed or made up.

use diode_core::{FailureReason, TimeColumn};
use diode_formats::stored::{Columns, decode_columns, encode_columns};
use diode_formats::{Format, decode, encode, read_file};

use crate::samples::{golden, plain, rich};

/// One small file per format and compression.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    let json = encode(Format::PredecessorJson, &[golden()]).unwrap();
    let msgpack = encode(Format::PredecessorMsgpack, &plain()).unwrap();
    let columnar = encode(Format::Columnar, &rich()).unwrap();
    vec![
        ("JSON under zstd", zstd::encode_all(&json[..], 3).unwrap()),
        ("JSON", json),
        ("MessagePack under zstd", zstd::encode_all(&msgpack[..], 3).unwrap()),
        ("MessagePack", msgpack),
        ("columnar unpacked", zstd::decode_all(&columnar[..]).unwrap()),
        ("columnar", columnar),
    ]
}

#[test]
fn truncation_at_any_byte_is_an_error() {
    for (name, bytes) in files() {
        decode(&bytes).unwrap();
        for length in 0..bytes.len() {
            let Err(error) = decode(&bytes[..length]) else {
                panic!("{name} of {length} bytes was accepted")
            };
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}

#[test]
fn trailing_garbage_is_an_error() {
    for (name, bytes) in files() {
        for garbage in [&b"x"[..], b"\x00", b"{}", b"\xc0\xc0"] {
            assert!(decode(&[&bytes[..], garbage].concat()).is_err(), "{name} and {garbage:?}");
        }
    }
}

#[test]
fn no_flipped_bit_panics_and_a_checksum_finds_it_in_our_own_format() {
    for (name, bytes) in files() {
        let columnar = name == "columnar";
        for place in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[place] ^= 1 << bit;
                let result = decode(&flipped);
                // Some bits of the frame header have no meaning. All bits of the data have a meaning.
                if columnar && place > 6 {
                    let unchanged = result.as_ref().is_ok_and(|decoded| decoded.datasets == rich());
                    assert!(result.is_err() || unchanged, "bit {bit} of byte {place}");
                }
            }
        }
    }
}

#[test]
fn damaged_parquet_is_survived() {
    let bytes = encode(Format::Parquet, &plain()).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let read = |bytes: &[u8]| {
        #[expect(clippy::disallowed_methods, reason = "thrown away at once")]
        std::fs::write(file.path(), bytes).unwrap();
        read_file(file.path())
    };
    read(&bytes).unwrap();
    for length in (4..bytes.len()).step_by(101) {
        assert!(read(&bytes[..length]).is_err(), "{length} bytes");
    }
    for (place, damage) in (4..bytes.len()).step_by(13).zip([0x01, 0x80, 0xff, 0x10].into_iter().cycle()) {
        let mut flipped = bytes.clone();
        flipped[place] ^= damage;
        if let Err(error) = read(&flipped) {
            let message = error.to_string();
            assert!(!message.contains('\n'), "{message}");
        }
    }
}

#[test]
fn damaged_blobs_are_errors() {
    let columns = Columns {
        times: TimeColumn::from_nanos((1..200).map(|i| i * 32).collect()).unwrap(),
        minimum_ns: None,
        spread_ns: Some(vec![7; 199]),
        repeats: None,
        failures: vec![(199, FailureReason::Compile), (200, FailureReason::Timeout)],
    };
    let blob = encode_columns(&columns);
    for length in 0..blob.len() {
        assert!(decode_columns(&blob[..length]).is_err(), "{length} bytes");
    }
    for place in 0..blob.len() {
        let mut flipped = blob.clone();
        flipped[place] ^= 0x55;
        assert!(decode_columns(&flipped).map_or(true, |decoded| decoded == columns), "byte {place}");
    }
    let message = decode_columns(&[9, 0]).unwrap_err().to_string();
    assert!(message.contains("codec version 9, expected 1"), "{message}");
}

#[test]
fn arbitrary_bytes_never_panic() {
    // A fixed xorshift gives the same bytes in every run.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..20_000 {
        let length = next() as usize % 64;
        let mut bytes: Vec<u8> = (0..length).map(|_| next() as u8).collect();
        // Half of the inputs begin like a known format.
        let heads: [&[u8]; 4] = [b"{", b"\x83\xa6format", b"\x82\xa8hardware", b"\x28\xb5\x2f\xfd"];
        if let Some(head) = heads.get(next() as usize % 8) {
            bytes.splice(0..0, head.iter().copied());
        }
        assert!(decode(&bytes).is_err() || bytes.is_empty());
    }
}
