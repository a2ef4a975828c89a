//! Bad datasets in binary forms, and compressed ones.

use diode_core::TimeColumn;
use diode_formats::{Format, encode};

use super::{Bad, bomb, small};
use crate::datasets::DATASET;

pub(super) fn msgpack() -> Vec<Bad> {
    let good = encode(Format::PredecessorMsgpack, &small()).unwrap();
    let edit = |from: &[u8], to: &[u8]| {
        let at = good.windows(from.len()).position(|window| window == from).expect("what is to be replaced");
        [&good[..at], to, &good[at + from.len()..]].concat()
    };
    let time = |to: &[u8]| edit(b"\xa4time\xcb\x3f\x89\x30\xbe\x0d\xed\x28\x8d", &[b"\xa4time", to].concat());
    vec![
        Bad("half.msgpack", good[..good.len() / 2].to_vec(), "truncated MessagePack"),
        Bad("end.msgpack", good[..good.len() - 1].to_vec(), "truncated MessagePack"),
        Bad("trailing.msgpack", [&good[..], b"\xc0"].concat(), "found more bytes"),
        Bad("map-claim.msgpack", b"\xdf\xff\xff\xff\xff\xa8hardware".to_vec(), "truncated MessagePack"),
        Bad("text-claim.msgpack", b"\x81\xa1x\xdb\xff\xff\xff\xff".to_vec(), "truncated MessagePack"),
        Bad("binary-claim.msgpack", b"\x81\xa1x\xc6\xff\xff\xff\xff".to_vec(), "truncated MessagePack"),
        Bad(
            "list-claim.msgpack",
            edit(b"\x91\x83\xa6config", b"\xdd\xff\xff\xff\xff\x83\xa6config"),
            "MessagePack at byte",
        ),
        Bad("key-claim.msgpack", b"\x81\xdb\xff\xff\xff\xff".to_vec(), "a field name of 4294967295 bytes"),
        Bad("reserved.msgpack", b"\x81\xa1x\xc1".to_vec(), "reserved marker"),
        Bad("key-number.msgpack", edit(b"\xa4time", b"\x07time"), "expected a field name"),
        Bad("key-latin.msgpack", edit(b"\xa4time", b"\xa4tim\xe9"), "not UTF-8"),
        Bad("list.msgpack", edit(b"\x82\xa8hardware", b"\x92\xa8hardware"), "MessagePack at byte"),
        Bad("time-bool.msgpack", time(b"\xc3"), "got the boolean true, expected a time"),
        Bad("time-text.msgpack", time(b"\xa11"), "expected a time"),
        Bad("time-zero.msgpack", time(b"\x00"), "time: got 0 ms"),
        Bad("time-negative.msgpack", time(b"\xff"), "time: got -1 ms"),
        Bad("block-bool.msgpack", edit(b"\xa7block_m\x40", b"\xa7block_m\xc3"), "boolean `true`"),
        Bad(
            "block-huge.msgpack",
            edit(b"\xa7block_m\x40", b"\xa7block_m\xcf\xff\xff\xff\xff\xff\xff\xff\xff"),
            "expected u32",
        ),
        Bad(
            "block-twice.msgpack",
            edit(b"\x8d\xa8ACC_TYPE", b"\x8e\xa7block_m\x40\xa8ACC_TYPE"),
            "duplicate field `block_m`",
        ),
        Bad("op.msgpack", edit(b"\xa2mm", b"\xa2mn"), "op: got `mn`"),
        Bad(
            "version.msgpack",
            edit(b"\x83\xa6config", b"\x84\xa7version\xc3\xa6config"),
            "expected a version number",
        ),
        Bad("number.msgpack", vec![7], "got bytes that begin no dataset, expected JSON, MessagePack"),
        Bad("page.html", b"<!DOCTYPE html>".to_vec(), "got bytes that begin no dataset"),
        Bad("a.json.gz", b"\x1f\x8b\x08\0\0".to_vec(), "got a gzip file, expected JSON"),
        Bad("nil.msgpack", vec![0xc0], "expected a map"),
    ]
}

pub(super) fn columnar() -> Vec<Bad> {
    let good = encode(Format::Columnar, &small()).unwrap();
    let plain = unpacked(&good);
    let edit = |from: &[u8], to: &[u8]| {
        let at = plain.windows(from.len()).position(|window| window == from).expect("what is to be replaced");
        [&plain[..at], to, &plain[at + from.len()..]].concat()
    };
    let mut flipped = good.clone();
    *flipped.last_mut().unwrap() ^= 1;
    // A time that repeats a million times takes almost no space. So a small file can hold several problems
    // with a million times each.
    let mut repeated = small().remove(0);
    repeated.solutions[0].configs = vec![diode_core::ConfigIndex(0); 1 << 20];
    repeated.solutions[0].times = TimeColumn::Nanos(vec![1; 1 << 20]);
    repeated.solutions = vec![repeated.solutions[0].clone(); 8];
    vec![
        Bad("half.msgpack.zst", good[..good.len() / 2].to_vec(), "truncated"),
        Bad("checksum.msgpack.zst", flipped, "checksum"),
        Bad(
            "repeated.msgpack.zst",
            encode(Format::Columnar, &[repeated]).unwrap(),
            "from a file of its size",
        ),
        Bad("cut.columnar", plain[..plain.len() - 3].to_vec(), "truncated columnar"),
        Bad("trailing.columnar", [&plain[..], b"\xc0"].concat(), "found more bytes"),
        Bad("schema.columnar", edit(b"\xa6schema\x01", b"\xa6schema\x02"), "update diode"),
        Bad(
            "datasets.columnar",
            edit(b"\xa8datasets\x01", b"\xa8datasets\xcf\x10\0\0\0\0\0\0\0"),
            "expected at most 256",
        ),
        Bad(
            "rows.columnar",
            edit(b"\xa4rows\x01", b"\xa4rows\xcf\x10\0\0\0\0\0\0\0"),
            "timings of one problem",
        ),
        Bad("blob.columnar", edit(b"\xa5times\xc4", b"\xa5times\xc6\xff\xff\xff"), "columnar MessagePack"),
        Bad("size.columnar", edit(b"\xa1m\x40", b"\xa1m\x00"), "M: got 0"),
        Bad("bool.columnar", edit(b"\xa1m\x40", b"\xa1m\xc3"), "boolean `true`"),
        Bad("dtype.columnar", edit(b"\xa8bfloat16", b"\xa8bfloat17"), "bfloat17"),
        Bad("list.columnar", edit(b"\xa4list\x00", b"\xa4list\x01"), "config list 1"),
    ]
}

fn unpacked(frame: &[u8]) -> Vec<u8> {
    zstd::decode_all(frame).unwrap()
}

pub(super) fn compressed() -> Vec<Bad> {
    let packed = zstd::encode_all(DATASET.as_bytes(), 3).unwrap();
    let mut wide = zstd::Encoder::new(Vec::new(), 3).unwrap();
    wide.window_log(27).unwrap();
    std::io::Write::write_all(&mut wide, DATASET.as_bytes()).unwrap();
    vec![
        Bad("bomb-json.zst", bomb(b"{\"x\": 1, \""), "a text of more than"),
        Bad("bomb-list.zst", bomb(b"{\"x\": [\"\"], \"hardware\": a"), "JSON"),
        Bad("bomb-msgpack.zst", bomb(b"\x81\xa1x\xdb\x0f\xff\xff\xff"), "unpacks to more than"),
        Bad("bomb-columnar.zst", bomb(b"\x81\xa6format\xdb\x0f\xff\xff\xff"), "more than"),
        Bad("bomb-csv.zst", bomb(b"hardware,op,m,n,k,a_dtype,time_ms\n"), "in one record"),
        Bad("cut.zst", packed[..packed.len() / 2].to_vec(), "truncated"),
        Bad("garbage.zst", [&b"\x28\xb5\x2f\xfd"[..], &[0xff; 100]].concat(), "invalid"),
        Bad("window.zst", wide.finish().unwrap(), "memory"),
    ]
}
