//! Checks a file before it is sent, with the same code as the server.

use diode_api::MAX_UPLOAD_TIMINGS;
use diode_api::upload_check::{Contents, UploadCheck, check_problems};
use diode_core::{Dataset, Invalid};
use diode_formats::{decode_within, is_sound};

/// The contents of a file, or why a server would refuse it. `None` if only the server can tell.
pub fn check(bytes: &[u8]) -> Option<Result<Vec<Contents>, String>> {
    let decoded = match decode_within(bytes, MAX_UPLOAD_TIMINGS) {
        Ok(decoded) => decoded,
        // In a damaged file, the server's decoder may stop at another place and give another message.
        Err(_) if !is_sound(bytes) => return None,
        Err(error) => return Some(Err(error.to_string())),
    };
    let contents = contents(&decoded.datasets);
    // Most servers refuse all simulated times with a message of their own.
    let is_simulated = decoded.datasets.iter().any(|dataset| dataset.hardware.is_simulated());
    if contents.is_err() && is_simulated {
        return None;
    }
    Some(contents.map_err(|invalid| invalid.to_string()))
}

fn contents(datasets: &[Dataset]) -> Result<Vec<Contents>, Invalid> {
    check_problems(datasets)?;
    let mut check = UploadCheck::default();
    let mut contents = Vec::with_capacity(datasets.len());
    for dataset in datasets {
        // A server may also have facts about hardware that is not listed here.
        let facts = dataset.hardware.listed().and_then(|listed| listed.facts);
        contents.push(check.dataset(dataset, facts.as_ref(), drop)?);
    }
    check.end()?;
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// torch-diode's JSON of a product of 4096³ on some hardware, with times in milliseconds.
    fn file(hardware: &str, millis: &[f64]) -> String {
        let problem = serde_json::json!({
            "version": 1, "B": 1, "M": 4096, "M_dtype": "float16", "N": 4096, "K": 4096, "K_dtype": "float16",
            "out_dtype": "float16", "out_size": [1, 4096, 4096], "out_stride": [1 << 24, 4096, 1],
        });
        let config = serde_json::json!({
            "ACC_TYPE": "tl.float32", "ALLOW_TF32": false, "EVEN_K": true, "USE_FAST_ACCUM": false, "block_k": 64,
            "block_m": 128, "block_n": 128, "grid": 1, "group_m": 8, "name": "mm_config", "num_stages": 3,
            "num_warps": 8, "version": 1,
        });
        let timed = |millis| serde_json::json!({"config": config.to_string(), "time": millis, "version": 1});
        let solution = serde_json::json!({
            "name": "mm", "timed_configs": millis.iter().map(timed).collect::<Vec<_>>(), "version": 1,
        });
        let operation = serde_json::json!({
            "name": "mm", "solution": {problem.to_string(): solution}, "version": 1,
        });
        serde_json::json!({"hardware": {hardware: {"operation": {"mm": operation}, "version": 1}}, "version": 1})
            .to_string()
    }

    fn refusal(bytes: &[u8]) -> String {
        check(bytes).and_then(Result::err).unwrap()
    }

    #[test]
    fn what_is_in_a_file_is_told() {
        let contents = check(file("NVIDIA H200", &[0.2, 0.001]).as_bytes()).unwrap().unwrap();
        let [of] = &contents[..] else { panic!("{contents:?}") };
        assert_eq!((of.name.as_str(), of.problems, of.timings, of.set_apart.len()), ("NVIDIA H200", 1, 1, 1));
        // Of this hardware nothing is known but that no device does 137 GFLOP in a microsecond.
        let contents = check(file("Some GPU", &[0.2, 0.01, 0.001]).as_bytes()).unwrap().unwrap();
        assert_eq!((contents[0].timings, contents[0].set_apart[0].timings), (2, 1));
    }

    #[test]
    fn what_a_server_would_refuse_is_refused_in_its_words() {
        assert!(refusal(file("NVIDIA H200", &[0.001]).as_bytes()).contains("got 1.000 µs"));
        assert!(refusal(b"{").starts_with("truncated JSON at line 1"));
        let said = refusal(b"M,N,K\n");
        assert!(said.contains("CSV") && said.contains("`diode convert IT my.msgpack.zst`"), "{said}");
    }

    #[test]
    fn what_only_the_server_can_say_is_left_to_it() {
        // The frame has a type of block that does not exist.
        let frame = [0x28, 0xb5, 0x2f, 0xfd, 0, 0, 7, 0, 0, 0];
        assert_eq!(check(&frame), None);
        assert!(refusal(&frame[..6]).starts_with("truncated"));
        assert_eq!(check(file("simulated NVIDIA H200", &[0.001]).as_bytes()), None);
    }
}
