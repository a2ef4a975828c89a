//! Files that torch-diode wrote are written again byte for byte.

use crate::samples::golden;
use diode_core::ids::Digest;
use diode_core::{Config, TimeColumn};
use diode_formats::{Format, decode, encode};

const OLDER_FORM: &str = r#"{"hardware": {"NVIDIA H100": {"operation": {"addmm": {"name": "addmm", "solution": {"{\"version\": 1, \"B\": 1, \"M\": 32, \"M_dtype\": \"float16\", \"N\": 32, \"K\": 32, \"K_dtype\": \"float16\", \"out_dtype\": \"float16\", \"out_size\": [1, 32, 32], \"out_stride\": [1024, 32, 1]}": {"name": "addmm", "timed_configs": [{"config": "{\"ACC_TYPE\": \"tl.float32\", \"ALLOW_TF32\": false, \"EVEN_K\": true, \"USE_FAST_ACCUM\": false, \"block_k\": 16, \"block_m\": 32, \"block_n\": 32, \"grid\": 1, \"group_m\": 8, \"name\": \"addmm_config\", \"num_stages\": 1, \"num_warps\": 2, \"version\": 1}", "time": 0.02611199952661991, "version": 1}], "version": 1}}, "version": 1}}, "version": 1}}, "version": 1}"#;

#[test]
fn json_is_torch_diodes_to_the_byte() {
    let bytes = encode(Format::PredecessorJson, &[golden()]).unwrap();
    assert_eq!(bytes.len(), 1788, "{}", String::from_utf8_lossy(&bytes));
    assert_eq!(
        Digest::of(&bytes).as_str(),
        "deb73681551662785af0e995da1db2a25dd13d6c0fd7c090bb93091e97361f98"
    );
}

#[test]
fn messagepack_is_torch_diodes_to_the_byte() {
    let bytes = encode(Format::PredecessorMsgpack, &[golden()]).unwrap();
    assert_eq!(bytes.len(), 634);
    assert_eq!(
        Digest::of(&bytes).as_str(),
        "afb6bbbc377246b0b75048ff5d806317f4d177329719575cb66177f5f5194b50"
    );
}

#[test]
fn duplicate_timings_of_a_config_are_kept_in_order() {
    for format in [Format::PredecessorJson, Format::PredecessorMsgpack, Format::Columnar] {
        let decoded = decode(&encode(format, &[golden()]).unwrap()).unwrap();
        assert_eq!(decoded.format, format);
        assert_eq!(decoded.datasets, [golden()]);
        assert_eq!(decoded.datasets[0].solutions[0].times, TimeColumn::Nanos(vec![12_300, 10_000]));
    }
}

#[test]
fn the_older_form_is_read_and_written_in_the_current_one() {
    let decoded = decode(OLDER_FORM.as_bytes()).unwrap();
    let dataset = &decoded.datasets[0];
    assert_eq!(dataset.timings(), 1);
    assert!(matches!(dataset.configs.iter().next(), Some(Config::Mm(tile)) if tile.even_k));
    assert_eq!(dataset.solutions[0].times.millis(0).0, 0.026_111_999_526_619_91);
    let current = String::from_utf8(encode(Format::PredecessorJson, &decoded.datasets).unwrap()).unwrap();
    assert!(!current.contains("\"name\": \"addmm\""), "the extra names are gone");
    assert!(current.contains("\"time\": 0.02611199952661991"));
    assert_eq!(decode(current.as_bytes()).unwrap().datasets, decoded.datasets);
}

/// torch-diode's dataset of the H200: 320,606 timings. This file is too large for the repository, so the test
/// runs only if `DIODE_DATA_DIR` names the folder that holds it.
#[test]
fn the_real_h200_dataset_survives_to_the_byte() {
    let Some(folder) = std::env::var_os("DIODE_DATA_DIR") else {
        println!("not asked to run: DIODE_DATA_DIR names no folder");
        return;
    };
    let packed = std::fs::read(std::path::Path::new(&folder).join("h200_mm_bf16.msgpack.zst")).unwrap();
    let original = zstd::decode_all(&packed[..]).unwrap();
    let decoded = decode(&packed).unwrap();
    assert_eq!(decoded.format, Format::PredecessorMsgpack);
    assert_eq!(decoded.datasets[0].timings(), 320_606);
    let again = encode(Format::PredecessorMsgpack, &decoded.datasets).unwrap();
    assert!(again == original, "MessagePack differs from the original");
    let columnar = encode(Format::Columnar, &decoded.datasets).unwrap();
    assert!(columnar.len() <= 500_000, "{} bytes", columnar.len());
    assert_eq!(decode(&columnar).unwrap().datasets, decoded.datasets);
}

/// torch-diode's sample dataset, in its older form. The test runs only if `DIODE_COMPAT_DIR` names the
/// folder of torch-diode's real files.
#[test]
fn the_old_sample_dataset_is_read_whole() {
    let Some(folder) = std::env::var_os("DIODE_COMPAT_DIR") else {
        println!("not asked to run: DIODE_COMPAT_DIR names no folder");
        return;
    };
    let sample = std::fs::read(std::path::Path::new(&folder).join("matmul_dataset.json")).unwrap();
    let decoded = decode(&sample).unwrap();
    let [dataset] = &decoded.datasets[..] else { panic!("one kind of hardware") };
    assert_eq!(dataset.hardware.slug.as_str(), "nvidia-h100");
    assert_eq!((dataset.solutions.len(), dataset.timings(), dataset.failures()), (8, 84, 0));
    let times: Vec<f64> =
        dataset.solutions.iter().flat_map(|s| (0..s.times.len()).map(|row| s.times.millis(row).0)).collect();
    let (low, high) = times.iter().fold((f64::MAX, 0.0_f64), |(low, high), &t| (low.min(t), high.max(t)));
    assert!(
        (0.023_391..0.023_393).contains(&low) && (0.032_351..0.032_353).contains(&high),
        "{low} to {high}"
    );
    let columnar = encode(Format::Columnar, &decoded.datasets).unwrap();
    assert_eq!(decode(&columnar).unwrap().datasets, decoded.datasets);
}
