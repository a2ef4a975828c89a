//! Scaled and grouped problems in every format.

use diode_core::{
    Config, ConfigDictionary, DType, Dataset, Groups, Op, Problem, ProblemFields, Rows, Scaling, Solution,
    Stage, Tile,
};
use diode_formats::{Format, content_digest, encode, read_file};

use crate::round_trips::reread;
use crate::samples::{golden, plain, solution};

fn problem(op: Op, m: u64, dtype: DType, scaling: Scaling, groups: Option<Groups>) -> Problem {
    let plain = ProblemFields::plain(op, 1, m, 4096, 7168, dtype);
    Problem::new(ProblemFields { scaling, groups, ..plain }).unwrap()
}

fn experts(stage: Stage, dtype: DType, scaling: Scaling) -> Problem {
    let groups = Groups { stage: Some(stage), ..Groups::routed(128, 8) };
    problem(Op::FusedMoe, 64, dtype, scaling, Some(groups))
}

fn dataset(problems: Vec<Problem>) -> Dataset {
    let tile = Tile::new(16, 128, 128, 4, 4);
    let configs: ConfigDictionary =
        [Config::Mm(tile), Config::Mm(Tile { swap_ab: true, ..tile })].into_iter().collect();
    let solutions: Vec<Solution> =
        problems.into_iter().map(|problem| solution(problem, &[0, 1], &[0.0125, 0.011])).collect();
    Dataset { configs, solutions, ..golden() }
}

/// A dataset of scaled multiplications, and one of groups and experts.
fn serving() -> Vec<Dataset> {
    let scaled = |dtype, scaling| problem(Op::ScaledMm, 16, dtype, scaling, None);
    let fp8 = DType::Float8E4M3;
    let even = Groups { rows: Rows::Even, ..Groups::routed(16, 1) };
    let grouped = dataset(vec![
        problem(Op::GroupedMm, 512, DType::BFloat16, Scaling::None, Some(Groups::routed(128, 8))),
        problem(Op::ScaledGroupedMm, 512, fp8, Scaling::Row, Some(even)),
        experts(Stage::GateUp, DType::BFloat16, Scaling::None),
        experts(Stage::GateUp, fp8, Scaling::Block),
        experts(Stage::Down, DType::Int8, Scaling::Row),
    ]);
    let hardware = diode_core::hardware::find("nvidia-h200").unwrap();
    vec![
        dataset(vec![
            scaled(fp8, Scaling::Tensor),
            scaled(fp8, Scaling::Row),
            scaled(DType::Float8E4M3Fnuz, Scaling::Block),
            scaled(DType::Int8, Scaling::Row),
        ]),
        Dataset { hardware, ..grouped },
    ]
}

#[test]
fn two_datasets_round_trip_through_every_format() {
    let digest = content_digest(&serving());
    for from in Format::ALL {
        let first = reread(&encode(from, &serving()).unwrap()).datasets;
        assert_eq!(content_digest(&first), digest, "{from}");
        for to in Format::ALL {
            let second = reread(&encode(to, &first).unwrap()).datasets;
            assert_eq!(content_digest(&second), digest, "{from} to {to}");
        }
    }
}

#[test]
fn files_without_such_problems_have_no_new_columns() {
    let header = |datasets: &[Dataset]| {
        let csv = String::from_utf8(encode(Format::Csv, datasets).unwrap()).unwrap();
        csv.lines().next().unwrap().to_owned()
    };
    let old = "dataset,solution,hardware,hardware_name,vendor,op,b,m,n,k,a_dtype,b_dtype,out_dtype,a_layout,b_layout,bias,\
               out_size,out_stride,method,template,block_m,block_n,block_k,group_m,num_stages,num_warps,even_k,allow_tf32,\
               use_fast_accum,acc_type,matrix_instr_nonkdim,waves_per_eu,kpack,k_split,time_ns,time_ms,minimum_ns,spread_ns,\
               repeats,failure";
    assert_eq!(header(&plain()), old);
    let new = old.replace("out_stride,", "out_stride,scaling,groups,top_k,stage,rows,");
    assert_eq!(header(&serving()), new.replace("k_split,", "k_split,swap_ab,"));
}

/// The bytes of a file without its compression.
fn unpacked(format: Format, datasets: &[Dataset]) -> Vec<u8> {
    let bytes = encode(format, datasets).unwrap();
    if format == Format::Columnar { zstd::decode_all(&bytes[..]).unwrap() } else { bytes }
}

/// Refuses a file with this text in place of another.
fn forged(format: Format, bytes: &[u8], from: &[u8], to: &[u8]) -> String {
    let mut text = bytes.to_vec();
    let mut places = 0;
    let mut at = 0;
    while let Some(found) = text[at..].windows(from.len()).position(|window| window == from) {
        at += found;
        text.splice(at..at + from.len(), to.iter().copied());
        at += to.len();
        places += 1;
    }
    assert!(places > 0, "{format}: no {:?}", String::from_utf8_lossy(from));
    let packed = if format == Format::Columnar { zstd::encode_all(&text[..], 1).unwrap() } else { text };
    refused(&packed)
}

fn refused(bytes: &[u8]) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    #[expect(clippy::disallowed_methods, reason = "thrown away at once")]
    std::fs::write(file.path(), bytes).unwrap();
    read_file(file.path()).unwrap_err().to_string()
}

#[test]
fn every_new_field_is_checked_in_every_format() {
    let datasets = [dataset(vec![experts(Stage::GateUp, DType::Float8E4M3, Scaling::Block)])];
    let words = [
        "scaling: got `blocc`",
        "groups: got 0,",
        "top_k: got 0,",
        "stage: got `gate-xx`",
        "rows: got `rooted`",
    ];
    let check = |format, forgeries: [(&[u8], &[u8]); 5]| {
        let bytes = unpacked(format, &datasets);
        for ((from, to), words) in forgeries.into_iter().zip(words) {
            let said = forged(format, &bytes, from, to);
            assert!(said.contains(words), "{format}: {said}");
        }
    };
    let texts: [(&[u8], &[u8]); 3] = [(b"block", b"blocc"), (b"gate-up", b"gate-xx"), (b"routed", b"rooted")];
    let [block, stage, rows] = texts;
    let json: [(&[u8], &[u8]); 5] = [
        (br#"scaling\": \"block\"#, br#"scaling\": \"blocc\"#),
        (br#"groups\": 128"#, br#"groups\":   0"#),
        (br#"top_k\": 8"#, br#"top_k\": 0"#),
        stage,
        rows,
    ];
    check(Format::PredecessorJson, json);
    check(
        Format::PredecessorMsgpack,
        [
            (br#"scaling": "block""#, br#"scaling": "blocc""#),
            (br#"groups": 128"#, br#"groups":   0"#),
            (br#"top_k": 8"#, br#"top_k": 0"#),
            stage,
            rows,
        ],
    );
    check(
        Format::Columnar,
        [
            (b"\xa5block", b"\xa5blocc"),
            (b"count\xcc\x80", b"count\xcc\x00"),
            (b"top_k\x08", b"top_k\x00"),
            stage,
            rows,
        ],
    );
    let csv: [(&[u8], &[u8]); 5] = [
        (b",block,", b",blocc,"),
        (b",128,8,gate", b",0,8,gate"),
        (b",128,8,gate", b",128,0,gate"),
        stage,
        rows,
    ];
    check(Format::Csv, csv);

    // Numbers are read as from CSV. Pages of one text are too short to be compressed.
    let parquet = unpacked(Format::Parquet, &datasets);
    for ((from, to), words) in [block, stage, rows].into_iter().zip([words[0], words[3], words[4]]) {
        let long = |text: &[u8]| [&(text.len() as u32).to_le_bytes()[..], text].concat();
        let said = forged(Format::Parquet, &parquet, &long(from), &long(to));
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn fields_of_other_operators_are_refused() {
    let mm =
        [dataset(vec![Problem::new(ProblemFields::plain(Op::Mm, 1, 64, 64, 64, DType::BFloat16)).unwrap()])];
    let csv = String::from_utf8(encode(Format::Csv, &mm).unwrap()).unwrap();
    assert!(csv.contains(",swap_ab,") && csv.contains(",true,"), "{csv}");
    let row = ",none,,,,,,,,";
    assert!(csv.contains(row), "{csv}");
    for (cells, words) in [
        (",none,,,row,,,,,", "scaling: got `row`, expected `none`, since mm"),
        (",none,,,,8,2,,,", "groups: got 8, expected none, since mm has no groups"),
        (",none,,,,,2,,,", "top_k: got 2, expected none, since there is no number of groups"),
        (",none,,,,,,down,,", "stage: got down, expected none"),
        (",none,,,,,,,even,", "rows: got even, expected none"),
    ] {
        let said = refused(csv.replace(row, cells).as_bytes());
        assert!(said.contains(words), "{said}");
    }
    let said = refused(csv.replace(",true,", ",maybe,").as_bytes());
    assert!(said.contains("swap_ab") && said.contains("expected true or false"), "{said}");
}
