use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::Address;
use crate::failure::Usage;

/// The file with a token for each server. Only its owner may read it.
pub(crate) struct TokenFile(PathBuf);

/// The contents of the file: tokens by the servers' addresses.
type Tokens = BTreeMap<String, String>;

impl TokenFile {
    /// The user's file. `None` if the system names no folder for a user's settings.
    pub(crate) fn find() -> Option<Self> {
        let given = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let base = given("XDG_CONFIG_HOME").or_else(|| given("HOME").map(|home| home.join(".config")));
        base.map(|base| Self(base.join("diode").join("tokens.json")))
    }

    /// The user's file, for commands that need it.
    pub(crate) fn needed() -> anyhow::Result<Self> {
        Self::find().context("neither XDG_CONFIG_HOME nor HOME is set, so there is no place for the token")
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The token for a server, if there is one.
    pub(crate) fn token(&self, server: &Address) -> anyhow::Result<Option<String>> {
        let token = self.read()?.remove(server.as_str());
        token.map(|token| checked(token, &self.0.display().to_string())).transpose()
    }

    /// Stores a token for a server. It replaces an earlier token.
    pub(crate) fn keep(&self, server: &Address, token: &str) -> anyhow::Result<()> {
        let mut tokens = self.read()?;
        tokens.insert(server.as_str().to_owned(), token.to_owned());
        self.write(&tokens)
    }

    /// Forgets the token for a server.
    pub(crate) fn forget(&self, server: &Address) -> anyhow::Result<()> {
        let mut tokens = self.read()?;
        tokens.remove(server.as_str());
        self.write(&tokens)
    }

    fn read(&self) -> anyhow::Result<Tokens> {
        let path = self.0.display();
        let text = match fs::read_to_string(&self.0) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Tokens::new()),
            other => other.with_context(|| format!("cannot read {path}"))?,
        };
        self.refuse_shared()?;
        // The error must not repeat the contents of the file.
        serde_json::from_str(&text).map_err(|_| {
            anyhow::anyhow!("{path}: expected what `diode login` writes; remove it and log in again")
        })
    }

    #[cfg(unix)]
    fn refuse_shared(&self) -> anyhow::Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.0.display();
        let mode = fs::metadata(&self.0).with_context(|| format!("cannot read {path}"))?.permissions().mode();
        if mode & 0o077 != 0 {
            bail!("{path}: others may read it ({:o}); run `chmod 600 {path}`", mode & 0o777);
        }
        Ok(())
    }

    #[cfg(not(unix))]
    fn refuse_shared(&self) -> anyhow::Result<()> {
        Ok(())
    }

    fn write(&self, tokens: &Tokens) -> anyhow::Result<()> {
        let unwritable = || format!("cannot write {}", self.0.display());
        if let Some(folder) = self.0.parent() {
            fs::create_dir_all(folder).with_context(unwritable)?;
        }
        let text = serde_json::to_vec_pretty(tokens).context("cannot encode the tokens as JSON")?;
        diode_formats::write_privately(&self.0, &text).with_context(unwritable)
    }
}

/// The token in `DIODE_TOKEN`.
pub(super) fn from_environment() -> anyhow::Result<Option<String>> {
    match std::env::var("DIODE_TOKEN") {
        Err(std::env::VarError::NotPresent) => Ok(None),
        Ok(token) if token.is_empty() => Ok(None),
        Ok(token) => checked(token, "DIODE_TOKEN").map(Some),
        Err(std::env::VarError::NotUnicode(_)) => checked(String::new(), "DIODE_TOKEN").map(Some),
    }
}

/// Refuses a text that is not a token, before it is sent anywhere.
pub(crate) fn checked(token: String, place: &str) -> anyhow::Result<String> {
    let plain = |rest: &str| rest.len() == 64 && rest.bytes().all(|b| b.is_ascii_hexdigit());
    if token.strip_prefix("diode_").is_some_and(plain) {
        return Ok(token);
    }
    Err(Usage::new(format!(
        "{place}: expected a token, `diode_` and 64 hex digits; get one by `diode login`"
    ))
    .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn tokens_are_kept_per_server_and_for_their_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile(folder.path().join("diode/tokens.json"));
        let (here, there) =
            (Address::parse("http://localhost:1").unwrap(), Address::parse("https://d").unwrap());
        assert_eq!(file.token(&here).unwrap(), None);
        let token = format!("diode_{}", "0".repeat(64));
        file.keep(&here, &token).unwrap();
        assert_eq!((file.token(&here).unwrap(), file.token(&there).unwrap()), (Some(token), None));
        assert_eq!(fs::metadata(file.path()).unwrap().permissions().mode() & 0o777, 0o600);
        file.forget(&here).unwrap();
        assert_eq!(file.token(&here).unwrap(), None);

        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o644)).unwrap();
        let error = file.token(&here).unwrap_err().to_string();
        assert!(error.contains("chmod 600"), "{error}");
    }

    #[test]
    fn what_is_no_token_is_not_repeated() {
        let error = checked("my password".to_owned(), "DIODE_TOKEN").unwrap_err();
        assert!(error.is::<Usage>() && !error.to_string().contains("my password"), "{error}");
    }
}
