//! A node whose GPUs are stand-ins.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use diode_core::Dataset;
use diode_standin::{Gpu, Script};

use crate::sandbox::{Sandbox, stderr};

/// Four tiles. The last one needs more shared memory than a launch may use without asking.
pub(super) const TILES: [[u32; 3]; 4] = [[32, 32, 32], [64, 64, 32], [64, 32, 64], [128, 128, 64]];

/// The vendor of a node's GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vendor {
    Nvidia,
    Amd,
}

impl Vendor {
    fn arch(self) -> &'static str {
        if self == Self::Nvidia { "sm_90" } else { "gfx942" }
    }

    /// The names under which `diode` looks for the driver, the management library and the multiplications.
    fn libraries(self) -> &'static [&'static str] {
        match self {
            Self::Nvidia => &["libcuda.so.1", "libnvidia-ml.so.1", "libcublas.so.13", "libcublasLt.so.13"],
            Self::Amd => &["libamdhip64.so.7", "libamd_smi.so.26", "libhipblaslt.so.1"],
        }
    }

    /// The driver's function that fills memory.
    pub(super) fn fill(self) -> &'static str {
        if self == Self::Nvidia { "cuMemsetD8Async" } else { "hipMemsetD8Async" }
    }

    /// A sound GPU.
    pub(super) fn gpu(self) -> Gpu {
        if self == Self::Nvidia { Gpu::h100() } else { Gpu::mi300x() }
    }
}

pub(super) struct Node {
    pub(super) sandbox: Sandbox,
    pub(super) vendor: Vendor,
}

impl Node {
    /// A node with one sound GPU, and a pack for some problems.
    pub(super) fn new(vendor: Vendor, problems: &str) -> Self {
        let tiles = TILES.map(|tile| config(tile, 2));
        Self::with_configs(vendor, problems, &tiles)
    }

    /// Like [`Self::new`], with a pack of these configs.
    pub(super) fn with_configs(vendor: Vendor, problems: &str, configs: &[String]) -> Self {
        let sandbox = Sandbox::new();
        sandbox.write("problems.json", problems);
        sandbox.write("tiles.json", &format!("[{}]", configs.join(",")));
        let node = Self::on(sandbox, vendor);
        let built = node.build("test.pack", "3.6.0", &[]);
        assert!(built.status.success(), "{}", stderr(&built));
        node
    }

    /// Builds a pack by a Python that has this version of Triton.
    pub(super) fn build(&self, pack: &str, triton: &str, more: &[&str]) -> Output {
        let python = format!("python-{triton}");
        let compiler = include_str!("compiler.py")
            .replace(r#"{"triton": "3.6.0"}"#, &format!(r#"{{"triton": "{triton}"}}"#));
        self.script(&python, &compiler);
        let build = [
            "kernels",
            "build",
            "--arch",
            self.vendor.arch(),
            "--problems",
            "problems.json",
            "--space",
            "tiles.json",
        ];
        let python = self.sandbox.path(&python);
        let to = ["--out", pack, "--python", python.to_str().unwrap()];
        self.sandbox.run(&[&build[..], &to, more].concat())
    }

    /// Writes a program.
    pub(super) fn script(&self, name: &str, text: &str) {
        self.sandbox.write(name, text);
        std::fs::set_permissions(self.sandbox.path(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A node with one sound GPU and with a pack that exists already.
    pub(super) fn with_pack(vendor: Vendor, pack: &[u8], tiles: &str, problems: &str) -> Self {
        let sandbox = Sandbox::new();
        sandbox.write("problems.json", problems);
        sandbox.write("tiles.json", tiles);
        diode_formats::write_atomically(&sandbox.path("test.pack"), pack).unwrap();
        Self::on(sandbox, vendor)
    }

    fn on(sandbox: Sandbox, vendor: Vendor) -> Self {
        let node = Self { sandbox, vendor };
        node.install(&standin());
        node
    }

    /// The script of a sound node.
    pub(super) fn sound(&self) -> Script {
        Script { pack: self.sandbox.path("test.pack"), gpus: vec![self.vendor.gpu()], rules: Vec::new() }
    }

    fn install(&self, library: &Path) {
        for name in self.vendor.libraries() {
            self.link(name, library);
        }
    }

    fn link(&self, name: &str, to: &Path) {
        let folder = self.sandbox.path("libraries");
        std::fs::create_dir_all(&folder).unwrap();
        let _ = std::fs::remove_file(folder.join(name));
        symlink(to, folder.join(name)).unwrap();
    }

    /// Replaces a library by a file that is not a library: 0 is the driver, 1 the management library.
    pub(super) fn spoil(&self, library: usize) {
        self.sandbox.write("spoiled", "no library");
        self.link(self.vendor.libraries()[library], &self.sandbox.path("spoiled"));
    }

    /// Removes a function from the libraries.
    pub(super) fn take_away(&self, function: &str) {
        let mut bytes = std::fs::read(standin()).unwrap();
        let name = [b"\0", function.as_bytes(), b"\0"].concat();
        let found: Vec<usize> = bytes
            .windows(name.len())
            .enumerate()
            .filter(|(_, part)| *part == name)
            .map(|(at, _)| at)
            .collect();
        assert!(!found.is_empty(), "the stand-in has no {function}");
        found.into_iter().for_each(|at| bytes[at + 1] = b'-');
        let lacking = self.sandbox.path("lacking.so");
        diode_formats::write_atomically(&lacking, &bytes).unwrap();
        self.install(&lacking);
    }

    /// Makes all libraries whole again.
    pub(super) fn repair(&self) {
        self.install(&standin());
    }

    /// The command `diode collect` on this node.
    pub(super) fn command(&self, script: &Script, more: &[&str]) -> Command {
        let usual =
            ["collect", "--output", "a.msgpack.zst", "--kernels", "test.pack", "--space", "tiles.json"];
        let problems = ["--problems", "problems.json"];
        self.program(script, &[&usual[..], &problems, more].concat())
    }

    /// Any command on this node.
    pub(super) fn program(&self, script: &Script, arguments: &[&str]) -> Command {
        self.sandbox.write("script.json", &serde_json::to_string(script).unwrap());
        for left in [Script::STARTS, Script::HOLDERS, Script::VIOLATIONS] {
            let _ = std::fs::remove_file(self.beside(left));
        }
        let mut command = self.sandbox.command(arguments);
        command
            .env(Script::VARIABLE, self.sandbox.path("script.json"))
            .env("LD_LIBRARY_PATH", self.sandbox.path("libraries"))
            .env("SOURCE_DATE_EPOCH", "1");
        command
    }

    pub(super) fn collect(&self, script: &Script, more: &[&str]) -> Output {
        let output = self.command(script, more).output().unwrap();
        let violations = std::fs::read_to_string(self.beside(Script::VIOLATIONS)).unwrap_or_default();
        assert!(violations.is_empty(), "kernels were launched wrongly: {violations}{}", stderr(&output));
        output
    }

    /// Runs a collection that must succeed.
    pub(super) fn collected(&self, script: &Script, more: &[&str]) -> Dataset {
        let output = self.collect(script, more);
        assert!(output.status.success(), "{}", stderr(&output));
        self.sandbox.dataset("a.msgpack.zst")
    }

    /// How many processes started the driver in the last collection.
    pub(super) fn starts(&self) -> u64 {
        std::fs::metadata(self.beside(Script::STARTS)).map_or(0, |file| file.len())
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.sandbox.path(&format!("script.json{name}"))
    }
}

/// A config in the form of a space's file.
pub(super) fn config([m, n, k]: [u32; 3], stages: u32) -> String {
    format!(
        r#"{{"template": "triton::mm", "block_m": {m}, "block_n": {n}, "block_k": {k}, "group_m": 8, "num_stages": {stages},
        "num_warps": 4, "even_k": false, "allow_tf32": false, "use_fast_accum": false, "acc_type": "tl.float32"}}"#
    )
}

/// The stand-in's library lies beside the tests that depend on it.
fn standin() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let library = tests.with_file_name("libdiode_standin.so");
    assert!(library.exists(), "{} was not built", library.display());
    library
}
