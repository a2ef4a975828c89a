//! Texts as programs on other systems write them, and files that are too long for their kind.

use diode_formats::{Format, decode, decode_lookup_table, encode, read_file, read_lookup_table};

use crate::samples::golden;

const MARK: &[u8] = b"\xef\xbb\xbf";

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
    let table = br#"{"hardware": {"NVIDIA H100": {"operation": {}}}}"#;
    assert_eq!(decode_lookup_table(&marked(table)).unwrap(), decode_lookup_table(table).unwrap());
}

#[test]
fn utf_16_is_called_by_its_name() {
    let words = "a text in UTF-16, expected UTF-8";
    let json = encode(Format::PredecessorJson, &[golden()]).unwrap();
    assert!(decode(&utf16(&json)).unwrap_err().to_string().contains(words));
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
    let error = read_lookup_table(file.path()).unwrap_err().to_string();
    assert!(error.contains("invalid JSON at "), "{error}");
}
