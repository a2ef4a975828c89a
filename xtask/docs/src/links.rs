//! Finds the links in a Markdown text, and the headings to which others can link.

use std::collections::HashMap;
use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

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
mod paths_tests {
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
