//! A node whose GPU is a stand-in, with a pack for this GPU.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, ensure};
use diode_standin::{Gpu, Script};
use diode_tests::{Server, administrator_token, diode, diode_command, diode_json};

const COMPILER: &str = include_str!("../../../../collector/tests/cli/standin/compiler.py");
/// The names under which `diode` looks for NVIDIA's libraries.
const LIBRARIES: [&str; 4] = ["libcuda.so.1", "libnvidia-ml.so.1", "libcublas.so.13", "libcublasLt.so.13"];

/// A folder with a pack of the full space, and the files that make a stand-in GPU.
pub(crate) struct Node {
    folder: tempfile::TempDir,
    pub(crate) digest: String,
}

impl Node {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Self::with_layouts("nn")
    }

    /// Like [`Self::new`], with a pack for certain layouts of both matrices.
    pub(crate) fn with_layouts(layouts: &str) -> anyhow::Result<Self> {
        Self::with_kernels(&["--layouts", layouts])
    }

    /// Like [`Self::new`], with a pack that is built with these flags.
    pub(crate) fn with_kernels(flags: &[&str]) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let path = folder.path();
        std::fs::write(path.join("compiler"), COMPILER)?;
        std::fs::set_permissions(path.join("compiler"), std::fs::Permissions::from_mode(0o755))?;
        let compiler = path.join("compiler");
        let build = ["kernels", "build", "--arch", "sm_90", "--space", "full", "--out", "full.pack"];
        let python = ["--python", compiler.to_str().context("a path of text")?];
        diode(path, &[&build[..], flags, &python].concat())?;
        let info = diode_json(path, &["kernels", "info", "full.pack", "--json"])?;
        let digest = info["digest"].as_str().context("a digest")?.to_owned();
        // The GPU has memory for the smallest problems only, because the stand-in computes them on the CPU.
        let gpu = Gpu { memory: (1 << 30) + (69 << 20), l2_bytes: 16 << 10, ..Gpu::h100() };
        let script = Script { pack: path.join("full.pack"), gpus: vec![gpu], rules: Vec::new() };
        std::fs::write(path.join("script.json"), serde_json::to_vec(&script)?)?;
        std::fs::create_dir(path.join("libraries"))?;
        for name in LIBRARIES {
            symlink(standin()?, path.join("libraries").join(name))?;
        }
        std::fs::create_dir(path.join("server"))?;
        Ok(Self { folder, digest })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn server_folder(&self) -> PathBuf {
        self.path().join("server")
    }

    /// Changes the script of the stand-in GPU.
    pub(crate) fn change_script(&self, change: impl FnOnce(&mut Script)) -> anyhow::Result<()> {
        let path = self.path().join("script.json");
        let mut script = serde_json::from_slice(&std::fs::read(&path)?)?;
        change(&mut script);
        Ok(std::fs::write(path, serde_json::to_vec(&script)?)?)
    }

    /// Starts a server that has the pack.
    pub(crate) fn server(&self) -> anyhow::Result<Server> {
        let server = Server::start_with(&self.server_folder(), &["--no-worker"])?;
        let publish = ["kernels", "publish", "full.pack", "--server", server.url()];
        let refused = diode_command(self.path(), &publish)?.output()?;
        ensure!(
            !refused.status.success() && says(&refused).contains("needs an account"),
            "{}",
            says(&refused)
        );
        let token = administrator_token(&self.server_folder(), &server)?;
        let published = diode_command(self.path(), &publish)?.env("DIODE_TOKEN", &token).output()?;
        ensure!(published.status.success() && says(&published).contains("published"), "{}", says(&published));
        Ok(server)
    }

    /// A command that runs `diode` on the GPU, with a cache of its own and without a compiler.
    pub(crate) fn command(&self, cache: &str, arguments: &[&str]) -> anyhow::Result<Command> {
        let mut command = diode_command(self.path(), arguments)?;
        command
            .env("XDG_CACHE_HOME", self.path().join(cache))
            .env("LD_LIBRARY_PATH", self.path().join("libraries"))
            .env(Script::VARIABLE, self.path().join("script.json"))
            .env("PATH", "")
            .env_remove("DIODE_SERVER");
        Ok(command)
    }

    pub(crate) fn agent(&self, cache: &str, server: &Server, more: &[&str]) -> anyhow::Result<Output> {
        let usual = ["agent", "--server", server.url(), "--home", cache, "--once"];
        let lease = if more.contains(&"--lease") { &[][..] } else { &["--lease", "1s"] };
        Ok(self.command(cache, &[&usual[..], lease, more].concat())?.output()?)
    }

    pub(crate) fn cached(&self, cache: &str) -> PathBuf {
        self.path().join(cache).join(format!("diode/packs/pulled/{}.pack", self.digest))
    }
}

pub(crate) fn says(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Cargo puts the stand-in beside the tests that depend on it.
fn standin() -> anyhow::Result<PathBuf> {
    let library = std::env::current_exe()?.with_file_name("libdiode_standin.so");
    ensure!(library.exists(), "{} was not built", library.display());
    Ok(library)
}
