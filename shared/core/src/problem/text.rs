//! Problems as people write them: `addmm 16x4096x4096 fp16 nt`, `16x4096x14336 fp8 row`, `grouped 512x1536x2048 groups 128
//! top8`, `moe 128x768x2048 top8 64 tokens fp8 block`; and rows of lists, field by field.

mod notations;

use std::str::FromStr;

pub use notations::{Columns, size, whole};

use self::notations::dims;
use crate::error::{Field, Invalid, Subject};
use crate::{Bias, DType, Groups, Layout, Op, OutputLayout, Problem, ProblemFields, Rows, Scaling, Stage};

impl DType {
    /// Reads torch's names, and the short names that people type.
    pub fn from_short_name(name: &str) -> Result<Self, Invalid> {
        match name.strip_prefix("torch.").unwrap_or(name) {
            "fp16" => Ok(Self::Float16),
            "bf16" => Ok(Self::BFloat16),
            "fp32" => Ok(Self::Float32),
            "fp8" => Ok(Self::Float8E4M3),
            other => Self::from_torch_name(other),
        }
    }
}

/// What a text, a row of a list or the flags of a command say of a problem. Nothing is checked before
/// [`Self::problem`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProblemWords {
    pub op: Option<Op>,
    pub b: Option<u64>,
    pub m: Option<u64>,
    pub n: Option<u64>,
    pub k: Option<u64>,
    /// The type of A, and of the others where nothing is said of them.
    pub dtype: Option<DType>,
    pub b_dtype: Option<DType>,
    pub out_dtype: Option<DType>,
    /// Whether float32 may be rounded to TF32.
    pub tf32: bool,
    pub a_layout: Option<Layout>,
    pub b_layout: Option<Layout>,
    pub bias: Option<Bias>,
    pub out_layout: Option<OutputLayout>,
    pub scaling: Option<Scaling>,
    pub groups: Option<u32>,
    pub top_k: Option<u32>,
    pub stage: Option<Stage>,
    pub rows: Option<Rows>,
    /// As `nn.Linear` multiplies: B in columns, and a bias for each column if the operator has one.
    pub linear: bool,
    /// The tokens of `moe`, whose sizes are the experts, the intermediate and the hidden size.
    pub tokens: Option<u64>,
    pub is_moe: bool,
    pub is_grouped: bool,
    /// Whether the word `row` stands alone. It is the scaling of types of one byte, and else the layout of B.
    pub is_row: bool,
}

/// The problems of a text. `dtype` applies if the text names none. `moe` with experts × intermediate × hidden stands for
/// two problems, unless the text names the stage.
///
/// ```
/// use diode_core::problem::problems_in;
/// use diode_core::DType;
///
/// let row = problems_in("16x4096x14336 fp8 row", DType::BFloat16)?;
/// assert!(row[0].canonical().starts_with("scaled_mm;b=1;m=16;n=4096;k=14336;in=float8_e4m3fn"));
/// let experts = problems_in("moe 128x768x2048 top8 64 tokens fp8 block", DType::BFloat16)?;
/// let dims: Vec<_> = experts.iter().map(|problem| problem.dims()).collect();
/// assert_eq!(dims, ["64×1536×2048", "64×2048×768"]);
/// # Ok::<(), diode_core::Invalid>(())
/// ```
pub fn problems_in(text: &str, dtype: DType) -> Result<Vec<Problem>, Invalid> {
    ProblemWords::read(text)?.problems(&ProblemWords { dtype: Some(dtype), ..ProblemWords::default() })
}

/// Whether a word begins another problem after one that has its sizes.
pub fn begins_problem(word: &str) -> bool {
    dims(word).is_some() || matches!(word, "grouped" | "moe")
}

impl ProblemWords {
    /// The names that [`Self::set`] knows.
    pub const FIELDS: [&str; 17] = [
        "op",
        "b",
        "m",
        "n",
        "k",
        "dtype",
        "a_dtype",
        "b_dtype",
        "out_dtype",
        "a_layout",
        "b_layout",
        "bias",
        "scaling",
        "groups",
        "top_k",
        "stage",
        "rows",
    ];

    /// Whether [`Self::set`] knows a field.
    pub fn is_field(name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        Self::FIELDS.contains(&name.as_str()) || matches!(name.as_str(), "operation" | "name" | "batch")
    }

    /// Reads a size and words for what else a problem has, in any order.
    pub fn read(text: &str) -> Result<Self, Invalid> {
        let text = notations::spelled_out(&text.to_lowercase())?.replace('×', "x");
        let text = text.replace(" x ", "x").replace(" * ", "*");
        let words = text.split(|c: char| c.is_whitespace() || c == ';').flat_map(|word| {
            // `16x4,096x11008` is one word, `16,4096,11008` are three.
            let whole = dims(word).is_some();
            word.split(move |c| c == ',' && !whole).filter(|word| !word.is_empty())
        });
        let (mut said, mut numbers, mut words) = (Self::default(), Vec::new(), words.peekable());
        while let Some(word) = words.next() {
            let mut counted = |field: Field, numbers: &mut Vec<u64>| {
                let follows = words.next_if(|next| next.parse::<u64>().is_ok());
                let number = follows.and_then(|next| next.parse().ok()).or_else(|| numbers.pop());
                let next = words.peek().map_or_else(|| "nothing".to_owned(), |next| format!("`{next:.40}`"));
                small(field, number.ok_or_else(|| Invalid::new(field, next, "a number"))?).map(Some)
            };
            match word {
                "moe" => said.is_moe = true,
                "grouped" => said.is_grouped = true,
                "linear" | "nn.linear" => said.linear = true,
                "row" => said.is_row = true,
                "groups" => said.groups = counted(Field::Groups, &mut numbers)?,
                "top" | "top_k" | "topk" => said.top_k = counted(Field::TopK, &mut numbers)?,
                "token" | "tokens" if !numbers.is_empty() => said.tokens = numbers.pop(),
                _ => said.take(word, &mut numbers)?,
            }
        }
        match numbers[..] {
            [] => {}
            [number, ..] if said.has_sizes() => {
                let expected = "a word that says what the number is: tokens, groups or top_k";
                return Err(Invalid::new("problem", number, expected));
            }
            [m, n, k] => (said.m, said.n, said.k) = (Some(m), Some(n), Some(k)),
            [b, m, n, k] => (said.b, said.m, said.n, said.k) = (Some(b), Some(m), Some(n), Some(k)),
            _ => return Err(Invalid::new("sizes", numbers.len(), "M, N and K, or B, M, N and K")),
        }
        match said.dtype {
            Some(dtype) if said.tf32 && dtype != DType::Float32 => {
                let given = format_args!("tf32 with {dtype}");
                Err(Invalid::new("dtype", given, "float32: nothing else is rounded to TF32"))
            }
            _ => Ok(said),
        }
    }

    /// Takes a word that stands for itself.
    fn take(&mut self, word: &str, numbers: &mut Vec<u64>) -> Result<(), Invalid> {
        let top = word.strip_prefix("top").map(|rest| rest.trim_start_matches(['-', '_']));
        let letter = |letter| if letter == b'n' { Layout::Row } else { Layout::Column };
        if let Some((b, [m, n, k])) = dims(word) {
            if self.has_sizes() {
                return Err(Invalid::new("sizes", format_args!("another size, `{word:.40}`"), "one size"));
            }
            self.b = b.or(self.b);
            (self.m, self.n, self.k) = (Some(m), Some(n), Some(k));
        } else if let Some(number) = whole(word).filter(|_| word == "0" || !word.starts_with('0')) {
            // `4,096` between blanks was torn apart at its comma.
            numbers.push(number);
        } else if let Some(number) = top.and_then(|rest| rest.parse().ok()) {
            self.top_k = Some(small(Field::TopK, number)?);
        } else if let [a @ (b'n' | b't'), b @ (b'n' | b't')] = *word.as_bytes() {
            (self.a_layout, self.b_layout) = (Some(letter(a)), Some(letter(b)));
        } else if let Ok(op) = word.parse() {
            self.op = Some(op);
        } else if let Ok(layout) = word.parse() {
            self.b_layout = Some(layout);
        } else if let Ok(bias) = word.parse() {
            self.bias = Some(bias);
        } else if let Ok(scaling) = word.parse() {
            self.scaling = Some(scaling);
        } else if let Ok(stage) = word.parse() {
            self.stage = Some(stage);
        } else if let Ok(rows) = word.parse() {
            self.rows = Some(rows);
        } else if word == "tf32" {
            // float32 that may be rounded to TF32.
            self.tf32 = true;
        } else if let Ok(dtype) = DType::from_short_name(word) {
            if self.dtype.is_some_and(|said| said != dtype) {
                return Err(Invalid::new("dtype", format_args!("another, `{word:.40}`"), "one"));
            }
            self.dtype = Some(dtype);
        } else {
            let expected = "a size such as 16x4096x4096 (M×N×K) or 8x16x4096x4096 (B×M×N×K), and words: an operator, a \
                            dtype, nt, linear, vector, a scaling (tensor, row or block), `grouped`, `groups 128`, `moe`, `top8`, \
                            `64 tokens`, gate-up, down or even";
            return Err(Invalid::new("problem", format_args!("`{word:.40}`"), expected));
        }
        Ok(())
    }

    /// Sets one field, as a column of a list or a key of JSON names it.
    pub fn set(&mut self, field: &str, value: &str) -> Result<(), Invalid> {
        let value = value.trim();
        let lower = value.to_lowercase();
        let dtype = |name: &'static str| {
            let read = DType::from_short_name(&lower);
            read.map_err(|error| Invalid::new(name, format_args!("`{value:.40}`"), error.expected)).map(Some)
        };
        match field.to_ascii_lowercase().as_str() {
            "op" | "operation" | "name" => self.op = named("op", &lower)?,
            "b" | "batch" => self.b = Some(size(Field::B, value)?),
            "m" => self.m = Some(size(Field::M, value)?),
            "n" => self.n = Some(size(Field::N, value)?),
            "k" => self.k = Some(size(Field::K, value)?),
            "dtype" | "a_dtype" if lower == "tf32" => self.tf32 = true,
            "dtype" => self.dtype = dtype("dtype")?,
            "a_dtype" => self.dtype = dtype("a_dtype")?,
            "b_dtype" => self.b_dtype = dtype("b_dtype")?,
            "out_dtype" => self.out_dtype = dtype("out_dtype")?,
            "a_layout" => self.a_layout = named(Field::ALayout, &lower)?,
            "b_layout" => self.b_layout = named(Field::BLayout, &lower)?,
            "bias" => self.bias = named(Field::Bias, &lower)?,
            "scaling" => self.scaling = named(Field::Scaling, &lower)?,
            "groups" => self.groups = Some(small(Field::Groups, size(Field::Groups, value)?)?),
            "top_k" => self.top_k = Some(small(Field::TopK, size(Field::TopK, value)?)?),
            "stage" => self.stage = named(Field::Stage, &lower)?,
            "rows" => self.rows = named(Field::Rows, &lower)?,
            _ => {
                let expected = format!("one of {}", Self::FIELDS.join(" "));
                return Err(Invalid::new("field", format_args!("`{field:.40}`"), expected));
            }
        }
        Ok(())
    }

    /// Whether M, N and K are said.
    pub fn has_sizes(&self) -> bool {
        self.m.is_some() && self.n.is_some() && self.k.is_some()
    }

    /// The dtype that is named.
    pub fn named_dtype(&self) -> Option<DType> {
        self.dtype.or(self.tf32.then_some(DType::Float32))
    }

    /// The same, with what others say where this says nothing.
    #[must_use]
    pub fn or(self, others: &Self) -> Self {
        let (a, b) = (self, others);
        Self {
            op: a.op.or(b.op),
            b: a.b.or(b.b),
            m: a.m.or(b.m),
            n: a.n.or(b.n),
            k: a.k.or(b.k),
            dtype: a.named_dtype().or(b.dtype),
            b_dtype: a.b_dtype.or(b.b_dtype),
            out_dtype: a.out_dtype.or(b.out_dtype),
            tf32: a.tf32 || (a.dtype.is_none() && b.tf32),
            a_layout: a.a_layout.or(b.a_layout),
            b_layout: a.b_layout.or(b.b_layout),
            bias: a.bias.or(b.bias),
            out_layout: a.out_layout.or(b.out_layout),
            scaling: a.scaling.or(b.scaling),
            groups: a.groups.or(b.groups),
            top_k: a.top_k.or(b.top_k),
            stage: a.stage.or(b.stage),
            rows: a.rows.or(b.rows),
            linear: a.linear || b.linear,
            tokens: a.tokens.or(b.tokens),
            is_moe: a.is_moe || b.is_moe,
            is_grouped: a.is_grouped || b.is_grouped,
            is_row: a.is_row || b.is_row,
        }
    }

    /// The words for each launch: experts without a stage are two.
    pub fn launches(self) -> Vec<Self> {
        match (self.is_moe, self.stage) {
            (true, None) => {
                Stage::ALL.iter().map(|stage| Self { stage: Some(*stage), ..self.clone() }).collect()
            }
            _ => vec![self],
        }
    }

    /// The same with the sizes of one launch in place of those of a layer of experts, with the operator that is named or
    /// implied, and the meaning of `row`.
    #[must_use]
    pub fn of_launch(mut self) -> Self {
        if let (true, Some(experts), Some(intermediate), Some(hidden)) = (self.is_moe, self.m, self.n, self.k)
        {
            let stage = self.stage.unwrap_or(Stage::GateUp);
            (self.n, self.k) = match stage {
                Stage::GateUp => (Some(intermediate.saturating_mul(2)), Some(hidden)),
                Stage::Down => (Some(hidden), Some(intermediate)),
            };
            self.m = Some(self.tokens.unwrap_or(1));
            (self.stage, self.groups) = (Some(stage), experts.try_into().ok());
        }
        if self.is_row {
            let is_narrow = self.dtype.is_some_and(|dtype| dtype.is_fp8() || dtype == DType::Int8);
            if is_narrow && self.scaling.is_none() && !self.op.is_some_and(Op::is_plain) {
                self.scaling = Some(Scaling::Row);
            } else {
                self.b_layout = self.b_layout.or(Some(Layout::Row));
            }
        }
        self.op = self.op.or_else(|| self.implied_op());
        if self.linear {
            self.b_layout = self.b_layout.or(Some(Layout::Column));
            self.bias = self.bias.or(self.op.filter(|op| op.has_bias()).map(|_| Bias::Vector));
        }
        self
    }

    /// The operator that scales, groups or experts imply.
    fn implied_op(&self) -> Option<Op> {
        let is_scaled = self.scaling.is_some_and(|scaling| scaling != Scaling::None);
        match (self.is_moe || self.stage.is_some(), self.is_grouped || self.groups.is_some(), is_scaled) {
            (true, ..) => Some(Op::FusedMoe),
            (_, true, true) => Some(Op::ScaledGroupedMm),
            (_, true, false) => Some(Op::GroupedMm),
            (.., true) => Some(Op::ScaledMm),
            _ => None,
        }
    }

    /// The problem of each launch.
    pub fn problems(self, usual: &Self) -> Result<Vec<Problem>, Invalid> {
        self.launches().into_iter().map(|launch| launch.problem(usual)).collect()
    }

    /// The problem. `usual` applies where nothing is said and it fits the operator. The first launch stands for experts
    /// without a stage.
    pub fn problem(self, usual: &Self) -> Result<Problem, Invalid> {
        let dtype = self.named_dtype().or(usual.named_dtype());
        let said = Self { dtype, linear: self.linear || usual.linear, ..self };
        said.check_experts()?;
        let said = said.of_launch();
        let (Some(m), Some(n), Some(k)) = (said.m, said.n, said.k) else {
            let field = [(Field::M, said.m), (Field::N, said.n), (Field::K, said.k)];
            let missing = field.into_iter().find(|(_, size)| size.is_none()).map(|(field, _)| field);
            return Err(match missing.filter(|_| said.m.or(said.n).or(said.k).is_some()) {
                Some(field) => Invalid::new(field, "none", format!("a size from 1 to {}", Problem::MAX_DIM)),
                None => Invalid::new("sizes", "none", "M×N×K or B×M×N×K, such as 16x4096x4096"),
            });
        };
        let b = said.b.or(usual.b).unwrap_or(1);
        let batch = |op: Op| if b > 1 && op.is_plain() { op.batched() } else { op };
        let named = said.op.or(usual.op.map(batch)).or_else(|| usual.implied_op());
        let op = named.unwrap_or_else(|| batch(Op::Mm));
        let dtype = dtype.unwrap_or(DType::BFloat16);
        if said.op.is_none() && op.is_plain() && dtype.is_fp8() {
            let expected = format!(
                "tensor, row or block, since {dtype} is multiplied with scales: `{m}x{n}x{k} fp8 row`"
            );
            return Err(Invalid::new(Field::Scaling, "none", expected));
        }
        let plain = ProblemFields::plain(op, b, m, n, k, dtype);
        let usual_layout = |layout: Option<Layout>| layout.filter(|_| op.is_plain());
        let usual_bias = if said.linear { Some(Bias::Vector) } else { usual.bias }.filter(|_| op.has_bias());
        let usual_scaling = usual.scaling.filter(|_| op.may_scale());
        let usual_groups = |count: Option<u32>| count.filter(|_| op.is_grouped());
        Problem::new(ProblemFields {
            b_dtype: said.b_dtype.or(usual.b_dtype).unwrap_or(plain.b_dtype),
            out_dtype: said.out_dtype.or(usual.out_dtype).unwrap_or(plain.out_dtype),
            a_layout: said.a_layout.or(usual_layout(usual.a_layout)).unwrap_or(plain.a_layout),
            b_layout: said.b_layout.or(usual_layout(usual.b_layout)).unwrap_or(plain.b_layout),
            bias: said.bias.or(usual_bias).unwrap_or(plain.bias),
            out_layout: said.out_layout.or(usual.out_layout),
            scaling: said.scaling.or(usual_scaling).unwrap_or(plain.scaling),
            groups: Groups::from_parts(
                said.groups.or(usual_groups(usual.groups)),
                said.top_k.or(usual_groups(usual.top_k)),
                said.stage.or(usual.stage.filter(|_| op == Op::FusedMoe)),
                said.rows.or(usual.rows.filter(|_| op.is_grouped())),
            )?,
            ..plain
        })
    }

    /// Refuses `moe` without all that it needs, and tokens without it.
    fn check_experts(&self) -> Result<(), Invalid> {
        if !self.is_moe {
            return match self.tokens {
                Some(tokens) => {
                    let expected = "none, since M counts all rows; `moe` takes tokens";
                    Err(Invalid::new("tokens", tokens, expected))
                }
                None => Ok(()),
            };
        }
        if !self.has_sizes() {
            let expected = "experts×intermediate×hidden, such as 128x768x2048";
            return Err(Invalid::new("sizes", "none", expected));
        }
        if let Some(groups) = self.groups {
            let expected = "none, since the first size of `moe` is the number of experts";
            return Err(Invalid::new(Field::Groups, groups, expected));
        }
        small(Field::Groups, self.m.unwrap_or(0))?;
        let need = |name: &'static str, is_there: bool, example: &str| match is_there {
            true => Ok(()),
            false => Err(Invalid::new(name, "none", format!("a number, such as `{example}`"))),
        };
        need("tokens", self.tokens.is_some(), "64 tokens")?;
        need("top_k", self.top_k.is_some(), "top8")
    }
}

/// A value with a fixed name. The error names the field.
fn named<T: FromStr<Err = Invalid>>(field: impl Into<Subject>, text: &str) -> Result<Option<T>, Invalid> {
    match text.parse() {
        Ok(value) => Ok(Some(value)),
        Err(Invalid { given, expected, .. }) => Err(Invalid::new(field, given, expected)),
    }
}

fn small(field: Field, number: u64) -> Result<u32, Invalid> {
    let most = || Invalid::new(field, number, format!("a number from 1 to {}", Groups::MAX));
    u32::try_from(number).map_err(|_| most())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> Vec<String> {
        let problems = problems_in(text, DType::BFloat16).unwrap();
        problems.iter().map(Problem::canonical).collect()
    }

    fn refused(text: &str) -> String {
        problems_in(text, DType::BFloat16).unwrap_err().to_string()
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
    fn plain_texts_name_problems_in_any_spelling() {
        let plain = |op, dtype, layouts, bias| {
            format!("{op};b=1;m=16;n=4096;k=512;in={dtype},{dtype};out={dtype};layout={layouts};bias={bias}")
        };
        let mm = plain("mm", "bfloat16", "row,row", "none");
        let spellings = [
            "16x4096x512",
            "16 × 4096 × 512",
            "16*4,096*512",
            "16, 4096, 512",
            "(16, 4096, 512)",
            "16 4096 512",
        ];
        for text in spellings.iter().copied().chain(["bf16 16X4096X512 nn", "16x4096x512 mm row"]) {
            assert_eq!(canonical(text), std::slice::from_ref(&mm), "{text}");
        }
        let addmm = plain("addmm", "float16", "row,column", "vector");
        assert_eq!(canonical("addmm 16x4096x512 torch.float16 nt vector"), std::slice::from_ref(&addmm));
        assert_eq!(canonical("addmm 16x4096x512 half linear"), [addmm]);
        assert!(canonical("8x16x4096x512")[0].starts_with("bmm;b=8;m=16;"));
        let usual = ProblemWords { op: Some(Op::Addmm), bias: Some(Bias::Vector), ..ProblemWords::default() };
        let batched = ProblemWords::read("8x16x4096x512").unwrap().problem(&usual).unwrap();
        assert_eq!((batched.op, batched.bias), (Op::Baddbmm, Bias::Vector));
        assert_eq!(ProblemWords::read("16x4096x512 tf32").unwrap().named_dtype(), Some(DType::Float32));
    }

    #[test]
    fn fields_name_problems_like_words() {
        let mut said = ProblemWords::default();
        for (field, value) in
            [("M", "64"), ("n", "1,536"), ("K", "2048"), ("dtype", "fp8"), ("scaling", "block")]
        {
            said.set(field, value).unwrap();
        }
        let usual =
            ProblemWords { bias: Some(Bias::Vector), b_layout: Some(Layout::Row), ..ProblemWords::default() };
        let problem = said.clone().problem(&usual).unwrap();
        assert_eq!(canonical("64x1536x2048 fp8 block"), [problem.canonical()]);
        for (field, value, words) in [
            ("m", "x", "M: got x, expected a size from 1 to 2147483648"),
            ("k", "", "K: got nothing, expected a size"),
            ("b_layout", "diagonal", "b_layout: got `diagonal`, expected one of row column"),
            ("a_dtype", "float17", "a_dtype: got `float17`, expected one of float16"),
            ("colour", "red", "field: got `colour`, expected one of op b m n k"),
        ] {
            let error = said.set(field, value).unwrap_err().to_string();
            assert!(error.starts_with(words), "{error}");
        }
        for field in ProblemWords::FIELDS {
            let error = said.set(field, "?").unwrap_err().to_string();
            assert!(!error.starts_with("field: "), "{error}");
        }
    }

    #[test]
    fn errors_name_what_was_given_and_expected() {
        for (text, words) in [
            ("16x4096x14336 bf16 tensor", "a_dtype: got bfloat16, expected float8 or int8, since scaled_mm"),
            ("16x4096x14336 fp8", "scaling: got none, expected tensor, row or block, since float8_e4m3fn"),
            ("moe 128x768x2048 top8 fp8 block", "tokens: got none, expected a number, such as `64 tokens`"),
            ("moe 128x768x2048 64 tokens", "top_k: got none, expected a number, such as `top8`"),
            ("moe 128x768x2048 64 top8", "problem: got 64, expected a word that says what the number is"),
            (
                "moe top8 64 tokens",
                "sizes: got none, expected experts×intermediate×hidden, such as 128x768x2048",
            ),
            ("moe 8x768x2048 top9 64 tokens", "top_k: got 9, expected a number from 1 to 8"),
            ("16x32x64 top8", "top_k: got 8, expected none, since there is no number of groups"),
            ("grouped 512x1536x2048", "groups: got none, expected a number of groups"),
            ("grouped 512x1536x2048 groups many", "groups: got `many`, expected a number"),
            ("grouped 512x1536x2048 groups 8 64 tokens", "tokens: got 64, expected none, since M counts"),
            ("16x4096x14336 fp8 rows block", "problem: got `rows`, expected a size such as 16x4096x4096"),
            ("16x32x64 32x64x128", "sizes: got another size, `32x64x128`, expected one size"),
            ("16, 4,096, 512", "problem: got `096`, expected a size"),
            ("16x32", "problem: got `16x32`, expected a size such as 16x4096x4096"),
            ("bf16", "sizes: got none, expected M×N×K or B×M×N×K"),
            ("1,2,3,4,5", "sizes: got 5, expected M, N and K, or B, M, N and K"),
            ("64x64x64 bf16 tf32", "dtype: got tf32 with bfloat16, expected float32: nothing else"),
        ] {
            let said = refused(text);
            assert!(said.starts_with(words), "{text}: {said}");
        }
    }
}
