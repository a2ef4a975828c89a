//! Reads `diode.toml`, says where each value comes from, and writes the reference.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use clap::builder::Resettable;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args as _, Command, FromArgMatches as _};
use toml::de::{DeTable, DeValue};

use super::{Settings, WrongSetting};
use crate::accounts::Policy;
use crate::blobs::BlobPlace;

const DEFAULT_CONFIG: &str = "diode.toml";

/// The flag that names the file, which no file can have a line for.
const CONFIG: &str = "config";

/// The lines of a settings file, by their keys, such as `access.sign_ups`.
#[derive(Debug, Default)]
pub struct SettingsFile {
    path: PathBuf,
    values: BTreeMap<String, Vec<String>>,
}

impl SettingsFile {
    /// Reads the file that `matches` name, or else `diode.toml`, if there is one.
    pub fn read(matches: &ArgMatches) -> Result<Self, WrongSetting> {
        // A command that opens no data takes no settings.
        let Ok(named) = matches.try_get_one::<PathBuf>(CONFIG) else { return Ok(Self::default()) };
        let path = match named {
            Some(path) => path.as_path(),
            None if Path::new(DEFAULT_CONFIG).exists() => Path::new(DEFAULT_CONFIG),
            None => return Ok(Self::default()),
        };
        let text = std::fs::read_to_string(path).with_context(|| format!("settings {}", path.display()));
        text.and_then(|text| Self::parse(path, &text)).map_err(WrongSetting)
    }

    /// A line may contain a password, so errors about the form of the file give its number but not its text.
    fn parse(path: &Path, text: &str) -> anyhow::Result<Self> {
        let place = |start: usize| {
            let line = 1 + text[..start].matches('\n').count();
            format!("settings {}, line {line}", path.display())
        };
        let table = DeTable::parse(text).map_err(|error| {
            anyhow!("{}: {}", place(error.span().map_or(0, |span| span.start)), error.message())
        })?;
        let mut lines = Vec::new();
        for (key, value) in table.get_ref() {
            match value.get_ref() {
                DeValue::Table(section) => lines.extend(
                    section
                        .iter()
                        .map(|(name, value)| (format!("{}.{}", key.get_ref(), name.get_ref()), value)),
                ),
                _ => lines.push((key.get_ref().to_string(), value)),
            }
        }
        let (known, mut values) = (command(), BTreeMap::new());
        for (key, value) in lines {
            let read = read_line(&known, &key, value.get_ref());
            values.insert(key, read.with_context(|| place(value.span().start))?);
        }
        Ok(Self { path: path.to_owned(), values })
    }

    /// The same command, with the lines of the file as the defaults of its flags.
    pub fn under(&self, command: Command) -> Command {
        let with_line = |arg: Arg| match self.values.get(arg.get_id().as_str()) {
            // The parser of flags keeps its defaults for good, and the file is read once in the life of a program.
            Some(values) => arg.default_values(values.iter().map(|value| &*value.clone().leak())),
            None => arg,
        };
        command.mut_args(with_line).mut_subcommands(|subcommand| self.under(subcommand))
    }
}

/// A parser of all settings and nothing else.
fn command() -> Command {
    Settings::augment_args(Command::new("settings")).mut_args(|arg| arg.env(Resettable::Reset))
}

fn settings(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| arg.get_id() != CONFIG)
}

/// The values of a line, once the parser of its flag has accepted them.
fn read_line(known: &Command, key: &str, value: &DeValue<'_>) -> anyhow::Result<Vec<String>> {
    let Some(arg) = settings(known).find(|arg| arg.get_id() == key) else {
        let section = key.rsplit_once('.').map(|(section, _)| section);
        let beside = settings(known).map(|arg| arg.get_id().as_str());
        let beside: Vec<_> =
            beside.filter(|other| other.rsplit_once('.').map(|(section, _)| section) == section).collect();
        if beside.is_empty() {
            bail!("unknown section `{}`", section.unwrap_or(key));
        }
        bail!("unknown setting `{key}`, expected one of {}", beside.join(", "));
    };
    let given = match value {
        DeValue::Array(values) if matches!(arg.get_action(), ArgAction::Append) => {
            values.iter().map(|value| text_of(value.get_ref())).collect()
        }
        value => text_of(value).map(|text| vec![text]),
    };
    let given: Vec<String> = given.with_context(|| format!("{key}: expected a single value"))?;
    let long = arg.get_long().unwrap_or_default();
    let flags: Vec<String> = match arg.get_action() {
        ArgAction::SetTrue => match given[0].as_str() {
            "true" | "false" => Vec::new(),
            other => bail!("{key}: got `{other}`, expected true or false"),
        },
        _ => given.iter().map(|value| format!("--{long}={value}")).collect(),
    };
    let alone = Command::new("settings").no_binary_name(true).arg(arg.clone());
    if let Err(error) = alone.try_get_matches_from(flags) {
        let expected: Vec<_> =
            arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
        match std::error::Error::source(&error).map(ToString::to_string) {
            Some(said) if said.starts_with("got ") => bail!("{key}: {said}"),
            Some(said) => bail!("{key}: got `{}`: {said}", given.join(", ")),
            None if error.kind() == ErrorKind::InvalidValue && !expected.is_empty() => {
                bail!("{key}: got `{}`, expected one of {}", given.join(", "), expected.join(", "))
            }
            None => bail!("{key}: {error}"),
        }
    }
    Ok(given)
}

fn text_of(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.to_string()),
        DeValue::Boolean(is_on) => Some(is_on.to_string()),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

/// A setting in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// The setting's name in `diode.toml`, with the section: `access.sign_ups`.
    pub name: String,
    pub value: String,
    /// Where the value comes from.
    pub why: String,
}

/// Every setting that `matches` have read, and where its value comes from: a flag, a variable, the file or the
/// default.
pub fn explain(matches: &ArgMatches, file: &SettingsFile) -> anyhow::Result<Vec<Explained>> {
    let read = Settings::from_arg_matches(matches)?;
    read.check()?;
    let has_bucket = matches!(read.data.place()?, BlobPlace::Bucket(_));
    let found = found_out(&read);
    let explained = |arg: &Arg| {
        let id = arg.get_id().as_str();
        let given = || -> Option<String> {
            let values = matches.get_raw(id)?.map(|value| value.to_string_lossy());
            Some(values.collect::<Vec<_>>().join(", "))
        };
        let found = found.iter().find(|(name, _)| *name == id).map(|(_, value)| value.clone());
        let why = match matches.value_source(id) {
            Some(ValueSource::CommandLine) => format!("--{}", arg.get_long().unwrap_or_default()),
            Some(ValueSource::EnvVariable) => {
                arg.get_env().unwrap_or_default().to_string_lossy().into_owned()
            }
            _ if file.values.contains_key(id) => file.path.display().to_string(),
            _ => "default".to_owned(),
        };
        let value = found.or_else(given).unwrap_or_else(|| "none".to_owned());
        Explained { name: id.to_owned(), value, why }
    };
    let command = Settings::augment_args(Command::new("settings"));
    let asked = settings(&command).filter(|arg| has_bucket || !arg.get_id().as_str().starts_with("s3."));
    Ok(asked.map(explained).collect())
}

/// The values in force that depend on other settings, or of which not all may be shown.
fn found_out(read: &Settings) -> Vec<(&'static str, String)> {
    let Policy { sign_ups, anonymous, lead, public_url, limits, .. } =
        read.serving.access.policy(read.serving.listen);
    let number = |limit: Option<u64>| limit.map_or_else(|| "any number".to_owned(), |it| it.to_string());
    let mut found = vec![
        ("database_url", without_password(&read.data.database_url)),
        ("access.public_url", public_url),
        ("access.sign_ups", sign_ups.to_string()),
        ("access.anonymous", anonymous.to_string()),
        ("access.lead", lead.to_string()),
        ("limits.uploads_per_minute", number(limits.uploads)),
        ("limits.changes_per_minute", number(limits.changes)),
        ("limits.exports_per_minute", number(limits.exports)),
    ];
    if let Ok(Some(provider)) = read.serving.openid.provider() {
        found.push(("openid.label", provider.label));
    }
    if let Ok(BlobPlace::Bucket(bucket)) = read.data.place() {
        found.push(("s3.endpoint", bucket.endpoint.unwrap_or_else(|| "Amazon's".to_owned())));
        found.push(("s3.path_style", bucket.path_style.to_string()));
        let public = || "the public ones".to_owned();
        found.push(("s3.ca", bucket.ca.map_or_else(public, |file| file.display().to_string())));
    }
    found
}

/// The table of all settings in `docs/reference/settings.md`.
pub fn reference() -> String {
    let command = Settings::augment_args(Command::new("settings"));
    let mut table = String::from("| flag | variable | `diode.toml` | default | |\n|---|---|---|---|---|\n");
    for arg in command.get_arguments() {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let (help, default) = match help.strip_suffix(']').and_then(|help| help.rsplit_once(" [default")) {
            Some((help, default)) => (help.to_owned(), default.trim_start_matches(": ").trim().to_owned()),
            None => {
                let values = arg.get_default_values().iter().map(|value| value.to_string_lossy());
                let default = match values.collect::<Vec<_>>().join(", ") {
                    _ if matches!(arg.get_action(), ArgAction::SetTrue) => "no".to_owned(),
                    none if none.is_empty() => "none".to_owned(),
                    value => format!("`{value}`"),
                };
                (help, default)
            }
        };
        let takes = arg.get_value_names().filter(|_| arg.get_action().takes_values());
        let takes = takes.map(|names| format!(" {}", names.join(" "))).unwrap_or_default();
        let flag = format!("--{}{takes}", arg.get_long().unwrap_or_default()).replace('|', "\\|");
        let variable = arg.get_env().unwrap_or_default().to_string_lossy();
        let key = match arg.get_id().as_str() {
            CONFIG => String::new(),
            id => match id.split_once('.') {
                Some((section, key)) => format!("`{key}` under `[{section}]`"),
                None => format!("`{id}`"),
            },
        };
        table += &format!("| `{flag}` | `{variable}` | {key} | {default} | {help} |\n");
    }
    table
}

/// A URL without its password, which may stand before the host or among the parameters.
pub(crate) fn without_password(url: &str) -> String {
    let (address, parameters) = match url.split_once('?') {
        Some((address, parameters)) => (address, Some(parameters)),
        None => (url, None),
    };
    let split = || {
        let (scheme, rest) = address.split_once("://")?;
        let (who, host) = rest.rsplit_once('@')?;
        let (user, _) = who.split_once(':')?;
        Some(format!("{scheme}://{user}:…@{host}"))
    };
    let mut shown = split().unwrap_or_else(|| address.to_owned());
    for (place, parameter) in parameters.iter().flat_map(|all| all.split('&')).enumerate() {
        let name = parameter.split('=').next().unwrap_or_default();
        shown.push(if place == 0 { '?' } else { '&' });
        shown += &if name.contains("password") { format!("{name}=…") } else { parameter.to_owned() };
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = "tests/settings/diode.toml";

    /// Without variables: this machine may have some of them, such as those of Amazon's tools.
    fn explained(arguments: &[&str]) -> Vec<Explained> {
        let parse = |command: Command| command.no_binary_name(true).get_matches_from(arguments);
        let file = SettingsFile::read(&parse(command())).unwrap();
        explain(&parse(file.under(command())), &file).unwrap()
    }

    fn of<'a>(all: &'a [Explained], name: &str) -> (&'a str, &'a str) {
        let found = all.iter().find(|one| one.name == name).unwrap();
        (&found.value, &found.why)
    }

    #[test]
    fn passwords_are_left_out_of_urls() {
        for (url, shown) in [
            ("sqlite:diode.db", "sqlite:diode.db"),
            ("postgres://ada@db/diode", "postgres://ada@db/diode"),
            ("postgres://ada:a@b@db/diode", "postgres://ada:…@db/diode"),
            (
                "postgres://ada@db/d?password=secret&sslmode=require",
                "postgres://ada@db/d?password=…&sslmode=require",
            ),
            ("postgres://db/d?user=ada&password=s?e", "postgres://db/d?user=ada&password=…"),
            ("postgres://ada:p@db/d?sslmode=require", "postgres://ada:…@db/d?sslmode=require"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }

    #[test]
    fn each_value_says_where_it_comes_from() {
        let all = explained(&[
            "--config",
            EXAMPLE,
            "--database-url",
            "postgres://ada:secret@db/diode",
            "--behind-proxy",
            "--public-url",
            "https://d.example",
            "--auto-train",
            "off",
        ]);
        let of = |name: &str| of(&all, name);
        assert_eq!(of("listen"), ("127.0.0.1:9090", EXAMPLE));
        assert_eq!(of("database_url"), ("postgres://ada:…@db/diode", "--database-url"));
        assert_eq!(of("access.sign_ups"), ("closed", EXAMPLE));
        assert_eq!(of("access.behind_proxy"), ("true", "--behind-proxy"));
        assert_eq!(of("limits.uploads_per_minute"), ("1200", "default"));
        assert_eq!(of("training.automatic"), ("off", "--auto-train"));
        assert_eq!(of("training.pause_minutes"), ("60", "default"));
        assert_eq!(of("accept_simulated"), ("false", "default"));
        assert!(all.iter().all(|one| !one.value.contains("secret")));
    }

    #[test]
    fn a_bucket_says_how_it_is_reached() {
        let all = explained(&["--blobs", "s3://timings/x", "--s3-endpoint", "https://s3.example.org"]);
        let of = |name: &str| of(&all, name);
        assert_eq!(of("blobs"), ("s3://timings/x", "--blobs"));
        assert_eq!(of("s3.endpoint"), ("https://s3.example.org", "--s3-endpoint"));
        assert_eq!(of("s3.path_style"), ("true", "default"));
        assert!(explained(&[]).iter().all(|one| !one.name.starts_with("s3.")));
    }

    #[test]
    fn what_a_file_gets_wrong_is_named_with_its_line() {
        for (text, expected) in [
            ("listen = \"8080\"", "line 1: listen: got `8080`, expected an address such as 127.0.0.1:8080"),
            ("\nlissen = \"a\"", "line 2: unknown setting `lissen`, expected one of listen, hosts,"),
            ("[axess]\nsign_ups = \"open\"", "line 2: unknown section `axess`"),
            ("[access]\nsign_up = \"open\"", "expected one of access.public_url, access.tls_certificate,"),
            ("[access]\nsign_ups = \"all\"", "got `all`, expected one of open, invitation, closed"),
            ("[access]\nbehind_proxy = 1", "access.behind_proxy: got `1`, expected true or false"),
            ("[training]\nautomatic = \"maybe\"", "training.automatic: got `maybe`, expected on or off"),
            ("max_stored_mb = \"much\"", "max_stored_mb: got `much`: invalid digit"),
            ("max_stored_mb = [1, 2]", "max_stored_mb: expected a single value"),
            ("config = \"a\"", "unknown setting `config`"),
        ] {
            let error = format!("{:#}", SettingsFile::parse(Path::new("d.toml"), text).unwrap_err());
            assert!(error.starts_with("settings d.toml, line ") && error.contains(expected), "{error}");
        }
        let error =
            SettingsFile::parse(Path::new("d.toml"), "\ndatabase_url = \"postgres://a:secret@b").unwrap_err();
        let error = error.to_string();
        assert!(error.contains("line 2") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn a_flag_wins_over_the_file_and_the_file_over_the_default() {
        let file = "max_stored_mb = 7\nhosts = [\"a\", \"b\"]\naccept_simulated = true\n\
                    [training]\nautomatic = false\nnew_share = 0.5\n[snapshots]\nmax_number = 3";
        let file = SettingsFile::parse(Path::new("d.toml"), file).unwrap();
        let read = |flags: &[&str]| {
            let command = file.under(command()).no_binary_name(true);
            Settings::from_arg_matches(&command.get_matches_from(flags)).unwrap()
        };
        let Settings { serving, data } = read(&[]);
        assert_eq!((data.max_stored_mb, data.accept_simulated, data.snapshots.max_number), (7, true, 3));
        assert_eq!((serving.hosts.join(" "), serving.training.automatic), ("a b".to_owned(), false));
        assert_eq!((serving.training.new_share, serving.training.new_problems), (0.5, 50));
        let Settings { serving, data } = read(&["--max-stored-mb=9", "--host=c", "--auto-train=on"]);
        assert_eq!((data.max_stored_mb, data.snapshots.max_mb), (9, 50_000));
        assert_eq!((serving.hosts.join(" "), serving.training.automatic), ("c".to_owned(), true));
    }

    /// The reference has exactly the table that the settings give. Run the test with `UPDATE_REFERENCE=1` to write it.
    #[test]
    fn the_reference_is_current() {
        const PLACE: &str = "../docs/reference/settings.md";
        const BEGIN: &str = "<!-- made from the settings: begin -->\n";
        const END: &str = "<!-- made from the settings: end -->";
        let text = std::fs::read_to_string(PLACE).unwrap();
        let (before, rest) = text.split_once(BEGIN).unwrap();
        let (_, after) = rest.split_once(END).unwrap();
        let current = format!("{before}{BEGIN}\n{}\n{END}{after}", reference());
        if std::env::var_os("UPDATE_REFERENCE").is_some() {
            diode_formats::write_atomically(Path::new(PLACE), current.as_bytes()).unwrap();
        }
        assert!(text == current, "run this test again with UPDATE_REFERENCE=1");
    }

    /// The example file has every setting, and each of its lines is accepted.
    #[test]
    fn the_example_is_complete_and_right() {
        let example = std::fs::read_to_string("../packaging/diode.toml").unwrap();
        let is_setting = |line: &&str| {
            let line = line.trim_start_matches("# ");
            line.starts_with('[') || line.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '))
        };
        let lines = example.lines().filter(is_setting).map(|line| line.trim_start_matches("# "));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("diode.toml");
        let text = lines.collect::<Vec<_>>().join("\n");
        diode_formats::write_atomically(&path, text.as_bytes()).unwrap();
        let path = path.to_str().unwrap();
        for one in explained(&["--config", path]) {
            assert_eq!(one.why, path, "{} is not in the example", one.name);
        }
        for one in explained(&["--config", path, "--blobs", "s3://timings"]) {
            assert!(one.why == path || one.name == "blobs", "{} is not in the example", one.name);
        }
    }
}
