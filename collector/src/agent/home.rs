use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use diode_core::hardware::Hardware;
use diode_core::ids::Digest;

use crate::failure::Usage;

/// The folder for what outlives an agent's process: the key that identifies it, and its unsent results.
pub(crate) struct Home {
    folder: PathBuf,
    key: String,
}

impl Home {
    /// Opens the given folder. Without one, opens the user's usual folder.
    pub(crate) fn open(given: Option<&Path>) -> anyhow::Result<Self> {
        let folder = match given {
            Some(folder) => folder.to_owned(),
            None => usual()?,
        };
        fs::create_dir_all(&folder).with_context(|| format!("--home: cannot make {}", folder.display()))?;
        let key = key(&folder.join("key"))?;
        Ok(Self { folder, key })
    }

    /// The key that tells a device from other devices of the account. It is the same whenever the agent starts
    /// in this folder.
    pub(crate) fn device_key(&self, hardware: &Hardware, number: usize) -> String {
        let name = format!("{} {} {number}", self.key, hardware.slug);
        Digest::of(name.as_bytes()).as_str()[..32].to_owned()
    }

    /// Where the results of a device are kept until they are sent.
    pub(crate) fn outbox(&self, hardware: &Hardware, number: usize) -> PathBuf {
        self.folder.join(format!("{}-{number}", hardware.slug))
    }
}

fn usual() -> anyhow::Result<PathBuf> {
    let given = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = given("XDG_STATE_HOME").or_else(|| given("HOME").map(|home| home.join(".local/state")));
    let base = base.ok_or_else(|| {
        Usage::new(
            "neither XDG_STATE_HOME nor HOME is set; say with --home where the agent may keep its results",
        )
    })?;
    Ok(base.join("diode/agent"))
}

/// Reads the key, or draws one. Only its owner may read it, because whoever has it can act as an agent without
/// an account.
fn key(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    match fs::read_to_string(path) {
        Ok(key) if key.parse::<Digest>().is_ok() => return Ok(key),
        Ok(_) => bail!("{shown}: expected 64 hex digits; remove it, and the agent counts as a new one"),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("cannot read {shown}")),
    }
    let mut drawn = [0; 32];
    getrandom::fill(&mut drawn).map_err(|error| anyhow!("the system gives no random numbers: {error}"))?;
    let key = Digest::of(&drawn);
    diode_formats::write_privately(path, key.as_str().as_bytes())
        .with_context(|| format!("cannot write {shown}"))?;
    Ok(key.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use diode_core::hardware::find;

    use super::*;

    #[cfg(unix)]
    #[test]
    fn the_key_is_for_its_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        Home::open(Some(folder.path())).unwrap();
        let mode = fs::metadata(folder.path().join("key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn devices_keep_their_keys() {
        let folder = tempfile::tempdir().unwrap();
        let h200 = find("nvidia-h200").unwrap();
        let key = |number| Home::open(Some(folder.path())).unwrap().device_key(&h200, number);
        assert_eq!(key(0), key(0));
        assert_ne!(key(0), key(1));
        let elsewhere = Home::open(Some(&folder.path().join("other"))).unwrap();
        assert_ne!(elsewhere.device_key(&h200, 0), key(0));
        diode_formats::write_atomically(&folder.path().join("key"), b"x").unwrap();
        assert!(
            Home::open(Some(folder.path())).err().unwrap().to_string().contains("expected 64 hex digits")
        );
    }
}
