//! Builds the Python distributions `torch-diode`, `torch-diode-lib` and `torch-diode-models`.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::dist::{DIODE, Target, VERSION, ZIG, program, time_of_commit, without_paths, zig};
use crate::shell::environment;
use crate::shell::{self, command, exists, output, root, target_folder};

const MATURIN: &str = "maturin==1.16.0";
/// The oldest C library on which the wheels must run, as the names of wheels state it.
const MANYLINUX: &str = "manylinux_2_28";
/// A larger wheel contains something that it should not.
const MAX_BYTES: u64 = 6_000_000;
/// The same for the wheel that also has the program `diode`.
const MAX_BYTES_WITH_PROGRAM: u64 = 20_000_000;
/// The Pythons with which the wheels are tried, if they are installed.
const PYTHONS: [&str; 4] = ["python3.10", "python3.11", "python3.12", "python3.13"];

/// Builds every wheel into `target/wheels` and imports each in a fresh environment.
pub(crate) fn run() -> anyhow::Result<()> {
    let wheels = target_folder().join("wheels");
    if wheels.is_dir() {
        std::fs::remove_dir_all(&wheels)?;
    }
    let diode = program(DIODE, Target::X86_64, "release")?;
    build(&[(Target::X86_64, diode)], "release", &wheels)?;
    let built = built(&wheels)?;
    for python in PYTHONS {
        // A version manager may provide the command without a Python behind it.
        if exists(python) && output(command(python).arg("--version")).is_ok() {
            try_out(python, &built)?;
        } else {
            println!("{python}: not installed, not tried");
        }
    }
    Ok(())
}

/// Builds every wheel into a folder. The wheels of `torch-diode` carry the program `diode` of their target.
pub(crate) fn build(targets: &[(Target, PathBuf)], profile: &str, wheels: &Path) -> anyhow::Result<()> {
    let python = environment("wheel-python", &[MATURIN, ZIG], "maturin, ziglang")?;
    let zig = zig(&python)?;
    // The wheel for the tests is built without this time, because C libraries are compiled again
    // whenever it changes.
    let time = time_of_commit()?;
    for (target, diode) in targets {
        // Only the wheel of the root folder, `torch-diode`, takes the program.
        let _carried = Carried::new(diode)?;
        for folder in [root().to_owned(), root().join("python")] {
            let of =
                ["--profile", profile, "--zig", "--target", target.triple(), "--compatibility", MANYLINUX];
            shell::run(
                maturin(&python, &folder, wheels)
                    .args(of)
                    .env("SOURCE_DATE_EPOCH", &time)
                    .env("CARGO_ZIGBUILD_ZIG_PATH", &zig)
                    .env("CARGO_ENCODED_RUSTFLAGS", without_paths()?),
            )?;
        }
    }
    shell::run(
        command(&python)
            .args(["-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"])
            .arg(wheels)
            .arg(root().join("python/models"))
            .env("SOURCE_DATE_EPOCH", &time),
    )?;
    for wheel in built(wheels)? {
        let bytes = wheel.metadata()?.len();
        let most = if is_of(&wheel, WITH_PROGRAM) { MAX_BYTES_WITH_PROGRAM } else { MAX_BYTES };
        if bytes > most {
            bail!("{}: got {bytes} bytes, expected at most {most}", wheel.display());
        }
        println!("{}: {:.1} MB", wheel.display(), bytes as f64 / 1e6);
    }
    Ok(())
}

/// The wheel of this distribution has the program `diode`.
const WITH_PROGRAM: &str = "torch_diode-";

fn is_of(wheel: &Path, start: &str) -> bool {
    wheel.file_name().is_some_and(|file| file.to_string_lossy().starts_with(start))
}

/// The folder beside pyproject.toml whose `scripts` maturin puts into a wheel, so that pip installs them as programs. It
/// is there only while a wheel is built.
struct Carried(PathBuf);

impl Carried {
    fn new(program: &Path) -> anyhow::Result<Self> {
        let folder = Self(root().join("torch_diode._core.data"));
        let scripts = folder.0.join("scripts");
        std::fs::create_dir_all(&scripts)?;
        let name = program.file_name().context("a program has a name")?;
        std::fs::copy(program, scripts.join(name))
            .with_context(|| format!("cannot copy {}; is it built?", program.display()))?;
        Ok(folder)
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{}: {error}", self.0.display());
        }
    }
}

/// Builds `torch-diode` as `pip install .` does, but fast, for this machine only, and with the `diode` that is built already.
pub(crate) fn for_tests(python: &Path) -> anyhow::Result<PathBuf> {
    let wheels = target_folder().join("wheels-for-tests");
    let build = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir"];
    let mut pip = command(python);
    pip.args(build).arg(&wheels).arg(root());
    pip.env("MATURIN_PEP517_ARGS", "--profile dev --compatibility linux");
    pip.env("DIODE_PROGRAM", target_folder().join("debug/diode"));
    // The backend starts the `maturin` that is beside this Python.
    let beside = python.parent().map(Path::to_owned).into_iter();
    let path = std::env::var_os("PATH").unwrap_or_default();
    pip.env("PATH", std::env::join_paths(beside.chain(std::env::split_paths(&path)))?);
    shell::run(&mut pip)?;
    let mut built = built(&wheels)?;
    built.pop().context("maturin built no wheel")
}

pub(crate) fn maturin_requirement() -> &'static str {
    MATURIN
}

fn maturin(python: &Path, folder: &Path, out: &Path) -> std::process::Command {
    let mut maturin = command(python);
    maturin.args(["-m", "maturin", "build", "--out"]).arg(out).current_dir(folder);
    maturin
}

fn built(wheels: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(wheels).with_context(|| format!("cannot read {}", wheels.display()))?;
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "whl"));
    found.sort();
    Ok(found)
}

/// Installs the wheels into fresh environments without torch and without a compiler, and imports
/// them.
fn try_out(python: &str, wheels: &[PathBuf]) -> anyhow::Result<()> {
    let part = |name: &str| {
        wheels.iter().find(|wheel| is_of(wheel, name)).with_context(|| format!("no wheel of {name}"))
    };
    let models = part("torch_diode_models-")?;
    for (name, is_full) in [(WITH_PROGRAM, true), ("torch_diode_lib-", false)] {
        let folder = target_folder().join(format!("try-{python}"));
        if folder.is_dir() {
            std::fs::remove_dir_all(&folder)?;
        }
        shell::run(command(python).args(["-m", "venv"]).arg(&folder))?;
        let inside = folder.join("bin/python");
        let install = ["-m", "pip", "install", "--quiet", "--no-index", "--only-binary", ":all:"];
        shell::run(command(&inside).args(install).arg(part(name)?))?;
        let code = "import torch_diode as d; print(*d.get_model_info()['available_models'])";
        let found = output(command(&inside).args(["-c", code]))?;
        if found.trim().is_empty() == is_full {
            let expected = if is_full { "the released ones" } else { "none" };
            bail!("{name} in {python}: got the models {:?}, expected {expected}", found.trim());
        }
        if is_full {
            for arguments in runs_of_program(&folder.to_string_lossy()) {
                let (program, rest) = arguments.split_first().context("a program")?;
                let said = output(command(program).args(rest))?;
                expect_answer(&arguments, &said)?;
            }
        }
        shell::run(command(&inside).args(install).arg(models))?;
        let code = "import torch_diode_models as m; print(*m.list_available_models())";
        let found = output(command(&inside).args(["-c", code]))?;
        if found.trim().is_empty() {
            bail!("{name} with torch-diode-models in {python}: got no models");
        }
        println!("{python}: {} installs and imports", name.trim_end_matches('-').replace('_', "-"));
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(())
}

/// The ways to run the `diode` of an environment into which the wheel was installed.
pub(crate) fn runs_of_program(environment: &str) -> Vec<Vec<String>> {
    let inside = |program: &str| format!("{environment}/bin/{program}");
    let words = |program: String, rest: &[&str]| {
        std::iter::once(program).chain(rest.iter().map(|&word| word.to_owned())).collect()
    };
    vec![
        words(inside("diode"), &["--version"]),
        words(inside("python"), &["-m", "torch_diode", "--version"]),
        words(inside("torch-diode"), &["--version"]),
        words(inside("diode"), &["predict", "16x4096x4096", "--hardware", "nvidia-h200"]),
    ]
}

/// Refuses what a run of `diode` printed if it is neither its version nor a prediction.
pub(crate) fn expect_answer(arguments: &[String], said: &str) -> anyhow::Result<()> {
    let expected = if arguments.iter().any(|word| word == "--version") { VERSION } else { "16×4096×4096" };
    if !said.contains(expected) {
        bail!("{}: got {said:?}, expected {expected} in it", arguments.join(" "));
    }
    Ok(())
}
