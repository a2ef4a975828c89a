//! Notations of sizes, of shapes beside `16x4096x14336` (`M=16 N=4096 K=14336`, `(16, 4096, 14336)`, and operands such as
//! `[16, 14336] @ [14336, 4096]`), and of rows of lists.

use super::ProblemWords;
use crate::error::{Field, Invalid};
use crate::{Layout, Problem};

/// A text in lower case with its shape as `BxMxNxK`, which it may name by `m=16 n=4096 k=14336`, by `(16, 4096, 14336)` or
/// by its operands: `[16, 14336] @ [14336, 4096]`.
pub(super) fn spelled_out(text: &str) -> Result<String, Invalid> {
    match text.split_once('@') {
        Some((a, b)) if b.contains(['[', '(']) => of_operands(a, b),
        _ => of_names(&text.replace(['(', ')', '[', ']'], " ").replace(" = ", "=")),
    }
}

/// Replaces `m=…`, `n=…` and `k=…` by the shape, and other names by what their values say alone.
fn of_names(text: &str) -> Result<String, Invalid> {
    if !text.contains('=') {
        return Ok(text.to_owned());
    }
    let mut sizes: [Option<String>; 4] = Default::default();
    let mut words = Vec::new();
    for word in text.split(|c: char| c.is_whitespace() || c == ';') {
        let mut parts: Vec<String> = Vec::new();
        for part in word.split(',') {
            match parts.last_mut() {
                // The comma stands between thousands.
                Some(last) if !part.contains('=') && !part.is_empty() => *last = format!("{last},{part}"),
                _ => parts.push(part.to_owned()),
            }
        }
        for part in &parts {
            let Some((name, value)) = part.split_once('=') else {
                words.push(part.clone());
                continue;
            };
            match (name, ["b", "m", "n", "k"].iter().position(|size| *size == name)) {
                (_, Some(place)) => {
                    let read = whole(value);
                    let read =
                        read.ok_or_else(|| Invalid::new("size", format_args!("`{part:.40}`"), "a number"))?;
                    if sizes[place].replace(read.to_string()).is_some() {
                        return Err(Invalid::new("size", format_args!("`{name}=` twice"), "it once"));
                    }
                }
                ("dtype" | "op" | "scaling", _) => words.push(value.to_owned()),
                ("groups" | "top" | "top_k", _) => {
                    words.push(format!("{} {value}", name.trim_end_matches("_k")))
                }
                _ => {
                    let expected = "m=, n=, k=, b=, dtype=, op=, scaling=, groups= or top_k=";
                    return Err(Invalid::new("problem", format_args!("`{part:.40}`"), expected));
                }
            }
        }
    }
    let [b, m, n, k] = sizes;
    match (m, n, k) {
        (Some(m), Some(n), Some(k)) => {
            let all: Vec<String> = b.into_iter().chain([m, n, k]).collect();
            Ok(format!("{} {}", all.join("x"), words.join(" ")))
        }
        (None, None, None) => Ok(words.join(" ")),
        _ => Err(Invalid::new("sizes", "some of M, N and K", "all three")),
    }
}

/// Replaces the shapes of A and B by the shape of the problem. `.T` says that an operand is transposed.
fn of_operands(a: &str, b: &str) -> Result<String, Invalid> {
    let (before, a, rest_of_a) = bracketed(a)?;
    let (between, b, after) = bracketed(b)?;
    let flipped =
        |rest: &str| [".t()", ".t", ".mt"].iter().find_map(|end| rest.strip_prefix(end).map(str::to_owned));
    let (a_flipped, b_flipped) = (flipped(&rest_of_a), flipped(&after));
    let turned = |[batch, rows, columns]: [u64; 3], is: bool| {
        if is { [batch, columns, rows] } else { [batch, rows, columns] }
    };
    let ([batch, m, k], [other, inner, n]) = (turned(a, a_flipped.is_some()), turned(b, b_flipped.is_some()));
    if inner != k || batch != other {
        let expected = format!("B with {k} rows; write .T behind the weights of nn.Linear");
        return Err(Invalid::new("operands", format_args!("A of {m}×{k} and B of {inner}×{n}"), expected));
    }
    let letter = |is_flipped: bool| if is_flipped { 't' } else { 'n' };
    let layouts = format!("{}{}", letter(a_flipped.is_some()), letter(b_flipped.is_some()));
    let batch = if batch == 1 { String::new() } else { format!("{batch}x") };
    let rest = [before, a_flipped.unwrap_or(rest_of_a), between, b_flipped.unwrap_or(after)].join(" ");
    Ok(format!("{batch}{m}x{n}x{k} {layouts} {rest}"))
}

/// The batch, rows and columns in the brackets of a text, and what stands before and after them.
fn bracketed(text: &str) -> Result<(String, [u64; 3], String), Invalid> {
    let fault =
        || Invalid::new("problem", format_args!("`{:.40}`", text.trim()), "an operand such as [16, 14336]");
    let start = text.find(['[', '(']).ok_or_else(fault)?;
    let length = text[start..].find([']', ')']).ok_or_else(fault)?;
    let sizes: Option<Vec<u64>> =
        text[start + 1..start + length].split(',').map(|size| whole(size.trim())).collect();
    let sizes = match sizes.as_deref() {
        Some(&[rows, columns]) => [1, rows, columns],
        Some(&[batch, rows, columns]) => [batch, rows, columns],
        _ => return Err(fault()),
    };
    Ok((text[..start].to_owned(), sizes, text[start + length + 1..].trim().to_owned()))
}

/// Reads a size. A text that is no number is refused in the same words as a number out of range.
pub fn size(field: Field, text: &str) -> Result<u64, Invalid> {
    let text = text.trim();
    let size = whole(text).filter(|size| (1..=Problem::MAX_DIM).contains(size));
    size.ok_or_else(|| {
        let given = if text.is_empty() { "nothing" } else { text };
        Invalid::new(field, format_args!("{given:.40}"), format!("a size from 1 to {}", Problem::MAX_DIM))
    })
}

/// Reads a whole number: `4096`, `4,096`, `4_096`, `1e4`, `2.5e3`.
pub fn whole(text: &str) -> Option<u64> {
    if let Ok(size) = text.parse() {
        return Some(size);
    }
    if text.contains(['e', 'E']) {
        /// Below this, every whole number is a distinct f64.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        let value: f64 = text.parse().ok()?;
        let is_whole = (0.0..EXACT).contains(&value) && value == (value as u64) as f64;
        return is_whole.then_some(value as u64);
    }
    let groups: Vec<&str> = text.split([',', '_', '\'', ' ', '\u{a0}', '\u{202f}']).collect();
    let digits = |group: &str| group.bytes().all(|byte| byte.is_ascii_digit());
    let (first, rest) = groups.split_first()?;
    let grouped = (1..=3).contains(&first.len()) && digits(first);
    (grouped && rest.iter().all(|group| group.len() == 3 && digits(group)))
        .then(|| groups.concat().parse().ok())
        .flatten()
}

/// Reads a batch, M, N and K from one text: `4096x4096x4096`, `8 × 512 × 512 × 64`, `16*4096*4096`. The batch is `None` if
/// there are three sizes.
pub(super) fn dims(text: &str) -> Option<(Option<u64>, [u64; 3])> {
    let sizes: Option<Vec<u64>> = text.split(['x', 'X', '×', '*']).map(|size| whole(size.trim())).collect();
    match sizes?[..] {
        [m, n, k] => Some((None, [m, n, k])),
        [b, m, n, k] => Some((Some(b), [m, n, k])),
        _ => None,
    }
}

/// The columns of a list, by its first line.
#[derive(Debug, Clone, PartialEq)]
pub struct Columns {
    separator: char,
    names: Vec<String>,
}

impl Columns {
    /// `None` if the line names no columns: M, N and K must be among them.
    pub fn read(line: &str) -> Option<Self> {
        let separator = [',', ';', '\t'].into_iter().find(|separator| line.contains(*separator))?;
        let names: Vec<String> = cells(line, separator).map(str::to_ascii_lowercase).collect();
        let has = |name: &str| names.iter().any(|column| column == name);
        ["m", "n", "k"].into_iter().all(has).then_some(Self { separator, names })
    }

    /// The columns that say nothing of a problem.
    pub fn others(&self) -> impl Iterator<Item = &str> {
        let is_other = |name: &&str| !ProblemWords::is_field(name) && *name != TRANSPOSED;
        self.names.iter().map(String::as_str).filter(is_other)
    }

    /// Reads a row. The errors are all that is wrong with it.
    pub fn said(&self, line: &str) -> Result<ProblemWords, Vec<Invalid>> {
        let (mut said, mut wrong) = (ProblemWords::default(), Vec::new());
        for (name, value) in self.names.iter().zip(cells(line, self.separator)) {
            match name.as_str() {
                _ if value.is_empty() => {}
                "bias" if value == "none" => {}
                TRANSPOSED => {
                    let transposed = value.eq_ignore_ascii_case("true");
                    said.b_layout = Some(if transposed { Layout::Column } else { Layout::Row });
                }
                name if ProblemWords::is_field(name) => wrong.extend(said.set(name, value).err()),
                _ => {}
            }
        }
        if wrong.is_empty() { Ok(said) } else { Err(wrong) }
    }
}

/// torch-diode's column that says whether B is in columns.
const TRANSPOSED: &str = "transposed";

/// The cells of a line. A separator between quotes belongs to its cell, as in `"4,096"`.
fn cells(line: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    let ends = move |c: char| {
        is_quoted ^= c == '"';
        c == separator && !is_quoted
    };
    line.split(ends).map(cell)
}

/// A cell without the blanks and quotes around it.
fn cell(text: &str) -> &str {
    text.trim().trim_matches('"')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    #[test]
    fn a_shape_is_read_in_every_notation() {
        let read = |text: &str| {
            let said = ProblemWords::read(text).unwrap().of_launch();
            let letter = |layout: Option<Layout>| {
                layout.map_or('-', |layout| if layout == Layout::Row { 'n' } else { 't' })
            };
            (
                said.b,
                [said.m, said.n, said.k].map(Option::unwrap),
                said.dtype,
                format!("{}{}", letter(said.a_layout), letter(said.b_layout)),
            )
        };
        let sizes = [512, 14336, 4096];
        for text in [
            "M=512 N=14336 K=4096",
            "m = 512, n = 14336, k = 4,096",
            "K=4096,N=14336,M=512",
            "(512, 14336, 4096)",
            "[512,14336,4096]",
        ] {
            assert_eq!(read(text), (None, sizes, None, "--".to_owned()), "{text}");
            let text = format!("{text} BF16");
            assert_eq!(read(&text), (None, sizes, Some(DType::BFloat16), "--".to_owned()), "{text}");
        }
        for (text, layouts) in [
            ("[512, 4096] @ [4096, 14336]", "nn"),
            ("[512, 4096] @ [14336, 4096].T", "nt"),
            ("(4096, 512).T @ (4096, 14336)", "tn"),
            ("512x14336x4096 tn", "tn"),
            ("512x14336x4096 nn.Linear", "-t"),
        ] {
            assert_eq!(read(text), (None, sizes, None, layouts.to_owned()), "{text}");
        }
        let batched = read("[8, 512, 64] @ [8, 64, 1024] fp16");
        assert_eq!(batched, (Some(8), [512, 1024, 64], Some(DType::Float16), "nn".to_owned()));
        let named = read("b=8 m=512 n=1024 k=64 dtype=fp16");
        assert_eq!(named, (Some(8), [512, 1024, 64], Some(DType::Float16), "--".to_owned()));
        let experts = ProblemWords::read("grouped m=512 n=1536 k=2048 groups=128 top_k=8").unwrap();
        assert_eq!((experts.groups, experts.top_k), (Some(128), Some(8)));
        for (text, words) in [
            ("M=512 N=14336", "expected all three"),
            ("M=x N=1 K=1", "expected a number"),
            ("M=16 N=1 K=1 M=32", "got `m=` twice"),
            ("M=1 N=1 K=1 size=3", "got `size=3`"),
            ("[512, 4096] @ [14336, 4096]", "expected B with 4096 rows"),
            ("[512] @ [512, 4]", "expected an operand such as [16, 14336]"),
        ] {
            let fault = ProblemWords::read(text).unwrap_err().to_string();
            assert!(fault.contains(words), "{text}: {fault}");
        }
    }

    #[test]
    fn numbers_are_read_as_people_write_them() {
        for (text, value) in [
            ("4096", 4096),
            ("4,096", 4096),
            ("1,000,000", 1_000_000),
            ("4_096", 4096),
            ("4 096", 4096),
            ("1e4", 10_000),
            ("2.5E3", 2500),
        ] {
            assert_eq!(whole(text), Some(value), "{text}");
        }
        for text in ["", "x", "4,09", "4096,4096", "1e-3", "1e40", "-1", "4.5", "0x10", ",096", "1,,000"] {
            assert_eq!(whole(text), None, "{text}");
        }
    }

    #[test]
    fn a_quoted_cell_keeps_its_separator() {
        for (names, row) in [("m,n,k", "16,\"4,096\",512"), ("m;\"n\";k", "16;\"4,096\";512")] {
            let said = Columns::read(names).unwrap().said(row).unwrap();
            assert_eq!((said.m, said.n, said.k), (Some(16), Some(4096), Some(512)), "{row}");
        }
    }
}
