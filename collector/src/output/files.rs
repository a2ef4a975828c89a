//! Writes results and protects the files that exist already.

use std::collections::HashSet;
use std::env;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use diode_formats::FileKind;

/// Refuses to overwrite a file without `force`: the file may have taken long to make. A folder, a device, or a link that
/// leads somewhere is never replaced.
pub(crate) fn check_may_write(path: &Path, force: bool) -> anyhow::Result<()> {
    if let Some(kind) = irregular(path) {
        bail!("{}: got {kind}, expected the name of a file", path.display());
    }
    if is_there(path) && !force {
        return Err(exists(path));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        bail!("{}: no such folder; create it first", folder.display());
    }
    diode_formats::check_writable(path).with_context(|| format!("cannot write {}", path.display()))
}

/// Whether a file has this name already, even if it is a link that leads nowhere.
pub(crate) fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// What has this name, if it is no regular file.
fn irregular(path: &Path) -> Option<&'static str> {
    let kind = path.symlink_metadata().ok()?.file_type();
    match () {
        () if kind.is_file() => None,
        () if kind.is_symlink() && !path.exists() => None,
        () if kind.is_symlink() => Some("a link, which is neither followed nor replaced"),
        () if kind.is_dir() => Some("a folder"),
        () => Some("a device or a pipe"),
    }
}

fn exists(path: &Path) -> anyhow::Error {
    anyhow::anyhow!("{} exists; add --force to replace it", path.display())
}

/// Refuses a result that would replace one of its inputs, even with `force`.
pub(crate) fn check_not_input<'a>(
    output: &Path,
    inputs: impl IntoIterator<Item = &'a PathBuf>,
) -> anyhow::Result<()> {
    let Ok(written) = output.canonicalize() else { return Ok(()) };
    if inputs.into_iter().any(|input| input.canonicalize().is_ok_and(|input| input == written)) {
        bail!("{}: got one of the inputs, expected another name for what is written", output.display());
    }
    Ok(())
}

/// Refuses a result that would replace timings, or any other kind of file that this project writes,
/// except `own`.
pub(crate) fn check_keeps(output: &Path, own: Option<FileKind>) -> anyhow::Result<()> {
    let there = diode_formats::read_head(output).ok().and_then(|head| diode_formats::recognise(&head));
    match there.filter(|there| Some(*there) != own) {
        Some(there) => bail!("{}: got {there}, expected a name where nothing is lost", output.display()),
        None => Ok(()),
    }
}

/// Refuses a report that would replace a file of another kind. `beginning` is how every such report begins.
pub(crate) fn check_replaces_report(output: &Path, beginning: &str) -> anyhow::Result<()> {
    check_keeps(output, None)?;
    let there = diode_formats::read_head(output).unwrap_or_default();
    if !there.is_empty() && !there.starts_with(beginning.as_bytes()) {
        bail!(
            "{}: got a file that is no report of this command, expected a name where nothing is lost",
            output.display()
        );
    }
    Ok(())
}

/// Refuses two results of one command under the same name.
pub(crate) fn check_distinct(outputs: &[&Path]) -> anyhow::Result<()> {
    let mut seen = HashSet::new();
    let twice = outputs.iter().find(|output| !seen.insert(std::path::absolute(output).ok()));
    match twice {
        Some(output) => bail!("{}: got one name for two results, expected two", output.display()),
        None => Ok(()),
    }
}

/// The user's folder that this variable names, or else this one below the home folder.
pub(crate) fn user_folder(variable: &str, below_home: &str) -> Option<PathBuf> {
    let given = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    given(variable).or_else(|| given("HOME").map(|home| home.join(below_home)))
}

/// Writes a file as a whole or not at all.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    diode_formats::write_atomically(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// Writes a file as a whole or not at all. Without `force`, what another program has put there meanwhile stays.
pub(crate) fn write_checked(path: &Path, bytes: &[u8], force: bool) -> anyhow::Result<()> {
    if force {
        return write(path, bytes);
    }
    match diode_formats::write_new(path, bytes) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(exists(path)),
        result => result.with_context(|| format!("cannot write {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_files_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        assert!(check_may_write(&path, false).is_ok());
        write(&path, b"1").unwrap();
        assert!(check_may_write(&path, false).unwrap_err().to_string().contains("--force"));
        assert!(check_may_write(&path, true).is_ok());
        assert!(check_may_write(&folder.path().join("no/model"), true).is_err());
    }

    #[test]
    fn a_report_replaces_a_report_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        for (there, is_replaced) in [("{\"shares\": 1}", true), ("", true), ("my notes", false)] {
            write(&path, there.as_bytes()).unwrap();
            assert_eq!(check_replaces_report(&path, "{").is_ok(), is_replaced, "{there}");
        }
        write(&path, b"{\"shapes\": []}").unwrap();
        let error = check_replaces_report(&path, "{").unwrap_err().to_string();
        assert!(error.contains("got a shape set"), "{error}");
        assert!(check_replaces_report(&folder.path().join("new.json"), "{").is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn only_a_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link, dead) =
            (folder.path().join("file"), folder.path().join("link.json"), folder.path().join("dead.json"));
        write(&file, b"kept").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        std::os::unix::fs::symlink("nowhere", &dead).unwrap();
        for (path, kind) in [
            (&*link, "got a link"),
            (folder.path(), "got a folder"),
            (Path::new("/dev/null"), "got a device or a pipe"),
        ] {
            for force in [false, true] {
                let said = check_may_write(path, force).unwrap_err().to_string();
                assert!(said.contains(kind), "{said}");
            }
        }
        assert!(check_may_write(&dead, false).unwrap_err().to_string().contains("exists; add --force"));
        assert!(check_may_write(&dead, true).is_ok());
        assert!(write_checked(&file, b"new", false).unwrap_err().to_string().contains("exists; add --force"));
        assert_eq!(std::fs::read(&file).unwrap(), b"kept");
        write_checked(&file, b"new", true).unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"new");
    }
}
