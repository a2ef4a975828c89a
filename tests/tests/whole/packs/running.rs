//! An agent that runs until it is told to end.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::node::Node;

/// An agent's process. It is killed when dropped.
pub(crate) struct Running {
    child: Child,
    said: PathBuf,
    health: PathBuf,
}

impl Running {
    pub(crate) fn start(node: &Node, mut command: Command) -> anyhow::Result<Self> {
        let (said, health) = (node.path().join("said"), node.path().join("health.json"));
        let child = command.arg("--health").arg(&health).stderr(File::create(&said)?).spawn()?;
        Ok(Self { child, said, health })
    }

    /// What the agent has written to stderr so far.
    pub(crate) fn said(&self) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(&self.said)?)
    }

    /// What the GPU is doing, according to the agent's health file.
    fn doing(&self) -> anyhow::Result<String> {
        let health: Value = serde_json::from_slice(&std::fs::read(&self.health)?)?;
        let devices = health["devices"].as_object().context("devices")?;
        let device = devices.values().next().context("a device")?;
        Ok(device["doing"].as_str().context("a text")?.to_owned())
    }

    pub(crate) fn until_doing(&mut self, what: &str) -> anyhow::Result<()> {
        self.until(what, |agent| Ok(agent.doing()? == what))
    }

    /// Waits until `is_so` returns true. `what` describes this in the error.
    pub(crate) fn until(
        &mut self,
        what: &str,
        is_so: impl Fn(&Self) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let start = Instant::now();
        while !is_so(self).unwrap_or_default() {
            if let Some(status) = self.child.try_wait()? {
                bail!("the agent has ended ({status}) before: {what}; {}", self.said()?);
            }
            ensure!(start.elapsed() < Duration::from_secs(300), "waited in vain: {what}; {}", self.said()?);
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Sends SIGTERM. Returns the exit code.
    pub(crate) fn terminate(&mut self) -> anyhow::Result<Option<i32>> {
        let told = Command::new("kill").arg(self.child.id().to_string()).status()?;
        ensure!(told.success(), "kill failed");
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(60) {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status.code());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        bail!("the agent has not ended 60 s after SIGTERM: {}", self.said()?)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
