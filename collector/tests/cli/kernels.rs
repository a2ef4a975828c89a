//! Kernel packs that are really compiled. Commands that need a GPU are refused without one.

use std::path::Path;

use serde_json::Value;

use crate::sandbox::{Sandbox, content, stderr};

const TILES: &str = r#"[
    {"template": "triton::mm", "block_m": 64, "block_n": 64, "block_k": 32, "group_m": 8, "num_stages": 3, "num_warps": 4,
     "even_k": false, "allow_tf32": false, "use_fast_accum": false, "acc_type": "tl.float32"},
    {"template": "triton::mm", "block_m": 256, "block_n": 256, "block_k": 128, "group_m": 8, "num_stages": 3, "num_warps": 8,
     "even_k": false, "allow_tf32": false, "use_fast_accum": false, "acc_type": "tl.float32"}
]"#;

/// Builds a pack of two tiles. The first test makes the compiler's environment, as it is made for a user.
/// All tests share it.
fn build(sandbox: &Sandbox, arch: &str, more: &[&str]) -> Value {
    build_of(TILES, sandbox, arch, more)
}

fn build_of(tiles: &str, sandbox: &Sandbox, arch: &str, more: &[&str]) -> Value {
    sandbox.write("tiles.json", tiles);
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    let arguments = ["kernels", "build", "--arch", arch, "--space", "tiles.json", "--out", "test.pack"];
    let mut command = sandbox.command(&[&arguments, more].concat());
    let output = command.env("XDG_CACHE_HOME", cache).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!sandbox.path("test.pack.parts").exists());
    serde_json::from_str(&sandbox.ok(&["kernels", "info", "test.pack", "--json"])).unwrap()
}

#[test]
fn packs_are_compiled_without_a_gpu() {
    let sandbox = Sandbox::new();
    let info = build(&sandbox, "sm_90", &["--layouts", "nn,nt", "--alignments", "16,none"]);
    assert_eq!(info["arch"], "sm_90");
    assert_eq!(info["toolchain"]["triton"], "3.6.0");
    // Four kernels prepare and check measurements. The large tile fits into shared memory in no variant.
    let failed = info["failed"].as_array().unwrap();
    let too_large = |entry: &&Value| {
        entry["message"].as_str().unwrap().contains("bytes of shared memory, 232448 are there")
    };
    assert!(failed.iter().filter(too_large).count() >= 4, "{failed:?}");
    assert!(info["kernels"].as_u64().unwrap() >= 4 + 12, "{info}");
    let variants: Vec<&str> =
        info["variants"].as_array().unwrap().iter().map(|v| v["variant"].as_str().unwrap()).collect();
    assert!(variants.contains(&"mm;bfloat16;row,row;bias=none;align=16,16,16;ieee"), "{variants:?}");
    assert_eq!(variants.len(), 2 * 4, "rows along K and rows along N are aligned or not, in both layouts");

    assert!(info.get("each").is_none());
    let each: Value =
        serde_json::from_str(&sandbox.ok(&["kernels", "info", "test.pack", "--each", "--json"])).unwrap();
    let each = each["each"].as_array().unwrap();
    assert_eq!(each.len() as u64, info["kernels"].as_u64().unwrap());
    let tile = each.iter().find(|one| one["kernel"].as_str().unwrap().contains("64x64x32")).unwrap();
    assert_eq!(tile["threads"], 128, "four warps");
    assert!((32..=255).contains(&tile["registers"].as_u64().unwrap()), "{tile}");
    assert!(tile["shared_memory"].as_u64().unwrap() >= (64 + 64) * 32 * 2, "{tile}");
    let text = sandbox.ok(&["kernels", "info", "test.pack", "--each"]);
    let (_, table) = text.split_once("threads  shared memory  registers  stack  kernel\n").unwrap();
    assert_eq!(table.lines().count(), each.len());

    let problem = r#"[{"op": "mm", "b": 1, "m": 100, "n": 201, "k": 300, "dtype": "bfloat16"}]"#;
    sandbox.write("problems.json", problem);
    let exact = build(&sandbox, "sm_90", &["--problems", "problems.json", "--exact-sizes"]);
    assert_eq!(exact["kernels"], 4 + 1, "{exact}");
    let key = exact["failed"][0]["kernel"].as_str().unwrap();
    assert!(key.ends_with(";sizes=100x201x300"), "{key}");

    // For TF32, operands that do not run along K are copied in words of four bytes, even if they are
    // aligned.
    let tf32 = r#"[{"template": "triton::mm", "block_m": 64, "block_n": 64, "block_k": 32, "group_m": 8, "num_stages": 3,
        "num_warps": 4, "even_k": true, "allow_tf32": true, "use_fast_accum": false, "acc_type": "tl.float32"}]"#;
    sandbox
        .write("problems.json", r#"[{"op": "mm", "b": 1, "m": 64, "n": 64, "k": 64, "dtype": "float32"}]"#);
    let float = build_of(tf32, &sandbox, "sm_90", &["--problems", "problems.json"]);
    assert_eq!((&float["kernels"], &float["around"]), (&5.into(), &4.into()), "{float}");

    // AMD's code objects state where arguments lie. A pack can only be built if the launcher writes them
    // there.
    let amd = build(&sandbox, "gfx942", &["--ops", "mm,addmm,bmm"]);
    assert_eq!(amd["arch"], "gfx942");
    assert!(amd["kernels"].as_u64().unwrap() >= 4 + 8, "{amd}");
    #[cfg(target_os = "linux")]
    crate::standin::launch_compiled(&content(&sandbox.path("test.pack")), TILES);

    let error = sandbox.fails(1, &["collect", "--output", "a.msgpack.zst", "--kernels", "test.pack"]);
    let known =
        ["no AMD driver (ROCm's HIP library) on this node", "the AMD driver", "the pack is for gfx942"];
    assert!(known.iter().any(|words| error.contains(words)), "{error}");
    assert!(!sandbox.path("a.msgpack.zst").exists());

    let mut bytes = std::fs::read(sandbox.path("test.pack")).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    diode_formats::write_atomically(&sandbox.path("flipped.pack"), &bytes).unwrap();
    let error = sandbox.fails(1, &["kernels", "info", "flipped.pack"]);
    assert!(error.contains("flipped.pack: invalid kernel pack"), "{error}");
    diode_formats::write_atomically(&sandbox.path("cut.pack"), &bytes[..bytes.len() / 2]).unwrap();
    let error = sandbox.fails(1, &["collect", "--output", "a.msgpack.zst", "--kernels", "cut.pack"]);
    assert!(error.contains("cut.pack: truncated kernel pack"), "{error}");
}

#[test]
fn what_cannot_be_built_or_used_is_refused() {
    let sandbox = Sandbox::new();
    let error = sandbox.fails(1, &["kernels", "build", "--arch", "sm_1", "--out", "a.pack"]);
    assert!(error.contains("arch: got `sm_1`, expected sm_80 (A100), sm_90"), "{error}");
    let error = sandbox
        .fails(1, &["kernels", "build", "--arch", "sm_90", "--out", "a.pack", "--python", "/nowhere/python"]);
    assert!(error.contains("cannot start /nowhere/python"), "{error}");
    let error =
        sandbox.fails(2, &["kernels", "build", "--arch", "sm_90", "--out", "a.pack", "--exact-sizes"]);
    assert!(error.contains("required arguments were not provided"), "{error}");
    let odd = r#"[{"op": "mm", "b": 1, "m": 8, "n": 8, "k": 8, "dtype": "float8_e4m3fn"}]"#;
    sandbox.write("odd.json", odd);
    let error = sandbox
        .fails(1, &["kernels", "build", "--arch", "sm_90", "--out", "a.pack", "--problems", "odd.json"]);
    assert!(error.contains("mm of M×N×K = 8×8×8: kernels exist for float16, bfloat16"), "{error}");
    let error =
        sandbox.fails(2, &["kernels", "build", "--arch", "sm_90", "--out", "a.pack", "--dtypes", "int8"]);
    assert!(error.contains("kernels exist for float16, bfloat16 and float32, not for int8"), "{error}");
    sandbox.write("library.json", r#"[{"template": "aten"}]"#);
    let error = sandbox
        .fails(1, &["kernels", "build", "--arch", "sm_90", "--out", "a.pack", "--space", "library.json"]);
    assert!(error.contains("--alignments and --space, some do not go together"), "{error}");
    let error = sandbox.fails(1, &["kernels", "info", "missing.pack"]);
    assert!(error.contains("missing.pack: "), "{error}");
    sandbox.write("text.pack", "these are certainly no kernels, only a text of some length");
    let error = sandbox.fails(1, &["kernels", "info", "text.pack"]);
    assert!(error.contains("this is not a kernel pack"), "{error}");
    // The first message is for a node without a GPU, the others for a node with one but without packs.
    let error = sandbox.fails(1, &["collect", "--output", "a.msgpack.zst", "--backend", "cuda"]);
    let known = ["no NVIDIA driver", "the NVIDIA driver", "no kernels for sm_"];
    assert!(known.iter().any(|words| error.contains(words)), "{error}");
    let error = sandbox
        .fails(2, &["collect", "--output", "a.msgpack.zst", "--backend", "cpu", "--kernels", "text.pack"]);
    assert!(error.contains("packs are for GPUs"), "{error}");
}

/// A stand-in for Python. It greets like the compiler, then gives the test's answer for each kernel.
#[cfg(unix)]
fn compiler(sandbox: &Sandbox, name: &str, each: &str) -> String {
    use std::os::unix::fs::PermissionsExt;

    sandbox.write(
        name,
        &format!("#!/bin/sh\necho '{{\"triton\": \"3.6.0\"}}'\nwhile read line; do\n{each}\ndone\n"),
    );
    let path = sandbox.path(name);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_string_lossy().into_owned()
}

#[cfg(unix)]
#[test]
fn trouble_is_no_verdict_on_a_kernel() {
    let sandbox = Sandbox::new();
    sandbox.write("tiles.json", TILES);
    let arguments = ["kernels", "build", "--arch", "sm_90", "--space", "tiles.json", "--out", "a.pack"];
    let fails = |each: &str| {
        let python = compiler(&sandbox, "python", each);
        let error = sandbox.fails(1, &[&arguments[..], &["--python", &python]].concat());
        assert!(!sandbox.path("a.pack").exists(), "{error}");
        error
    };
    let full = fails(r#"echo '{"trouble": "OSError: No space left on device"}'"#);
    assert!(
        full.contains("cannot compile: OSError: No space left on device; what is compiled is kept"),
        "{full}"
    );
    let killed = fails("exit 1");
    assert!(
        killed.contains("the compiler crashed or hung, twice; every collection needs this kernel"),
        "{killed}"
    );
    let bad = fails(r#"echo '{"failed": "this is not so"}'"#);
    assert!(bad.contains("this is not so; every collection needs this kernel"), "{bad}");
}

#[test]
fn what_a_build_did_not_make_is_left_alone() {
    let sandbox = Sandbox::new();
    sandbox.write("notes.txt", "my notes");
    let build = ["kernels", "build", "--arch", "sm_90", "--out"];
    let error = sandbox.fails(1, &[&build[..], &["notes.txt"]].concat());
    assert!(error.contains("notes.txt: exists and is not a pack that can be replaced"), "{error}");
    let error = sandbox.fails(1, &[&build[..], &["."]].concat());
    assert!(error.contains("not a regular file"), "{error}");
    std::fs::create_dir(sandbox.path("a.pack.parts")).unwrap();
    sandbox.write("a.pack.parts/thesis", "precious");
    let error = sandbox.fails(1, &[&build[..], &["a.pack"]].concat());
    assert!(error.contains("a.pack.parts: exists and is not from a build"), "{error}");
    assert_eq!(std::fs::read(sandbox.path("a.pack.parts/thesis")).unwrap(), b"precious");
}
