//! The value of each setting, and where it comes from: a flag, a variable, the file or the default.

use std::fmt::Display;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::{DEFAULT_CONFIG, DataArgs, ServingArgs, Settings, Training, file_of, from_toml};
use crate::blobs::BlobPlace;
use crate::limits::Limits;

/// A setting in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// The setting's name in `diode.toml`, with the section: `access.sign_ups`.
    pub name: &'static str,
    pub value: String,
    /// Where the value comes from.
    pub why: String,
}

/// Every setting, in the order of the documents. `command` is the parser of the arguments, and `matches` is
/// what it has read.
pub fn explain(command: &Command, matches: &ArgMatches) -> anyhow::Result<Vec<Explained>> {
    let data: DataArgs = clap::FromArgMatches::from_arg_matches(matches)?;
    let serving: ServingArgs = clap::FromArgMatches::from_arg_matches(matches)?;
    let config = data.config.clone();
    let (path, file) = file_of(config.as_deref())?;
    let file: toml::Table = from_toml(path.as_deref(), &file)?;
    let place = path.map_or_else(|| DEFAULT_CONFIG.to_owned(), |path| path.display().to_string());
    let settings = Settings::resolve(data, serving)?;
    let from_arg = |id: &str| {
        let arg = command.get_arguments().find(|arg| arg.get_id() == id);
        given(arg, matches, id)
    };
    let why = |name: &str| {
        from_arg(id_of(name))
            .or_else(|| has(&file, name).then(|| place.clone()))
            .unwrap_or_else(|| "default".to_owned())
    };
    let explained = |(name, value)| Explained { name, value, why: why(name) };
    Ok(values(&settings).into_iter().map(explained).collect())
}

/// The parser's name of a setting.
fn id_of(name: &str) -> &str {
    match name {
        "openid.issuer" => "openid_issuer",
        "openid.client_id" => "openid_client_id",
        "openid.client_secret_file" => "openid_client_secret_file",
        "openid.label" => "openid_label",
        "s3.endpoint" => "s3_endpoint",
        "s3.region" => "s3_region",
        "s3.path_style" => "s3_path_style",
        "s3.ca" => "s3_ca",
        "s3.allow_http" => "s3_allow_http",
        "training.automatic" => "auto_train",
        "training.new_problems" => "auto_train_problems",
        "training.new_share" => "auto_train_share",
        "training.pause_minutes" => "auto_train_pause",
        "snapshots.automatic" => "auto_snapshot",
        "snapshots.max_number" => "max_snapshots",
        "snapshots.max_mb" => "max_snapshots_mb",
        other => other.rsplit('.').next().unwrap_or(other),
    }
}

/// The flag or the variable that a value comes from.
fn given(arg: Option<&Arg>, matches: &ArgMatches, id: &str) -> Option<String> {
    let arg = arg?;
    // A switch that is off was not given, so the file counts.
    let is_switch = matches!(arg.get_action(), ArgAction::SetTrue);
    if is_switch && matches.try_get_one::<bool>(id).is_ok_and(|value| value == Some(&false)) {
        return None;
    }
    match matches.value_source(id)? {
        ValueSource::CommandLine => Some(format!("--{}", arg.get_long()?)),
        ValueSource::EnvVariable => Some(arg.get_env()?.to_string_lossy().into_owned()),
        _ => None,
    }
}

fn has(file: &toml::Table, name: &str) -> bool {
    match name.split_once('.') {
        None => file.contains_key(name),
        Some((section, key)) => {
            file.get(section).and_then(toml::Value::as_table).is_some_and(|table| table.contains_key(key))
        }
    }
}

fn values(settings: &Settings) -> Vec<(&'static str, String)> {
    let policy = settings.access.policy(settings.listen);
    let Limits { uploads, changes, exports } = policy.limits;
    let Training { automatic, due } = settings.training;
    let openid = settings.openid.as_ref();
    let tls = settings.access.tls();
    let secret = openid.and_then(|openid| openid.client_secret_file.as_ref());
    let snapshots = settings.snapshots;
    let mut values = vec![
        ("listen", settings.listen.to_string()),
        ("database_url", without_password(&settings.database_url)),
        ("blobs", settings.blobs.to_string()),
        ("max_stored_mb", (settings.max_stored / 1_000_000).to_string()),
        ("hosts", some_or("none", settings.hosts.first().map(|_| settings.hosts.join(", ")))),
        ("accept_simulated", settings.accept_simulated.to_string()),
        ("metrics_listen", some_or("none", settings.metrics_listen)),
        ("access.public_url", policy.public_url.clone()),
        ("access.tls_certificate", some_or("none", tls.map(|files| files.certificate.display()))),
        ("access.tls_key", some_or("none", tls.map(|files| files.key.display()))),
        ("access.behind_proxy", policy.behind_proxy.to_string()),
        ("access.sign_ups", policy.sign_ups.to_string()),
        ("access.anonymous", policy.anonymous.to_string()),
        ("openid.issuer", some_or("none", openid.map(|openid| &openid.issuer))),
        ("openid.client_id", some_or("none", openid.map(|openid| &openid.client_id))),
        ("openid.client_secret_file", some_or("none", secret.map(|file| file.display()))),
        ("openid.label", some_or("none", openid.map(|openid| &openid.label))),
        ("limits.uploads_per_minute", some_or("any number", uploads)),
        ("limits.changes_per_minute", some_or("any number", changes)),
        ("limits.exports_per_minute", some_or("any number", exports)),
        ("training.automatic", automatic.to_string()),
        ("training.new_problems", due.problems.to_string()),
        ("training.new_share", due.share.to_string()),
        ("training.pause_minutes", (due.pause / 60_000).to_string()),
        ("snapshots.automatic", snapshots.automatic.to_string()),
        ("snapshots.max_number", snapshots.limits.number.to_string()),
        ("snapshots.max_mb", (snapshots.limits.bytes / 1_000_000).to_string()),
    ];
    if let BlobPlace::Bucket(bucket) = &settings.blobs {
        values.extend([
            ("s3.endpoint", some_or("Amazon's", bucket.endpoint.as_ref())),
            ("s3.region", bucket.region.clone()),
            ("s3.path_style", bucket.path_style.to_string()),
            ("s3.ca", some_or("the public ones", bucket.ca.as_ref().map(|file| file.display()))),
            ("s3.allow_http", bucket.allow_http.to_string()),
        ]);
    }
    values
}

fn some_or(none: &str, value: Option<impl Display>) -> String {
    value.map_or_else(|| none.to_owned(), |value| value.to_string())
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
    use clap::Args as _;
    use clap::builder::Resettable;

    use super::*;

    /// The parser without environment variables: this machine may have some of them, such as those of Amazon's
    /// tools.
    fn command() -> Command {
        let command = ServingArgs::augment_args(DataArgs::augment_args(Command::new("settings")));
        command.mut_args(|arg| arg.env(Resettable::Reset))
    }

    fn explained(arguments: &[&str]) -> Vec<Explained> {
        let command = command();
        let matches = command.clone().get_matches_from([&["settings"], arguments].concat());
        explain(&command, &matches).unwrap()
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
            "tests/settings/diode.toml",
            "--database-url",
            "postgres://ada:secret@db/diode",
            "--behind-proxy",
            "--public-url",
            "https://d.example",
            "--auto-train",
            "off",
        ]);
        let of = |name: &str| {
            let found = all.iter().find(|one| one.name == name).unwrap();
            (found.value.as_str(), found.why.as_str())
        };
        assert_eq!(of("listen"), ("127.0.0.1:9090", "tests/settings/diode.toml"));
        assert_eq!(of("database_url"), ("postgres://ada:…@db/diode", "--database-url"));
        assert_eq!(of("access.sign_ups"), ("closed", "tests/settings/diode.toml"));
        assert_eq!(of("access.behind_proxy"), ("true", "--behind-proxy"));
        assert_eq!(of("limits.uploads_per_minute"), ("1200", "default"));
        assert_eq!(of("training.automatic"), ("false", "--auto-train"));
        assert_eq!(of("training.pause_minutes"), ("60", "default"));
        assert_eq!(of("accept_simulated"), ("false", "default"));
        assert!(all.iter().all(|one| !one.value.contains("secret")));
    }

    #[test]
    fn a_bucket_says_how_it_is_reached() {
        let all = explained(&["--blobs", "s3://timings/x", "--s3-endpoint", "https://s3.example.org"]);
        let of = |name: &str| {
            let found = all.iter().find(|one| one.name == name).unwrap();
            (found.value.as_str(), found.why.as_str())
        };
        assert_eq!(of("blobs"), ("s3://timings/x", "--blobs"));
        assert_eq!(of("s3.endpoint"), ("https://s3.example.org", "--s3-endpoint"));
        assert_eq!(of("s3.path_style"), ("true", "default"));
        assert!(explained(&[]).iter().all(|one| !one.name.starts_with("s3.")));
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
