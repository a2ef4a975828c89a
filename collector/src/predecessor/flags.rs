//! torch-diode's flags that several commands still accept.

use std::path::{Path, PathBuf};

use clap::{Arg, Args, Command, ValueEnum};

use crate::failure::Usage;

/// The commands that accept `--search-mode`. torch-diode passed its value to `torch.compile`; Diode
/// times kernels itself.
const WITH_SEARCH_MODE: [&str; 4] = ["collect", "collect-shapeset", "create-validation", "collect-and-train"];

/// Adds the flag to the commands above.
pub(crate) fn accept_search_mode(cli: Command) -> Command {
    let flag = || Arg::new("search_mode").long("search-mode").hide(true).value_parser(parse_search_mode);
    WITH_SEARCH_MODE.iter().fold(cli, |cli, name| cli.mut_subcommand(name, |command| command.arg(flag())))
}

/// Accepts the modes that time every config. For other modes, the error says what Diode does.
fn parse_search_mode(text: &str) -> Result<(), String> {
    if text.starts_with("max-autotune") {
        return Ok(());
    }
    Err("expected max-autotune: every config of the space is timed, without torch.compile; \
         choose fewer configs with --search-space DEFAULT"
        .to_owned())
}

/// torch-diode's two formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DatasetFormat {
    Json,
    Msgpack,
}

impl DatasetFormat {
    pub(crate) const fn extension(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Msgpack => "msgpack",
        }
    }

    /// The file to write. It gets this format's extension if it has none or has that of
    /// torch-diode's other format. Other extensions are refused.
    pub(crate) fn applied(format: Option<Self>, path: &Path) -> Result<PathBuf, Usage> {
        let Some(format) = format else { return Ok(path.to_owned()) };
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        match ending.as_deref() {
            Some(ending) if ending == format.extension() => Ok(path.to_owned()),
            None | Some("json" | "msgpack") => {
                let renamed = path.with_extension(format.extension());
                say!("note: writing {}, since --format is {}", renamed.display(), format.extension());
                Ok(renamed)
            }
            Some(_) => Err(Usage::new(format!(
                "{}: got --format {}, expected none, since the extension names another format",
                path.display(),
                format.extension()
            ))),
        }
    }
}

/// torch-diode counted rows of a batch; results never depend on it.
#[derive(Debug, Args)]
pub(crate) struct BatchSize {
    #[arg(long, hide = true, value_parser = crate::input::arguments::at_least_one)]
    batch_size: Option<usize>,
}

impl BatchSize {
    /// The value, for commands where it has an effect.
    pub(crate) fn get(&self) -> Option<usize> {
        self.batch_size
    }

    /// If the flag was given, prints that it has no effect, and what is done instead.
    pub(crate) fn mention(&self, instead: &str) {
        if self.batch_size.is_some() {
            say!("note: --batch-size changes nothing: {instead}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_decides_the_extension() {
        let applied = |format, name: &str| DatasetFormat::applied(format, Path::new(name));
        let (json, msgpack) = (Some(DatasetFormat::Json), Some(DatasetFormat::Msgpack));
        assert_eq!(applied(None, "a.x").unwrap(), Path::new("a.x"));
        assert_eq!(applied(msgpack, "d/a.json").unwrap(), Path::new("d/a.msgpack"));
        assert_eq!(applied(json, "a.JSON").unwrap(), Path::new("a.JSON"));
        assert!(applied(json, "a.msgpack.zst").unwrap_err().to_string().contains("--format json"));
    }

    #[test]
    fn only_modes_that_time_everything_are_accepted() {
        assert_eq!(parse_search_mode("max-autotune"), Ok(()));
        assert_eq!(parse_search_mode("max-autotune-no-cudagraphs"), Ok(()));
        assert!(parse_search_mode("reduce-overhead").unwrap_err().contains("--search-space DEFAULT"));
    }
}
