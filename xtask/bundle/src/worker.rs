//! A program that a page runs in a worker, and the script of that worker.

use std::fs;
use std::path::Path;

use anyhow::Context;
use wasm_bindgen_cli_support::Bindgen;

use crate::{text, write, write_folder};

/// The compiled program and the script, before names are hashed.
pub(crate) struct Worker {
    /// The worker's name. It is a part of the names of the script's folder and of the program's files.
    name: String,
    wasm: Vec<u8>,
    script: String,
}

/// The script, beside what wasm-bindgen makes.
const SCRIPT: &str = "worker.js";

impl Worker {
    /// Reads `diode_NAME.wasm` and `NAME/worker.js` in the folder of the dashboard.
    pub(crate) fn read(wasm: &Path, web: &Path) -> anyhow::Result<Self> {
        let stem =
            wasm.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.strip_prefix("diode_"));
        let name = stem.with_context(|| format!("got {}, expected diode_NAME.wasm", wasm.display()))?;
        let script = text(&web.join(name).join(SCRIPT))?;
        let wasm = fs::read(wasm).with_context(|| format!("cannot read {}", wasm.display()))?;
        Ok(Self { name: name.to_owned(), wasm, script })
    }

    /// Everything that the worker's files are made of.
    pub(crate) fn parts(&self) -> [&[u8]; 4] {
        [self.name.as_bytes(), &self.wasm, self.script.as_bytes(), include_bytes!("worker.rs")]
    }

    /// What stands for the script's address in `boot.js`.
    pub(crate) fn placeholder(&self) -> String {
        format!("{{{{{}}}}}", self.name.to_uppercase())
    }

    /// Writes the files and returns the script's address.
    pub(crate) fn write(&self, dist: &Path) -> anyhow::Result<String> {
        let made = tempfile::tempdir()?;
        Bindgen::new()
            .input_bytes(&self.name, self.wasm.clone())
            .web(true)?
            .typescript(false)
            .omit_default_module_path(true)
            .remove_name_section(true)
            .remove_producers_section(true)
            .generate(made.path())?;
        write(&made.path().join(SCRIPT), self.script.as_bytes())?;
        let files = [SCRIPT.to_owned(), format!("{}.js", self.name), format!("{}_bg.wasm", self.name)];
        let (folder, sizes) = write_folder(dist, &self.name, made.path(), &files)?;
        eprintln!("the {} is {:.1} kB compressed", self.name, sizes.iter().sum::<usize>() as f64 / 1e3);
        Ok(format!("/{folder}/{SCRIPT}"))
    }
}
