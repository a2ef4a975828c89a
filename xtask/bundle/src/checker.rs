//! The program that checks files before they are sent, and the script of the worker that runs it.

use std::fs;
use std::path::Path;

use anyhow::Context;
use wasm_bindgen_cli_support::Bindgen;

use crate::{bare, text, write_compressed, write_folder};

/// The compiled program and the script, before names are hashed.
pub(crate) struct Checker {
    wasm: Vec<u8>,
    worker: String,
}

/// What wasm-bindgen makes.
const GLUE: &str = "checker.js";
const WASM: &str = "checker_bg.wasm";

/// The script's name has no digest, so that the dashboard knows it without a byte in its first load.
const WORKER: &str = "checker.js";

impl Checker {
    pub(crate) fn read(wasm: &Path, web: &Path) -> anyhow::Result<Self> {
        let worker = text(&web.join("checker/worker.js"))?;
        Ok(Self { wasm: fs::read(wasm).with_context(|| format!("cannot read {}", wasm.display()))?, worker })
    }

    /// Everything that its files are made of.
    pub(crate) fn parts(&self) -> [&[u8]; 3] {
        [&self.wasm, self.worker.as_bytes(), include_bytes!("checker.rs")]
    }

    pub(crate) fn write(&self, dist: &Path) -> anyhow::Result<()> {
        let made = tempfile::tempdir()?;
        Bindgen::new()
            .input_bytes("checker", self.wasm.clone())
            .web(true)?
            .typescript(false)
            .omit_default_module_path(true)
            .remove_name_section(true)
            .remove_producers_section(true)
            .generate(made.path())?;
        let files = [GLUE, WASM].map(str::to_owned);
        let (folder, sizes) = write_folder(dist, "checker", made.path(), &files)?;
        eprintln!("the checker of files is {:.1} kB compressed", sizes.iter().sum::<usize>() as f64 / 1e3);
        let worker = bare(&self.worker)
            .replace("{{CHECKER_JS}}", &format!("/{folder}/{GLUE}"))
            .replace("{{CHECKER_WASM}}", &format!("/{folder}/{WASM}"));
        write_compressed(dist, WORKER, worker.as_bytes()).map(drop)
    }
}
