//! Names, files and logs that were cut or changed are refused in words, and nothing panics.

use diode_workloads::file_body::{BATCH_SIZES, Body};
use diode_workloads::file_check::{Judged, Reader, check_folder};
use diode_workloads::file_names::{Consumer, FileName};
use diode_workloads::server_log::Log;

const NAME: &str = "E=128,N=384,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128],per_channel_quant=True_down.json";
const BODY: &str = "{\"triton_version\": \"3.8.0\", \"1\": {\"BLOCK_SIZE_M\": 16, \"BLOCK_SIZE_N\": 64, \
                    \"BLOCK_SIZE_K\": 128, \"GROUP_SIZE_M\": 1, \"num_warps\": 4, \"num_stages\": 4}, \"2\": null}";
const LINE: &str = "[2026-11-02 TP0] Config file not found at /x/triton_3_8_0/E=1,N=2,device_name=D.json. Fallback to triton version 3.5.1 and use MoE kernel config from /x/triton_3_5_1/E=1,N=2,device_name=D.json. Performance might be sub-optimal!";

/// The text cut at each place, and with each byte replaced by each of some others.
fn damaged(text: &str) -> impl Iterator<Item = String> {
    const OTHERS: [char; 8] = ['{', ']', ',', '=', '"', '9', '\0', 'µ'];
    (0..text.len()).flat_map(move |at| {
        let replaced =
            OTHERS.into_iter().map(move |other| format!("{}{other}{}", &text[..at], &text[at + 1..]));
        std::iter::once(text[..at].to_owned()).chain(replaced)
    })
}

fn check(path: &str, text: &str) {
    for consumer in [Consumer::Vllm, Consumer::Sglang] {
        for finding in check_folder(&[Judged { path, text }], Reader { consumer, hardware: None }) {
            assert!(!finding.what.is_empty() && finding.what.len() < 1000, "{finding:?}");
        }
    }
}

#[test]
fn damaged_input_is_refused_in_words() {
    assert!(FileName::parse(NAME).is_ok() && Body::parse(BODY).is_ok());
    for name in damaged(NAME) {
        match FileName::parse(&name) {
            Ok(read) => assert!(!read.name(Consumer::Vllm).is_empty()),
            Err(error) => assert!(error.to_string().len() < 1000, "{error}"),
        }
        check(&name, BODY);
    }
    for body in damaged(BODY) {
        check("triton_3_8_0/E=8,N=256,device_name=NVIDIA_H200.json", &body);
        if let Ok(body) = Body::parse(&body) {
            assert_eq!(Body::parse(&body.to_text()).unwrap(), body);
        }
    }
    for line in damaged(LINE) {
        let log = Log::read(&line);
        assert!(log.mentions.len() <= 1);
    }
}

#[test]
fn numbers_at_the_edge_are_kept() {
    let most = u64::MAX;
    let text = format!(
        "{{\"0\": null, \"{most}\": {{\"BLOCK_SIZE_M\": {most}, \"BLOCK_SIZE_N\": -1, \"BLOCK_SIZE_K\": 1e9}}}}"
    );
    let body = Body::parse(&text).unwrap();
    assert_eq!(body.nearest(most).unwrap().0, most);
    assert_eq!(body.nearest(BATCH_SIZES[0]).unwrap().0, 0);
    check(
        &format!("E={most},N={most},device_name=D,dtype=fp8_w8a8,block_shape=[{0},{0}].json", u32::MAX),
        &text,
    );
    assert!(FileName::parse(&format!("E={most}0,N=1,device_name=D.json")).is_err());
    let long = "x".repeat(1 << 20);
    assert!(
        FileName::parse(&format!("E=1,N=1,device_name={long},dtype={long}.json"))
            .unwrap_err()
            .to_string()
            .len()
            < 1000
    );
    let deep = "[".repeat(1 << 16);
    assert!(Body::parse(&format!("{{\"1\": {{\"BLOCK_SIZE_M\": {deep}")).is_err());
}
