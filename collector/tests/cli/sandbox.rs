//! Runs the built `diode` like a user.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::Duration;

use diode_core::{Dataset, Method};

/// A temporary folder to run `diode` in.
pub(crate) struct Sandbox(tempfile::TempDir);

impl Sandbox {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_diode"));
        command.args(arguments).current_dir(self.0.path());
        for variable in ["DIODE_SERVER", "DIODE_TOKEN", "DIODE_CA"] {
            command.env_remove(variable);
        }
        // Keeps away the token of the developer who runs the tests.
        command.env("XDG_CONFIG_HOME", self.path("config"));
        // Keeps away the developer's kernel packs, too.
        command.env("XDG_CACHE_HOME", self.path("cache"));
        command.env("XDG_DATA_HOME", self.path("data"));
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs a command that must succeed. Returns its stdout.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command that must fail with `code` and print a single `error:` line. Returns that
    /// line.
    pub(crate) fn fails(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        let errors: Vec<&str> = text.lines().filter(|line| line.starts_with("error: ")).collect();
        assert_eq!(errors.len(), 1, "{arguments:?}: {text}");
        assert!(output.stdout.is_empty(), "{arguments:?} printed on stdout");
        errors[0].to_owned()
    }

    pub(crate) fn dataset(&self, name: &str) -> Dataset {
        let mut datasets = diode_formats::read_file(&self.path(name)).unwrap().datasets;
        assert_eq!(datasets.len(), 1);
        datasets.remove(0)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        diode_formats::write_atomically(&self.path(name), text.as_bytes()).unwrap();
    }
}

/// Waits until something holds, however long a busy machine takes. Fails if the process ends before.
pub(crate) fn wait_until(process: &mut Child, mut holds: impl FnMut() -> bool) {
    while !holds() {
        let ended = process.try_wait().unwrap();
        assert!(ended.is_none() || holds(), "it ended too early: {ended:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Checks what must hold of every dataset that the CPU backend writes.
pub(crate) fn assert_sound(dataset: &Dataset) {
    assert!(dataset.hardware.slug.as_str().starts_with("cpu-"), "{}", dataset.hardware.slug);
    dataset.hardware.validate().unwrap();
    for solution in &dataset.solutions {
        solution.validate(&dataset.configs).unwrap();
        assert_eq!(solution.method, Method::MEDIAN_WARM_WALL);
        assert!(solution.failures.is_empty(), "{}: {:?}", solution.problem.canonical(), solution.failures);
        assert!(!solution.times.is_empty());
        assert!(solution.repeats.as_ref().unwrap().iter().all(|&repeats| repeats >= 1));
        assert!(solution.minimum_ns.is_some() && solution.spread_ns.is_some());
    }
}

/// The contents of a file that must exist.
pub(crate) fn content(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}
