//! A shape in words, as people write it: `1x28672x4096 bf16 addmm column`.

use diode_core::{Bias, DType, Field, Invalid, Layout, Op, Problem, ProblemFields};

use crate::format::counted;

/// The defaults for whatever a text leaves out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Defaults {
    pub(crate) op: Op,
    pub(crate) dtype: DType,
    pub(crate) b_layout: Layout,
    pub(crate) bias: Bias,
}

/// What a text says about a problem.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ShapeWords {
    pub(crate) op: Option<Op>,
    pub(crate) b: Option<u64>,
    pub(crate) sizes: Option<[u64; 3]>,
    pub(crate) dtype: Option<DType>,
    /// Whether float32 may be rounded to TF32.
    pub(crate) tf32: bool,
    pub(crate) a_layout: Option<Layout>,
    pub(crate) b_layout: Option<Layout>,
    pub(crate) bias: Option<Bias>,
}

impl ShapeWords {
    /// Reads a shape, and words for everything that differs from the defaults, in any order.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let mut said = Self::default();
        let mut sizes = Vec::new();
        let text = text.replace('×', "x").replace(" x ", "x");
        for word in text.split(|c: char| c.is_whitespace() || c == ';') {
            if let Some((b, shape)) = dims(word) {
                (said.b, said.sizes) = (b.or(said.b), Some(shape));
                continue;
            }
            for word in word.split(',').filter(|word| !word.is_empty()) {
                if let Some((b, shape)) = dims(word) {
                    (said.b, said.sizes) = (b.or(said.b), Some(shape));
                } else if let Some(size) = whole(word) {
                    sizes.push(size);
                } else if let Ok(op) = word.parse() {
                    said.op = Some(op);
                } else if said.take_dtype(word).is_ok() {
                } else if let Ok(layout) = word.parse() {
                    said.b_layout = Some(layout);
                } else if let Ok(bias) = word.parse() {
                    said.bias = Some(bias);
                } else {
                    return Err(format!(
                        "got `{word}`, expected a shape such as M×N×K, an op, a dtype, a layout of B or a bias"
                    ));
                }
            }
        }
        match (&sizes[..], said.sizes) {
            ([], _) => {}
            ([m, n, k], None) => said.sizes = Some([*m, *n, *k]),
            ([b, m, n, k], None) => (said.b, said.sizes) = (Some(*b), Some([*m, *n, *k])),
            (sizes, _) => {
                let given = counted(sizes.len() as u64, "size");
                return Err(format!("got {given}, expected M, N and K, or B, M, N and K"));
            }
        }
        match said.dtype {
            Some(dtype) if said.tf32 && dtype != DType::Float32 => {
                Err(format!("got tf32 with {dtype}, expected float32: nothing else is rounded to TF32"))
            }
            _ => Ok(said),
        }
    }

    /// Takes a dtype, or `tf32`, which means float32 that may be rounded to TF32.
    pub(crate) fn take_dtype(&mut self, word: &str) -> Result<(), String> {
        match word {
            "tf32" | "TF32" => self.tf32 = true,
            word => self.dtype = Some(dtype(word)?),
        }
        Ok(())
    }

    /// The dtype that the text names.
    pub(crate) fn named_dtype(&self) -> Option<DType> {
        self.dtype.or(self.tf32.then_some(DType::Float32))
    }

    /// What the text says, as parameters of the address of Predict.
    pub(super) fn parameters(&self) -> Vec<(&'static str, String)> {
        let size = |size: Option<u64>| size.map(|size| size.to_string());
        let [m, n, k] = self.sizes.map_or([None; 3], |sizes| sizes.map(Some));
        let all = [
            ("op", self.op.map(|op| op.to_string())),
            ("b", size(self.b)),
            ("m", size(m)),
            ("n", size(n)),
            ("k", size(k)),
            ("dtype", self.named_dtype().map(|dtype| dtype.to_string())),
            ("b_layout", self.b_layout.map(|layout| layout.to_string())),
            ("bias", self.bias.map(|bias| bias.to_string())),
            ("tf32", self.tf32.then(|| "1".to_owned())),
        ];
        all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }

    pub(crate) fn problem(self, defaults: Defaults) -> Result<Problem, String> {
        let Some([m, n, k]) = self.sizes else {
            return Err("got no shape, expected M×N×K or B×M×N×K, such as 4096x4096x4096".to_owned());
        };
        // A batch needs a batched op, unless the text names the op.
        let op = match self.b {
            Some(b) if b > 1 => self.op.unwrap_or(batched(defaults.op)),
            _ => self.op.unwrap_or(defaults.op),
        };
        let dtype = self.named_dtype().unwrap_or(defaults.dtype);
        let plain = ProblemFields::plain(op, self.b.unwrap_or(1), m, n, k, dtype);
        let bias = if op.has_bias() { self.bias.unwrap_or(defaults.bias) } else { plain.bias };
        let a_layout = self.a_layout.unwrap_or(plain.a_layout);
        let b_layout = self.b_layout.unwrap_or(defaults.b_layout);
        Problem::new(ProblemFields { a_layout, b_layout, bias, ..plain }).map_err(|error| error.to_string())
    }
}

/// Reads a dtype by its torch name or by the short name that people type.
pub(crate) fn dtype(text: &str) -> Result<DType, String> {
    match text {
        "fp16" => Ok(DType::Float16),
        "bf16" => Ok(DType::BFloat16),
        "fp32" => Ok(DType::Float32),
        other => {
            DType::from_torch_name(other.trim_start_matches("torch.")).map_err(|error| error.to_string())
        }
    }
}

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

    #[test]
    fn tf32_is_float32_that_may_be_rounded() {
        for text in ["1024x1024x1024 tf32", "1024x1024x1024 fp32 tf32", "TF32 torch.float32 1024,1024,1024"] {
            let said = ShapeWords::read(text).unwrap();
            assert!(said.tf32 && said.named_dtype() == Some(DType::Float32), "{text}");
        }
        assert!(!ShapeWords::read("64x64x64 fp32").unwrap().tf32);
        assert_eq!(
            ShapeWords::read("64x64x64 bf16 tf32").unwrap_err(),
            "got tf32 with bfloat16, expected float32: nothing else is rounded to TF32"
        );
    }

    #[test]
    fn a_text_without_a_shape_has_no_sizes() {
        assert_eq!(ShapeWords::read("bf16").unwrap().sizes, None);
        assert_eq!(ShapeWords::read("").unwrap(), ShapeWords::default());
        assert!(ShapeWords::read("4096").is_err() && ShapeWords::read("abc").is_err());
    }
}

#[cfg(test)]
mod sizes_tests {
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
