//! Bad datasets with a row per timing.

use diode_formats::{Format, encode};

use super::{Bad, small};

pub(super) fn csv() -> Vec<Bad> {
    let good = String::from_utf8(encode(Format::Csv, &small()).unwrap()).unwrap();
    let edit = |from: &str, to: &str| {
        assert!(good.contains(from), "{from} in {good}");
        good.replacen(from, to, 1).into_bytes()
    };
    let row = good.lines().nth(1).unwrap();
    let partial = format!("{good}{}\n", row.replacen(",0.0123,,", ",0.0123,5,", 1));
    vec![
        Bad("header.csv", edit("hardware,", "hard,"), "no column `hardware`"),
        Bad("untimed.csv", edit("time_ns,time_ms", "ns,ms"), "expected a dataset"),
        Bad("twice.csv", edit("b,m,n", "m,m,n"), "duplicate column `m`"),
        Bad("ragged.csv", edit("mm,1,64", "mm,64"), "line 2: 39 fields, expected 40"),
        Bad("zero.csv", edit("mm,1,64", "mm,1,0"), "line 2: M: got 0"),
        Bad("negative.csv", edit("mm,1,64", "mm,1,-64"), "line 2: m: got \"-64\""),
        Bad("huge.csv", edit("mm,1,64", "mm,1,6400000000"), "M: got 6400000000"),
        Bad("word.csv", edit("mm,1,64", "mm,1,many"), "m: got \"many\""),
        Bad("dtype.csv", edit("bfloat16", "bfloat17"), "bfloat17"),
        Bad("op.csv", edit(",mm,", ",mn,"), "op: got `mn`"),
        Bad("template.csv", edit("triton::mm", "triton::mn"), "template: got `triton::mn`"),
        Bad("flag.csv", edit("false", "maybe"), "got \"maybe\", expected true or false"),
        Bad("method.csv", edit("unspecified", "guessed"), "method: got `guessed`"),
        Bad("time-zero.csv", edit("12300,0.0123", ",0"), "time: got 0 ms"),
        Bad("time-negative.csv", edit("12300,0.0123", ",-1"), "time: got -1 ms"),
        Bad("time-differs.csv", edit("12300,0.0123", "12300,0.0124"), "since time_ns says so"),
        Bad("time-none.csv", edit("12300,0.0123", ","), "no time and no failure"),
        Bad("time-both.csv", edit("12300,0.0123,,,,", "12300,0.0123,,,,timeout"), "a time and a failure"),
        Bad("reason.csv", edit("12300,0.0123,,,,", ",,,,,tired"), "failure reason: got `tired`"),
        Bad("spread.csv", partial.into_bytes(), "expected all or none"),
        Bad("quote.csv", edit("NVIDIA", "\"NVIDIA"), "quoted field"),
        Bad("latin.csv", [good.as_bytes(), b"\xe9\n"].concat(), "not UTF-8"),
        Bad("long.csv", format!("{good}{}", "a".repeat(1 << 20)).into_bytes(), "in one record"),
    ]
}

pub(super) fn parquet() -> Vec<Bad> {
    let good = encode(Format::Parquet, &small()).unwrap();
    let length = good.len();
    let mut claim = good.clone();
    claim[length - 8..length - 4].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut metadata = good.clone();
    metadata[length - 60..length - 8].fill(0xff);
    let mut pages = good.clone();
    pages[4..200].fill(0x55);
    vec![
        Bad("magic.parquet", b"PAR1".to_vec(), "invalid Parquet"),
        Bad("half.parquet", good[..length / 2].to_vec(), "invalid Parquet"),
        Bad("end.parquet", good[..length - 1].to_vec(), "invalid Parquet"),
        Bad("claim.parquet", claim, "expected at most"),
        Bad("metadata.parquet", metadata, "invalid Parquet"),
        Bad("pages.parquet", pages, "invalid Parquet"),
        Bad("packed.parquet.zst", zstd::encode_all(&good[..], 3).unwrap(), "unpack it first"),
    ]
}
