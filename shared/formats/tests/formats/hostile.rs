//! Bytes that mean harm, or that a broken connection cut off.

use crate::samples::{golden, plain, rich};
use diode_core::{Config, Dataset, Solution, Tile};
use diode_core::{FailureReason, TimeColumn};
use diode_formats::limits::{
    MAX_CONFIGS, MAX_CONFIGS_PER_FILE, MAX_DATASETS, MAX_PROBLEMS_PER_FILE, MAX_SHAPES,
};
use diode_formats::stored::{Columns, decode_columns, encode_columns};
use diode_formats::{
    Format, FormatError, decode, decode_reference_configs, decode_shapes, encode, read_file,
};

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
                // The frame header has bits that mean nothing; the data has none.
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
fn a_bomb_is_stopped_in_proportion_to_its_size() {
    let json = [b"{\"x\": [".as_slice(), &b"0,".repeat(32 << 20)].concat();
    let bomb = zstd::encode_all(&json[..], 3).unwrap();
    assert!(bomb.len() < 10_000);
    let message = decode(&bomb).unwrap_err().to_string();
    assert!(message.contains("unpacks to more than"), "{message}");
}

#[test]
fn depth_is_bounded() {
    let json = [b"{\"x\": ".as_slice(), &[b'['; 100_000]].concat();
    assert!(
        decode(&json).unwrap_err().to_string().starts_with("truncated JSON"),
        "skipped without recursion"
    );
    // {"x": [[[…
    let msgpack = [b"\x81\xa1x".as_slice(), &[0x91; 100_000]].concat();
    assert!(decode(&msgpack).unwrap_err().to_string().contains("levels"));
}

#[test]
fn claimed_lengths_are_not_believed() {
    for bytes in [
        // A map, a text under `x` and a list of timings that claim four billion entries.
        &b"\xdf\xff\xff\xff\xff\xa8hardware"[..],
        b"\x81\xa1x\xdb\xff\xff\xff\xff",
        b"\x81\xa1x\xc6\xff\xff\xff\xff",
        b"\x81\xa1x\xdd\xff\xff\xff\xff\xc0",
    ] {
        let message = decode(bytes).unwrap_err().to_string();
        assert!(message.starts_with("truncated MessagePack at byte "), "{message}");
    }
}

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
    // The second timing names its fields in another order, and the config has one more.
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
fn more_timings_than_a_files_size_lets_expect_are_refused() {
    let rows = 1 << 20;
    let mut dataset = golden();
    // Text that does not compress, so that the file may unpack to as much as the timings take.
    let mut state = 0x9e37_79b9_u32;
    let noise = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        char::from(b'0' + (state >> 16) as u8 % 64)
    });
    dataset.provenance.tool = Some(noise.take(4000).collect());
    dataset.solutions[0].configs = vec![diode_core::ConfigIndex(0); rows];
    dataset.solutions[0].times = TimeColumn::Nanos(vec![1; rows]);
    let once = encode(Format::Columnar, std::slice::from_ref(&dataset)).unwrap();
    assert_eq!(decode(&once).unwrap().datasets[0].timings(), rows);
    dataset.solutions.push(dataset.solutions[0].clone());
    let twice = encode(Format::Columnar, &[dataset]).unwrap();
    assert!(twice.len() < 20_000, "{}", twice.len());
    let message = decode(&twice).unwrap_err().to_string();
    assert!(message.contains("the most accepted from a file of its size"), "{message}");
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

#[test]
fn arbitrary_bytes_never_panic() {
    // A fixed xorshift: the same bytes in every run.
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
        // Half of them begin like something known.
        let heads: [&[u8]; 4] = [b"{", b"\x83\xa6format", b"\x82\xa8hardware", b"\x28\xb5\x2f\xfd"];
        if let Some(head) = heads.get(next() as usize % 8) {
            bytes.splice(0..0, head.iter().copied());
        }
        assert!(decode(&bytes).is_err() || bytes.is_empty());
    }
}

#[test]
fn more_hardware_than_any_file_holds_is_refused_both_ways() {
    let datasets: Vec<_> = (0..=MAX_DATASETS)
        .map(|i| Dataset {
            hardware: diode_core::hardware::Hardware::from_name(&format!("GPU {i}")).unwrap(),
            ..golden()
        })
        .collect();
    let message = encode(Format::Columnar, &datasets).unwrap_err().to_string();
    assert_eq!(message, "cannot write: 257 datasets, expected at most 256; split it into several files");

    let (first, second) = datasets.split_at(MAX_DATASETS);
    let most = String::from_utf8(encode(Format::PredecessorJson, first).unwrap()).unwrap();
    let more = String::from_utf8(encode(Format::PredecessorJson, second).unwrap()).unwrap();
    let entry = &more[more.find("\"GPU 256\"").unwrap()..more.rfind("\n  },").unwrap()];
    let joined = most.replacen("\"GPU 0\"", &format!("{entry},\n    \"GPU 0\""), 1);
    assert!(decode(most.as_bytes()).is_ok());
    let message = decode(joined.as_bytes()).unwrap_err().to_string();
    assert!(message.contains("more than 256 kinds of hardware"), "{message}");
}

const CONFIG: &str = r#"{"ACC_TYPE": "tl.float32", "block_k": 16, "block_m": 64, "block_n": 32, "grid": 1, "group_m": 8, "name": "x", "num_stages": 2, "num_warps": 4}"#;

#[test]
fn bad_solutions_are_refused_where_they_stand() {
    let with = |from: &str, to: &str| {
        assert!(CONFIG.contains(from), "{from}");
        format!(r#"{{"config": [{}]}}"#, CONFIG.replacen(from, to, 1)).into_bytes()
    };
    let sized = |fields: &str| format!(r#"{{"configs": [{{{fields}}}]}}"#).into_bytes();
    let columns = |row: &str| {
        format!("name,grid,block_m,block_n,block_k,group_m,num_stages,num_warps\n{row}\n").into_bytes()
    };
    for (bytes, cause) in [
        (Vec::new(), "CSV at line 1: no column `name`"),
        (b"{".to_vec(), "truncated JSON"),
        (b"{}".to_vec(), "no configs under"),
        (b"{\"config\": []}".to_vec(), "no configs under"),
        (b"{\"config\": {}}".to_vec(), "expected a sequence"),
        (with("64", "48"), "config 1 of \"config\": block_m: got 48"),
        (with("64", "-64"), "expected u32"),
        (with("64", "true"), "boolean `true`"),
        (with("\"block_m\": 64, ", ""), "missing field `block_m`"),
        (with("\"grid\": 1", "\"grid\": 1, \"grid\": 1"), "duplicate field `grid`"),
        (with("tl.float32", "tl.float8"), "tl.float8"),
        (b"{\"mm\": {\"config\": 7}}".to_vec(), "invalid type: integer `7`"),
        (sized("\"M\": 1"), "missing field `N`"),
        (
            sized(
                "\"M\": 0, \"N\": 1, \"K\": 1, \"block_m\": 16, \"block_n\": 16, \"block_k\": 16, \"num_stages\": 1, \"num_warps\": 1",
            ),
            "M: got 0",
        ),
        (columns("a,1,64,32,16,8,2"), "line 2: 7 fields, expected 8"),
        (columns("a,1,64,32,16,8,2,three"), "line 2: num_warps: got \"three\""),
        (columns("a,1,64,32,16,8,2,3"), "line 2: num_warps: got 3"),
        (columns(""), "no configs under"),
        (b"\x81\xa6config\x91\x80".to_vec(), "missing field"),
        (b"\x81\xa6config\xdd\xff\xff\xff\xff".to_vec(), "truncated MessagePack"),
    ] {
        let error = decode_reference_configs(&bytes).unwrap_err().to_string();
        assert!(error.contains(cause) && !error.contains('\n'), "expected {cause:?}, got {error}");
    }
}

/// Problems without a single timing take next to nothing in a file, and a kilobyte in memory.
#[test]
fn no_file_may_hold_more_problems_than_memory_is_for() {
    let refused = format!("more than {MAX_PROBLEMS_PER_FILE} problems");
    let mut many = golden();
    let empty = Solution {
        configs: Vec::new(),
        times: TimeColumn::from_nanos(Vec::new()).unwrap(),
        failures: Vec::new(),
        ..many.solutions[0].clone()
    };
    many.solutions = vec![empty; MAX_PROBLEMS_PER_FILE + 1];
    // Unpacked, since all the same they shrink to less than a frame may grow from.
    let columnar = zstd::decode_all(&encode(Format::Columnar, &[many]).unwrap()[..]).unwrap();
    let error = decode(&columnar).unwrap_err().to_string();
    assert!(error.contains(&refused), "{error}");

    let key = |m: usize| {
        format!(
            "{{\\\"version\\\": 1, \\\"B\\\": 1, \\\"M\\\": {m}, \\\"M_dtype\\\": \\\"float16\\\", \\\"N\\\": 8, \\\"K\\\": 8, \
             \\\"K_dtype\\\": \\\"float16\\\", \\\"out_dtype\\\": \\\"float16\\\", \\\"out_size\\\": [1, {m}, 8], \\\"out_stride\\\": [{}, 8, 1]}}",
            8 * m
        )
    };
    let problems: Vec<String> = (1..=MAX_PROBLEMS_PER_FILE + 1)
        .map(|m| format!("\"{}\": {{\"timed_configs\": []}}", key(m)))
        .collect();
    let json = format!(
        "{{\"hardware\": {{\"NVIDIA H100\": {{\"operation\": {{\"mm\": {{\"solution\": {{{}}}}}}}}}}}}}",
        problems.join(", ")
    );
    let error = decode(json.as_bytes()).unwrap_err().to_string();
    assert!(error.contains(&refused), "{error}");

    let mut csv = "hardware,op,m,n,k,a_dtype,template,time_ns\n".to_owned();
    for m in 1..=MAX_PROBLEMS_PER_FILE + 1 {
        csv += &format!("h,mm,{m},8,8,half,aten,1\n");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.csv");
    diode_formats::write_atomically(&path, csv.as_bytes()).unwrap();
    let error = read_file(&path).unwrap_err().to_string();
    assert!(error.contains(&refused), "{error}");
}

#[test]
fn no_file_may_hold_more_configs_than_memory_is_for() {
    let size = |at: usize| 1_u32 << (at % 11);
    let tile = |at: usize| {
        let (stages, rest) = (1 + (at % 16) as u32, at / 16);
        Tile::new(size(rest), size(rest / 11), size(rest / 121), stages, 1 << (rest / 1331 % 6))
    };
    let each = 100_000;
    assert!(each < MAX_CONFIGS);
    let dictionary: diode_core::ConfigDictionary = (0..each).map(|at| Config::Mm(tile(at))).collect();
    assert_eq!(dictionary.len(), each);
    let dataset = Dataset { configs: dictionary, solutions: Vec::new(), ..golden() };
    let datasets = vec![dataset; MAX_CONFIGS_PER_FILE / each + 1];
    let columnar = zstd::decode_all(&encode(Format::Columnar, &datasets).unwrap()[..]).unwrap();
    let error = decode(&columnar).unwrap_err().to_string();
    assert!(error.contains(&format!("more than {MAX_CONFIGS_PER_FILE} configs")), "{error}");
}

#[test]
fn no_list_may_hold_more_shapes_than_memory_is_for() {
    let csv = format!("name,B,M,K,N,Transposed\n{}", "mm,1,8,8,8,False\n".repeat(MAX_SHAPES + 1));
    let error = decode_shapes(csv.as_bytes()).unwrap_err().to_string();
    assert!(error.contains(&format!("more than {MAX_SHAPES} shapes")), "{error}");
}
