use diode_core::Tile;
use diode_core::hardware::find;

use super::*;
use crate::file_body::Entry;

fn text(change: impl Fn(u64, &mut Entry)) -> String {
    let mut body = Body::default();
    for batch in BATCH_SIZES {
        let mut entry = Entry::of(&Tile::new(16, 64, 128, 3, 4));
        change(batch, &mut entry);
        body.insert(batch, entry);
    }
    body.to_text()
}

fn said(path: &str, text: &str, consumer: Consumer) -> Vec<String> {
    let reader = Reader { consumer, hardware: None };
    let line = |finding: Finding| format!("{} {}: {}", finding.severity, finding.rule, finding.what);
    check_folder(&[Judged { path, text }], reader).into_iter().map(line).collect()
}

const BLOCK: &str = "E=8,N=256,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json";

#[test]
fn names_that_are_never_found_are_named() {
    let good = text(|_, _| ());
    for (consumer, path, expected) in [
        (Consumer::Vllm, "E=8,N=256,device_name=NVIDIA_H200.json", &[][..]),
        (Consumer::Vllm, "config.json", &["unread name"]),
        (Consumer::Vllm, "nvidia_h100.json", &["note name: a table for Helion kernels of vLLM"]),
        (
            Consumer::Sglang,
            "configs/triton_3_8_0/E=8,N=256,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json",
            &["unread spelling: the name is not spelled as SGLang spells it"],
        ),
        (
            Consumer::Sglang,
            "E=8,N=256,device_name=NVIDIA_H200.json",
            &["unread place: the file is in no folder"],
        ),
        (Consumer::Vllm, "E=8,N=256,device_name=NVIDIA_H200,dtype=bf16.json", &["unread dtype-word"]),
        (Consumer::Vllm, "E=8,N=256,device_name=NVIDIA_H200,dtype=int8_w8a8.json", &["unread dtype-word"]),
        (Consumer::Vllm, "E=8,N=256,device_name=NVIDIA_H200_down.json", &["unread dtype-word"]),
        (
            Consumer::Vllm,
            "E=8,N=192,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json",
            &["unread block-shape: blocks of 128 do not divide 192, so vLLM refines them"],
        ),
        (Consumer::Vllm, "E=8,N=256,device_name=.json", &["unread device: the name has no device"]),
        (
            Consumer::Vllm,
            "E=8,N=256,device_name=NVIDIA_H200_NVL.json",
            &["unread device: vLLM calls NVIDIA_H200_NVL"],
        ),
        (Consumer::Vllm, "E=8,N=256,device_name=NVIDIA_H100.json", &["note device"]),
        (
            Consumer::Vllm,
            "E=8,N=256,device_name=NVIDIA H200.json",
            &["unread device: the device `NVIDIA H200` has a space, where vLLM writes `_`"],
        ),
        (
            Consumer::Vllm,
            "E=8,N=256,device_name=NVIDIA_X9.json",
            &["note device: Diode doesn't know the device NVIDIA_X9"],
        ),
        (
            Consumer::Vllm,
            "N=256,K=256,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json",
            &[
                "note place: vLLM reads such files only from vllm/model_executor/layers/quantization/utils/configs",
            ],
        ),
    ] {
        let said = said(path, &good, consumer);
        assert_eq!(said.len(), expected.len(), "{path}: {said:?}");
        assert!(said.iter().zip(expected).all(|(said, begins)| said.starts_with(begins)), "{path}: {said:?}");
    }
    let h100 = find("nvidia-h100").unwrap();
    let judged = Judged { path: "E=8,N=256,device_name=NVIDIA_H200.json", text: &good };
    let found = check_file(judged, Reader { consumer: Consumer::Vllm, hardware: Some(&h100) });
    assert_eq!(
        found[0].what,
        "the file is for NVIDIA_H200, and vLLM calls this device NVIDIA_H100_80GB_HBM3"
    );
}

/// Changes an entry.
type Change = fn(u64, &mut Entry);

#[test]
fn configs_that_fail_are_named() {
    let cases: [(Consumer, &str, Change, &str); 10] = [
        (
            Consumer::Vllm,
            BLOCK,
            |_, entry| entry.set("USE_TMA", true),
            "crash parameter: USE_TMA is no parameter of vLLM",
        ),
        (
            Consumer::Vllm,
            BLOCK,
            |_, entry| entry.set("kpack", 2),
            "crash parameter: kpack is known to AMD's GPUs only",
        ),
        (Consumer::Vllm, BLOCK, |_, entry| entry.set("BLOCK_SIZE_M", 24), "crash tile: block_m: got 24"),
        (
            Consumer::Vllm,
            BLOCK,
            |_, entry| entry.set("BLOCK_SIZE_M", "16"),
            "crash tile: BLOCK_SIZE_M: got \"16\"",
        ),
        (
            Consumer::Vllm,
            BLOCK,
            |_, entry| entry.set("BLOCK_SIZE_N", 8),
            "crash tile: blocks of 16×8×128 are smaller",
        ),
        (
            Consumer::Vllm,
            BLOCK,
            |batch, entry| {
                if batch == 8 {
                    *entry = Entry::of(&Tile::new(256, 256, 128, 6, 8));
                }
            },
            "crash shared-memory: the tile needs 327680 bytes of shared memory of 232448",
        ),
        (
            Consumer::Vllm,
            BLOCK,
            |_, entry| entry.set("BLOCK_SIZE_K", 256),
            "note alias: BLOCK_SIZE_K 256 runs as 128",
        ),
        (
            Consumer::Vllm,
            "E=8,N=256,device_name=NVIDIA_H200,dtype=int4_w4a16.json",
            |_, _| (),
            "crash parameter: SPLIT_K is missing",
        ),
        (
            Consumer::Sglang,
            "triton_3_8_0/E=8,N=256,device_name=NVIDIA_H200.json",
            |_, entry| entry.set("SPLIT_K", 1),
            "crash parameter: SPLIT_K is no parameter of SGLang",
        ),
        (
            Consumer::Sglang,
            "triton_3_8_0/E=8,N=256,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128].json",
            |batch, entry| entry.set("BLOCK_SIZE_K", if batch >= 4096 { 256 } else { 128 }),
            "wrong sums: BLOCK_SIZE_K 256 spans several blocks of 128 that have a scale each, for batches of 3585 and more",
        ),
    ];
    for (consumer, path, change, begins) in cases {
        let said = said(path, &text(change), consumer);
        assert!(said.len() == 1 && said[0].starts_with(begins), "{begins}: {said:?}");
    }
}

#[test]
fn bodies_that_a_server_cannot_read_are_named() {
    let name = "E=8,N=256,device_name=NVIDIA_H200.json";
    for (text, begins) in [
        ("{", "crash body: file of tuned configs: got EOF while parsing an object"),
        ("{}", "note batch-sizes: there is no config"),
        ("{\"-8\": {}}", "unread batch-sizes: no batch has -8 tokens"),
        ("{\"-8\": {}, \"0\": null}", "crash parameter: there is `null`"),
        ("{\"1\": null}", "crash parameter: there is `null` for a config"),
        ("{\"1\": {\"BLOCK_SIZE_M\": 16}}", "crash parameter: BLOCK_SIZE_K is missing"),
    ] {
        let said = said(name, text, Consumer::Vllm);
        assert!(said[0].starts_with(begins), "{text}: {said:?}");
    }
    let version = text(|_, _| ()).replacen('{', "{\"triton_version\": \"3.8.0\",", 1);
    assert_eq!(said(name, &version, Consumer::Vllm), Vec::<String>::new());
    let sglang = format!("triton_3_8_0/{name}");
    assert_eq!(said(&sglang, &version, Consumer::Sglang), ["crash body: there is a `triton_version`"]);
}

#[test]
fn gaps_in_batch_sizes_are_named() {
    let tile = Entry::of(&Tile::new(16, 64, 128, 3, 4));
    let mut body = Body::default();
    for batch in [4096, 2048, 3072] {
        body.insert(batch, tile.clone());
    }
    let judged = Judged { path: "E=8,N=256,device_name=NVIDIA_H200.json", text: &body.to_text() };
    let found = check_file(judged, Reader { consumer: Consumer::Vllm, hardware: None });
    let [slow, order] = &found[..] else { panic!("{found:?}") };
    assert_eq!(slow.what, "13 of the 18 usual batch sizes, from 1 to 512, have no config near them");
    assert_eq!((slow.severity, slow.batches.len()), (Severity::Slow, 13));
    assert_eq!(order.what, "the batch sizes are not in order");
}

#[test]
fn both_files_of_a_layer_must_have_equal_rows() {
    let (up, down) = (
        "triton_3_8_0/E=8,N=1,device_name=NVIDIA_H200.json",
        "triton_3_8_0/E=8,N=1,device_name=NVIDIA_H200_down.json",
    );
    let usual = text(|_, _| ());
    let other = text(|batch, entry| entry.set("BLOCK_SIZE_M", if batch == 8 { 32 } else { 16 }));
    let reader = Reader { consumer: Consumer::Sglang, hardware: None };
    let found =
        check_folder(&[Judged { path: up, text: &usual }, Judged { path: down, text: &other }], reader);
    let [pair] = &found[..] else { panic!("{found:?}") };
    assert_eq!((pair.rule, &pair.batches[..]), (Rule::Pair, &[8][..]));
    let alone = check_folder(&[Judged { path: down, text: &usual }], reader);
    assert_eq!(alone[0].what, "the file for the first multiplication is missing");
}

#[test]
fn names_tell_for_whom_files_are() {
    for (paths, consumer) in [
        (&["E=8,N=1,device_name=D.json"][..], Consumer::Vllm),
        (&["E=8,N=1,device_name=D.json", BLOCK], Consumer::Vllm),
        (&["configs/triton_3_8_0/E=8,N=1,device_name=D.json"], Consumer::Sglang),
        (&["E=8,N=1,device_name=D_down.json"], Consumer::Sglang),
        (&["E=8,N=1,device_name=D,dtype=fp8_w8a8,block_shape=[128, 128].json"], Consumer::Sglang),
        (&["E=8,N=1,device_name=D_down.json", "E=8,N=1,device_name=D.json"], Consumer::Sglang),
        (&["E=8,N=1,device_name=D_down.json", "E=8,N=1,device_name=D.json", BLOCK], Consumer::Vllm),
    ] {
        assert_eq!(consumer_of(paths.iter().copied()), consumer, "{paths:?}");
    }
}
