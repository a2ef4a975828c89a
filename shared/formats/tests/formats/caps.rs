//! Files that claim more than a file may hold.

use diode_core::{Config, Dataset, Solution, Tile, TimeColumn};
use diode_formats::limits::{MAX_CONFIGS, MAX_CONFIGS_PER_FILE, MAX_DATASETS, MAX_PROBLEMS_PER_FILE};
use diode_formats::{Format, decode, decode_within, encode, read_file};

use crate::samples::golden;

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
    // The bytes of {"x": [[[…
    let msgpack = [b"\x81\xa1x".as_slice(), &[0x91; 100_000]].concat();
    assert!(decode(&msgpack).unwrap_err().to_string().contains("levels"));
}

#[test]
fn claimed_lengths_are_not_believed() {
    for bytes in [
        // A map, a text, bytes and a list of timings that each claim four billion entries.
        &b"\xdf\xff\xff\xff\xff\xa8hardware"[..],
        b"\x81\xa1x\xdb\xff\xff\xff\xff",
        b"\x81\xa1x\xc6\xff\xff\xff\xff",
        b"\x81\xa1x\xdd\xff\xff\xff\xff\xc0",
    ] {
        let message = decode(bytes).unwrap_err().to_string();
        assert!(message.starts_with("truncated MessagePack at byte "), "{message}");
    }
}

#[test]
fn more_timings_than_a_files_size_lets_expect_are_refused() {
    let rows = 1 << 20;
    let mut dataset = golden();
    // The limit on timings grows with the file's size. This text does not compress, so the file is large
    // enough.
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

/// Problems without any timing take almost no bytes in a file, but a kilobyte in memory.
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
    // This tests the unpacked file: equal problems compress so well that another limit would refuse the
    // packed file first.
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
fn a_reader_may_take_fewer_timings() {
    let dataset = golden();
    let rows = dataset.timings() + dataset.failures();
    let bytes = encode(Format::Columnar, &[dataset]).unwrap();
    assert!(decode_within(&bytes, rows).is_ok());
    let message = decode_within(&bytes, rows - 1).unwrap_err().to_string();
    assert!(message.contains(&format!("more than {} timings and failures", rows - 1)), "{message}");
}
