//! Texts as programs on other systems write them, and files that are too long for their kind.

use diode_formats::{
    Format, decode, decode_lookup_table, decode_reference_configs, decode_shapes, encode, read_file,
    read_lookup_table, read_shapes,
};

use crate::samples::golden;

const MARK: &[u8] = b"\xef\xbb\xbf";

const SHAPES: &[u8] = b"name,B,M,K,N,Transposed\nmm,1,2,3,4,False\n";

const SOLUTION: &[u8] =
    br#"{"config": [{"block_k": 16, "block_m": 64, "block_n": 32, "grid": 1, "group_m": 8,
    "name": "x", "num_stages": 2, "num_warps": 4}]}"#;

fn marked(bytes: &[u8]) -> Vec<u8> {
    [MARK, bytes].concat()
}

fn utf16(text: &[u8]) -> Vec<u8> {
    [0xff, 0xfe].into_iter().chain(text.iter().flat_map(|&byte| [byte, 0])).collect()
}

#[test]
fn a_mark_of_utf_8_means_nothing() {
    let json = encode(Format::PredecessorJson, &[golden()]).unwrap();
    let expected = decode(&json).unwrap();
    assert_eq!(decode(&marked(&json)).unwrap(), expected);
    assert_eq!(decode(&zstd::encode_all(&marked(&json)[..], 3).unwrap()).unwrap(), expected);
    let file = tempfile::NamedTempFile::new().unwrap();
    for bytes in [json, encode(Format::Csv, &[golden()]).unwrap()] {
        diode_formats::write_atomically(file.path(), &marked(&bytes)).unwrap();
        assert_eq!(read_file(file.path()).unwrap().datasets, [golden()]);
    }
    assert_eq!(decode_shapes(&marked(SHAPES)).unwrap(), decode_shapes(SHAPES).unwrap());
    assert_eq!(
        decode_reference_configs(&marked(SOLUTION)).unwrap(),
        decode_reference_configs(SOLUTION).unwrap()
    );
    let table = br#"{"hardware": {"NVIDIA H100": {"operation": {}}}}"#;
    assert_eq!(decode_lookup_table(&marked(table)).unwrap(), decode_lookup_table(table).unwrap());
}

#[test]
fn utf_16_is_called_by_its_name() {
    let words = "a text in UTF-16, expected UTF-8";
    let json = encode(Format::PredecessorJson, &[golden()]).unwrap();
    assert!(decode(&utf16(&json)).unwrap_err().to_string().contains(words));
    assert!(decode_shapes(&utf16(SHAPES)).unwrap_err().to_string().contains(words));
    assert!(decode_reference_configs(&utf16(SOLUTION)).unwrap_err().to_string().contains(words));
}

#[test]
fn what_is_no_text_is_not_called_csv() {
    let error = decode_shapes(b"\x7fELF\x02\x01\x01\0\0\n").unwrap_err().to_string();
    assert_eq!(
        error,
        "got bytes that are neither UTF-8 text nor MessagePack, expected JSON, MessagePack or CSV"
    );
}

#[test]
fn blanks_that_go_on_and_on_are_refused() {
    let json = String::from_utf8(encode(Format::PredecessorJson, &[golden()]).unwrap()).unwrap();
    let padded = json.replacen('{', &format!("{{{}", " ".repeat(1 << 20)), 1);
    let error = decode(padded.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("more than 65536 blanks in a row"), "{error}");
}

/// A sparse file has no bytes on the disk, but reading it whole would need memory for all of them.
#[test]
fn a_huge_file_is_refused_before_it_is_read() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(1 << 40).unwrap();
    let refused = |error: diode_formats::FormatError| {
        let error = error.to_string();
        assert!(error.contains("got more than 67108864 bytes"), "{error}");
    };
    refused(read_shapes(file.path()).unwrap_err());
    refused(diode_formats::read_reference_configs(file.path()).unwrap_err());
    refused(diode_formats::read_checkpoint(file.path()).unwrap_err());
    let error = read_lookup_table(file.path()).unwrap_err().to_string();
    assert!(error.contains("invalid JSON at "), "{error}");
}
