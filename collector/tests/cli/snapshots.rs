//! Downloads of snapshots from a server whose answers break off.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use diode_core::ids::Digest;
use serde_json::{Value, json};

use crate::sandbox::{Sandbox, stderr};

const NAME: &str = "nvidia-h200@3";
const FILE: &str = "nvidia-h200@3.msgpack.zst";

/// The files of a server, and the requests that it received.
#[derive(Clone)]
struct Served {
    data: Vec<u8>,
    manifest: Vec<u8>,
    /// How many bytes of the data each answer sends before it breaks off. The last entry is for the
    /// first answer.
    breaks: Arc<Mutex<Vec<usize>>>,
    /// How long the data pauses in the middle.
    pause: Duration,
    /// The ranges that requests for the data asked for.
    asked: Arc<Mutex<Vec<String>>>,
}

fn data() -> Vec<u8> {
    (0..300_000_u32).map(|i| (i % 251) as u8).collect()
}

fn served(file: &str) -> Served {
    let data = data();
    let hardware = diode_core::hardware::find("nvidia-h200").unwrap();
    let manifest = json!({
        "manifest": 1, "name": NAME, "created_at": "2026-11-23T08:00:00Z", "program": "0.1.0",
        "licence": "MIT OR Apache-2.0", "hardware": hardware, "problems": 7, "timings": 42, "failures": 0,
        "contributors": 1, "left_out": 0, "uploads": [],
        "files": [{ "name": file, "format": "columnar", "bytes": data.len(), "sha256": Digest::of(&data) }],
        "absent": [{ "format": "torch-diode-json", "reason": "it cannot hold failures" }],
    });
    let manifest = serde_json::to_vec(&manifest).unwrap();
    Served { data, manifest, breaks: Arc::default(), pause: Duration::ZERO, asked: Arc::default() }
}

impl Served {
    fn detail(&self) -> Value {
        let digest = Digest::of(&self.manifest);
        json!({
            "summary": {
                "name": NAME, "digest": digest, "hardware_name": "NVIDIA H200",
                "created_at": "2026-11-23T08:00:00Z", "licence": "MIT OR Apache-2.0", "problems": 7, "timings": 42,
                "failures": 0, "contributors": 1, "uploads": 2, "bytes": 1, "withdrawn_uploads": 1,
            },
            "files": [{
                "name": "manifest.json", "format": "manifest", "bytes": self.manifest.len(), "sha256": digest,
            }],
            "models": [],
            "citation": { "url": "https://d.example/x", "text": "Cited so.", "bibtex": "@misc{x}\n" },
        })
    }

    /// Serves until the test ends. Returns the address.
    fn start(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let served = self.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                served.answer(stream.unwrap());
            }
        });
        address
    }

    fn answer(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            reader.read_line(&mut head).unwrap();
        }
        let path = head.split(' ').nth(1).unwrap().to_owned();
        let below = path.strip_prefix("/api/v1/snapshots").unwrap();
        let summary = self.detail()["summary"].clone();
        let (status, body) = match below {
            "?hardware=nvidia-h200" => ("200 OK".to_owned(), json!([summary]).to_string().into_bytes()),
            "/nvidia-h200@3" => ("200 OK".to_owned(), self.detail().to_string().into_bytes()),
            "/nvidia-h200@3/files/manifest.json" => ("200 OK".to_owned(), self.manifest.clone()),
            other if other.starts_with("/nvidia-h200@3/files/") => self.part(&head.to_lowercase()),
            other => panic!("{other}"),
        };
        let length = body.len();
        let is_data = below.ends_with(".zst");
        let sent = is_data.then(|| self.breaks.lock().unwrap().pop()).flatten().unwrap_or(length);
        let reply = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
        let stream = reader.get_mut();
        stream.write_all(reply.as_bytes()).unwrap();
        let (first, second) = body[..sent].split_at(sent / 2);
        stream.write_all(first).unwrap();
        thread::sleep(if is_data { self.pause } else { Duration::ZERO });
        stream.write_all(second).unwrap();
    }

    fn part(&self, head: &str) -> (String, Vec<u8>) {
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        let range = field("range: ").to_owned();
        self.asked.lock().unwrap().push(range.clone());
        let Some(from) = range.strip_prefix("bytes=").and_then(|range| range.strip_suffix('-')) else {
            return ("200 OK".to_owned(), self.data.clone());
        };
        assert_eq!(field("if-range: "), format!("\"{}\"", Digest::of(&self.data)));
        let from: usize = from.parse().unwrap();
        let total = self.data.len();
        let status = format!("206 Partial Content\r\ncontent-range: bytes {from}-{}/{total}", total - 1);
        (status, self.data[from..].to_vec())
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

#[test]
fn a_download_that_breaks_off_goes_on_where_it_was() {
    let (sandbox, served) = (Sandbox::new(), served(FILE));
    // The last entry comes first: the first answer breaks off after 100,000 bytes, the second after
    // 50,000 more.
    *served.breaks.lock().unwrap() = vec![50_000, 100_000];
    let address = served.start();
    let digest = Digest::of(&served.manifest);
    let pull = ["datasets", "pull", "nvidia-h200", "--server", &address, "--out", "d", "--json", "--digest"];
    let pull = [&pull[..], &[digest.as_str()]].concat();
    let output = sandbox.run(&pull);
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["files"][0], format!("d/{FILE}"));
    assert_eq!(std::fs::read(sandbox.path("d").join(FILE)).unwrap(), served.data);
    assert_eq!(served.asked(), ["", "bytes=100000-", "bytes=150000-"]);
    assert!(said.contains("1 of 2 uploads") && said.contains("no longer count"), "{said}");
    assert!(said.contains("the download broke off"), "{said}");
    // Files that are there already are not fetched again.
    assert!(sandbox.run(&pull).status.success());
    assert_eq!(served.asked().len(), 3);
}

#[test]
fn what_was_kept_of_an_earlier_command_is_not_fetched_again_and_damage_is_noticed() {
    let (sandbox, served) = (Sandbox::new(), served(FILE));
    let address = served.start();
    let pull = ["datasets", "pull", NAME, "--server", &address];
    let part = sandbox.path(&format!("{FILE}.part"));
    diode_formats::write_atomically(&part, &served.data[..200_000]).unwrap();
    sandbox.ok(&pull);
    assert_eq!(served.asked(), ["bytes=200000-"]);
    assert_eq!(std::fs::read(sandbox.path(FILE)).unwrap(), served.data);

    std::fs::remove_file(sandbox.path(FILE)).unwrap();
    diode_formats::write_atomically(&part, &[7; 200_000]).unwrap();
    let output = sandbox.run(&pull);
    let said = stderr(&output);
    assert!(!output.status.success() && said.contains("SHA-256"), "{said}");
    assert!(!part.exists() && !sandbox.path(FILE).exists());
    sandbox.ok(&pull);
    assert_eq!(std::fs::read(sandbox.path(FILE)).unwrap(), served.data);

    sandbox.write(FILE, "mine");
    let said = stderr(&sandbox.run(&pull));
    assert!(said.contains("exists and is another file"), "{said}");
    assert_eq!(std::fs::read(sandbox.path(FILE)).unwrap(), b"mine");
}

#[test]
fn a_server_cannot_give_another_snapshot_or_write_elsewhere() {
    let (sandbox, other) = (Sandbox::new(), served("../escaped"));
    let address = other.start();
    let zeros = "0".repeat(64);
    let said = stderr(&sandbox.run(&["datasets", "pull", NAME, "--server", &address, "--digest", &zeros]));
    assert!(said.contains(&zeros) && said.contains("expected"), "{said}");
    let said = stderr(&sandbox.run(&["datasets", "pull", NAME, "--server", &address]));
    assert!(said.contains("expected a plain name"), "{said}");
    assert_eq!(other.asked(), Vec::<String>::new());
    let pull = ["datasets", "pull", NAME, "--format", "json", "--server", &address];
    let said = stderr(&sandbox.run(&pull));
    assert!(said.contains("it cannot hold failures"), "{said}");
    let words = sandbox.ok(&["datasets", "cite", NAME, "--server", &address]);
    assert_eq!(words, "Cited so.\n");
    let words = sandbox.ok(&["datasets", "cite", "nvidia-h200", "--bibtex", "--server", &address]);
    assert_eq!(words, "@misc{x}\n");
}

#[test]
fn a_slow_download_shows_how_far_it_is() {
    let served = Served { pause: Duration::from_millis(1_100), ..served(FILE) };
    let address = served.start();
    let pull = |flags: &[&str]| {
        let sandbox = Sandbox::new();
        let output = sandbox.run(&[&["datasets", "pull", NAME, "--server", &address], flags].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output)
    };
    let [text, json, quiet] = thread::scope(|scope| {
        [&[][..], &["--log-format", "json"], &["--quiet"]]
            .map(|flags| scope.spawn(|| pull(flags)))
            .map(|pulling| pulling.join().unwrap())
    });
    let line =
        text.lines().find(|line| line.contains("/300 kB · about ")).unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains(" left · ") && line.ends_with("/s"), "{line}");
    assert!(!text.contains(['\r', '\u{1b}']), "{text:?}");
    let events = json.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let event = events.into_iter().find(|event| event["unit"] == "kB").unwrap_or_else(|| panic!("{json}"));
    let is_told = |field: &str| event[field].as_f64().is_some_and(|number| number > 0.0);
    assert!(["done", "total", "per_second", "seconds_left"].into_iter().all(is_told), "{event}");
    assert_eq!(quiet, "");
}
