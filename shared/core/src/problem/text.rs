//! Scaled and grouped problems as people write them: `16x4096x14336 fp8 row`, `grouped 512x1536x2048 groups 128 top8`,
//! `moe 128x768x2048 top8 64 tokens fp8 block`.

use crate::error::{Field, Invalid};
use crate::{DType, Groups, Op, Problem, ProblemFields, Rows, Scaling, Stage};

impl DType {
    /// Reads torch's names, and the short names that people type.
    pub fn from_short_name(name: &str) -> Result<Self, Invalid> {
        match name {
            "fp16" => Ok(Self::Float16),
            "bf16" => Ok(Self::BFloat16),
            "fp32" => Ok(Self::Float32),
            "fp8" => Ok(Self::Float8E4M3),
            other => Self::from_torch_name(other),
        }
    }
}

/// What a text says.
#[derive(Debug, Default)]
struct Said {
    op: Option<Op>,
    sizes: Option<[u64; 3]>,
    dtype: Option<DType>,
    scaling: Option<Scaling>,
    groups: Option<u64>,
    top_k: Option<u64>,
    tokens: Option<u64>,
    stage: Option<Stage>,
    rows: Option<Rows>,
    /// Numbers whose meaning the next word says.
    number: Option<u64>,
    /// The name of the number that must follow.
    expects: Option<&'static str>,
}

/// Whether a word stands in texts of scaled and grouped problems beside sizes and numbers.
pub fn is_serving_word(word: &str) -> bool {
    // `tokens` says what a number before it is.
    let mut said = Said { number: Some(1), ..Said::default() };
    !word.contains(char::is_whitespace) && dims(word).is_none() && said.take(word).is_ok()
}

/// Whether a text begins another problem after words that name one: a size, `grouped` or `moe`.
pub fn begins_problem(word: &str) -> bool {
    dims(word).is_some() || matches!(word, "grouped" | "moe")
}

/// The problems of a text about scaled or grouped operands. `None` if the text is about neither. `moe` with
/// experts × intermediate × hidden stands for two problems, unless the text names the stage. `dtype` applies if the
/// text names none.
///
/// ```
/// use diode_core::problem::serving_problems;
/// use diode_core::DType;
///
/// let read = |text| serving_problems(text, DType::BFloat16);
/// let row = read("16x4096x14336 fp8 row").unwrap()?;
/// assert!(row[0].canonical().starts_with("scaled_mm;b=1;m=16;n=4096;k=14336;in=float8_e4m3fn"));
/// let experts = read("moe 128x768x2048 top8 64 tokens fp8 block").unwrap()?;
/// let dims: Vec<_> = experts.iter().map(|problem| problem.dims()).collect();
/// assert_eq!(dims, ["64×1536×2048", "64×2048×768"]);
/// assert!(read("16x4096x14336 bf16").is_none());
/// # Ok::<(), diode_core::Invalid>(())
/// ```
pub fn serving_problems(text: &str, dtype: DType) -> Option<Result<Vec<Problem>, Invalid>> {
    let text = text.replace('×', "x").replace(" x ", "x").to_lowercase();
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c == ',' || c == ';').filter(|w| !w.is_empty()).collect();
    let is = |wanted: &[&str]| words.iter().any(|word| wanted.contains(word));
    let narrow = |dtype: DType| dtype.is_fp8() || dtype == DType::Int8;
    let named = words.iter().find_map(|word| DType::from_short_name(word).ok()).unwrap_or(dtype);
    let of_op = words.iter().any(|word| word.parse().is_ok_and(|op: Op| !op.is_plain()));
    let scaled = is(&["tensor", "block"]) || (is(&["row"]) && narrow(named));
    (of_op || scaled || is(&["grouped", "moe"])).then(|| read(&words, dtype))
}

fn read(words: &[&str], dtype: DType) -> Result<Vec<Problem>, Invalid> {
    let mut said = Said::default();
    words.iter().try_for_each(|word| said.take(word))?;
    if let Some(number) = said.number {
        return Err(Invalid::new("problem", number, "a word that says what the number is: tokens"));
    }
    if let Some(name) = said.expects {
        return Err(Invalid::new(name, "nothing", "a number"));
    }
    said.problems(dtype)
}

impl Said {
    fn take(&mut self, word: &str) -> Result<(), Invalid> {
        if let Some(name) = self.expects.take() {
            let expected = || Invalid::new(name, format_args!("`{word:.40}`"), "a number");
            let number = Some(word.parse().map_err(|_| expected())?);
            if name == "groups" {
                self.groups = number
            } else {
                self.top_k = number
            };
            return Ok(());
        }
        let top = word.strip_prefix("top").map(|rest| rest.trim_start_matches(['-', '_']));
        match word {
            "grouped" => self.op = Some(Op::GroupedMm),
            "moe" => self.op = Some(Op::FusedMoe),
            "groups" => match self.number.take() {
                Some(number) => self.groups = Some(number),
                None => self.expects = Some("groups"),
            },
            "top" | "top_k" | "topk" => self.expects = Some("top_k"),
            "token" | "tokens" if self.number.is_some() => self.tokens = self.number.take(),
            _ => {
                if let Some(number) = top.and_then(|rest| rest.parse().ok()) {
                    self.top_k = Some(number);
                } else if let Some(sizes) = dims(word) {
                    self.sizes = Some(sizes);
                } else if let Ok(number) = word.parse() {
                    self.number = Some(number);
                } else if let Ok(op) = word.parse() {
                    self.op = Some(op);
                } else if let Ok(scaling) = word.parse() {
                    self.scaling = Some(scaling);
                } else if let Ok(stage) = word.parse() {
                    self.stage = Some(stage);
                } else if let Ok(rows) = word.parse() {
                    self.rows = Some(rows);
                } else if let Ok(dtype) = DType::from_short_name(word) {
                    self.dtype = Some(dtype);
                } else {
                    let expected = "M×N×K, `grouped` or `moe`, a dtype, a scaling (tensor, row or block), `groups N`, \
                                    `topN`, `N tokens`, a stage (gate-up or down) or `even`";
                    return Err(Invalid::new("problem", format_args!("`{word:.40}`"), expected));
                }
            }
        }
        Ok(())
    }

    fn problems(self, dtype: DType) -> Result<Vec<Problem>, Invalid> {
        let dtype = self.dtype.unwrap_or(dtype);
        let scaling = self.scaling.unwrap_or(Scaling::None);
        let op = match self.op {
            Some(Op::GroupedMm) if scaling != Scaling::None => Op::ScaledGroupedMm,
            Some(op) => op,
            None => Op::ScaledMm,
        };
        let what = if op == Op::FusedMoe { "experts×intermediate×hidden" } else { "M×N×K" };
        let sizes = self.sizes.ok_or_else(|| {
            Invalid::new(
                "sizes",
                "none",
                format!(
                    "{what}, such as {}",
                    if op == Op::FusedMoe { "128x768x2048" } else { "16x4096x14336" }
                ),
            )
        })?;
        let small = |field: Field, number: Option<u64>| {
            let narrow = |number| {
                u32::try_from(number)
                    .map_err(|_| Invalid::new(field, number, format!("at most {}", Groups::MAX)))
            };
            number.map(narrow).transpose()
        };
        let top_k = small(Field::TopK, self.top_k)?;
        let [m, n, k] = sizes;
        if op != Op::FusedMoe {
            if let Some(tokens) = self.tokens {
                let expected = format!("none, since M of {op} counts all rows; `moe` takes tokens");
                return Err(Invalid::new("tokens", tokens, expected));
            }
            let groups =
                Groups::from_parts(small(Field::Groups, self.groups)?, top_k, self.stage, self.rows)?;
            let plain = ProblemFields::plain(op, 1, m, n, k, dtype);
            return Ok(vec![Problem::new(ProblemFields { scaling, groups, ..plain })?]);
        }
        let need = |name: &str, number: Option<u64>, example: &str| {
            number.ok_or_else(|| Invalid::new(name, "none", format!("a number, such as `{example}`")))
        };
        let tokens = need("tokens", self.tokens, "64 tokens")?;
        need("top_k", self.top_k, "top8")?;
        if let Some(groups) = self.groups {
            return Err(Invalid::new(
                Field::Groups,
                groups,
                "none, since the first size of `moe` is the number of experts",
            ));
        }
        let (experts, intermediate, hidden) = (m, n, k);
        let of_stage = |stage: Stage| {
            let (n, k) = match stage {
                Stage::GateUp => (intermediate.saturating_mul(2), hidden),
                Stage::Down => (hidden, intermediate),
            };
            let count = small(Field::Groups, Some(experts))?;
            let groups = Groups::from_parts(count, top_k, Some(stage), self.rows)?;
            Problem::new(ProblemFields {
                scaling,
                groups,
                ..ProblemFields::plain(op, 1, tokens, n, k, dtype)
            })
        };
        let stages = Stage::ALL.iter().filter(|stage| self.stage.is_none_or(|only| only == **stage));
        stages.map(|stage| of_stage(*stage)).collect()
    }
}

/// Three sizes, such as `16x4096x14336`.
fn dims(word: &str) -> Option<[u64; 3]> {
    let numbers: Option<Vec<u64>> = word.split(['x', '×', '*']).map(|number| number.parse().ok()).collect();
    numbers?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> Vec<String> {
        let problems = serving_problems(text, DType::BFloat16).unwrap().unwrap();
        problems.iter().map(Problem::canonical).collect()
    }

    fn refused(text: &str) -> String {
        serving_problems(text, DType::BFloat16).unwrap().unwrap_err().to_string()
    }

    #[test]
    fn texts_name_problems() {
        let fp8 = "in=float8_e4m3fn,float8_e4m3fn;out=bfloat16;layout=row,column;bias=none";
        for scaling in ["tensor", "row", "block"] {
            let expected = format!("scaled_mm;b=1;m=64;n=4096;k=7168;{fp8};scaling={scaling}");
            assert_eq!(canonical(&format!("64x4096x7168 fp8 {scaling}")), [expected]);
        }
        assert!(canonical("16×4096×14336 int8 row")[0].contains("in=int8,int8;out=bfloat16"));
        let grouped = "grouped_mm;b=1;m=512;n=1536;k=2048;in=bfloat16,bfloat16;out=bfloat16;layout=row,column;bias=none;groups=128;top_k=8;rows=routed";
        for text in ["grouped 512x1536x2048 groups 128 top8", "grouped 512x1536x2048 128 groups top 8 bf16"] {
            assert_eq!(canonical(text), [grouped]);
        }
        assert!(
            canonical("grouped 512x1536x2048 groups 128 fp8 row even")[0].starts_with("scaled_grouped_mm;")
        );
        let stages = canonical("moe 128x768x2048 top8 64 tokens fp8 block");
        let end = "scaling=block;groups=128;top_k=8";
        assert_eq!(
            stages,
            [
                format!("fused_moe;b=1;m=64;n=1536;k=2048;{fp8};{end};stage=gate-up;rows=routed"),
                format!("fused_moe;b=1;m=64;n=2048;k=768;{fp8};{end};stage=down;rows=routed"),
            ]
        );
        assert_eq!(canonical("moe 128x768x2048 top8 64 tokens fp8 block down"), [stages[1].clone()]);
    }

    #[test]
    fn texts_of_other_problems_are_left_alone() {
        for text in
            ["16x4096x14336", "16x4096x14336 bf16 row", "8x16x32x64 addmm column", "4096x4096x4096 fp8"]
        {
            assert!(serving_problems(text, DType::BFloat16).is_none(), "{text}");
        }
        assert!(
            is_serving_word("top8")
                && is_serving_word("moe")
                && is_serving_word("tokens")
                && is_serving_word("64")
        );
        assert!(!is_serving_word("16x32") && !is_serving_word("1x2x3") && !is_serving_word("wide"));
    }

    #[test]
    fn errors_name_what_was_given_and_expected() {
        for (text, words) in [
            ("16x4096x14336 bf16 tensor", "a_dtype: got bfloat16, expected float8 or int8, since scaled_mm"),
            ("moe 128x768x2048 top8 fp8 block", "tokens: got none, expected a number, such as `64 tokens`"),
            ("moe 128x768x2048 64 tokens", "top_k: got none, expected a number, such as `top8`"),
            ("moe 128x768x2048 64 top8", "problem: got 64, expected a word that says what the number is"),
            (
                "moe top8 64 tokens",
                "sizes: got none, expected experts×intermediate×hidden, such as 128x768x2048",
            ),
            ("moe 8x768x2048 top9 64 tokens", "top_k: got 9, expected a number from 1 to 8"),
            ("grouped 512x1536x2048 top8", "top_k: got 8, expected none, since there is no number of groups"),
            ("grouped 512x1536x2048", "groups: got none, expected a number of groups"),
            ("grouped 512x1536x2048 groups many", "groups: got `many`, expected a number"),
            (
                "grouped 512x1536x2048 groups 8 64 tokens",
                "tokens: got 64, expected none, since M of grouped_mm",
            ),
            ("16x4096x14336 fp8 rows block", "problem: got `rows`, expected M×N×K"),
        ] {
            let said = refused(text);
            assert!(said.starts_with(words), "{text}: {said}");
        }
    }
}
