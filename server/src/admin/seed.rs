use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use axum::body::Bytes;
use diode_core::Heuristic;
use diode_core::ids::{Digest, HardwareSlug};
use diode_formats::Format;
use diode_model::{Model, UnseenModels};

use crate::backend::Backend;
use crate::blobs::BlobKind;
use crate::jobs::worker::summarise;
use crate::store::Now;
use crate::uploads::ingest::ingest;

const MODEL: &str = ".safetensors";
/// The models of a model's cross-validation lie beside it, under its name.
const UNSEEN_MODELS: &str = "unseen";

/// Timings of the problems that people ask for first. No shipped model has learnt from them.
const COMMON: &str = "common";

/// What a folder holds, and how much of it was new.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Seeded {
    pub datasets: usize,
    pub new_datasets: usize,
    pub models: usize,
    pub new_models: usize,
}

impl std::fmt::Display for Seeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { datasets, new_datasets, models, new_models } = self;
        write!(
            f,
            "{datasets} datasets, {new_datasets} of them new; {models} models, {new_models} of them new"
        )
    }
}

/// Imports `FOLDER/HEURISTIC/HARDWARE/data/*` and `data/common/*` as uploads and `FOLDER/HEURISTIC/HARDWARE/*.safetensors` as
/// shipped models, with the models of their cross-validation in `*.unseen`. Leaves out what the server has already.
pub async fn seed(backend: &Backend, folder: &Path) -> anyhow::Result<Seeded> {
    let datasets_end_in: Vec<&str> = Format::travelling().map(Format::ending).collect();
    let mut seeded = Seeded::default();
    for (heuristic, path) in named_folders::<Heuristic>(folder)? {
        for (hardware, path) in named_folders::<HardwareSlug>(&path)? {
            let data = path.join("data");
            let mut datasets = Vec::new();
            for folder in [data.join(COMMON), data].iter().filter(|folder| folder.is_dir()) {
                datasets.extend(files(folder, &datasets_end_in)?);
            }
            for file in datasets {
                let receipt = ingest(backend, read(&file)?, None).await;
                let receipt = receipt.with_context(|| file.display().to_string())?;
                seeded.datasets += 1;
                seeded.new_datasets += usize::from(!receipt.already_stored);
            }
            for file in files(&path, &[MODEL])? {
                let new = add_model(backend, heuristic, &hardware, &file).await;
                seeded.models += 1;
                seeded.new_models += usize::from(new.with_context(|| file.display().to_string())?);
            }
        }
    }
    if seeded == Seeded::default() {
        bail!("{}: expected HEURISTIC/HARDWARE/data/* or HEURISTIC/HARDWARE/*.safetensors", folder.display());
    }
    Ok(seeded)
}

async fn add_model(
    backend: &Backend,
    heuristic: Heuristic,
    hardware: &HardwareSlug,
    file: &Path,
) -> anyhow::Result<bool> {
    let bytes = read(file)?;
    let model = Model::from_bytes(&bytes)?;
    let about = model.metadata();
    if (about.heuristic, &about.hardware.slug) != (heuristic, hardware) {
        bail!(
            "the model says it is for {} on {}, expected {heuristic} on {hardware} as the folder says",
            about.heuristic,
            about.hardware.slug
        );
    }
    let summary = summarise(&model, &bytes);
    let unseen_models = unseen_models(file)?;
    backend.blobs.put(BlobKind::Model, &Digest::of(&bytes), bytes).await?;
    Ok(backend
        .store
        .add_shipped_model(&summary, &about.hardware, &[], unseen_models.as_deref(), Now::read())
        .await?)
}

fn unseen_models(model: &Path) -> anyhow::Result<Option<Bytes>> {
    let file = model.with_extension(UNSEEN_MODELS);
    if !file.exists() {
        return Ok(None);
    }
    let bytes = read(&file)?;
    UnseenModels::from_bytes(&bytes).with_context(|| file.display().to_string())?;
    Ok(Some(bytes))
}

fn read(file: &Path) -> anyhow::Result<Bytes> {
    let bytes = std::fs::read(file).with_context(|| file.display().to_string())?;
    Ok(Bytes::from(bytes))
}

/// The folders at one level whose names parse as `T`. Other folders, such as a folder for notes, are left out.
fn named_folders<T: std::str::FromStr>(folder: &Path) -> anyhow::Result<Vec<(T, PathBuf)>> {
    let named = |path: PathBuf| Some((path.file_name()?.to_str()?.parse().ok()?, path));
    Ok(entries(folder)?.into_iter().filter(|path| path.is_dir()).filter_map(named).collect())
}

fn files(folder: &Path, extensions: &[&str]) -> anyhow::Result<Vec<PathBuf>> {
    let wanted = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        path.is_file() && extensions.iter().any(|extension| name.ends_with(extension))
    };
    Ok(entries(folder)?.into_iter().filter(wanted).collect())
}

/// The entries of a folder, sorted, so that the same folder always gives the same database.
fn entries(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let read = || -> std::io::Result<Vec<PathBuf>> {
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
    };
    let mut paths = read().with_context(|| folder.display().to_string())?;
    paths.sort();
    Ok(paths)
}
