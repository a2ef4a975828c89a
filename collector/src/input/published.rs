//! The tuned files of releases of vLLM and SGLang that `diode import` has read.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use diode_core::hardware::Hardware;
use diode_core::{Config, Micros, Problem};
use diode_model::Model;
use diode_workloads::file_names::{Consumer, FileName};
use diode_workloads::published::Published;
use serde::Serialize;

use crate::output::files::user_folder;

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

/// All releases that were read. A file that is none is named.
pub(crate) fn all() -> anyhow::Result<Vec<Published>> {
    let Some(entries) = folder().and_then(|folder| fs::read_dir(folder).ok()) else { return Ok(Vec::new()) };
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let read = |path: PathBuf| {
        let bytes = diode_formats::read_bounded(&path, MOST)?;
        let text = String::from_utf8(bytes).with_context(|| format!("{}: not text", path.display()))?;
        Published::parse(&text).with_context(|| path.display().to_string())
    };
    paths.into_iter().map(read).collect()
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
        let project = release.project;
        let name = FileName::of(problem, hardware, project);
        let choice = name.and_then(|name| release.choose(&name, project.triton(), problem.m));
        let Some((choice, config)) =
            choice.and_then(|choice| Some((choice, choice.config(project, hardware, problem)?)))
        else {
            continue;
        };
        let called = format!("{}'s default", project.title());
        if let Some(config) = project.default_config().config(hardware, problem)
            && !configs.iter().any(|(known, ..)| *known == called)
        {
            configs.push((called, config, None));
        }
        let from = format!("{} at {}", choice.file.name, choice.batch);
        configs.push((release.to_string(), config?, Some(from)));
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
