//! torch checkpoints. The fuzzed bytes are the pickle inside the archive; bytes that begin like an
//! archive are taken as the archive itself. Decoding runs nothing that they hold, and a tensor has
//! as many values as its shape says.
#![no_main]

use diode_compat::{SavedValues, decode_checkpoint};
use libfuzzer_sys::fuzz_target;

/// The bytes that the pickle's tensors may refer to.
const STORAGE: [u8; 64] = [0; 64];

fuzz_target!(|data: &[u8]| {
    let decoded = if data.starts_with(b"PK") {
        decode_checkpoint(data)
    } else {
        decode_checkpoint(&archive(&[("m/data.pkl", data), ("m/data/0", &STORAGE)]))
    };
    for tensor in decoded.iter().flat_map(|checkpoint| checkpoint.tensors.values()) {
        let count = match &tensor.values {
            SavedValues::Float32(values) => values.len(),
            SavedValues::Int64(values) => values.len(),
        };
        assert_eq!(count, tensor.shape.iter().product::<usize>());
    }
});

/// A ZIP archive that stores its entries, as torch writes it.
fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut file, mut list) = (Vec::new(), Vec::new());
    for (name, content) in entries {
        let size = (content.len() as u32).to_le_bytes();
        // Without the right checksum, a changed entry would be refused at once.
        let sizes = [&crc32fast::hash(content).to_le_bytes()[..], &size, &size, &(name.len() as u16).to_le_bytes()].concat();
        let start = (file.len() as u32).to_le_bytes();
        list.extend([b"PK\x01\x02", &[0; 12][..], &sizes, &[0; 12], &start, name.as_bytes()].concat());
        file.extend([b"PK\x03\x04", &[0; 10][..], &sizes, &[0; 2], name.as_bytes(), content].concat());
    }
    let count = (entries.len() as u16).to_le_bytes();
    let (size, start) = ((list.len() as u32).to_le_bytes(), (file.len() as u32).to_le_bytes());
    file.extend(list);
    file.extend([b"PK\x05\x06", &[0; 4][..], &count, &count, &size, &start, &[0; 2]].concat());
    file
}
