//! Getting a token, sending it and giving it back.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::Stdio;
use std::thread;

use crate::datasets::DATASET;
use crate::sandbox::{Sandbox, stderr};

pub(crate) fn token() -> String {
    format!("diode_{}", "0123456789abcdef".repeat(4))
}

/// A server that expects these requests (method and path) in order and gives each its answer.
/// Returns its address and, at the end, the `authorization` header of each request.
pub(crate) fn server(
    expected: Vec<(&'static str, u16, String)>,
) -> (String, thread::JoinHandle<Vec<Option<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let seen = thread::spawn(move || {
        let answer = |(request, status, body): (&str, u16, String)| {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                reader.read_line(&mut head).unwrap();
            }
            assert!(head.starts_with(&format!("{request} ")), "expected {request}: {head}");
            let field = |name: &str| {
                let line = head.lines().find(|line| line.to_lowercase().starts_with(&format!("{name}: ")));
                line.map(|line| line[name.len() + 2..].trim().to_owned())
            };
            let length = field("content-length").map_or(0, |length| length.parse().unwrap());
            reader.read_exact(&mut vec![0; length]).unwrap();
            let (length, version) = (body.len(), env!("CARGO_PKG_VERSION"));
            let reply = format!(
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ndiode-server: {version}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
            reader.get_mut().write_all(reply.as_bytes()).unwrap();
            field("authorization")
        };
        expected.into_iter().map(answer).collect()
    });
    (address, seen)
}

pub(crate) fn refusal(code: &str, message: &str) -> String {
    format!(r#"{{"code":"{code}","message":"{message}"}}"#)
}

fn account() -> String {
    r#"{"id":"0123456789abcdef","name":"ada","admin":false,"created_at":"2026-01-01T00:00:00Z"}"#.to_owned()
}

/// The terms of a server. `asked` says whether it asks for an agreement or asks nobody.
fn terms(asked: bool) -> String {
    format!(
        r#"{{"version":1,"licence":"MIT OR Apache-2.0","text":"x","address":"http://x/terms","asked":{asked}}}"#
    )
}

fn device_code() -> String {
    r#"{"device_code":"d","user_code":"BCDF-GHJK","verification_uri":"http://x/device?code=BCDF-GHJK",
        "expires_in":60,"interval":1}"#
        .to_owned()
}

fn issued() -> String {
    format!(
        r#"{{"secret":"{}","token":{{"id":"0123456789abcdef","name":"x","scopes":["upload"],
            "created_at":"2026-01-01T00:00:00Z","expires_at":"2027-01-01T00:00:00Z","used_at":null}}}}"#,
        token()
    )
}

fn receipt() -> String {
    let digest = "0".repeat(64);
    format!(
        r#"{{"id":"0123456789abcdef","digest":"{digest}","bytes":5,"format":"columnar",
            "received_at":"2026-01-01T00:00:00Z","hardware":[],"new_solutions":1,"duplicate_solutions":0,
            "already_stored":false}}"#
    )
}

#[test]
fn a_login_is_shown_kept_used_and_revoked() {
    let sandbox = Sandbox::new();
    sandbox.write("a.json", DATASET);
    let bearer = Some(format!("Bearer {}", token()));
    let (address, seen) = server(vec![
        ("POST /api/v1/devices", 201, device_code()),
        ("POST /api/v1/devices/token", 400, refusal("authorization_pending", "not yet")),
        ("POST /api/v1/devices/token", 200, issued()),
        ("GET /api/v1/account", 200, account()),
        ("GET /api/v1/terms", 200, terms(false)),
        ("GET /api/v1/terms", 200, terms(false)),
        ("POST /api/v1/uploads", 201, receipt()),
        ("DELETE /api/v1/session", 204, String::new()),
        ("GET /api/v1/terms", 404, refusal("not_found", "an older server")),
        ("POST /api/v1/uploads", 401, refusal("unauthorized", "run diode login")),
    ]);
    let output = sandbox.run(&["login", "--server", &address]);
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("http://x/device?code=BCDF-GHJK") && said.contains("as ada"), "{said}");
    assert!(!said.contains(&token()) && output.stdout.is_empty(), "{said}");
    let file = sandbox.path("config/diode/tokens.json");
    assert!(fs::read_to_string(&file).unwrap().contains(&token()));

    sandbox.ok(&["upload", "a.json", "--server", &format!("{address}/")]);
    sandbox.ok(&["logout", "--server", &address]);
    assert!(!fs::read_to_string(&file).unwrap().contains(&token()));
    let error = sandbox.fails(1, &["upload", "a.json", "--server", &address]);
    assert!(error.contains("run diode login (unauthorized, 401)"), "{error}");
    let expected = [vec![None; 3], vec![bearer; 5], vec![None; 2]].concat();
    assert_eq!(seen.join().unwrap(), expected);
    let error = sandbox.fails(1, &["logout", "--server", &address]);
    assert!(error.contains("there is no token for"), "{error}");
}

#[test]
fn a_login_that_is_refused_keeps_nothing() {
    let sandbox = Sandbox::new();
    let (address, seen) = server(vec![
        ("POST /api/v1/devices", 201, device_code()),
        ("POST /api/v1/devices/token", 403, refusal("forbidden", "it was refused")),
    ]);
    let output = sandbox.run(&["login", "--server", &address, "--scope", "upload,train", "--name", "mine"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("error: the server refused it: it was refused (forbidden, 403)"));
    seen.join().unwrap();
    assert!(!sandbox.path("config/diode/tokens.json").exists());
}

#[test]
fn a_token_is_pasted() {
    let sandbox = Sandbox::new();
    let (address, seen) =
        server(vec![("GET /api/v1/account", 200, account()), ("GET /api/v1/terms", 200, terms(false))]);
    let mut command = sandbox.command(&["login", "--server", &address, "--paste"]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(format!("  {}\n", token()).as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(seen.join().unwrap(), vec![Some(format!("Bearer {}", token())); 2]);
    assert!(sandbox.path("config/diode/tokens.json").is_file());
}

#[test]
fn the_environments_token_wins_and_nothing_else_is_sent() {
    let sandbox = Sandbox::new();
    sandbox.write("a.json", DATASET);
    let (address, seen) =
        server(vec![("GET /api/v1/terms", 200, terms(false)), ("POST /api/v1/uploads", 201, receipt())]);
    let with = |token: &str, server: &str| {
        let mut command = sandbox.command(&["upload", "a.json", "--server", server]);
        command.env("DIODE_TOKEN", token).output().unwrap()
    };
    let output = with("hunter2", &address);
    let said = stderr(&output);
    assert!(output.status.code() == Some(2) && !said.contains("hunter2"), "{said}");
    // Nobody must be able to read the token on its way.
    let output = with(&token(), "http://diode.example.org");
    let said = stderr(&output);
    assert!(output.status.code() == Some(2) && said.contains("expected https://"), "{said}");
    assert!(with(&token(), &address).status.success());
    assert_eq!(seen.join().unwrap(), vec![Some(format!("Bearer {}", token())); 2]);
    sandbox.fails(2, &["login", "--server", "http://diode.example.org"]);
    sandbox.fails(2, &["login", "--server", "https://a@b"]);
    let error = sandbox.fails(1, &["upload", "a.json", "--server", &address, "--ca", "a.json"]);
    assert!(error.contains("holds no certificate"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_file_that_others_may_read_is_not_used() {
    use std::os::unix::fs::PermissionsExt as _;
    let sandbox = Sandbox::new();
    sandbox.write("a.json", DATASET);
    let file = sandbox.path("config/diode/tokens.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::copy(sandbox.path("a.json"), &file).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let error = sandbox.fails(1, &["upload", "a.json", "--server", "http://127.0.0.1:1"]);
    assert!(error.contains("chmod 600"), "{error}");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let error = sandbox.fails(1, &["upload", "a.json", "--server", "http://127.0.0.1:1"]);
    assert!(error.contains("expected what `diode login` writes"), "{error}");
}

#[test]
fn nothing_is_sent_before_somebody_agrees() {
    let sandbox = Sandbox::new();
    sandbox.write("a.json", DATASET);
    let (address, seen) = server(vec![
        ("GET /api/v1/terms", 200, terms(true)),
        ("GET /api/v1/terms", 200, terms(true)),
        ("GET /api/v1/terms", 200, terms(true)),
        ("POST /api/v1/uploads", 201, receipt()),
        ("GET /api/v1/terms", 200, terms(true)),
    ]);
    let upload = ["upload", "a.json", "--server", &address];
    let error = sandbox.fails(2, &upload);
    assert!(error.contains("read http://x/terms; if you agree, add --agree 1"), "{error}");
    let error = sandbox.fails(2, &[&upload[..], &["--agree", "2"]].concat());
    assert!(error.contains("--agree: got 2") && error.contains("now version 1"), "{error}");
    let output = sandbox.run(&[&upload[..], &["--agree", "1"]].concat());
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    let line =
        "what you send is given under MIT OR Apache-2.0: terms of contributing, version 1, http://x/terms";
    assert!(said.contains(line), "{said}");
    // The agent ends before it looks for a device or builds a kernel.
    let error = sandbox.fails(2, &["agent", "--server", &address, "--backend", "cpu", "--once"]);
    assert!(error.contains("add --agree 1"), "{error}");
    seen.join().unwrap();
    sandbox.fails(2, &[&upload[..], &["--agree", "yes"]].concat());
}

#[test]
fn a_login_agrees_for_the_account() {
    let sandbox = Sandbox::new();
    let login = |agree: &'static [&'static str], requests: Vec<(&'static str, u16, String)>| {
        let (address, seen) = server(
            [
                vec![
                    ("POST /api/v1/devices", 201, device_code()),
                    ("POST /api/v1/devices/token", 200, issued()),
                    ("GET /api/v1/account", 200, account()),
                ],
                requests,
            ]
            .concat(),
        );
        let output = sandbox.run(&[&["login", "--server", &address][..], agree].concat());
        seen.join().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output)
    };
    let asked = || ("GET /api/v1/terms", 200, terms(true));
    let said = login(&["--agree", "1"], vec![asked(), ("PUT /api/v1/account/terms", 204, String::new())]);
    assert!(said.contains("agreed to version 1 for the account"), "{said}");
    let said = login(&[], vec![asked()]);
    assert!(said.contains("nobody has agreed for the account yet"), "{said}");
    // A token that cannot send anything needs no agreement to the terms.
    let said = login(&["--scope", "train"], vec![]);
    assert!(!said.contains("terms"), "{said}");
}
