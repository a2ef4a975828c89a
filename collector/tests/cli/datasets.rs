//! Converting, counting and uploading datasets.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use crate::sandbox::{Sandbox, content, stderr};
use diode_core::{Layout, Problem, ProblemFields, Solution, TimeColumn};
use serde_json::Value;

/// A dataset as torch-diode writes it in JSON.
pub(crate) const DATASET: &str = r#"{
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
    sandbox.write("a.json", DATASET);
    let said = sandbox.ok(&["convert", "a.json", "b.msgpack.zst"]);
    assert!(said.contains("1 problem, 1 timing, 0 failures"), "{said}");
    sandbox.ok(&["convert", "b.msgpack.zst", "c.msgpack"]);
    sandbox.ok(&["convert", "c.msgpack", "c.csv"]);
    sandbox.ok(&["convert", "c.csv", "c.parquet"]);
    sandbox.ok(&["convert", "c.parquet", "d.json"]);
    assert_eq!(String::from_utf8(content(&sandbox.path("d.json"))).unwrap(), DATASET);

    assert!(sandbox.fails(1, &["convert", "a.json", "d.json"]).contains("--force"));
    sandbox.ok(&["convert", "--force", "a.json", "d.json"]);
    sandbox.fails(2, &["convert", "a.json", "e.txt"]);
    sandbox.write("broken.json", &DATASET[..500]);
    let error = sandbox.fails(1, &["convert", "broken.json", "e.json"]);
    assert!(error.contains("broken.json") && error.contains("truncated"), "{error}");
    assert!(!sandbox.path("e.json").exists());
}

#[test]
fn what_torch_diodes_formats_cannot_hold_is_refused() {
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

    // Rows hold everything, except that CSV cannot hold the facts of the node.
    let said = stderr(&sandbox.run(&["convert", "a.msgpack.zst", "a.csv"]));
    assert!(said.contains("left out") && said.contains("provenance"), "{said}");
    assert_eq!(stderr(&sandbox.run(&["convert", "a.msgpack.zst", "a.parquet"])), "");
    assert_eq!(sandbox.dataset("a.parquet"), measured);
    let from_csv = sandbox.dataset("a.csv");
    assert_eq!(from_csv.solutions, measured.solutions);
    // A server gets CSV as a columnar file.
    let (address, bodies) = server(vec![("201 Created", receipt())]);
    sandbox.ok(&["upload", "a.csv", "--server", &address]);
    let sent = bodies.join().unwrap();
    assert_eq!(diode_formats::decode(&sent[0]).unwrap().datasets[0].solutions, measured.solutions);
}

/// torch-diode's form has no layouts of inputs, so both problems would be the same there.
#[test]
fn problems_that_differ_in_layout_alone_are_not_mixed() {
    let sandbox = Sandbox::new();
    let plain = diode_formats::decode(DATASET.as_bytes()).unwrap().datasets.remove(0);
    let mut both = plain.clone();
    let linear =
        ProblemFields { b_layout: Layout::Column, ..plain.solutions[0].problem.clone().into_fields() };
    let linear = Solution {
        problem: Problem::new(linear).unwrap(),
        times: TimeColumn::Nanos(vec![7_000]),
        ..plain.solutions[0].clone()
    };
    both.solutions.insert(0, linear);
    diode_formats::write_file(&sandbox.path("both.msgpack.zst"), &[both]).unwrap();
    for output in ["old.json", "old.msgpack"] {
        let error = sandbox.fails(1, &["convert", "both.msgpack.zst", output]);
        assert!(error.contains("column-major inputs (1 problem)") && error.contains("--lossy"), "{error}");
        let converted = sandbox.run(&["convert", "--lossy", "both.msgpack.zst", output]);
        let (said, printed) = (stderr(&converted), String::from_utf8_lossy(&converted.stdout).into_owned());
        assert!(
            said.contains("1 problem left out, because only their layout or bias differs from another's"),
            "{said}"
        );
        assert!(printed.contains("1 problem, 1 timing, 0 failures"), "{printed}");
        assert_eq!(sandbox.dataset(output).solutions, plain.solutions, "the row-major timings, as they were");
    }
}

#[test]
fn a_collection_into_torch_diodes_form_measures_what_it_can_tell_apart() {
    let sandbox = Sandbox::new();
    let problem = |layout: &str| {
        format!(r#"{{"op":"mm","b":1,"m":65,"n":66,"k":67,"dtype":"float32","b_layout":"{layout}"}}"#)
    };
    sandbox.write("problems.json", &format!("[{},{}]", problem("column"), problem("row")));
    let collect = ["collect", "--problems", "problems.json", "--backend", "cpu", "--output"];
    let line = [&collect[..], &["old.json", "--lossy"]].concat();
    let said = stderr(&sandbox.run(&line));
    assert!(said.contains("note: 1 problem left out, because only their layout"), "{said}");
    assert_eq!(sandbox.dataset("old.json").solutions.len(), 1);
    let said = stderr(&sandbox.run(&[&line[..], &["--resume"]].concat()));
    assert!(said.contains("1 problem: already in the file"), "{said}");
    sandbox.ok(&[&collect[..], &["whole.msgpack.zst"]].concat());
    assert_eq!(sandbox.dataset("whole.msgpack.zst").solutions.len(), 2);

    sandbox.write("problems.json", &format!("[{}]", problem("column")));
    let said = stderr(&sandbox.run(&[&line[..], &["--resume"]].concat()));
    assert!(said.contains("1 problem: already in the file"), "as the file has it: {said}");
}

#[cfg(unix)]
#[test]
fn a_link_that_leads_nowhere_is_not_replaced_by_accident() {
    let sandbox = Sandbox::new();
    sandbox.write("a.json", DATASET);
    std::os::unix::fs::symlink("nowhere", sandbox.path("link.csv")).unwrap();
    assert!(sandbox.fails(1, &["convert", "a.json", "link.csv"]).contains("link.csv exists; add --force"));
    assert!(sandbox.path("link.csv").is_symlink());
    std::os::unix::fs::symlink("nowhere", sandbox.path("link.msgpack.zst")).unwrap();
    let collect = ["collect", "--output", "link.msgpack.zst", "--num-shapes", "1", "--max-size", "40"];
    assert!(sandbox.fails(1, &collect).contains("link.msgpack.zst exists"));
    sandbox.ok(&["convert", "--force", "a.json", "link.csv"]);
}

#[test]
fn other_files_in_a_folder_are_passed_over_and_named() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("data")).unwrap();
    sandbox.write("data/a.json", &crate::tables::old_dataset("NVIDIA H200"));
    sandbox.ok(&["table", "data/a.json", "--output", "data/table.json"]);
    sandbox.write("data/solution.json", r#"{"config": []}"#);
    sandbox.write("data/training_history.csv", "phase,epoch,loss\nfinal,1,0.5\n");
    sandbox.write("data/model.msgpack", "\u{8}\0\0\0\0\0\0\0{}");
    let output = sandbox.run(&["table", "data", "--output", "t.json"]);
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    for words in [
        "note: data/solution.json skipped: got a solution",
        "note: data/training_history.csv skipped: got a file of another kind",
        "note: data/model.msgpack skipped: got a model (safetensors)",
        "note: data/table.json skipped",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let stats: Value = serde_json::from_str(&sandbox.ok(&["stats", "data", "--json"])).unwrap();
    assert_eq!((&stats["format"], &stats["groups"][0]["problems"]), (&"torch-diode-json".into(), &2.into()));
    let named = ["table", "data/solution.json", "--output", "x.json"];
    assert!(sandbox.fails(1, &named).contains("got a solution"));
    sandbox.write("data/b.json", &DATASET[..900]);
    assert!(
        sandbox.fails(1, &["stats", "data"]).contains("b.json: truncated JSON"),
        "damaged data is an error"
    );
}

/// Sequences that would control a terminal are escaped.
#[test]
fn control_characters_in_names_are_not_sent_to_the_terminal() {
    let sandbox = Sandbox::new();
    let name = "NVIDIA H200 \\u001b[31m\\u0007\\u009b2J\\nerror: forged";
    sandbox.write("a.json", &DATASET.replace("NVIDIA H100", name));
    let error = sandbox.fails(1, &["table", "a.json", "--output", "t.json"]);
    assert!(error.contains("hardware name: got the character U+001B, expected letters"), "{error:?}");
    sandbox.write("b.json", &DATASET.replace("\"mm\"", "\"\\u001b[31mconv\""));
    let error = sandbox.fails(1, &["stats", "b.json"]);
    assert!(error.contains("op: got `\\u001b[31mconv`"), "{error:?}");
}

#[test]
fn files_of_programs_that_mark_their_texts_are_read() {
    let sandbox = Sandbox::new();
    let mark = |text: &str| format!("\u{feff}{text}");
    sandbox.write("a.json", &mark(&crate::tables::old_dataset("NVIDIA H200")));
    sandbox.ok(&["table", "a.json", "--output", "t.json"]);
    let table = String::from_utf8(content(&sandbox.path("t.json"))).unwrap();
    sandbox.write("t.json", &mark(&table));
    sandbox.ok(&["table", "t.json", "--output", "again.json"]);
    assert_eq!(String::from_utf8(content(&sandbox.path("again.json"))).unwrap(), table);
    sandbox.write("p.json", &mark(r#"[{"op":"mm","b":1,"m":65,"n":66,"k":67,"dtype":"float32"}]"#));
    sandbox.write(
        "s.json",
        &mark(&sandbox.ok(&[
            "predict",
            "--model",
            "NVIDIA-H200-matmul",
            "--op",
            "mm",
            "--m",
            "65",
            "--n",
            "66",
            "--k",
            "67",
            "--dtype",
            "fp32",
            "--top",
            "2",
            "--json",
        ])),
    );
    let collect = ["collect", "--problems", "p.json", "--space", "s.json", "--backend", "cpu"];
    sandbox.ok(&[&collect[..], &["--output", "c.msgpack.zst"]].concat());
}

#[test]
fn stats_count_and_name_the_best() {
    let sandbox = Sandbox::new();
    sandbox.write("a.json", DATASET);
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

#[test]
fn a_server_that_is_too_old_is_not_believed() {
    let sandbox = Sandbox::new();
    for (version, ends) in [("0.0.9", 1), ("0.1.0", 0)] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let answering = thread::spawn(move || {
            let mut reader = BufReader::new(listener.accept().unwrap().0);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                reader.read_line(&mut head).unwrap();
            }
            let reply = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ndiode-server: {version}\r\n\
                 content-length: 2\r\nconnection: close\r\n\r\n[]"
            );
            reader.get_mut().write_all(reply.as_bytes()).unwrap();
            head.to_lowercase()
        });
        let output = sandbox.run(&["datasets", "list", "--server", &address]);
        let head = answering.join().unwrap();
        assert!(head.contains(&format!("user-agent: diode/{}", env!("CARGO_PKG_VERSION"))), "{head}");
        assert_eq!(output.status.code(), Some(ends), "{}", stderr(&output));
        let words = "the server is too old for diode 0.1.0: got 0.0.9, expected 0.1.0 or newer";
        assert_eq!(stderr(&output).contains(words), ends == 1, "{}", stderr(&output));
    }
}

/// Answers the request for the terms of contributing like an older server.
fn has_no_terms(listener: &TcpListener) {
    let mut reader = BufReader::new(listener.accept().unwrap().0);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        reader.read_line(&mut head).unwrap();
    }
    assert!(head.starts_with("GET /api/v1/terms "), "{head}");
    let reply = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    reader.get_mut().write_all(reply.as_bytes()).unwrap();
}

/// A server that gives each request the next of these answers. Returns its address and, at the end,
/// the bodies that it received.
fn server(answers: Vec<(&'static str, String)>) -> (String, thread::JoinHandle<Vec<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let bodies = thread::spawn(move || {
        has_no_terms(&listener);
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
    sandbox.write("a.json", DATASET);
    let busy = ("503 Service Unavailable", refusal("busy", "try later"));
    let limited = ("429 Too Many Requests\r\nretry-after: 2", refusal("too_many", "more than 3 uploads"));
    let (address, bodies) = server(vec![busy, limited, ("201 Created", receipt())]);
    let output = sandbox.run(&["upload", "a.json", "--server", &address, "--json"]);
    let (receipts, said): (Value, _) = (serde_json::from_slice(&output.stdout).unwrap(), stderr(&output));
    assert_eq!(receipts[0]["id"], "0123456789abcdef");
    assert_eq!(bodies.join().unwrap(), [DATASET.as_bytes(); 3]);
    assert!(said.contains("more than 3 uploads") && said.contains("trying again in 2.0 s"), "{said}");
}

#[test]
fn a_large_file_is_not_sent_to_a_server_that_refuses_it() {
    let sandbox = Sandbox::new();
    sandbox.write("a.json", &DATASET.replace('\n', &format!("\n{}", " ".repeat(60_000))));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let refusing = thread::spawn(move || {
        has_no_terms(&listener);
        let mut reader = BufReader::new(listener.accept().unwrap().0);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            reader.read_line(&mut head).unwrap();
        }
        let body = refusal("unauthorized", "run diode login");
        let length = body.len();
        let reply = format!(
            "HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        reader.get_mut().write_all(reply.as_bytes()).unwrap();
        head.to_lowercase().contains("expect: 100-continue")
    });
    let error = sandbox.fails(1, &["upload", "a.json", "--server", &address]);
    assert!(error.contains("run diode login (unauthorized, 401)"), "{error}");
    assert!(refusing.join().unwrap());
}

#[test]
fn a_refusal_is_shown_in_the_servers_words_and_a_broken_file_is_never_sent() {
    let sandbox = Sandbox::new();
    sandbox.write("a.json", DATASET);
    let (address, bodies) = server(vec![("422 Unprocessable Entity", refusal("invalid", "M: got 0"))]);
    let error = sandbox.fails(1, &["upload", "a.json", "--server", &address]);
    assert!(error.contains("a.json") && error.contains("M: got 0 (invalid, 422)"), "{error}");
    assert_eq!(bodies.join().unwrap().len(), 1);

    let three = ["upload", "a.json", "other.json", "third.json"];
    for (number, file) in three[2..].iter().enumerate() {
        sandbox.write(file, &DATASET.replace('\n', &" ".repeat(number)));
    }
    let refused = ("422 Unprocessable Entity", refusal("invalid", "M: got 0"));
    let (address, bodies) = server(vec![("201 Created", receipt()), refused, ("201 Created", receipt())]);
    let output = sandbox.run(&[&three[..], &["--server", &address]].concat());
    assert_eq!(output.status.code(), Some(1));
    let (stored, error) = (String::from_utf8(output.stdout.clone()).unwrap(), stderr(&output));
    assert!(stored.contains("a.json: stored") && stored.contains("third.json: stored"), "{stored}");
    assert!(error.contains("2 of 3 files are stored") && error.contains("other.json"), "{error}");
    assert_eq!(bodies.join().unwrap().len(), 3);

    sandbox.write("b.json", "{");
    let error = sandbox.fails(1, &["upload", "a.json", "b.json", "--server", "http://127.0.0.1:1"]);
    assert!(error.contains("b.json") && error.contains("truncated"), "{error}");
    assert!(error.contains("1 of 2 files cannot be sent, so nothing was sent"), "{error}");
    let error = sandbox.fails(1, &["upload", "a.json", "--server", "http://127.0.0.1:1"]);
    assert!(error.contains("cannot reach http://127.0.0.1:1/"), "{error}");
}
