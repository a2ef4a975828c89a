//! Citations as BibTeX entries.

use std::fmt::Write as _;

/// The author of every citation.
pub const AUTHOR: &str = "The Diode contributors";

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Something that can be cited. Its texts may come from strangers and hold anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cited<'a> {
    /// The entry's key.
    pub key: &'a str,
    pub title: &'a str,
    /// A date and time as in RFC 3339, or only its beginning.
    pub made_at: &'a str,
    pub url: &'a str,
    pub note: &'a str,
}

impl Cited<'_> {
    /// The entry, with a line feed at its end.
    pub fn bibtex(&self) -> String {
        let Self { key, title, made_at, url, note } = *self;
        let mut text = format!("@misc{{{},\n", plain_key(key));
        // With two pairs of braces BibTeX neither splits the names nor changes capitals.
        let mut field = |name: &str, value: &str| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {name} = {value},");
        };
        field("author", &format!("{{{{{}}}}}", in_tex(AUTHOR)));
        field("title", &format!("{{{{{}}}}}", in_tex(title)));
        if let Some(year) = year(made_at) {
            field("year", &format!("{{{year}}}"));
        }
        if let Some(month) = month(made_at) {
            field("month", month);
        }
        field("url", &format!("{{{}}}", in_url(url)));
        field("note", &format!("{{{}}}", in_tex(note)));
        // The last field ends without a comma, for strict programs.
        text.truncate(text.len() - ",\n".len());
        text.push_str("\n}\n");
        text
    }
}

fn year(made_at: &str) -> Option<&str> {
    made_at.get(..4).filter(|year| year.bytes().all(|b| b.is_ascii_digit()))
}

fn month(made_at: &str) -> Option<&'static str> {
    let number: usize = made_at.get(5..7)?.parse().ok()?;
    MONTHS.get(number.checked_sub(1)?).copied()
}

/// Text as TeX prints it. BibTeX counts braces even after a backslash, so braces are written as commands.
/// Characters beyond ASCII stay: TeX and Biber read UTF-8.
fn in_tex(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        match c {
            '\\' => out.push_str("\\textbackslash{}"),
            '{' => out.push_str("\\textbraceleft{}"),
            '}' => out.push_str("\\textbraceright{}"),
            '~' => out.push_str("\\textasciitilde{}"),
            '^' => out.push_str("\\textasciicircum{}"),
            '#' | '$' | '%' | '&' | '_' => out.extend(['\\', c]),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
        out
    })
}

/// An address as `\url` takes it. Characters that could end the field, or that no address may hold, are
/// percent-encoded.
fn in_url(url: &str) -> String {
    url.bytes().fold(String::with_capacity(url.len()), |mut out, byte| {
        if byte.is_ascii_graphic() && !b"{}\\\"<>^`|".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

/// A key with dashes in place of the characters that BibTeX keys cannot hold.
fn plain_key(key: &str) -> String {
    key.chars().map(|c| if c.is_ascii_alphanumeric() || "-:._".contains(c) { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cited(title: &str) -> String {
        let url = "https://d.example/api/v1/snapshots/nvidia-h200@3";
        Cited { key: "diode:nvidia-h200:3", title, made_at: "2026-11-23T08:00:00Z", url, note: "3 problems" }
            .bibtex()
    }

    /// Counts fields as BibTeX first does: by braces alone, even after a backslash.
    fn fields(entry: &str) -> usize {
        let (mut depth, mut fields) = (0_i32, 0);
        for c in entry.chars() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                '=' if depth == 1 => fields += 1,
                _ => {}
            }
            assert!(depth >= 0, "{entry}");
        }
        assert_eq!(depth, 0, "{entry}");
        fields
    }

    #[test]
    fn an_entry_has_what_bibtex_wants() {
        assert_eq!(
            cited("Timings on NVIDIA H200"),
            "@misc{diode:nvidia-h200:3,\n  author = {{The Diode contributors}},\n  title = {{Timings on NVIDIA \
             H200}},\n  year = {2026},\n  month = nov,\n  url = \
             {https://d.example/api/v1/snapshots/nvidia-h200@3},\n  note = {3 problems}\n}\n"
        );
    }

    #[test]
    fn every_special_character_is_printed_as_itself() {
        for (given, written) in [
            ("a{b}c", "a\\textbraceleft{}b\\textbraceright{}c"),
            ("50%", "50\\%"),
            ("R&D", "R\\&D"),
            ("x_1", "x\\_1"),
            ("#3", "\\#3"),
            ("$5", "\\$5"),
            ("\\input", "\\textbackslash{}input"),
            ("~me", "\\textasciitilde{}me"),
            ("2^3", "2\\textasciicircum{}3"),
            ("Müller 中文", "Müller 中文"),
            ("one\ntwo", "one two"),
        ] {
            let entry = cited(given);
            assert!(entry.contains(&format!("title = {{{{{written}}}}},")), "{entry}");
            assert_eq!(fields(&entry), 6, "{entry}");
        }
    }

    #[test]
    fn nothing_ends_its_field() {
        let hostile = "X} , note = {\\input{/etc/passwd}";
        let entry = Cited { key: hostile, title: hostile, made_at: hostile, url: hostile, note: hostile };
        let entry = entry.bibtex();
        // Without a date there is neither a year nor a month.
        assert_eq!(fields(&entry), 4, "{entry}");
        assert!(entry.starts_with("@misc{X----note-----input--etc-passwd-,\n"), "{entry}");
        assert!(entry.contains("url = {X%7D%20,%20note%20=%20%7B%5Cinput%7B/etc/passwd%7D}"), "{entry}");
    }

    #[test]
    fn an_address_keeps_what_it_may_hold() {
        assert_eq!(in_url("https://d.example/~a/b_c?d=e%20f&g#h"), "https://d.example/~a/b_c?d=e%20f&g#h");
        assert_eq!(in_url("https://d.example/é"), "https://d.example/%C3%A9");
    }
}
