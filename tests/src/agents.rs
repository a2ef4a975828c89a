//! Runs agents as processes of their own.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use crate::diode_command;
use crate::programs::program;

/// An agent in a folder of its own. It is killed when dropped.
pub struct Agent {
    pub child: Child,
    pub folder: PathBuf,
}

impl Agent {
    pub fn start(folder: &Path, name: &str, server: &str, flags: &[&str]) -> anyhow::Result<Self> {
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder)?;
        let child = diode_command(&folder, &["agent", "--server", server, "--home", "home", "--name", name])?
            .args(["--health", "health.json"])
            .args(flags)
            .stderr(Stdio::inherit())
            .spawn()
            .context("cannot start diode")?;
        Ok(Self { child, folder })
    }

    /// Starts an agent whose times are made up.
    pub fn simulated(folder: &Path, name: &str, server: &str, seed: &str) -> anyhow::Result<Self> {
        Self::start(folder, name, server, &["--backend", "simulated", "--seed", seed])
    }

    /// Starts an agent by a line of shell, as a new user does: `diode` is on the path and has no settings
    /// yet.
    pub fn by_shell(folder: &Path, name: &str, line: &str) -> anyhow::Result<Self> {
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder)?;
        let programs = program("diode")?.parent().context("a folder")?.display().to_string();
        let path = std::env::var("PATH").unwrap_or_default();
        let child = std::process::Command::new("sh")
            // `exec` makes the agent replace the shell's process, so that signals reach the agent.
            .args(["-c", &format!("exec {line}")])
            .current_dir(&folder)
            .env_clear()
            .env("PATH", format!("{programs}:{path}"))
            .env("HOME", &folder)
            // Hides the GPU, which would lack kernels here. Every machine can measure its processor.
            .env("CUDA_VISIBLE_DEVICES", "")
            .stderr(Stdio::inherit())
            .spawn()
            .context("cannot start sh")?;
        Ok(Self { child, folder })
    }

    /// Sends SIGKILL, so the agent cannot give anything back.
    pub fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Sends SIGTERM. Returns the exit code.
    pub fn terminate(mut self) -> anyhow::Result<Option<i32>> {
        let told = std::process::Command::new("kill").arg(self.child.id().to_string()).status()?;
        ensure!(told.success(), "kill failed");
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(40) {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status.code());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        bail!("the agent has not ended 40 s after SIGTERM")
    }

    /// The contents of the agent's health file.
    pub fn health(&self) -> anyhow::Result<Value> {
        Ok(serde_json::from_slice(&std::fs::read(self.folder.join("health.json"))?)?)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How long to wait. A training beside other tests takes long on two cores.
const PATIENCE: Duration = Duration::from_secs(240);

/// Waits until `is_so` returns true. `what` describes this in the error.
pub fn until(what: &str, mut is_so: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let start = Instant::now();
    while !is_so().unwrap_or_default() {
        if start.elapsed() > PATIENCE {
            is_so().with_context(|| what.to_owned())?;
            bail!("waited {PATIENCE:?} in vain: {what}");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}
