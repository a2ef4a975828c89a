//! Whole files whose content is refused, and files that are accepted.

use diode_formats::{Format, FormatError, decode, encode};

use crate::samples::golden;

fn json_error(from: &str, to: &str) -> String {
    let json = String::from_utf8(encode(Format::PredecessorJson, &[golden()]).unwrap()).unwrap();
    assert!(json.contains(from), "{from}");
    match decode(json.replacen(from, to, 1).as_bytes()) {
        Err(error @ FormatError::Malformed { .. }) => error.to_string(),
        other => panic!("{to}: {other:?}"),
    }
}

#[test]
fn errors_name_place_and_cause() {
    let place = "(hardware \"NVIDIA H100\", op mm, problem 1)";
    for (from, to, cause) in [
        ("0.0123", "-1.0", "time: got -1 ms, expected more than 0"),
        ("0.0123", "true", "invalid type: boolean `true`, expected f64"),
        ("\"grid\": 1", "\"grid\": true", "invalid type: boolean `true`, expected u32"),
        ("\"block_m\": 64", "\"block_m\": 48", "block_m: got 48, expected a power of two"),
        ("\"block_m\": 64", "\"block_m\": -64", "expected u32"),
        ("\"block_m\": 64,", "", "missing field `block_m`"),
        ("\"EVEN_K\": false", "\"EVEN_K\": 0", "expected a boolean"),
        ("\"time\"", "\"thyme\"", "missing field `time`"),
        ("\"timed_configs\"", "\"timed\"", "missing field `timed_configs`"),
        ("\\\"M\\\": 64", "\\\"M\\\": 0", "M: got 0, expected a size from 1"),
        ("\\\"M\\\": 64", "\\\"M\\\": true", "boolean `true`, expected u64"),
        ("\"version\": 1\n", "\"version\": true\n", "invalid type: boolean `true`, expected u64"),
    ] {
        let message = json_error(from, to);
        assert!(message.contains(place) && message.contains(cause), "{to}: {message}");
        assert!(message.starts_with("invalid JSON at line "), "{message}");
    }
    assert!(
        json_error("\"mm\"", "\"conv\"").contains("op: got `conv`, expected one of mm addmm bmm baddbmm")
    );
    assert!(json_error("\"hardware\"", "\"software\"").contains("missing field `hardware`"));
}

#[test]
fn a_key_that_comes_twice_is_an_error_in_both_forms() {
    let json = String::from_utf8(encode(Format::PredecessorJson, &[golden()]).unwrap()).unwrap();
    for (from, to) in [
        ("\"time\": 0.0123", "\"time\": 0.0123, \"time\": 0.0123"),
        ("\"block_m\": 64", "\"block_m\": 64, \"block_m\": 64"),
        ("\"version\": 1\n}", "\"version\": 1, \"version\": 1\n}"),
        ("\"mm\": {", "\"mm\": {\"solution\": {}}, \"mm\": {"),
        ("\"NVIDIA H100\": {", "\"NVIDIA H100\": {\"operation\": {}}, \"NVIDIA H100\": {"),
    ] {
        let message = json_error(from, to);
        assert!(message.contains("duplicate"), "{to}: {message}");
    }
    let key = json.lines().find(|line| line.contains("out_size")).unwrap().trim();
    let twice = json.replacen(key, &format!("{key} \"timed_configs\": []}}, {key}"), 1);
    assert!(decode(twice.as_bytes()).unwrap_err().to_string().contains("duplicate key"));

    let msgpack = encode(Format::PredecessorMsgpack, &[golden()]).unwrap();
    for (from, to) in [
        (&b"\x82\xa8hardware\x81"[..], &b"\x83\xa7version\x01\xa8hardware\x81"[..]),
        (b"\x81\xa2mm\x82", b"\x82\xa2mm\x81\xa8solution\x80\xa2mm\x82"),
        (b"\x81\xabNVIDIA H100", b"\x82\xabNVIDIA H100\x81\xa9operation\x80\xabNVIDIA H100"),
        (b"\x83\xa6config", b"\x84\xa7version\x01\xa6config"),
    ] {
        let at = msgpack.windows(from.len()).position(|window| window == from).unwrap();
        let forged = [&msgpack[..at], to, &msgpack[at + from.len()..]].concat();
        let message = decode(&forged).unwrap_err().to_string();
        assert!(message.contains("duplicate"), "{to:x?}: {message}");
    }
}

#[test]
fn the_same_config_in_other_bytes_is_the_same_config() {
    let usual = encode(Format::PredecessorMsgpack, &[golden()]).unwrap();
    // The second timing has its fields in another order, and its config has one more field.
    let tile = b"\xa9num_warps\x04\xa7version\x01\xa4time\xcb\x3f\x84\x7a\xe1\x47\xae\x14\x7b\xa7version\x01";
    let at = usual.windows(tile.len()).position(|window| window == tile).unwrap();
    let start = usual[..at].windows(8).rposition(|window| window == b"\x83\xa6config").unwrap();
    let (config, rest) = (&usual[start + 8..at + 20], &usual[at + tile.len()..]);
    let (map, time) = (&config[1..], &tile[20..34]);
    let other = [
        &usual[..start],
        b"\x83",
        time,
        b"\xa7version\x01\xa6config\x8e\xa5extra\x93\x01\xc0\xcb\0\0\0\0\0\0\0\0",
        map,
        rest,
    ]
    .concat();
    assert_ne!(other, usual);
    assert_eq!(decode(&other).unwrap().datasets, [golden()]);
}

#[test]
fn unknown_fields_are_ignored_at_every_level() {
    let json = String::from_utf8(encode(Format::PredecessorJson, &[golden()]).unwrap()).unwrap();
    let later = json.replace("\"version\": 1", "\"later\": [{\"a\": [null, NaN]}], \"version\": 1");
    assert_eq!(decode(later.as_bytes()).unwrap().datasets, [golden()]);
}

#[test]
fn a_newer_schema_is_refused_in_words() {
    let plain = zstd::decode_all(&encode(Format::Columnar, &[]).unwrap()[..]).unwrap();
    let place = plain.windows(7).position(|bytes| bytes == b"\xa6schema").unwrap() + 7;
    let mut newer = plain;
    newer[place] = 2;
    let message = decode(&newer).unwrap_err().to_string();
    assert!(message.contains("with schema 2, expected") && message.contains("update diode"), "{message}");
}
