//! Makes a book of the documents, and finds broken links between them.
//!
//! It is a crate of its own, because mdBook takes a minute to compile and only `cargo xtask docs`
//! needs it.
#![forbid(unsafe_code)]

mod check;

use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use mdbook_driver::MDBook;
use mdbook_driver::config::Config;

use crate::check::{links, relative, resolve};

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["build", root] => build(Path::new(root))?,
        ["check", root] => {
            let problems = check::problems(Path::new(root))?;
            for problem in &problems {
                eprintln!("{problem}");
            }
            if !problems.is_empty() {
                bail!("{} links lead nowhere", problems.len());
            }
        }
        _ => bail!("usage: diode-docs build ROOT, or diode-docs check ROOT"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the book of the repository at `root` into `docs/book`. `docs/SUMMARY.md` is its table of contents and may list files
/// outside of `docs/`, such as the cards of models.
fn build(root: &Path) -> anyhow::Result<()> {
    let docs = root.canonicalize()?.join("docs");
    let mut config = Config::from_disk(docs.join("book.toml")).context("docs/book.toml")?;
    config.build.build_dir = docs.join("book");
    let mut book = MDBook::load_with_config(&docs, config)?;
    // Maps paths in the repository to paths in the book.
    let mut pages = HashMap::new();
    for chapter in book.book.chapters() {
        let path = chapter.path.as_deref().and_then(Path::to_str).context("a chapter has no file")?;
        let file =
            resolve("docs/SUMMARY.md", path).with_context(|| format!("{path} is not in the repository"))?;
        let page = page(&file);
        pages.insert(file, page);
    }
    book.book.for_each_chapter_mut(|chapter| {
        let path = chapter.path.as_deref().and_then(Path::to_str).unwrap_or_default();
        let file = resolve("docs/SUMMARY.md", path).unwrap_or_default();
        chapter.content = relink(&chapter.content, &file, &pages);
        chapter.path = Some(page(&file).into());
    });
    book.build()
}

/// The place in the book of a file of the repository.
fn page(file: &str) -> String {
    let file = file.strip_prefix("docs/").unwrap_or(file);
    match file.strip_suffix("README.md") {
        Some(folder) => format!("{folder}index.md"),
        None => file.to_owned(),
    }
}

/// Points links at pages of the book. A link to anything else becomes plain text.
fn relink(text: &str, file: &str, pages: &HashMap<String, String>) -> String {
    let mut out = text.to_owned();
    // Works from the end, so that the positions of earlier links stay right.
    for link in links(text).into_iter().rev() {
        let Some((path, anchor)) = link.parts().filter(|(path, _)| !path.is_empty()) else { continue };
        let Some(target) = resolve(file, path) else { continue };
        let whole = &text[link.range.clone()];
        let Some(at) = whole.rfind("](") else { continue };
        let replacement = match pages.get(&target) {
            Some(to) => {
                let anchor = anchor.map(|anchor| format!("#{anchor}")).unwrap_or_default();
                format!("{}{}{anchor})", &whole[..at + 2], relative(&page(file), to))
            }
            None if target.starts_with("docs/") => {
                format!("{}{})", &whole[..at + 2], relative(&page(file), &page(&target)))
            }
            None if link.is_image => continue,
            None => whole[1..at].to_owned(),
        };
        out.replace_range(link.range, &replacement);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_pages_of_the_book() {
        let pages = ["docs/README.md", "docs/guides/a.md", "CONTRIBUTING.md"];
        let pages = pages.into_iter().map(|file| (file.to_owned(), page(file))).collect();
        let text = "[home](../README.md) [work](../../CONTRIBUTING.md#x) [code](../../xtask/Cargo.toml) [self](#y) ![p](../images/p.png)";
        assert_eq!(
            relink(text, "docs/guides/a.md", &pages),
            "[home](../index.md) [work](../CONTRIBUTING.md#x) code [self](#y) ![p](../images/p.png)"
        );
    }
}
