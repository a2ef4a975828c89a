//! A shape in words, as people write it: `1x28672x4096 bf16 addmm column`, `16x4096x14336 fp8 row`,
//! `grouped 512x1536x2048 groups 128 top8`, `moe 128x768x2048 top8 64 tokens fp8 block`.

use diode_core::{Bias, DType, Field, Groups, Invalid, Layout, Op, Problem, ProblemFields, Scaling, Stage};

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
    pub(crate) scaling: Option<Scaling>,
    pub(crate) groups: Option<u32>,
    pub(crate) top_k: Option<u32>,
    pub(crate) stage: Option<Stage>,
    /// The tokens of `moe`, whose sizes are the experts, the intermediate and the hidden size.
    tokens: Option<u64>,
    is_moe: bool,
    is_grouped: bool,
}

impl ShapeWords {
    /// Reads a shape, and words for everything that differs from the defaults, in any order.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let mut said = Self::default();
        let mut sizes = Vec::new();
        let text = text.replace('×', "x").replace(" x ", "x");
        let mut follows = "";
        for word in text.split(|c: char| c.is_whitespace() || c == ';') {
            if let Some((b, shape)) = dims(word) {
                (said.b, said.sizes) = (b.or(said.b), Some(shape));
                continue;
            }
            for word in word.split(',').filter(|word| !word.is_empty()) {
                let after = std::mem::take(&mut follows);
                if let ("groups", Ok(count)) = (after, word.parse()) {
                    said.groups = Some(count);
                } else if let ("top", Ok(count)) = (after, word.parse()) {
                    said.top_k = Some(count);
                } else if said.take_group(word, &mut sizes) {
                    follows = if word == "groups" {
                        "groups"
                    } else if word == "top" {
                        "top"
                    } else {
                        ""
                    };
                } else if let Some((b, shape)) = dims(word) {
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
                        "got `{word}`, expected a shape such as M×N×K, an op, a dtype, a scaling, a layout of B or a bias"
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
        // With these types, `row` is the scaling.
        let is_narrow = said.dtype.is_some_and(|dtype| dtype.is_fp8() || dtype == DType::Int8);
        let is_plain = said.op.is_some_and(Op::is_plain);
        if is_narrow && !is_plain && said.scaling.is_none() && said.b_layout == Some(Layout::Row) {
            (said.scaling, said.b_layout) = (Some(Scaling::Row), None);
        }
        match said.dtype {
            Some(dtype) if said.tf32 && dtype != DType::Float32 => {
                Err(format!("got tf32 with {dtype}, expected float32: nothing else is rounded to TF32"))
            }
            _ => Ok(said),
        }
    }

    /// Takes a word about scales, groups or experts. Returns whether it is one.
    fn take_group(&mut self, word: &str, sizes: &mut Vec<u64>) -> bool {
        match word {
            "moe" => self.is_moe = true,
            "grouped" => self.is_grouped = true,
            "groups" | "top" => {}
            "tokens" => match sizes.pop() {
                Some(tokens) => self.tokens = Some(tokens),
                None => return false,
            },
            "tensor" => self.scaling = Some(Scaling::Tensor),
            "block" => self.scaling = Some(Scaling::Block),
            _ => match (word.strip_prefix("top").and_then(|count| count.parse().ok()), word.parse()) {
                (Some(count), _) => self.top_k = Some(count),
                (_, Ok(stage)) => self.stage = Some(stage),
                _ => return false,
            },
        }
        true
    }

    /// The op that the words name or imply, if they do.
    fn implied_op(&self) -> Option<Op> {
        let is_scaled = self.scaling.is_some_and(|scaling| scaling != Scaling::None);
        let implied = match (self.is_moe, self.is_grouped || self.groups.is_some(), is_scaled) {
            (true, ..) => Some(Op::FusedMoe),
            (_, true, true) => Some(Op::ScaledGroupedMm),
            (_, true, false) => Some(Op::GroupedMm),
            (.., true) => Some(Op::ScaledMm),
            _ => None,
        };
        self.op.or(implied)
    }

    /// The words for each launch: experts without a stage are two.
    pub(crate) fn launches(self) -> Vec<Self> {
        match (self.is_moe, self.stage) {
            (true, None) => {
                Stage::ALL.iter().map(|stage| Self { stage: Some(*stage), ..self.clone() }).collect()
            }
            _ => vec![self],
        }
    }

    /// The same with the sizes of one launch in place of those of a layer of experts.
    fn of_launch(mut self) -> Self {
        if let (true, Some([experts, intermediate, hidden])) = (self.is_moe, self.sizes) {
            let stage = self.stage.unwrap_or(Stage::GateUp);
            let tokens = self.tokens.unwrap_or(1);
            self.sizes = Some(match stage {
                Stage::GateUp => [tokens, 2 * intermediate, hidden],
                Stage::Down => [tokens, hidden, intermediate],
            });
            (self.stage, self.groups) = (Some(stage), experts.try_into().ok());
        }
        self.op = self.implied_op();
        self
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
        let said = self.clone().of_launch();
        said.stated()
    }

    fn stated(&self) -> Vec<(&'static str, String)> {
        let size = |size: Option<u64>| size.map(|size| size.to_string());
        let count = |count: Option<u32>| count.map(|count| count.to_string());
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
            ("scaling", self.scaling.map(|scaling| scaling.to_string())),
            ("groups", count(self.groups)),
            ("top_k", count(self.top_k)),
            ("stage", self.stage.map(|stage| stage.to_string())),
            ("tf32", self.tf32.then(|| "1".to_owned())),
        ];
        all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }

    pub(crate) fn problem(self, defaults: Defaults) -> Result<Problem, String> {
        self.of_launch().stated_problem(defaults)
    }

    fn stated_problem(self, defaults: Defaults) -> Result<Problem, String> {
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
        if !op.is_plain() {
            let top_k = self.top_k.or(op.is_grouped().then_some(1));
            let groups = Groups::from_parts(self.groups, top_k, self.stage, None)
                .map_err(|error| error.to_string())?;
            let scaling = self.scaling.unwrap_or(Scaling::None);
            let b_layout = self.b_layout.unwrap_or(plain.b_layout);
            return Problem::new(ProblemFields { scaling, groups, b_layout, ..plain })
                .map_err(|error| error.to_string());
        }
        if self.dtype.is_some_and(DType::is_fp8) {
            return Err(format!(
                "got {dtype} without scales, expected tensor, row or block, such as `16x4096x14336 fp8 row`"
            ));
        }
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
        "fp8" => Ok(DType::Float8E4M3),
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
    fn scales_groups_and_experts_are_read() {
        let usual =
            Defaults { op: Op::Mm, dtype: DType::BFloat16, b_layout: Layout::Row, bias: Bias::Vector };
        let canonical = |text: &str| -> Vec<String> {
            let said = ShapeWords::read(text).unwrap().launches();
            said.into_iter().map(|said| said.problem(usual).unwrap().canonical()).collect()
        };
        let scaled = "scaled_mm;b=1;m=16;n=4096;k=14336;in=float8_e4m3fn,float8_e4m3fn;out=bfloat16;layout=row,column;bias=none";
        for scaling in ["row", "tensor", "block"] {
            assert_eq!(
                canonical(&format!("16x4096x14336 fp8 {scaling}")),
                [format!("{scaled};scaling={scaling}")]
            );
        }
        assert!(
            canonical("16x4096x14336 int8 row")[0]
                .starts_with("scaled_mm;b=1;m=16;n=4096;k=14336;in=int8,int8")
        );
        let grouped = &canonical("grouped 512x1536x2048 groups 128 top8")[0];
        assert!(grouped.starts_with("grouped_mm;b=1;m=512;n=1536;k=2048;in=bfloat16"), "{grouped}");
        assert!(grouped.ends_with(";groups=128;top_k=8;rows=routed"), "{grouped}");
        let experts = canonical("moe 128x768x2048 top8 64 tokens fp8 block");
        let [gate_up, down] = &experts[..] else { panic!("{experts:?}") };
        assert!(gate_up.starts_with("fused_moe;b=1;m=64;n=1536;k=2048;"), "{gate_up}");
        assert!(
            gate_up.ends_with(";scaling=block;groups=128;top_k=8;stage=gate-up;rows=routed"),
            "{gate_up}"
        );
        assert!(
            down.starts_with("fused_moe;b=1;m=64;n=2048;k=768;") && down.contains("stage=down"),
            "{down}"
        );
        // Without scales, fp8 is refused; `row` stays a layout for other types.
        let refused = ShapeWords::read("16x64x64 fp8").unwrap().problem(usual).unwrap_err();
        assert!(refused.contains("expected tensor, row or block"), "{refused}");
        assert!(canonical("16x64x64 bf16 row")[0].starts_with("mm;"));
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
