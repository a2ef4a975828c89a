//! The command line itself: the shapes that torch-diode would draw, mistakes and help.

use std::process::Stdio;

use crate::sandbox::{Sandbox, stderr};
use serde_json::{Value, json};

fn shape(m: u64, k: u64, n: u64, dtype: &str, op: &str) -> Value {
    json!({ "op": op, "b": 1, "m": m, "n": n, "k": k, "dtype": dtype })
}

#[test]
fn log_normal_shapes_are_torch_diodes() {
    let arguments = ["shapes", "--seed", "42", "--num-shapes", "10", "--log-normal", "--json"];
    let shapes: Value = serde_json::from_str(&Sandbox::new().ok(&arguments)).unwrap();
    let expected = json!([
        shape(2544, 2016, 296, "float16", "mm"),
        shape(35088, 296, 248, "float16", "bmm"),
        shape(40512, 176, 1336, "bfloat16", "mm"),
        shape(2864, 176, 168, "float16", "bmm"),
        shape(1328, 8, 16, "bfloat16", "bmm"),
        shape(168, 976, 64, "float16", "bmm"),
        shape(72, 11824, 32, "float16", "mm"),
        shape(400, 24, 416, "bfloat16", "bmm"),
        shape(176, 40, 448, "bfloat16", "mm"),
        shape(1872, 264, 136, "bfloat16", "addmm"),
    ]);
    assert_eq!(shapes, expected);
}

#[test]
fn the_other_distributions_and_lists_are_flags_too() {
    let sandbox = Sandbox::new();
    let draw = |arguments: &[&str]| -> Vec<Value> {
        serde_json::from_str(&sandbox.ok(&[&["shapes", "--json", "--num-shapes", "2"], arguments].concat()))
            .unwrap()
    };
    let sizes = |shape: &Value| {
        (shape["m"].as_u64().unwrap(), shape["k"].as_u64().unwrap(), shape["n"].as_u64().unwrap())
    };
    assert_eq!(sizes(&draw(&[])[0]), (2651, 488, 134));
    assert_eq!(sizes(&draw(&["--power-of-two"])[1]), (256, 256, 128));
    assert_eq!(sizes(&draw(&["--min-size", "7", "--max-size", "8"])[0]).0 / 7, 1);
    let fixed = draw(&["--log-normal", "--log-normal-m-mean", "0", "--log-normal-m-std", "0"]);
    assert_eq!(fixed[0]["m"], 8);
    for shape in draw(&["--ops", "baddbmm", "--dtypes", "half,float32"]) {
        assert_eq!(shape["op"], "baddbmm");
        assert!(shape["dtype"] == "float16" || shape["dtype"] == "float32");
    }
    let table = sandbox.ok(&["shapes", "--num-shapes", "2"]);
    assert_eq!(table.lines().count(), 3);
    assert!(table.starts_with("op "), "{table}");
}

#[test]
fn models_become_the_shapes_of_their_layers() {
    let sandbox = Sandbox::new();
    let shapes = |arguments: &[&str]| -> Value {
        serde_json::from_str(&sandbox.ok(&[&["shapes", "--json"], arguments].concat())).unwrap()
    };
    let layer = |m, n, k, dtype: &str| {
        let mut shape = shape(m, k, n, dtype, "mm");
        shape["b_layout"] = "column".into();
        shape
    };
    let small = ["--transformer", "hidden=1024,intermediate=2816,heads=16,vocab=32000"];
    let one_device = [&small[..], &["--prefill-tokens", "128", "--decode-batches", "4"]].concat();
    assert_eq!(
        shapes(&one_device),
        json!([
            layer(128, 3072, 1024, "bfloat16"),
            layer(128, 1024, 1024, "bfloat16"),
            layer(128, 5632, 1024, "bfloat16"),
            layer(128, 1024, 2816, "bfloat16"),
            layer(1, 32000, 1024, "bfloat16"),
            layer(4, 3072, 1024, "bfloat16"),
            layer(4, 1024, 1024, "bfloat16"),
            layer(4, 5632, 1024, "bfloat16"),
            layer(4, 1024, 2816, "bfloat16"),
            layer(4, 32000, 1024, "bfloat16"),
        ])
    );
    let split = [&one_device[..], &["--tensor-parallel", "2", "--dtypes", "float16,bfloat16"]].concat();
    let split = shapes(&split);
    assert_eq!((split.as_array().unwrap().len(), &split[0]), (20, &layer(128, 1536, 1024, "float16")));
    let convolution = ["--convolution", "in=64,out=128,kernel=3,stride=2,padding=1,size=56", "--images", "8"];
    assert_eq!(shapes(&convolution), json!([layer(6272, 128, 576, "bfloat16")]));
    let table = sandbox.ok(&[&["shapes"], &convolution[..]].concat());
    assert!(table.contains("B lies in") && table.contains("columns"), "{table}");
}

#[test]
fn mistakes_exit_with_2_and_say_what_is_wrong() {
    let sandbox = Sandbox::new();
    for (arguments, words) in [
        (&["shapes", "--log-normal", "--power-of-two"][..], "--power-of-two"),
        (&["shapes", "--log-normal", "--max-size", "64"], "--max-size"),
        (&["shapes", "--log-normal-m-mean", "3"], "--log-normal"),
        (&["shapes", "--ops", "conv"], "one of mm addmm bmm baddbmm"),
        (&["shapes", "--dtypes", "float17"], "bfloat16"),
        (&["shapes", "--power-of-two", "--num-shapes", "513"], "512"),
        (&["shapes", "--min-size", "9", "--max-size", "8"], "9 to 8"),
        (&["train", "--data", "x.msgpack.zst", "--model", "m.json"], "ends in .json, expected .safetensors"),
        (&["collect"], "--output"),
        (&["collect", "--output", "x.msgpack.zst", "--budget", "10"], "units"),
        (&["collect", "--output", "x.msgpack.zst", "--device", "0"], "chooses among GPUs"),
        (&["collect", "--output", "x.msgpack.zst", "--library", "."], "libraries are for GPUs"),
        (
            &["collect", "--output", "x.msgpack.zst", "--shapeset", "s.json", "--num-shapes", "2"],
            "--problems",
        ),
        (&["collect", "--output", "x.msgpack"], "spread"),
        (&["collect", "--output", "x.json"], "method"),
        (&["collect", "--output", "x.txt"], ".msgpack.zst"),
        (&["train", "--data", "x.json", "--model", "m", "--folds", "1"], "2 or more"),
        (
            &[
                "predict", "--model", "h200", "--op", "mm", "--m", "0", "--n", "1", "--k", "1", "--dtype",
                "half",
            ],
            "M: got 0",
        ),
        (&["shapes", "--transformer", "hidden=4096"], "transformer: heads: got none"),
        (&["shapes", "--convolution", "in=1,out=1,kernel=9,size=8"], "at most 8"),
        (&["shapes", "--transformer", "hidden=8,intermediate=8,heads=8", "--log-normal"], "--log-normal"),
        (&["shapes", "--tensor-parallel", "2"], "--transformer"),
        (
            &["shapes", "--transformer", "hidden=8,intermediate=8,heads=8", "--tensor-parallel", "3"],
            "multiple of 3",
        ),
        (
            &["shapes", "--transformer", "hidden=8,intermediate=8,heads=8", "--tensor-parallel", "0"],
            "expected a whole number, 1 or more",
        ),
        (&["shapes", "--convolution", "in=1,out=1,kernel=1,size=8", "--images", "0"], "1 or more"),
        (
            &["shapes", "--convolution", "in=2147483648,out=1,kernel=2,size=8"],
            "convolution: K (in × kernel²): got 8589934592, expected a size from 1",
        ),
        (&["table", "a.json"], "--output"),
        (&["table", "--output", "t.json"], "FILE"),
        (&["table", "a.json", "--output", "t.json", "--torch", "2.11.0"], "--format inductor"),
        (
            &["table", "a.json", "--output", "t.json", "--format", "inductor", "--alpha", "x"],
            "as Python prints it",
        ),
        (&["table", "lookup", "t.json", "--op", "mm", "--m", "1", "--n", "1"], "--k"),
        (&["nonsense"], "nonsense"),
        (&[], "Usage"),
    ] {
        let output = sandbox.run(arguments);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(words), "{arguments:?}: {text}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn help_goes_to_stdout_and_every_command_is_in_it() {
    let help = Sandbox::new().ok(&["--help"]);
    for command in [
        "predict", "tune", "table", "models", "collect", "agent", "status", "upload", "datasets", "convert",
        "train", "evaluate",
    ] {
        assert!(help.contains(&format!("\n  {command} ")), "{command}: {help}");
    }
    assert!(!help.contains("worker"), "{help}");
    assert!(help.contains("More: detect, kernels, shapes"), "{help}");
    assert!(help.find("Example:").unwrap() < help.find("Usage:").unwrap(), "{help}");
}

#[test]
fn torch_diodes_commands_run_under_compat_and_under_their_own_names() {
    let sandbox = Sandbox::new();
    let list = stderr(&sandbox.run(&["compat"]));
    for name in [
        "collect-shapeset",
        "create-validation",
        "collect-and-train",
        "validate-model",
        "convert-json-to-msgpack",
    ] {
        assert!(list.contains(name), "{list}");
        let help = sandbox.ok(&["compat", name, "--help"]);
        assert_eq!(help, sandbox.ok(&[name, "--help"]));
    }
    assert!(
        sandbox
            .fails(1, &["compat", "collect-shapeset", "--shapeset", "missing.json"])
            .contains("missing.json")
    );
}

#[test]
fn status_says_what_is_used_and_why_it_is_not() {
    let sandbox = Sandbox::new();
    let said = sandbox.ok(&["status", "--server", "http://127.0.0.1:9"]);
    for words in ["Version  0.", "GPU", "Model", "Server   http://127.0.0.1:9 cannot be reached", "Account"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn a_page_of_a_portal_is_no_answer_of_a_server() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let portal = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // Everything is read, so that the connection is not reset under the answer.
        stream.set_read_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
        let mut request = Vec::new();
        let _ = std::io::Read::read_to_end(&mut stream, &mut request);
        let page = "<html>Log in to the network</html>";
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            page.len()
        );
        std::io::Write::write_all(&mut stream, (head + page).as_bytes()).unwrap();
    });
    let error =
        Sandbox::new().fails(1, &["want", "64x64x64", "--hardware", "nvidia-h200", "--server", &address]);
    portal.join().unwrap();
    assert!(error.contains("no Diode server"), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_stderr_that_cannot_be_written_ends_nothing() {
    let sandbox = Sandbox::new();
    let run = |arguments: &[&str]| {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        sandbox.command(arguments).stderr(full).output().unwrap()
    };
    // The prediction comes with a note, since no model was trained on such sizes.
    let predicted = run(&["predict", "1x1x1", "--hardware", "nvidia-h100"]);
    assert!(predicted.status.success() && !predicted.stdout.is_empty());
    assert_eq!(run(&["stats", "no-such-file"]).status.code(), Some(1));
    let collect = [
        "collect",
        "--backend",
        "cpu",
        "--num-shapes",
        "1",
        "--max-size",
        "64",
        "--output",
        "out.msgpack.zst",
    ];
    assert!(run(&collect).status.success());
    assert!(sandbox.dataset("out.msgpack.zst").timings() > 0);
}

#[test]
fn detect_describes_the_cpu() {
    let node: Value = serde_json::from_str(&Sandbox::new().ok(&["detect", "--json"])).unwrap();
    assert!(node["hardware"]["slug"].as_str().unwrap().starts_with("cpu-"));
    assert_eq!(node["hardware"]["vendor"], "cpu");
    let facts = &node["hardware"]["facts"];
    assert_eq!(facts["sms"], node["cpu"]["cores"]);
    for fact in ["dram_gbps", "l2_gbps", "max_clock_mhz"] {
        assert!(facts[fact].as_f64().unwrap() > 0.0, "{fact}");
    }
    assert_eq!(facts["peaks"]["fp16"], facts["peaks"]["fp32"]);
}

#[cfg(unix)]
#[test]
fn a_reader_that_leaves_is_no_error() {
    let sandbox = Sandbox::new();
    let mut child = sandbox
        .command(&["shapes", "--num-shapes", "20000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
}

/// Runs commands with a terminal for stdout and stderr. Returns what appears there.
#[cfg(target_os = "linux")]
fn on_a_terminal(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let words = [env!("CARGO_BIN_EXE_diode")].into_iter().chain(arguments.iter().copied());
    let line = words.map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let mut terminal = std::process::Command::new("script");
    let output = terminal.args(["-qec", &line, "/dev/null"]).current_dir(sandbox.path(".")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{line}: {text}");
    text
}

/// Long work is a bar on a terminal. Elsewhere, and for whoever wants quiet, nothing is drawn.
#[cfg(target_os = "linux")]
#[test]
fn what_may_take_long_shows_how_far_it_is() {
    let sandbox = Sandbox::new();
    sandbox.write("h200.json", &crate::tables::old_dataset("NVIDIA H200"));
    sandbox.ok(&["table", "h200.json", "--output", "t.json"]);
    let folder = "vllm/model_executor/layers/fused_moe/configs";
    std::fs::create_dir_all(sandbox.path(folder)).unwrap();
    let tuned = json!({
        "1": {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 1, "num_warps": 4, "num_stages": 3}
    });
    sandbox.write(&format!("{folder}/E=8,N=7168,device_name=NVIDIA_H200.json"), &tuned.to_string());
    let shapes = (1..=40).map(|m| format!("{}x256x256\n", 64 * m)).collect::<String>();
    sandbox.write("shapes.txt", &shapes);
    let import = ["import", "vllm", "vllm", "--release", "0.1", "--output", "p.json", "--force"];
    for (arguments, unit) in [
        (&["convert", "h200.json", "c.csv", "--lossy", "--force"][..], "kB"),
        (&["stats", "h200.json"], "kB"),
        (&["table", "h200.json", "--output", "u.json", "--force"], "kB"),
        (&["table", "lookup", "t.json", "512x1024x256"], "problems"),
        (&["evaluate", "--model", "h200", "--dataset", "h200.json"], "problems"),
        (&["predict", "--problems", "shapes.txt", "--hardware", "h200"], "problems"),
        (&import, "files"),
    ] {
        let shown = on_a_terminal(&sandbox, arguments);
        assert!(
            shown.contains(&format!(" {unit} · ")) && shown.contains(" left"),
            "{arguments:?}: {shown:?}"
        );
        let quiet = on_a_terminal(&sandbox, &[arguments, &["--quiet"]].concat());
        let output = sandbox.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        for text in [quiet.replace("\r\n", "\n"), stderr(&output)] {
            assert!(!text.contains(['\r', '\u{1b}']), "{arguments:?}: {text:?}");
        }
    }
}

/// Commands with their flags, and the shapes of what they print, are promises to scripts. To change them on purpose, run this
/// test with UPDATE_SNAPSHOT=1.
#[test]
fn commands_flags_and_shapes_of_output_stay() {
    let sandbox = Sandbox::new();
    let mut lines = Vec::new();
    let mut commands = vec![Vec::<&str>::new()];
    while !commands.is_empty() {
        let command: Vec<&str> = commands.remove(0);
        let help = sandbox.ok(&[&command[..], &["--help"]].concat());
        lines.push(format!("diode {}", command.join(" ")).trim_end().to_owned());
        lines.extend(flags_by_heading(&help));
        let more = help.lines().find_map(|line| line.strip_prefix("More: ")).into_iter();
        let more = more.flat_map(|names| names.split(", ")).map(|name| ("Commands", name));
        for (heading, name) in listed(&help).chain(more) {
            let is_command = ["Choose kernels", "Measure", "Share and look at datasets", "Learn", "Commands"]
                .contains(&heading);
            if is_command && name != "help" {
                commands.push(command.iter().copied().chain([&*name.to_owned().leak()]).collect());
            }
        }
    }
    assert!(lines.len() > 20, "{lines:?}");
    let shape = "16x4096x4096";
    let on = ["--hardware", "nvidia-h200"];
    for (arguments, format) in [
        (&["predict", shape][..], "json"),
        (&["predict", shape], "csv"),
        (&["predict", shape], "triton"),
        (&["predict", shape], "inductor"),
        (&["tune", "OLMoE-1B-7B"], "json"),
    ] {
        let text = sandbox.ok(&[arguments, &on, &["--format", format]].concat());
        let shown = match serde_json::from_str::<Value>(&text) {
            Ok(value) => shape_of(&value),
            Err(_) => text.lines().next().unwrap_or_default().to_owned(),
        };
        lines.push(format!("{} --format {format}\n  {shown}", arguments.join(" ")));
    }
    let found = format!("{}\n", lines.join("\n"));
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/promises.txt");
    if std::env::var_os("UPDATE_SNAPSHOT").is_some() {
        diode_formats::write_atomically(std::path::Path::new(file), found.as_bytes()).unwrap();
    }
    let promised = std::fs::read_to_string(file).unwrap();
    assert!(found == promised, "expected\n{promised}\nfound\n{found}");
}

/// The headings of a help, each with the flags below it that not every command has.
fn flags_by_heading(help: &str) -> Vec<String> {
    const OF_ALL: [&str; 4] = ["--help", "--log-format", "--quiet", "--version"];
    let mut headings: Vec<(&str, Vec<&str>)> = Vec::new();
    for (heading, word) in listed(help)
        .filter(|(heading, word)| *heading != "Example" && word.starts_with('-') && !OF_ALL.contains(word))
    {
        match headings.last_mut().filter(|(last, _)| *last == heading) {
            Some((_, flags)) => flags.push(word),
            None => headings.push((heading, vec![word])),
        }
    }
    headings.iter().map(|(heading, flags)| format!("  {heading}: {}", flags.join(" "))).collect()
}

/// The names of flags and commands in a help, each with its heading.
fn listed(help: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut heading = "";
    help.lines().filter_map(move |line| {
        if let Some(name) = line.strip_suffix(':').filter(|name| !name.starts_with(' ')) {
            heading = name;
        }
        let words = line.strip_prefix("  ").filter(|rest| !rest.starts_with("          "))?;
        let mut words = words.split_whitespace();
        let name = words.find(|word| !word.ends_with(','))?;
        (!name.starts_with('[') && !name.starts_with('<')).then_some((heading, name))
    })
}

/// The names and types in a JSON value. The first element of a list stands for all.
fn shape_of(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "text".to_owned(),
        Value::Array(items) => format!("[{}]", items.first().map(shape_of).unwrap_or_default()),
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(name, value)| format!("{name}: {}", shape_of(value))).collect();
            format!("{{{}}}", fields.join(", "))
        }
    }
}
