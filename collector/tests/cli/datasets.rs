//! Converting, counting and uploading datasets.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use crate::sandbox::{Sandbox, content, stderr};
use serde_json::Value;

/// A dataset in torch-diode's JSON, as that tool writes it.
pub(crate) const OLD: &str = r#"{
  "hardware": {
    "NVIDIA H100": {
      "operation": {
        "mm": {
          "solution": {
            "{\"version\": 1, \"B\": 1, \"M\": 64, \"M_dtype\": \"bfloat16\", \"N\": 128, \"K\": 32, \"K_dtype\": \"bfloat16\", \"out_dtype\": \"bfloat16\", \"out_size\": [1, 64, 128], \"out_stride\": [8192, 128, 1]}": {
              "timed_configs": [
                {
                  "config": {
                    "ACC_TYPE": "tl.float32",
                    "ALLOW_TF32": false,
                    "EVEN_K": false,
                    "USE_FAST_ACCUM": false,
                    "block_k": 16,
                    "block_m": 64,
                    "block_n": 32,
                    "grid": 1,
                    "group_m": 8,
                    "name": "mm_config",
                    "num_stages": 2,
                    "num_warps": 4,
                    "version": 1
                  },
                  "time": 0.0123,
                  "version": 1
                }
              ],
              "version": 1
            }
          },
          "version": 1
        }
      },
      "version": 1
    }
  },
  "version": 1
}"#;

#[test]
fn a_round_trip_through_every_format_changes_no_byte() {
    let sandbox = Sandbox::new();
    sandbox.write("a.json", OLD);
    let said = sandbox.ok(&["convert", "a.json", "b.msgpack.zst"]);
    assert!(said.contains("1 problem, 1 timing, 0 failures"), "{said}");
    sandbox.ok(&["convert", "b.msgpack.zst", "c.msgpack"]);
    sandbox.ok(&["convert", "c.msgpack", "c.csv"]);
    sandbox.ok(&["convert", "c.csv", "c.parquet"]);
    sandbox.ok(&["convert", "c.parquet", "d.json"]);
    assert_eq!(String::from_utf8(content(&sandbox.path("d.json"))).unwrap(), OLD);

    assert!(sandbox.fails(1, &["convert", "a.json", "d.json"]).contains("--force"));
    sandbox.ok(&["convert", "--force", "a.json", "d.json"]);
    sandbox.fails(2, &["convert", "a.json", "e.txt"]);
    sandbox.write("broken.json", &OLD[..500]);
    let error = sandbox.fails(1, &["convert", "broken.json", "e.json"]);
    assert!(error.contains("broken.json") && error.contains("truncated"), "{error}");
    assert!(!sandbox.path("e.json").exists());
}

#[test]
fn what_the_old_formats_cannot_hold_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["collect", "--output", "a.msgpack.zst", "--num-shapes", "1", "--max-size", "64"]);
    let error = sandbox.fails(1, &["convert", "a.msgpack.zst", "a.json"]);
    assert!(error.contains(".msgpack.zst") && error.contains("--lossy"), "{error}");
    assert!(!sandbox.path("a.json").exists());

    let output = sandbox.run(&["convert", "--lossy", "a.msgpack.zst", "a.json"]);
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    for loss in ["how times were measured (1 problem)", "the spread of repeats", "provenance", "facts"] {
        assert!(said.contains(loss), "{loss}: {said}");
    }
    let measured = sandbox.dataset("a.msgpack.zst");
    let kept = sandbox.dataset("a.json");
    assert_eq!(kept.solutions[0].times, measured.solutions[0].times, "no time is touched");

    // Rows hold all of it; only CSV has no place for the node.
    let said = stderr(&sandbox.run(&["convert", "a.msgpack.zst", "a.csv"]));
    assert!(said.contains("left out") && said.contains("provenance"), "{said}");
    assert_eq!(stderr(&sandbox.run(&["convert", "a.msgpack.zst", "a.parquet"])), "");
    assert_eq!(sandbox.dataset("a.parquet"), measured);
    let from_csv = sandbox.dataset("a.csv");
    assert_eq!(from_csv.solutions, measured.solutions);
    let error = sandbox.fails(1, &["upload", "a.csv", "--server", "http://127.0.0.1:1"]);
    assert!(error.contains("convert it to a .msgpack.zst"), "{error}");
}

#[test]
fn stats_count_and_name_the_best() {
    let sandbox = Sandbox::new();
    sandbox.write("a.json", OLD);
    let stats: Value = serde_json::from_str(&sandbox.ok(&["stats", "a.json", "--json"])).unwrap();
    let group = &stats["groups"][0];
    assert_eq!((&group["hardware"], &group["op"]), (&"nvidia-h100".into(), &"mm".into()));
    assert_eq!(
        (&group["problems"], &group["timings"], &group["failures"]),
        (&1.into(), &1.into(), &0.into())
    );
    assert_eq!((&group["dtype"], &group["method"]), (&"bfloat16".into(), &"unspecified".into()));
    assert!(group["noise"].is_null() && group["library"].is_null());
    assert_eq!(stats["fastest"][0]["config"]["block_m"], 64);
    assert_eq!(stats["fastest"][0]["time_us"], 12.3);
    let words = sandbox.ok(&["stats", "a.json"]);
    assert!(words.contains("64×32×16 s2 w4") && words.contains("12.3 µs"), "{words}");
}

/// A server that gives each request the next of some answers; returns its
/// address and, at the end, the bodies it was sent.
fn server(answers: Vec<(&'static str, String)>) -> (String, thread::JoinHandle<Vec<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let bodies = thread::spawn(move || {
        let answer = |(status, body): (&str, String)| {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                reader.read_line(&mut head).unwrap();
            }
            assert!(head.starts_with("POST /api/v1/uploads "), "{head}");
            let head = head.to_lowercase();
            assert!(head.contains("content-type: application/octet-stream"), "{head}");
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            let mut sent = vec![0; length.trim().parse().unwrap()];
            reader.read_exact(&mut sent).unwrap();
            let length = body.len();
            let reply = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
            reader.get_mut().write_all(reply.as_bytes()).unwrap();
            sent
        };
        answers.into_iter().map(answer).collect()
    });
    (address, bodies)
}

fn receipt() -> String {
    let digest = "0".repeat(64);
    format!(
        r#"{{"id":"0123456789abcdef","digest":"{digest}","bytes":5,"format":"torch-diode-json",
            "received_at":"2026-01-01T00:00:00Z","hardware":[{{"slug":"nvidia-h100","name":"NVIDIA H100",
            "problems":1,"timings":1,"failures":0}}],"new_solutions":1,"duplicate_solutions":0,"already_stored":false}}"#
    )
}

fn refusal(code: &str, message: &str) -> String {
    format!(r#"{{"code":"{code}","message":"{message}"}}"#)
}

#[test]
fn an_upload_waits_for_a_busy_server_and_prints_the_receipt() {
    let sandbox = Sandbox::new();
    sandbox.write("a.json", OLD);
    let busy = ("503 Service Unavailable", refusal("busy", "try later"));
    let (address, bodies) = server(vec![busy, ("201 Created", receipt())]);
    let receipts: Value =
        serde_json::from_str(&sandbox.ok(&["upload", "a.json", "--server", &address, "--json"])).unwrap();
    assert_eq!(receipts[0]["id"], "0123456789abcdef");
    assert_eq!(bodies.join().unwrap(), [OLD.as_bytes(), OLD.as_bytes()]);
}

#[test]
fn a_refusal_is_shown_in_the_servers_words_and_a_broken_file_is_never_sent() {
    let sandbox = Sandbox::new();
    sandbox.write("a.json", OLD);
    let (address, bodies) = server(vec![("422 Unprocessable Entity", refusal("invalid", "M: got 0"))]);
    let error = sandbox.fails(1, &["upload", "a.json", "--server", &address]);
    assert!(error.contains("a.json") && error.contains("M: got 0 (invalid, 422)"), "{error}");
    assert_eq!(bodies.join().unwrap().len(), 1);

    sandbox.write("b.json", "{");
    let error = sandbox.fails(1, &["upload", "a.json", "b.json", "--server", "http://127.0.0.1:1"]);
    assert!(error.contains("b.json") && error.contains("truncated"), "{error}");
    let error = sandbox.fails(1, &["upload", "a.json", "--server", "http://127.0.0.1:1"]);
    assert!(error.contains("cannot reach http://127.0.0.1:1/"), "{error}");
}
