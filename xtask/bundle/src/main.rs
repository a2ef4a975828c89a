//! The dashboard's files: WebAssembly, glue, style and page, named by their digests and compressed.
//!
//! `cargo xtask web` calls it. It is a program of its own, so that other commands need not wait until its
//! dependencies are compiled.
#![forbid(unsafe_code)]

mod strip;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use base16ct::lower::encode_string;
use sha2::{Digest as _, Sha256};
use wasm_bindgen_cli_support::Bindgen;

/// The most bytes that a first visit of the overview downloads, compressed. More would feel slow on a phone.
const FIRST_LOAD_BUDGET: usize = 350_000;
/// This file names the inputs of the last build, so that an unchanged build is not repeated.
const STAMP: &str = ".stamp";

/// `diode-bundle WASM WORKER WEB DIST`: the compiled dashboard, the compiled program that it runs in workers, the folder
/// of the style and the page, and where the files go.
fn main() -> anyhow::Result<()> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [wasm, worker, web, dist] = arguments.as_slice() else {
        bail!("got {} arguments, expected WASM WORKER WEB DIST; use `cargo xtask web`", arguments.len());
    };
    let sources = Sources::read(wasm, worker, web)?;
    let stamp = sources.digest();
    if fs::read_to_string(dist.join(STAMP)).is_ok_and(|made_of| made_of == stamp) {
        return Ok(());
    }
    if dist.exists() {
        fs::remove_dir_all(dist).with_context(|| format!("cannot replace {}", dist.display()))?;
    }
    fs::create_dir_all(dist)?;
    let size = sources.write(dist)?;
    eprintln!("the dashboard's first load is {:.1} kB compressed", size as f64 / 1e3);
    if size > FIRST_LOAD_BUDGET {
        bail!("the dashboard is {size} bytes compressed; the budget is {FIRST_LOAD_BUDGET}");
    }
    // The stamp is written last, so that an interrupted build is repeated.
    write(&dist.join(STAMP), stamp.as_bytes())
}

/// Everything from which a page is made, before files get their final names.
struct Sources {
    wasm: Vec<u8>,
    worker: Vec<u8>,
    worker_script: String,
    css: String,
    index: String,
    icon: String,
    boot: String,
}

impl Sources {
    fn read(wasm: &Path, worker: &Path, web: &Path) -> anyhow::Result<Self> {
        let mut sheets: Vec<PathBuf> = fs::read_dir(web.join("style"))
            .context("web/style is missing")?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        sheets.retain(|path| path.extension().is_some_and(|extension| extension == "css"));
        sheets.sort();
        let css = sheets.iter().map(|path| text(path)).collect::<Result<Vec<_>, _>>()?.join("\n");
        Ok(Self {
            wasm: bytes(wasm)?,
            worker: bytes(worker)?,
            worker_script: text(&web.join("worker").join(WORKER_SCRIPT))?,
            css,
            index: text(&web.join("index.html"))?,
            icon: text(&web.join("icon.uri"))?,
            boot: text(&web.join("boot.js"))?,
        })
    }

    fn digest(&self) -> String {
        let mut hash = Sha256::new();
        let parts: [&[u8]; 9] = [
            include_bytes!("main.rs"),
            include_bytes!("strip.rs"),
            &self.wasm,
            &self.worker,
            self.worker_script.as_bytes(),
            self.css.as_bytes(),
            self.index.as_bytes(),
            self.icon.as_bytes(),
            self.boot.as_bytes(),
        ];
        for part in parts {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        }
        encode_string(&hash.finalize())
    }

    /// Writes the finished files. Returns how many bytes a first visit of the overview downloads.
    fn write(&self, dist: &Path) -> anyhow::Result<usize> {
        let made = tempfile::tempdir()?;
        let pieces = split(&self.wasm, made.path())?;
        glue(made.path())?;
        let first = [GLUE, WASM, LOADER];
        let later: BTreeSet<&str> = pieces.values().flatten().map(String::as_str).collect();
        let names: Vec<&str> = first.into_iter().chain(later).collect();
        let (folder, sizes) = write_folder(dist, "app", made.path(), &names)?;
        for (name, size) in names.iter().zip(&sizes).skip(first.len()) {
            eprintln!("the later piece {name} is {:.1} kB compressed", *size as f64 / 1e3);
        }
        let mut size = sizes[..first.len()].iter().sum();
        let mut add = |stem: &str, extension: &str, bytes: &[u8]| -> anyhow::Result<String> {
            let name = format!("{stem}-{}.{extension}", &encode_string(&Sha256::digest(bytes))[..12]);
            size += write_compressed(dist, &name, bytes)?;
            Ok(format!("/{name}"))
        };
        let app_css = add("app", "css", tight(&bare(&self.css)).as_bytes())?;
        let addresses = |names: &Vec<String>| {
            let addresses: Vec<String> = names.iter().map(|name| format!("\"/{folder}/{name}\"")).collect();
            format!("[{}]", addresses.join(","))
        };
        let fill = |template: &str| {
            template
                .replace("{{APP_JS}}", &format!("/{folder}/{GLUE}"))
                .replace("{{LOADER_JS}}", &format!("/{folder}/{LOADER}"))
                .replace("{{APP_WASM}}", &format!("/{folder}/{WASM}"))
                .replace("{{APP_CSS}}", &app_css)
        };
        let mut boot = fill(&bare(&self.boot)).replace("{{WORKER}}", &self.write_worker(dist)?);
        for (piece, names) in &pieces {
            boot = boot.replace(&format!("\"{{{{PIECE {piece}}}}}\""), &addresses(names));
        }
        if boot.contains("{{") {
            bail!("boot.js names what the program was not cut into; there are {pieces:?}");
        }
        let boot_js = add("boot", "js", boot.as_bytes())?;
        let index = fill(&self.index).replace("{{BOOT_JS}}", &boot_js).replace("{{ICON}}", &self.icon);
        size += write_compressed(dist, "index.html", index.as_bytes())?;
        Ok(size)
    }

    /// Writes the files of the worker, which a first visit does not download. Returns the address of its script.
    fn write_worker(&self, dist: &Path) -> anyhow::Result<String> {
        let made = tempfile::tempdir()?;
        let mut bindgen = Bindgen::new();
        bindgen.input_bytes(WORKER, self.worker.clone()).omit_default_module_path(true);
        bindgen.web(true)?.typescript(false).remove_name_section(true).remove_producers_section(true);
        bindgen.generate(made.path())?;
        write(&made.path().join(WORKER_SCRIPT), self.worker_script.as_bytes())?;
        let files = [WORKER_SCRIPT, &format!("{WORKER}.js"), &format!("{WORKER}_bg.wasm")];
        let (folder, sizes) = write_folder(dist, "worker", made.path(), &files)?;
        eprintln!("the worker is {:.1} kB compressed", sizes.iter().sum::<usize>() as f64 / 1e3);
        Ok(format!("/{folder}/{WORKER_SCRIPT}"))
    }
}

/// The stem of the worker's files that wasm-bindgen writes, and the script that calls them.
const WORKER: &str = "program";
const WORKER_SCRIPT: &str = "worker.js";

/// The files of the dashboard that wasm-bindgen writes.
const GLUE: &str = "app.js";
const WASM: &str = "app_bg.wasm";
/// This script fetches the pieces that are not part of the first load.
const LOADER: &str = "pieces.js";
/// The first piece, before wasm-bindgen has processed it.
const FIRST: &str = "first.wasm";

/// Cuts the compiled dashboard into a first piece and later pieces. Returns the files that each later piece needs: its
/// own, and those with what several pieces share.
fn split(wasm: &[u8], folder: &Path) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
    let (loader, glue, first) = (format!("./{LOADER}"), format!("./{GLUE}"), folder.join(FIRST));
    let mut options = wasm_split_cli_support::Options::new(wasm);
    options.output_dir = folder;
    options.main_out_path = &first;
    options.link_name = &loader;
    options.main_module = &glue;
    let split = wasm_split_cli_support::transform(options);
    let split = split.map_err(|error| anyhow::anyhow!("cannot cut the dashboard into pieces: {error:?}"))?;
    for file in &split.split_modules {
        write(file, &strip::without_custom_sections(&bytes(file)?)?)?;
    }
    let named = |stem: String| format!("{stem}.wasm");
    let pieces = split.prefetch_map.into_iter();
    Ok(pieces.map(|(piece, stems)| (piece, stems.into_iter().map(named).collect())).collect())
}

/// Makes the first piece ready for the browser.
fn glue(folder: &Path) -> anyhow::Result<()> {
    Bindgen::new()
        .input_path(folder.join(FIRST))
        .web(true)?
        .typescript(false)
        .out_name("app")
        .omit_default_module_path(true)
        // The later pieces use the stack and the table of the first piece.
        .keep_lld_exports(true)
        .remove_name_section(true)
        .remove_producers_section(true)
        .generate(folder)
}

/// Removes indentation, and comments that begin a line, from a script or a style sheet. Only readers of the
/// source need them. No string may contain a line break.
fn bare(source: &str) -> String {
    let (mut code, mut is_comment) = (String::with_capacity(source.len()), false);
    for line in source.lines() {
        let mut line = line.trim();
        is_comment |= line.starts_with("/*");
        if is_comment {
            let Some((_, after)) = line.split_once("*/") else { continue };
            (line, is_comment) = (after.trim(), false);
        }
        if !line.is_empty() && !line.starts_with("//") {
            code.push_str(line);
            code.push('\n');
        }
    }
    code
}

/// Removes spaces and line ends without meaning from a style sheet.
fn tight(sheet: &str) -> String {
    let spaces = [
        (" {", "{"),
        ("{ ", "{"),
        (" }", "}"),
        ("; ", ";"),
        (": ", ":"),
        (", ", ","),
        ("{\n", "{"),
        ("}\n", "}"),
        (";\n", ";"),
        (",\n", ","),
    ];
    spaces.iter().fold(sheet.to_owned(), |sheet, (from, to)| sheet.replace(from, to))
}

/// Writes several files into a folder. Returns the folder's name and the files' brotli sizes. The files name
/// each other, so the folder's name has one digest of all of them.
fn write_folder(
    dist: &Path,
    stem: &str,
    made: &Path,
    names: &[&str],
) -> anyhow::Result<(String, Vec<usize>)> {
    let mut files = Vec::with_capacity(names.len());
    for name in names {
        let mut bytes = fs::read(made.join(name)).with_context(|| (*name).to_owned())?;
        strip::blank_source_paths(&mut bytes);
        if name.ends_with(".js") {
            bytes = bare(&String::from_utf8(bytes)?).into_bytes();
        }
        files.push(bytes);
    }
    strip::number_imports(&mut files);
    let mut hash = Sha256::new();
    files.iter().for_each(|bytes| hash.update(bytes));
    let folder = format!("{stem}-{}", &encode_string(&hash.finalize())[..12]);
    fs::create_dir_all(dist.join(&folder))?;
    let named = names.iter().zip(&files);
    let sizes = named.map(|(name, bytes)| write_compressed(dist, &format!("{folder}/{name}"), bytes));
    let sizes = sizes.collect::<Result<_, _>>()?;
    Ok((folder, sizes))
}

/// Writes a file and its `.br` and `.gz` forms. Returns the size with brotli.
fn write_compressed(folder: &Path, name: &str, bytes: &[u8]) -> anyhow::Result<usize> {
    write(&folder.join(name), bytes)?;
    let mut br = Vec::new();
    // One block for the whole file takes half a kilobyte less.
    let parameters = brotli::enc::BrotliEncoderParams { quality: 11, lgblock: 24, ..Default::default() };
    brotli::BrotliCompress(&mut &bytes[..], &mut br, &parameters)?;
    write(&folder.join(format!("{name}.br")), &br)?;
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gz.write_all(bytes)?;
    write(&folder.join(format!("{name}.gz")), &gz.finish()?)?;
    Ok(br.len())
}

fn bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn text(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

#[allow(clippy::disallowed_methods, reason = "the stamp, written last, makes half a build harmless")]
fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_runs_is_sent() {
        let source =
            "// first\n  a(\"/* x */\"); // stays\n/* one */ b();\n  /**\n   * @returns\n   */\n  c();\n\n";
        assert_eq!(bare(source), "a(\"/* x */\"); // stays\nb();\nc();\n");
        assert_eq!(tight("a :hover,\nb\nc { x: y 1px, z; u: v }\n"), "a :hover,b\nc{x:y 1px,z;u:v}");
        assert_eq!(bare("/* a\n b */ p { x: y }\n"), "p { x: y }\n");
    }
}
