//! The Python distributions.

use anyhow::bail;

pub(crate) fn run() -> anyhow::Result<()> {
    bail!("there is no wheel yet: python/ comes with the torch.compile plug-in")
}
