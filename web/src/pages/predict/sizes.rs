//! Sizes as people write them: `4096`, `4,096`, `1e4`, `4096x4096x4096`.

use diode_core::{Field, Invalid, Op, Problem};

/// Reads a size. A text that is no number is refused in the same words as a number out of range.
pub(crate) fn size(field: Field, text: &str) -> Result<u64, Invalid> {
    let text = text.trim();
    let size = whole(text).filter(|size| (1..=Problem::MAX_DIM).contains(size));
    size.ok_or_else(|| {
        let given = if text.is_empty() { "nothing" } else { text };
        Invalid::new(field, given, format!("a size from 1 to {}", Problem::MAX_DIM))
    })
}

/// The digits of a size in any notation. Other texts stay as they are.
pub(crate) fn plain(text: &str) -> String {
    let text = text.trim();
    whole(text).map_or_else(|| text.to_owned(), |size| size.to_string())
}

/// Reads a whole number: `4096`, `4,096`, `4_096`, `1e4`, `2.5e3`.
pub(crate) fn whole(text: &str) -> Option<u64> {
    if let Ok(size) = text.parse() {
        return Some(size);
    }
    if text.contains(['e', 'E']) {
        /// Below this, every whole number is a distinct f64.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        let value: f64 = text.parse().ok()?;
        return (value.fract() == 0.0 && (0.0..EXACT).contains(&value)).then_some(value as u64);
    }
    let groups: Vec<&str> = text.split([',', '_', '\'', ' ', '\u{a0}', '\u{202f}']).collect();
    let digits = |group: &str| group.bytes().all(|byte| byte.is_ascii_digit());
    let (first, rest) = groups.split_first()?;
    let grouped = (1..=3).contains(&first.len()) && digits(first);
    (grouped && rest.iter().all(|group| group.len() == 3 && digits(group)))
        .then(|| groups.concat().parse().ok())
        .flatten()
}

/// Reads a batch, M, N and K from one text: `4096x4096x4096`, `8 × 512 × 512 × 64`, `16*4096*4096`. The
/// batch is `None` if there are three sizes.
pub(crate) fn dims(text: &str) -> Option<(Option<u64>, [u64; 3])> {
    let sizes: Option<Vec<u64>> = text.split(['x', 'X', '×', '*']).map(|size| whole(size.trim())).collect();
    match sizes?[..] {
        [m, n, k] => Some((None, [m, n, k])),
        [b, m, n, k] => Some((Some(b), [m, n, k])),
        _ => None,
    }
}

/// The batched op for an op: with a bias if the op has one.
pub(crate) fn batched(op: Op) -> Op {
    if op.has_bias() { Op::Baddbmm } else { Op::Bmm }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diode_core::{DType, ProblemFields};

    #[test]
    fn sizes_are_refused_in_the_words_of_the_vocabulary() {
        let plain = |m| ProblemFields::plain(Op::Mm, 1, m, 64, 64, DType::BFloat16);
        let zero = Problem::new(plain(0)).unwrap_err().to_string();
        assert_eq!(size(Field::M, "x").unwrap_err().to_string(), zero.replace("got 0", "got x"));
        assert_eq!(size(Field::M, " ").unwrap_err().to_string(), zero.replace("got 0", "got nothing"));
        assert_eq!(size(Field::M, "0").unwrap_err().to_string(), zero);
        assert_eq!(size(Field::M, " 4096 "), Ok(4096));
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
            assert_eq!(plain(text), value.to_string());
        }
        for text in ["", "x", "4,09", "4096,4096", "1e-3", "1e40", "-1", "4.5", "0x10", ",096", "1,,000"] {
            assert_eq!(whole(text), None, "{text}");
            assert_eq!(plain(text), text);
        }
    }

    #[test]
    fn shapes_are_read_from_one_text() {
        for text in ["16x4096x11008", "16×4096×11008", " 16 * 4,096 * 11008 ", "16X4096x11008"] {
            assert_eq!(dims(text), Some((None, [16, 4096, 11008])), "{text}");
        }
        assert_eq!(dims("8x512x512x64"), Some((Some(8), [512, 512, 64])));
        for text in ["4096", "4096x4096", "4096x4096x", "axbxc", "1x2x3x4x5"] {
            assert_eq!(dims(text), None, "{text}");
        }
    }
}
