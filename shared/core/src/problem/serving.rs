//! The operands of the multiplications that models are served with: how they are scaled, and how their rows
//! are grouped.

use serde::{Deserialize, Serialize};

use crate::error::{Field, Invalid};
use crate::named_enum::named_enum;
use crate::{Bias, DType, Layout, Op, Problem, ProblemFields};

named_enum! {
    /// Which elements of an operand share a scale. Scales are float32.
    Scaling(Field::Scaling) {
        None = "none",
        /// One scale for each operand, or for each group's weights.
        Tensor = "tensor",
        /// One scale for each row of A and for each column of B.
        Row = "row",
        /// One scale for 1×128 elements of A and for 128×128 of B.
        Block = "block",
    }
}

impl Scaling {
    /// The side of a block of B, and the length of a block of A.
    pub const BLOCK: u64 = 128;

    pub(crate) const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// The scales of A and of one group's B.
    fn counts(self, rows: f64, n: u64, k: u64) -> (f64, f64) {
        let blocks = |size: u64| size.div_ceil(Self::BLOCK) as f64;
        match self {
            Self::None => (0.0, 0.0),
            Self::Tensor => (1.0, 1.0),
            Self::Row => (rows, n as f64),
            Self::Block => (rows * blocks(k), blocks(n) * blocks(k)),
        }
    }
}

named_enum! {
    /// One of the two multiplications in a layer of experts.
    Stage(Field::Stage) {
        /// From the hidden size to both halves of the gated activation. Each token is read once and
        /// gives a row for each of its experts.
        GateUp = "gate-up",
        /// Back to the hidden size, with a row for each token and expert.
        Down = "down",
    }
}

named_enum! {
    /// How rows are spread over groups.
    Rows(Field::Rows) {
        /// Each token goes to `top_k` distinct groups, drawn uniformly.
        Routed = "routed",
        /// Each group gets equally many rows, as far as that is possible.
        Even = "even",
    }
}

/// The groups of a grouped problem. Each has its own weights, N×K.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Groups {
    pub count: u32,
    /// The groups that each token goes to.
    #[serde(default = "one")]
    pub top_k: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    #[serde(default = "routed")]
    pub rows: Rows,
}

const fn one() -> u32 {
    1
}

const fn routed() -> Rows {
    Rows::Routed
}

impl Groups {
    /// No model has this many experts.
    pub const MAX: u32 = 65_536;

    /// The groups that columns of a file or flags of a command describe. Without `count`, there must be none of
    /// the others.
    pub fn from_parts(
        count: Option<u32>,
        top_k: Option<u32>,
        stage: Option<Stage>,
        rows: Option<Rows>,
    ) -> Result<Option<Self>, Invalid> {
        let Some(count) = count else {
            let stray = (top_k.map(|top_k| (Field::TopK, top_k.to_string())))
                .or(stage.map(|stage| (Field::Stage, stage.to_string())))
                .or(rows.map(|rows| (Field::Rows, rows.to_string())));
            return match stray {
                Some((field, given)) => {
                    Err(Invalid::new(field, given, "none, since there is no number of groups"))
                }
                None => Ok(None),
            };
        };
        let rows = rows.unwrap_or(Rows::Routed);
        Ok(Some(Self { count, top_k: top_k.unwrap_or(1), stage, rows }))
    }

    /// Groups of routed rows without a stage.
    pub const fn routed(count: u32, top_k: u32) -> Self {
        Self { count, top_k, stage: None, rows: Rows::Routed }
    }
}

impl Op {
    /// The operators on unscaled matrices without groups.
    pub const PLAIN: [Self; 4] = [Self::Mm, Self::Addmm, Self::Bmm, Self::Baddbmm];

    /// Whether the operator is one of [`Self::PLAIN`].
    pub const fn is_plain(self) -> bool {
        matches!(self, Self::Mm | Self::Addmm | Self::Bmm | Self::Baddbmm)
    }

    /// The layout of B in [`ProblemFields::plain`].
    pub const fn usual_b_layout(self) -> Layout {
        if self.is_plain() { Layout::Row } else { Layout::Column }
    }

    /// Whether rows belong to groups with their own weights.
    pub const fn is_grouped(self) -> bool {
        matches!(self, Self::GroupedMm | Self::ScaledGroupedMm | Self::FusedMoe)
    }

    /// Whether operands may have scales.
    pub const fn may_scale(self) -> bool {
        matches!(self, Self::ScaledMm | Self::ScaledGroupedMm | Self::FusedMoe)
    }

    /// Whether times of the one operator say something about the other.
    pub const fn is_like(self, other: Self) -> bool {
        self as u8 == other as u8
            || (self.is_plain() && other.is_plain() && self.is_batched() == other.is_batched())
    }

    /// Refuses an operator that works on scaled or grouped operands, in the words of what knows only the others.
    pub fn check_plain(self) -> Result<(), Invalid> {
        if self.is_plain() {
            return Ok(());
        }
        Err(Invalid::new("op", self, format!("one of {}", Self::PLAIN.map(Self::as_str).join(" "))))
    }
}

/// Whether two problems are the launches of one layer of experts, the first one first.
pub fn are_one_layer(a: &Problem, b: &Problem) -> bool {
    let (Some(first), Some(second)) = (a.groups, b.groups) else { return false };
    a.op == Op::FusedMoe
        && b.op == Op::FusedMoe
        && (first.count, first.top_k, a.m, a.a_dtype, a.scaling)
            == (second.count, second.top_k, b.m, b.a_dtype, b.scaling)
        && first.stage == Some(Stage::GateUp)
        && second.stage == Some(Stage::Down)
        && a.k == b.n
        && (a.n == b.k || a.n == 2 * b.k)
}

/// Refuses scales and groups that do not fit the operator.
pub(super) fn check(fields: &ProblemFields) -> Result<(), Invalid> {
    let op = fields.op;
    let always = op.may_scale() && op != Op::FusedMoe;
    match fields.scaling {
        Scaling::None if always => {
            let expected = format!("tensor, row or block, since {op} scales its operands");
            return Err(Invalid::new(Field::Scaling, "`none`", expected));
        }
        scaling if scaling != Scaling::None && !op.may_scale() => {
            let expected = format!("`none`, since {op} scales nothing");
            return Err(Invalid::new(Field::Scaling, format_args!("`{scaling}`"), expected));
        }
        _ => {}
    }
    match (&fields.groups, op.is_grouped()) {
        (Some(groups), true) => check_groups(groups, fields)?,
        (None, true) => {
            let expected = format!("a number of groups, since {op} has them");
            return Err(Invalid::new(Field::Groups, "none", expected));
        }
        (Some(groups), false) => {
            let expected = format!("none, since {op} has no groups");
            return Err(Invalid::new(Field::Groups, groups.count, expected));
        }
        (None, false) => {}
    }
    if op.is_plain() { Ok(()) } else { check_operands(fields) }
}

fn check_groups(groups: &Groups, fields: &ProblemFields) -> Result<(), Invalid> {
    let Groups { count, top_k, stage, rows } = *groups;
    if !(1..=Groups::MAX).contains(&count) {
        return Err(Invalid::new(Field::Groups, count, format!("a number from 1 to {}", Groups::MAX)));
    }
    if !(1..=count).contains(&top_k) {
        let expected = format!("a number from 1 to {count}, the number of groups");
        return Err(Invalid::new(Field::TopK, top_k, expected));
    }
    let op = fields.op;
    match (stage, op == Op::FusedMoe) {
        (None, true) => {
            return Err(Invalid::new(
                Field::Stage,
                "none",
                "gate-up or down, since fused_moe is one of both",
            ));
        }
        (Some(stage), false) => {
            let expected = format!("none, since {op} has no stages");
            return Err(Invalid::new(Field::Stage, stage, expected));
        }
        _ => {}
    }
    if op != Op::FusedMoe && rows == Rows::Routed && !fields.m.is_multiple_of(u64::from(top_k)) {
        let expected = format!("a multiple of top_k = {top_k}, since M counts {top_k} rows of each token");
        return Err(Invalid::new(Field::M, fields.m, expected));
    }
    Ok(())
}

/// Refuses types and layouts for which none of these operators exist.
fn check_operands(fields: &ProblemFields) -> Result<(), Invalid> {
    let ProblemFields { op, a_dtype, b_dtype, out_dtype, .. } = *fields;
    let scaled = fields.scaling != Scaling::None;
    let ocp = |dtype| matches!(dtype, DType::Float8E4M3 | DType::Float8E5M2);
    if scaled && !(a_dtype.is_fp8() || a_dtype == DType::Int8) {
        let expected = format!("float8 or int8, since {op} with scales multiplies these");
        return Err(Invalid::new(Field::ADtype, a_dtype, expected));
    }
    let float = |dtype| matches!(dtype, DType::BFloat16 | DType::Float16 | DType::Float32);
    if !scaled && !float(a_dtype) {
        let expected = format!("bfloat16, float16 or float32, since {op} without scales multiplies these");
        return Err(Invalid::new(Field::ADtype, a_dtype, expected));
    }
    if b_dtype != a_dtype && !(ocp(a_dtype) && ocp(b_dtype)) {
        return Err(Invalid::new(Field::BDtype, b_dtype, format!("{a_dtype}, as A has")));
    }
    if !float(out_dtype) {
        let expected = format!("bfloat16, float16 or float32, since {op} writes these");
        return Err(Invalid::new(Field::OutDtype, out_dtype, expected));
    }
    if fields.a_layout != Layout::Row {
        let expected = format!("row, since {op} reads A in rows");
        return Err(Invalid::new(Field::ALayout, fields.a_layout, expected));
    }
    if fields.b_layout != Layout::Column && op != Op::GroupedMm {
        let expected = format!("column, since {op} reads weights as N×K");
        return Err(Invalid::new(Field::BLayout, fields.b_layout, expected));
    }
    if let Some(out) = fields.out_layout {
        let expected = format!("the dense output, since {op} writes no other");
        return Err(Invalid::new(Field::OutSize, format_args!("{:?}", out.size), expected));
    }
    debug_assert!(fields.bias == Bias::None);
    Ok(())
}

impl ProblemFields {
    /// The rows of the output, and of the multiplication, in one batch.
    pub fn rows(&self) -> u64 {
        match (self.op, &self.groups) {
            (Op::FusedMoe, Some(groups)) => self.m.saturating_mul(groups.top_k.into()),
            _ => self.m,
        }
    }

    /// The rows of A. They are fewer than those of the output where experts share a token.
    pub fn a_rows(&self) -> u64 {
        match &self.groups {
            Some(Groups { stage: Some(Stage::GateUp), .. }) => self.m,
            _ => self.rows(),
        }
    }

    /// The tokens that were routed. Without groups, the rows.
    pub fn tokens(&self) -> u64 {
        match &self.groups {
            Some(groups) if self.op != Op::FusedMoe => self.m / u64::from(groups.top_k).max(1),
            _ => self.m,
        }
    }
}

impl Problem {
    /// How many groups' weights are read, on average. 1 without groups.
    ///
    /// ```
    /// use diode_core::{DType, Groups, Op, Problem, ProblemFields};
    ///
    /// let plain = ProblemFields::plain(Op::GroupedMm, 1, 512, 1536, 2048, DType::BFloat16);
    /// let problem = Problem::new(ProblemFields { groups: Some(Groups::routed(128, 8)), ..plain })?;
    /// assert_eq!(problem.distinct_groups().round(), 126.0);
    /// # Ok::<(), diode_core::Invalid>(())
    /// ```
    pub fn distinct_groups(&self) -> f64 {
        let Some(Groups { count, top_k, rows, .. }) = self.groups else { return 1.0 };
        let count = f64::from(count);
        match rows {
            Rows::Even => count.min(self.rows() as f64),
            Rows::Routed => {
                let missed = libm::pow(1.0 - f64::from(top_k) / count, self.tokens() as f64);
                count * (1.0 - missed)
            }
        }
    }

    /// The bytes that move with the fewest groups that a routing plausibly has. Each routing has other groups, and a
    /// time may be of one routing.
    pub(crate) fn least_bytes(&self) -> f64 {
        /// Fewer groups, by this many standard deviations, are not drawn by chance. The deviation is rather too large,
        /// because the groups of one token are distinct.
        const DEVIATIONS: f64 = 3.0;
        let mean = self.distinct_groups();
        let least = match self.groups {
            Some(Groups { count, top_k, rows: Rows::Routed, .. }) => {
                let deviation = (mean * (1.0 - mean / f64::from(count))).max(0.0).sqrt();
                (mean - DEVIATIONS * deviation).max(f64::from(top_k).min(mean))
            }
            _ => mean,
        };
        self.bytes_of(least)
    }

    /// The bytes that operands and output take in memory, with the weights of all groups.
    pub fn memory(&self) -> f64 {
        self.bytes_of(self.groups.map_or(1.0, |groups| f64::from(groups.count)))
    }

    /// The bytes of A, of this many groups' weights, of the output and of the scales.
    pub(super) fn bytes_of(&self, groups: f64) -> f64 {
        const SCALE: f64 = 4.0;
        let p: &ProblemFields = self;
        let (b, a_rows, rows) = (p.b as f64, p.a_rows() as f64, p.rows() as f64);
        let (n, k) = (p.n as f64, p.k as f64);
        let (a_scales, b_scales) = p.scaling.counts(a_rows, p.n, p.k);
        b * (a_rows * k * p.a_dtype.size() as f64
            + groups * (k * n * p.b_dtype.size() as f64)
            + rows * n * p.out_dtype.size() as f64
            + SCALE * (a_scales + groups * b_scales))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaled(scaling: Scaling) -> ProblemFields {
        ProblemFields {
            scaling,
            ..ProblemFields::plain(Op::ScaledMm, 1, 16, 4096, 14_336, DType::Float8E4M3)
        }
    }

    fn experts(stage: Stage, dtype: DType, scaling: Scaling) -> ProblemFields {
        let groups = Some(Groups { stage: Some(stage), ..Groups::routed(128, 8) });
        let plain = ProblemFields::plain(Op::FusedMoe, 1, 64, 1536, 2048, dtype);
        ProblemFields { groups, scaling, ..plain }
    }

    fn grouped(m: u64, top_k: u32) -> ProblemFields {
        let plain = ProblemFields::plain(Op::GroupedMm, 1, m, 1536, 2048, DType::BFloat16);
        ProblemFields { groups: Some(Groups::routed(128, top_k)), ..plain }
    }

    fn refused(fields: ProblemFields) -> String {
        Problem::new(fields).unwrap_err().to_string()
    }

    #[test]
    fn identities_name_scales_and_groups_and_old_ones_stay() {
        let canonical = |fields: ProblemFields| Problem::new(fields).unwrap().canonical();
        assert_eq!(
            canonical(ProblemFields::plain(Op::Addmm, 1, 64, 128, 32, DType::BFloat16)),
            "addmm;b=1;m=64;n=128;k=32;in=bfloat16,bfloat16;out=bfloat16;layout=row,row;bias=matrix"
        );
        assert_eq!(
            canonical(scaled(Scaling::Row)),
            "scaled_mm;b=1;m=16;n=4096;k=14336;in=float8_e4m3fn,float8_e4m3fn;out=bfloat16;layout=row,column;\
             bias=none;scaling=row"
        );
        assert_eq!(
            canonical(experts(Stage::GateUp, DType::Float8E4M3, Scaling::Block)),
            "fused_moe;b=1;m=64;n=1536;k=2048;in=float8_e4m3fn,float8_e4m3fn;out=bfloat16;layout=row,column;\
             bias=none;scaling=block;groups=128;top_k=8;stage=gate-up;rows=routed"
        );
        assert!(canonical(grouped(512, 8)).ends_with(";bias=none;groups=128;top_k=8;rows=routed"));
    }

    #[test]
    fn json_of_old_problems_has_no_new_field() {
        let text = |fields: ProblemFields| serde_json::to_string(&Problem::new(fields).unwrap()).unwrap();
        let old = text(ProblemFields::plain(Op::Mm, 1, 64, 128, 32, DType::BFloat16));
        let expected = r#"{"op":"mm","b":1,"m":64,"n":128,"k":32,"a_dtype":"bfloat16","b_dtype":"bfloat16","out_dtype":"bfloat16","a_layout":"row","b_layout":"row","bias":"none"}"#;
        assert_eq!(old, expected);
        let new = experts(Stage::Down, DType::Float8E4M3, Scaling::Block);
        let written = text(new.clone());
        assert!(written.ends_with(
            r#""scaling":"block","groups":{"count":128,"top_k":8,"stage":"down","rows":"routed"}}"#
        ));
        assert_eq!(serde_json::from_str::<Problem>(&written).unwrap().into_fields(), new);
        for (from, to) in [
            (r#""top_k":8"#, r#""top_k":129"#),
            (r#""count":128"#, r#""count":0"#),
            (r#""stage":"down""#, r#""stage":"up""#),
            (r#""rows":"routed""#, r#""rows":"skewed""#),
            (r#""scaling":"block""#, r#""scaling":"none""#),
        ] {
            let forged = written.replace(from, to);
            assert_ne!(forged, written);
            assert!(serde_json::from_str::<Problem>(&forged).is_err(), "{forged}");
        }
    }

    #[test]
    fn work_counts_rows_experts_and_scales() {
        let of = |fields| Problem::new(fields).unwrap();
        let row = of(scaled(Scaling::Row));
        let plain = 16.0 * 14_336.0 + 4096.0 * 14_336.0 + 16.0 * 4096.0 * 2.0;
        assert_eq!(row.bytes(), plain + 4.0 * (16.0 + 4096.0));
        assert_eq!(of(scaled(Scaling::Tensor)).bytes(), plain + 8.0);
        assert_eq!(of(scaled(Scaling::Block)).bytes(), plain + 4.0 * (16.0 * 112.0 + 32.0 * 112.0));
        assert_eq!(row.flops(), 2.0 * 16.0 * 4096.0 * 14_336.0);

        let [up, down] =
            [Stage::GateUp, Stage::Down].map(|stage| of(experts(stage, DType::BFloat16, Scaling::None)));
        assert_eq!(up.flops(), 2.0 * 512.0 * 1536.0 * 2048.0);
        let distinct = 128.0 * (1.0 - (1.0_f64 - 8.0 / 128.0).powi(64));
        assert!((up.distinct_groups() - distinct).abs() < 1e-9);
        assert!(
            (up.bytes() - 2.0 * (64.0 * 2048.0 + distinct * 1536.0 * 2048.0 + 512.0 * 1536.0)).abs() < 1.0
        );
        assert!((down.bytes() - up.bytes() - 2.0 * 448.0 * 2048.0).abs() < 1.0);
        assert_eq!(up.memory(), 2.0 * (64.0 * 2048.0 + 128.0 * 1536.0 * 2048.0 + 512.0 * 1536.0));
        assert!((of(grouped(512, 8)).distinct_groups() - distinct).abs() < 1e-9);
        let even = |m| {
            let groups = Groups { rows: Rows::Even, ..Groups::routed(128, 1) };
            of(ProblemFields { groups: Some(groups), ..grouped(m, 1) }).distinct_groups()
        };
        assert_eq!((even(5), even(500)), (5.0, 128.0));
    }

    #[test]
    fn what_an_operator_has_not_got_is_refused() {
        let mm = ProblemFields::plain(Op::Mm, 1, 64, 128, 32, DType::BFloat16);
        for (fields, words) in [
            (
                scaled(Scaling::None),
                "scaling: got `none`, expected tensor, row or block, since scaled_mm scales",
            ),
            (
                ProblemFields { scaling: Scaling::Row, ..mm.clone() },
                "scaling: got `row`, expected `none`, since mm",
            ),
            (
                ProblemFields { groups: Some(Groups::routed(8, 2)), ..mm },
                "groups: got 8, expected none, since mm",
            ),
            (
                ProblemFields { groups: None, ..grouped(64, 1) },
                "groups: got none, expected a number of groups",
            ),
            (grouped(64, 129), "top_k: got 129, expected a number from 1 to 128"),
            (grouped(63, 8), "M: got 63, expected a multiple of top_k = 8"),
            (
                ProblemFields { groups: Some(Groups::routed(0, 1)), ..grouped(8, 1) },
                "groups: got 0, expected a number",
            ),
            (
                ProblemFields {
                    groups: Some(Groups { stage: Some(Stage::Down), ..Groups::routed(8, 1) }),
                    ..grouped(8, 1)
                },
                "stage: got down, expected none, since grouped_mm has no stages",
            ),
            (
                ProblemFields {
                    groups: Some(Groups::routed(8, 1)),
                    ..experts(Stage::Down, DType::BFloat16, Scaling::None)
                },
                "stage: got none, expected gate-up or down",
            ),
            (
                experts(Stage::Down, DType::Float8E4M3, Scaling::None),
                "a_dtype: got float8_e4m3fn, expected bfloat16",
            ),
            (
                experts(Stage::Down, DType::BFloat16, Scaling::Row),
                "a_dtype: got bfloat16, expected float8 or int8",
            ),
            (
                ProblemFields { b_dtype: DType::Int8, ..scaled(Scaling::Row) },
                "b_dtype: got int8, expected float8_e4m3fn, as A has",
            ),
            (
                ProblemFields { out_dtype: DType::Int32, ..scaled(Scaling::Row) },
                "out_dtype: got int32, expected",
            ),
            (
                ProblemFields { b_layout: Layout::Row, ..scaled(Scaling::Row) },
                "b_layout: got row, expected column",
            ),
            (
                ProblemFields { a_layout: Layout::Column, ..scaled(Scaling::Row) },
                "a_layout: got column, expected row",
            ),
            (ProblemFields { b: 2, ..scaled(Scaling::Row) }, "B: got 2, expected 1"),
        ] {
            let said = refused(fields);
            assert!(said.starts_with(words), "{said}");
        }
    }
}
