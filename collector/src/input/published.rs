//! The tuned files of releases of vLLM and SGLang that `diode import` has read.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use diode_core::hardware::Hardware;
use diode_core::{Config, Micros, Problem};
use diode_model::Model;
use diode_workloads::file_body::Body;
use diode_workloads::file_names::{Consumer, FileName};
use diode_workloads::published::{Published, PublishedFile, numbers};
use serde::Serialize;

use crate::failure::Usage;
use crate::output::files::user_folder;
use crate::output::log::Progress;

/// The most bytes of a file of releases. Both projects' need a fiftieth of it.
const MOST: u64 = 64 << 20;

/// The folder of the releases.
fn folder() -> Option<PathBuf> {
    Some(user_folder("XDG_DATA_HOME", ".local/share")?.join("diode/published"))
}

/// The file of a release, in a folder that is made.
pub(crate) fn path(project: Consumer, version: &str) -> anyhow::Result<PathBuf> {
    let folder =
        folder().context("neither XDG_DATA_HOME nor HOME is set; say with --output where to write")?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder.join(format!("{project}-{version}.json")))
}

/// All releases that were read, of one project or of both. A damaged file is left out with a warning.
pub(crate) fn all(project: Option<Consumer>) -> anyhow::Result<Vec<Published>> {
    let Some(entries) = folder().and_then(|folder| fs::read_dir(folder).ok()) else { return Ok(Vec::new()) };
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    if let Some(project) = project {
        let begins = format!("{project}-");
        let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        paths.retain(|path| name(path).starts_with(&begins));
    }
    paths.sort();
    let read = |path: &Path| -> anyhow::Result<Published> {
        let bytes = diode_formats::read_bounded(path, MOST)?;
        Ok(Published::parse(&String::from_utf8(bytes).context("not text")?)?)
    };
    let mut releases = Vec::new();
    for path in paths {
        match read(&path) {
            Ok(release) => releases.push(release),
            Err(error) => {
                let shown = path.display();
                tell!(Warning, {}, "left out {shown}: {error:#}; import it again or delete it");
            }
        }
    }
    Ok(releases)
}

/// The package's folder: the given one, or that of its name in it.
pub(crate) fn package_of(project: Consumer, folder: &Path) -> anyhow::Result<PathBuf> {
    let name = project.as_str();
    let experts = project.experts_folder().strip_prefix(name).unwrap_or_default();
    let is_package = |place: &Path| place.join(experts.trim_start_matches('/')).is_dir();
    let candidates = [folder.to_owned(), folder.join(name)];
    match candidates.into_iter().find(|folder| is_package(folder)) {
        Some(package) => Ok(package),
        None if !folder.is_dir() => bail!("{}: no such folder", folder.display()),
        None => Err(Usage::new(format!(
            "{}: got a folder without {name}{experts}, expected that of the installed package {name}",
            folder.display()
        ))
        .into()),
    }
}

/// Whether a text can be a release's version.
pub(crate) fn is_version(version: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '_');
    version.starts_with(|c: char| c.is_ascii_digit()) && version.len() <= 64 && version.chars().all(fits)
}

/// The release of a package, by the metadata beside it.
pub(crate) fn version_of(project: Consumer, package: &Path) -> anyhow::Result<String> {
    let absolute = std::path::absolute(package)?;
    let beside = absolute.parent().map(fs::read_dir).transpose()?.into_iter().flatten();
    let prefix = format!("{project}-");
    let mut found = beside.filter_map(|entry| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        let version = name.strip_prefix(&prefix)?.strip_suffix(".dist-info")?;
        is_version(version).then(|| version.to_owned())
    });
    let version = found.next().with_context(|| {
        format!("no {prefix}VERSION.dist-info beside {}; say the release with --release", package.display())
    })?;
    match found.next() {
        Some(other) => {
            bail!("releases {version} and {other} lie beside the package; say which with --release")
        }
        None => Ok(version),
    }
}

/// The files of both kinds with a config for each batch size, and those that cannot be read.
pub(crate) fn read_package(
    project: Consumer,
    package: &Path,
) -> anyhow::Result<(Vec<PublishedFile>, BTreeMap<String, String>)> {
    /// No published file is larger than a hundredth of it.
    const MOST: u64 = 4 << 20;
    let name = project.as_str();
    let inside =
        |folder: &str| folder.strip_prefix(name).unwrap_or(folder).trim_start_matches('/').to_owned();
    let mut folders = vec![inside(project.experts_folder()), inside(project.dense_folder())];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        let path = package.join(&folder);
        let entries = match fs::read_dir(&path) {
            // A release may lack one of the folders.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            entries => entries.with_context(|| format!("cannot read {}", path.display()))?,
        };
        for entry in entries {
            let entry = entry?;
            let Ok(file) = entry.file_name().into_string() else { continue };
            if entry.path().is_dir() {
                folders.push(format!("{folder}/{file}"));
                continue;
            }
            if !file.ends_with(".json") || matches!(FileName::parse(&file), Ok(FileName::Other { .. })) {
                continue;
            }
            files.push((folder.clone(), file, entry.path()));
        }
    }
    let (mut read, mut refused) = (Vec::new(), BTreeMap::new());
    for (folder, name, path) in Progress::through(files.into_iter(), "files") {
        let body = FileName::parse(&name).map_err(anyhow::Error::from).and_then(|_| {
            let bytes = diode_formats::read_bounded(&path, MOST)?;
            Ok(Body::parse(&String::from_utf8(bytes)?)?)
        });
        match body {
            Ok(body) => read.push(PublishedFile { folder, name, body }),
            Err(error) => {
                refused.insert(format!("{folder}/{name}"), format!("{error:#}"));
            }
        }
    }
    if read.is_empty() {
        bail!("{}: there are no tuned files", package.display());
    }
    Ok((read, refused))
}

/// The files of an installed package, of a release that it may not name.
pub(crate) fn installed(project: Consumer, folder: &Path) -> anyhow::Result<Published> {
    let package = package_of(project, folder)?;
    let version = version_of(project, &package).unwrap_or_else(|_| "as installed".to_owned());
    Ok(Published::new(project, version, read_package(project, &package)?.0))
}

/// The newest release of a project that was read.
pub(crate) fn newest(project: Consumer) -> anyhow::Result<Option<Published>> {
    let of_project = all(Some(project))?.into_iter().filter(|release| release.project == project);
    Ok(of_project.max_by_key(|release| numbers(&release.version)))
}

/// A config that runs without our pick, with its predicted time.
#[derive(Debug, Serialize)]
pub(crate) struct Rival {
    /// `vLLM's default`, `vLLM 0.33.0`
    pub(crate) name: String,
    /// The config in words.
    pub(crate) config: String,
    pub(crate) predicted_us: f64,
    /// The file and the batch size in it that the config is from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<String>,
}

/// The configs that published files hold for a problem, each after its project's default. None if there is no file.
pub(crate) fn rivals(
    releases: &[Published],
    model: &Model,
    hardware: &Hardware,
    problem: &Problem,
) -> anyhow::Result<Vec<Rival>> {
    let mut configs: Vec<(String, Config, Option<String>)> = Vec::new();
    for release in releases {
        let Some(found) = release.baseline(hardware, problem).transpose()? else { continue };
        let called = format!("{}'s default", release.project.title());
        if let Some(config) = found.default
            && !configs.iter().any(|(known, ..)| *known == called)
        {
            configs.push((called, config, None));
        }
        let from = format!("{} at {}", found.file.name, found.batch);
        configs.push((release.to_string(), found.config, Some(from)));
    }
    if configs.is_empty() {
        return Ok(Vec::new());
    }
    let bare: Vec<Config> = configs.iter().map(|(_, config, _)| *config).collect();
    let bias = model.serving_for(problem)?.about.pick_bias;
    let times = model.predict(problem, &bare)?;
    let rival = |((name, config, from), time): ((String, Config, Option<String>), Micros)| Rival {
        name,
        config: config.label(),
        predicted_us: time.0 * bias,
        from,
    };
    Ok(configs.into_iter().zip(times).map(rival).collect())
}
