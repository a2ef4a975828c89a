//! Finds or makes the Python that runs Triton.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use diode_formats::write_atomically;

/// The version of Triton that the kernels are written for. Other versions compile other code, whose times
/// could not be compared.
pub(crate) const TRITON: &str = "3.6.0";

/// The Python sources that this program contains. A build writes them into its folder.
const SOURCES: [(&str, &str); 3] = [
    ("matmul.py", include_str!("../../kernels/matmul.py")),
    ("support.py", include_str!("../../kernels/support.py")),
    ("compile.py", include_str!("../../kernels/compile.py")),
];

/// A Python that can import Triton, and the script that it runs.
#[derive(Debug, Clone)]
pub(crate) struct Python {
    pub(crate) program: PathBuf,
    pub(crate) script: PathBuf,
}

impl Python {
    /// Writes the sources into `folder`. Without `program`, makes a virtual environment with the pinned
    /// Triton, once for all builds.
    pub(crate) fn prepare(program: Option<&Path>, folder: &Path) -> anyhow::Result<Self> {
        for (name, text) in SOURCES {
            let path = folder.join(name);
            write_atomically(&path, text.as_bytes())
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        let program = match program {
            Some(program) => program.to_owned(),
            None => environment()?,
        };
        Ok(Self { program, script: folder.join("compile.py") })
    }
}

/// All sources as one text. If a kernel changes, the text changes, and a new build begins.
pub(crate) fn sources() -> String {
    SOURCES.iter().flat_map(|(name, text)| [*name, "\n", *text, "\n"]).collect()
}

/// A Python on this node with the Triton that the kernels are written for: the environment of an earlier
/// build, or the system's Python. `None` if there is none. Nothing is installed.
pub(super) fn installed() -> anyhow::Result<Option<PathBuf>> {
    let folder = cache_folder()?.join(format!("triton-{TRITON}"));
    if folder.join("ready").exists() {
        return Ok(Some(folder.join("bin").join("python")));
    }
    let asked = Command::new("python3")
        .args(["-c", "import triton; print(triton.__version__)"])
        .stdin(Stdio::null())
        .output();
    let found = asked.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == TRITON);
    Ok(found.then(|| PathBuf::from("python3")))
}

fn environment() -> anyhow::Result<PathBuf> {
    let folder = cache_folder()?.join(format!("triton-{TRITON}"));
    let program = folder.join("bin").join("python");
    let ready = folder.join("ready");
    if ready.exists() {
        return Ok(program);
    }
    say!("making a Python environment with triton {TRITON} in {} (once)", folder.display());
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder)).context(
        "install Python 3.10 or newer with its venv module, or name one that has triton with --python",
    )?;
    run(Command::new(&program).args(["-m", "pip", "install", "--quiet", &format!("triton=={TRITON}")]))
        .context(
            "cannot install triton; on a machine without network, name a Python that has it with --python",
        )?;
    write_atomically(&ready, b"").with_context(|| format!("cannot write {}", ready.display()))?;
    Ok(program)
}

/// The user's folder for files that can be made or fetched again.
pub(super) fn cache_folder() -> anyhow::Result<PathBuf> {
    let given = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = given("XDG_CACHE_HOME").or_else(|| given("HOME").map(|home| home.join(".cache")));
    let folder = base
        .context("neither XDG_CACHE_HOME nor HOME is set, so there is no place for packs and compilers")?
        .join("diode");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let name = command.get_program().to_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {name:?}"))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        bail!("{name:?} failed: {}", words.lines().rfind(|line| !line.is_empty()).unwrap_or("no message"));
    }
    Ok(())
}
