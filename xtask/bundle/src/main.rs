//! The dashboard's files: WebAssembly, glue, style and page, named by their digests and compressed.
//!
//! `cargo xtask web` calls it. It is a program of its own, so that the other commands do not wait
//! for its dependencies to be compiled.
#![forbid(unsafe_code)]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use sha2::{Digest as _, Sha256};
use wasm_bindgen_cli_support::Bindgen;

/// What a first visit may download, compressed; more would feel slow on a phone.
const FIRST_LOAD_BUDGET: usize = 350_000;
/// Says which inputs the files were made of, so that nothing is done twice.
const STAMP: &str = ".stamp";

/// `diode-bundle WASM WEB DIST`: the compiled dashboard, the folder of its style and page, and where the files go.
fn main() -> anyhow::Result<()> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [wasm, web, dist] = arguments.as_slice() else {
        bail!("got {} arguments, expected WASM WEB DIST; use `cargo xtask web`", arguments.len());
    };
    let sources = Sources::read(wasm, web)?;
    let stamp = sources.digest();
    if fs::read_to_string(dist.join(STAMP)).is_ok_and(|made_of| made_of == stamp) {
        return Ok(());
    }
    if dist.exists() {
        fs::remove_dir_all(dist).with_context(|| format!("cannot replace {}", dist.display()))?;
    }
    fs::create_dir_all(dist)?;
    let size = sources.write(wasm, dist)?;
    eprintln!("the dashboard's first load is {:.1} kB compressed", size as f64 / 1e3);
    if size > FIRST_LOAD_BUDGET {
        bail!("the dashboard is {size} bytes compressed; the budget is {FIRST_LOAD_BUDGET}");
    }
    // Last, so that an interrupted build is done again.
    write(&dist.join(STAMP), stamp.as_bytes())
}

/// Everything a page is made of, before names are hashed.
struct Sources {
    wasm: Vec<u8>,
    css: String,
    index: String,
    boot: String,
}

impl Sources {
    fn read(wasm: &Path, web: &Path) -> anyhow::Result<Self> {
        let mut sheets: Vec<PathBuf> = fs::read_dir(web.join("style"))
            .context("web/style is missing")?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        sheets.retain(|path| path.extension().is_some_and(|extension| extension == "css"));
        sheets.sort();
        let css = sheets.iter().map(|path| text(path)).collect::<Result<Vec<_>, _>>()?.join("\n");
        Ok(Self {
            wasm: fs::read(wasm).with_context(|| format!("cannot read {}", wasm.display()))?,
            css,
            index: text(&web.join("index.html"))?,
            boot: text(&web.join("boot.js"))?,
        })
    }

    fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for part in [&self.wasm, self.css.as_bytes(), self.index.as_bytes(), self.boot.as_bytes()] {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        }
        hash.update(include_bytes!("main.rs"));
        hex(&hash.finalize())
    }

    /// Writes the finished files and returns what a first visit downloads.
    fn write(&self, wasm: &Path, dist: &Path) -> anyhow::Result<usize> {
        let glue = tempfile::tempdir()?;
        Bindgen::new()
            .input_path(wasm)
            .web(true)?
            .typescript(false)
            .out_name("app")
            .omit_default_module_path(true)
            .remove_name_section(true)
            .remove_producers_section(true)
            .generate(glue.path())?;
        let mut size = 0;
        let mut add = |stem: &str, extension: &str, bytes: &[u8]| -> anyhow::Result<String> {
            let name = format!("{stem}-{}.{extension}", &hex(&Sha256::digest(bytes))[..12]);
            size += write_compressed(dist, &name, bytes)?;
            Ok(format!("/{name}"))
        };
        let app_js = add("app", "js", &fs::read(glue.path().join("app.js"))?)?;
        let app_wasm = add("app", "wasm", &fs::read(glue.path().join("app_bg.wasm"))?)?;
        let app_css = add("app", "css", self.css.as_bytes())?;
        let fill = |template: &str| {
            template
                .replace("{{APP_JS}}", &app_js)
                .replace("{{APP_WASM}}", &app_wasm)
                .replace("{{APP_CSS}}", &app_css)
        };
        let boot_js = add("boot", "js", fill(&self.boot).as_bytes())?;
        let index = fill(&self.index).replace("{{BOOT_JS}}", &boot_js);
        size += write_compressed(dist, "index.html", index.as_bytes())?;
        Ok(size)
    }
}

/// Writes a file with its `.br` and `.gz` siblings; returns the brotli size.
fn write_compressed(folder: &Path, name: &str, bytes: &[u8]) -> anyhow::Result<usize> {
    write(&folder.join(name), bytes)?;
    let mut br = Vec::new();
    let parameters = brotli::enc::BrotliEncoderParams { quality: 11, ..Default::default() };
    brotli::BrotliCompress(&mut &bytes[..], &mut br, &parameters)?;
    write(&folder.join(format!("{name}.br")), &br)?;
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gz.write_all(bytes)?;
    write(&folder.join(format!("{name}.gz")), &gz.finish()?)?;
    Ok(br.len())
}

fn text(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

#[allow(clippy::disallowed_methods, reason = "the stamp, written last, makes half a build harmless")]
fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
