//! Paths in the form that documents use: with `/`, relative to a file or to the repository.

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
    fn links_are_resolved_and_written() {
        assert_eq!(resolve("docs/guides/a.md", "../reference/b.md").as_deref(), Some("docs/reference/b.md"));
        assert_eq!(resolve("README.md", "docs/").as_deref(), Some("docs"));
        assert_eq!(resolve("README.md", "../x"), None);
        assert_eq!(relative("guides/a.md", "reference/b.md"), "../reference/b.md");
        assert_eq!(relative("guides/a.md", "guides/b.md"), "b.md");
        assert_eq!(relative("index.md", "guides/b.md"), "guides/b.md");
    }
}
