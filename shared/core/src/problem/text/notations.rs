//! Notations of a shape beside `16x4096x14336`: `M=16 N=4096 K=14336`, `(16, 4096, 14336)`, and operands such as
//! `[16, 14336] @ [14336, 4096]`.

use super::whole;
use crate::error::Invalid;

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

#[cfg(test)]
mod tests {
    use super::super::ProblemWords;
    use crate::{DType, Layout};

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
}
