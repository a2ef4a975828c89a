//! Kernel packs on their way from an administrator through the server to a GPU, which is a stand-in.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, ensure};
use diode_standin::{Gpu, Script};
use diode_tests::{Server, administrator_token, diode, diode_command, diode_json};
use serde_json::json;

const COMPILER: &str = include_str!("../../collector/tests/cli/standin/compiler.py");
/// The names under which `diode` looks for NVIDIA's libraries.
const LIBRARIES: [&str; 4] = ["libcuda.so.1", "libnvidia-ml.so.1", "libcublas.so.13", "libcublasLt.so.13"];

/// A folder with a pack of the full space, and what makes a GPU of it.
struct Node {
    folder: tempfile::TempDir,
    digest: String,
}

impl Node {
    fn new() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let path = folder.path();
        std::fs::write(path.join("compiler"), COMPILER)?;
        std::fs::set_permissions(path.join("compiler"), std::fs::Permissions::from_mode(0o755))?;
        let compiler = path.join("compiler");
        let build =
            ["kernels", "build", "--arch", "sm_90", "--space", "full", "--out", "full.pack", "--python"];
        diode(path, &[&build[..], &[compiler.to_str().context("a path of text")?]].concat())?;
        let info = diode_json(path, &["kernels", "info", "full.pack", "--json"])?;
        let digest = info["digest"].as_str().context("a digest")?.to_owned();
        // A GPU with room for the smallest problems only: the stand-in computes them on the CPU.
        let gpu = Gpu { memory: (1 << 30) + (72 << 20), l2_bytes: 16 << 10, ..Gpu::h100() };
        let script = Script { pack: path.join("full.pack"), gpus: vec![gpu], rules: Vec::new() };
        std::fs::write(path.join("script.json"), serde_json::to_vec(&script)?)?;
        std::fs::create_dir(path.join("libraries"))?;
        for name in LIBRARIES {
            symlink(standin()?, path.join("libraries").join(name))?;
        }
        std::fs::create_dir(path.join("server"))?;
        Ok(Self { folder, digest })
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn server_folder(&self) -> PathBuf {
        self.path().join("server")
    }

    /// A server that has the pack.
    fn server(&self) -> anyhow::Result<Server> {
        let server = Server::start_with(&self.server_folder(), &["--no-worker"])?;
        let publish = ["kernels", "publish", "full.pack", "--server", server.url()];
        let refused = diode_command(self.path(), &publish)?.output()?;
        ensure!(
            !refused.status.success() && says(&refused).contains("needs an account"),
            "{}",
            says(&refused)
        );
        let token = administrator_token(&self.server_folder(), &server)?;
        let published = diode_command(self.path(), &publish)?.env("DIODE_TOKEN", token).output()?;
        ensure!(published.status.success() && says(&published).contains("published"), "{}", says(&published));
        Ok(server)
    }

    /// `diode` on the GPU, with a cache of its own and nothing that could compile.
    fn command(&self, cache: &str, arguments: &[&str]) -> anyhow::Result<Command> {
        let mut command = diode_command(self.path(), arguments)?;
        command
            .env("XDG_CACHE_HOME", self.path().join(cache))
            .env("LD_LIBRARY_PATH", self.path().join("libraries"))
            .env(Script::VARIABLE, self.path().join("script.json"))
            .env("PATH", "")
            .env_remove("DIODE_SERVER");
        Ok(command)
    }

    fn agent(&self, cache: &str, server: &Server, more: &[&str]) -> anyhow::Result<Output> {
        let usual = ["agent", "--server", server.url(), "--home", cache, "--once", "--lease", "1s"];
        Ok(self.command(cache, &[&usual[..], more].concat())?.output()?)
    }

    fn cached(&self, cache: &str) -> PathBuf {
        self.path().join(cache).join(format!("diode/packs/pulled/{}.pack", self.digest))
    }
}

fn says(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The stand-in lies beside the tests that depend on it.
fn standin() -> anyhow::Result<PathBuf> {
    let library = std::env::current_exe()?.with_file_name("libdiode_standin.so");
    ensure!(library.exists(), "{} was not built", library.display());
    Ok(library)
}

#[test]
fn an_agent_with_nothing_gets_a_pack_and_its_results_are_accepted() -> anyhow::Result<()> {
    let node = Node::new()?;
    let server = node.server()?;
    let output = node.agent("one", &server, &[])?;
    let said = says(&output);
    ensure!(output.status.success(), "{said}");
    ensure!(said.contains("pulling the kernel pack") && said.contains("1 pack of the server"), "{said}");
    ensure!(node.cached("one").exists(), "{said}");
    let agents = server.get("/api/v1/agents")?;
    ensure!(agents[0]["measured"].as_u64() > Some(0), "{agents} {said}");
    assert_eq!(agents[0]["hardware"], json!("nvidia-h100"));
    ensure!(!said.contains("was built without"), "it was asked for what the pack lacks: {said}");
    let id = agents[0]["id"].as_str().context("id")?;
    let detail = server.get(&format!("/api/v1/agents/{id}"))?;
    assert_eq!(detail["ability"]["variants"], json!(["mm;bfloat16;row,row;bias=none;align=16,16,16"]));
    let table = server.get("/api/v1/tables/nvidia-h100.json")?.to_string();
    ensure!(table.contains("triton::mm"), "{table:.300}");

    // The pack is here now, so it is not pulled again.
    let again = node.agent("one", &server, &[])?;
    ensure!(again.status.success() && !says(&again).contains("pulling"), "{}", says(&again));

    // An agent runs packs of its server only where it may.
    let forbidden = node.agent("two", &server, &["--no-server-packs"])?;
    assert_eq!(forbidden.status.code(), Some(1));
    ensure!(says(&forbidden).contains("no kernels for sm_90"), "{}", says(&forbidden));
    ensure!(!node.cached("two").exists());
    people_get_it_too(&node, &server)
}

/// `collect` takes the pack of the cache, else that of the server, and says which.
fn people_get_it_too(node: &Node, server: &Server) -> anyhow::Result<()> {
    let problems = r#"[{"op": "mm", "b": 1, "m": 16, "n": 32, "k": 32, "dtype": "bfloat16"}]"#;
    std::fs::write(node.path().join("problems.json"), problems)?;
    let collect = |cache: &str, name: &str, more: &[&str]| -> anyhow::Result<Output> {
        let usual = ["collect", "--output", name, "--problems", "problems.json"];
        Ok(node.command(cache, &[&usual[..], more].concat())?.output()?)
    };
    let cached = collect("one", "a.msgpack.zst", &[])?;
    ensure!(cached.status.success(), "{}", says(&cached));
    ensure!(says(&cached).contains(&format!("pack {:.12}, cached", node.digest)), "{}", says(&cached));
    let none = collect("three", "b.msgpack.zst", &[])?;
    assert_eq!(none.status.code(), Some(1));
    ensure!(says(&none).contains("no kernels for sm_90: none are cached"), "{}", says(&none));
    let pulled = collect("three", "b.msgpack.zst", &["--server", server.url()])?;
    ensure!(pulled.status.success(), "{}", says(&pulled));
    ensure!(says(&pulled).contains(&format!("pack {:.12} of http://", node.digest)), "{}", says(&pulled));
    let listed = node.command("four", &["kernels", "pull", "--server", server.url()])?.output()?;
    ensure!(listed.status.success() && node.cached("four").exists(), "{}", says(&listed));
    Ok(())
}

#[test]
fn a_tampered_pack_is_refused() -> anyhow::Result<()> {
    let node = Node::new()?;
    let server = node.server()?;
    let mut files = std::fs::read_dir(node.server_folder().join("diode-data/packs"))?;
    let file = files.next().context("the server's file")??.path();
    let mut bytes = std::fs::read(&file)?;
    *bytes.last_mut().context("a byte")? ^= 1;
    std::fs::write(&file, bytes)?;
    let output = node.agent("one", &server, &[])?;
    assert_eq!(output.status.code(), Some(1), "{}", says(&output));
    ensure!(says(&output).contains("is refused: it is not what its digest names"), "{}", says(&output));
    ensure!(!node.cached("one").exists());
    let agents = server.get("/api/v1/agents")?;
    assert_eq!((&agents[0]["measured"], &agents[0]["lease"]), (&json!(0), &json!(null)), "{agents}");
    let pull = node.command("two", &["kernels", "pull", "--server", server.url()])?.output()?;
    assert_eq!(pull.status.code(), Some(1), "{}", says(&pull));
    Ok(())
}
