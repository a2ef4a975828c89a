//! Finds broken links: to files, to headings, and from code to documents.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// The endings of files whose comments and messages name documents.
const CODE: [&str; 6] = [".rs", ".py", ".pyi", ".toml", ".sh", ".html"];
/// This crate is not checked: its tests name documents that do not exist.
const NOT_READ: &str = "xtask/docs/";

/// Returns one line for each broken link, with the file that contains it.
pub(crate) fn problems(root: &Path) -> anyhow::Result<Vec<String>> {
    let files = files(root)?;
    let mut texts = HashMap::new();
    for file in files.iter().filter(|file| file.ends_with(".md")) {
        texts.insert(file.as_str(), read(root, file)?);
    }
    let mut problems = Vec::new();
    for file in &files {
        if let Some(text) = texts.get(file.as_str()) {
            problems.extend(broken(file, text, root, &texts).map(|what| format!("{file}: {what}")));
        } else if !file.starts_with(NOT_READ) && CODE.iter().any(|ending| file.ends_with(ending)) {
            let text = read(root, file)?;
            let missing = documents_named(&text).into_iter().filter(|name| !root.join(name).exists());
            problems.extend(missing.map(|name| format!("{file}: {name} does not exist")));
        }
    }
    let book = texts.get("docs/SUMMARY.md").context("docs/SUMMARY.md is missing")?;
    let listed: HashSet<_> =
        links(book).iter().filter_map(|link| resolve("docs/SUMMARY.md", &link.target)).collect();
    let pages = files.iter().filter(|file| file.starts_with("docs/") && file.ends_with(".md"));
    let unlisted = pages.filter(|page| !page.ends_with("SUMMARY.md") && !listed.contains(*page));
    problems.extend(unlisted.map(|page| format!("{page}: docs/SUMMARY.md does not list it")));
    problems.sort();
    Ok(problems)
}

/// The files that git tracks or would add.
fn files(root: &Path) -> anyhow::Result<Vec<String>> {
    let listing = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("cannot start git")?;
    ensure!(listing.status.success(), "git ls-files failed: {}", listing.status);
    let names = String::from_utf8(listing.stdout)?;
    Ok(names.lines().filter(|name| root.join(name).is_file()).map(str::to_owned).collect())
}

fn read(root: &Path, file: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {file}"))
}

fn broken<'a>(
    file: &'a str,
    text: &'a str,
    root: &'a Path,
    texts: &'a HashMap<&str, String>,
) -> impl Iterator<Item = String> + 'a {
    links(text).into_iter().filter_map(move |link| {
        let (path, anchor) = link.parts()?;
        let target = if path.is_empty() { Some(file.to_owned()) } else { resolve(file, path) };
        let Some(target) = target.filter(|target| root.join(target).exists()) else {
            return Some(format!("{} does not exist", link.target));
        };
        let anchor = anchor?;
        let known = texts.get(target.as_str()).is_some_and(|text| anchors(text).iter().any(|a| a == anchor));
        (!known).then(|| format!("{}: no such heading", link.target))
    })
}

/// The documents that a piece of code names, such as `docs/README.md`.
fn documents_named(text: &str) -> Vec<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let starts = text.match_indices("docs/").filter(|(at, _)| {
        let before = text[..*at].chars().next_back();
        // `../../docs/` is the same folder, but `xtask/docs/` is another one.
        !before.is_some_and(is_part) || text[..*at].ends_with("../")
    });
    let names = starts.map(|(at, _)| {
        let rest = &text[at..];
        rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())].trim_end_matches('.')
    });
    names.filter(|name| name.ends_with(".md") || name.ends_with(".sh")).collect()
}

/// A link or an image.
pub(crate) struct Link {
    pub(crate) target: String,
    /// The place of the whole link in the text, in bytes.
    pub(crate) range: Range<usize>,
    pub(crate) is_image: bool,
}

impl Link {
    /// The link's path and anchor. `None` for addresses of other sites.
    pub(crate) fn parts(&self) -> Option<(&str, Option<&str>)> {
        if self.target.contains("://") || self.target.starts_with("mailto:") {
            return None;
        }
        Some(match self.target.split_once('#') {
            Some((path, anchor)) => (path, Some(anchor)),
            None => (&self.target, None),
        })
    }
}

fn parser(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES)
}

/// All links of a text, in order.
pub(crate) fn links(text: &str) -> Vec<Link> {
    let found = parser(text).into_offset_iter().filter_map(|(event, range)| match event {
        Event::Start(Tag::Link { dest_url, .. }) => {
            Some(Link { target: dest_url.into_string(), range, is_image: false })
        }
        Event::Start(Tag::Image { dest_url, .. }) => {
            Some(Link { target: dest_url.into_string(), range, is_image: true })
        }
        _ => None,
    });
    found.collect()
}

/// The anchors of a text's headings, as mdBook and repository hosts form them.
pub(crate) fn anchors(text: &str) -> Vec<String> {
    let mut anchors = Vec::new();
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut heading: Option<String> = None;
    for event in parser(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(words) | Event::Code(words) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&words);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let name = anchor(&heading.take().unwrap_or_default());
                let times = seen.entry(name.clone()).or_default();
                anchors.push(if *times == 0 { name } else { format!("{name}-{times}") });
                *times += 1;
            }
            _ => {}
        }
    }
    anchors
}

fn anchor(heading: &str) -> String {
    let characters = heading.trim().chars().filter_map(|c| match c {
        c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c.to_lowercase().collect::<String>()),
        c if c.is_whitespace() => Some("-".to_owned()),
        _ => None,
    });
    characters.collect()
}

/// The path in the repository to which a link in `file` leads. `None` if it leads out of the
/// repository.
pub(crate) fn resolve(file: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The form of a link in `file` that leads to `target`. Both paths start at the same folder.
pub(crate) fn relative(file: &str, target: &str) -> String {
    let from: Vec<&str> = file.split('/').collect();
    let to: Vec<&str> = target.split('/').collect();
    let folders = from.len() - 1;
    let shared = from[..folders].iter().zip(&to).take_while(|(a, b)| a == b).count();
    let mut parts = vec![".."; folders - shared];
    parts.extend(&to[shared..]);
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_links_are_found() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let text = "[a](docs/decisions.md) [b](docs/nothing.md) [c](docs/decisions.md#nothing) [d](#here) [e](https://x.org/#y)\n\n# Here\n";
        let texts =
            HashMap::from([("README.md", text.to_owned()), ("docs/decisions.md", "# Decisions".to_owned())]);
        let found: Vec<String> = broken("README.md", text, root, &texts).collect();
        assert_eq!(found, ["docs/nothing.md does not exist", "docs/decisions.md#nothing: no such heading"]);
    }

    #[test]
    fn documents_are_found_in_code() {
        let code = "//! See `docs/a.md`, \"../../docs/b.sh\", docs/c/d.md. Not xtask/docs/e.md or docs/f.rs";
        assert_eq!(documents_named(code), ["docs/a.md", "docs/b.sh", "docs/c/d.md"]);
    }
}

#[cfg(test)]
mod links_tests {
    use super::*;

    const TEXT: &str = "# Why `a` is 1\n\nSee [this](b.md#c), ![that](d.png), [far](https://e.org/) and `[no](link)`.\n\n## Twice\n## Twice\n";

    #[test]
    fn links_and_anchors_are_found() {
        let found = links(TEXT);
        let targets: Vec<&str> = found.iter().map(|link| link.target.as_str()).collect();
        assert_eq!(targets, ["b.md#c", "d.png", "https://e.org/"]);
        assert_eq!(found[0].parts(), Some(("b.md", Some("c"))));
        assert!(found[1].is_image && found[2].parts().is_none());
        assert_eq!(&TEXT[found[0].range.clone()], "[this](b.md#c)");
        assert_eq!(anchors(TEXT), ["why-a-is-1", "twice", "twice-1"]);
    }
}

#[cfg(test)]
mod links_paths_tests {
    use super::*;

    #[test]
    fn links_are_resolved_and_written() {
        assert_eq!(resolve("docs/guides/a.md", "../reference/b.md").as_deref(), Some("docs/reference/b.md"));
        assert_eq!(resolve("README.md", "docs/").as_deref(), Some("docs"));
        assert_eq!(resolve("README.md", "../x"), None);
        assert_eq!(relative("guides/a.md", "reference/b.md"), "../reference/b.md");
        assert_eq!(relative("guides/a.md", "guides/b.md"), "b.md");
        assert_eq!(relative("index.md", "guides/b.md"), "guides/b.md");
    }
}
