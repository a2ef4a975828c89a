//! Shape sets and reference configs.

use diode_compat::{
    ShapeSet, decode_reference_configs, decode_shapes, read_checkpoint, read_reference_configs, read_shapes,
};
use diode_core::{DType, Op};
use diode_formats::limits::MAX_SHAPES;

const CONFIG: &str = r#"{"ACC_TYPE": "tl.float32", "block_k": 16, "block_m": 64, "block_n": 32, "grid": 1, "group_m": 8, "name": "x", "num_stages": 2, "num_warps": 4}"#;

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
    assert_eq!(decode_shapes(&marked(SHAPES)).unwrap(), decode_shapes(SHAPES).unwrap());
    assert_eq!(
        decode_reference_configs(&marked(SOLUTION)).unwrap(),
        decode_reference_configs(SOLUTION).unwrap()
    );
}

#[test]
fn utf_16_is_called_by_its_name() {
    let words = "a text in UTF-16, expected UTF-8";
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
    refused(read_reference_configs(file.path()).unwrap_err());
    refused(read_checkpoint(file.path()).unwrap_err());
}

#[test]
fn no_list_may_hold_more_shapes_than_memory_is_for() {
    let csv = format!("name,B,M,K,N,Transposed\n{}", "mm,1,8,8,8,False\n".repeat(MAX_SHAPES + 1));
    let error = decode_shapes(csv.as_bytes()).unwrap_err().to_string();
    assert!(error.contains(&format!("more than {MAX_SHAPES} shapes")), "{error}");
}

#[test]
fn bad_reference_configs_are_refused_with_their_place() {
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

/// torch-diode's other real files: shapes and reference configs.
#[test]
fn the_old_shape_sets_and_solutions_are_read_whole() {
    let Some(folder) = std::env::var_os("DIODE_COMPAT_DIR") else {
        println!("not asked to run: DIODE_COMPAT_DIR names no folder");
        return;
    };
    let file = |name: &str| std::path::Path::new(&folder).join(name);
    let counts = |set: &ShapeSet| [Op::Addmm, Op::Mm, Op::Bmm].map(|op| set.count(op));
    let shapes = read_shapes(&file("operation_shapeset.json")).unwrap();
    let columns = read_shapes(&file("shapes.txt")).unwrap();
    assert_eq!((shapes.problems.len(), counts(&shapes)), (1577, [302, 801, 474]));
    assert_eq!((columns.problems.len(), counts(&columns)), (1577, [302, 801, 474]));
    let sorted = |set: &ShapeSet| {
        let mut problems = set.problems.clone();
        problems.sort_unstable();
        problems
    };
    assert!(sorted(&shapes) == sorted(&columns), "the same problems, output layouts included");
    assert_eq!(counts(&read_shapes(&file("small_op_shapes.json")).unwrap()), [2, 2, 2]);
    let plain = read_shapes(&file("example_shapeset.json")).unwrap().problems;
    assert_eq!((plain.len(), plain[3].op, plain[3].b, plain[4].out_dtype), (5, Op::Bmm, 32, DType::Float32));

    let json = read_reference_configs(&file("max_autotune.json")).unwrap();
    let csv = read_reference_configs(&file("max_autotune_shapes.csv")).unwrap();
    assert_eq!(json.configs.len(), 19);
    assert_eq!(json, csv);
}
