//! torch-diode's MMShape, the key of a problem: one line of JSON with its keys in a fixed order.

use std::fmt::{self, Write as _};

use diode_core::{DType, Groups, Layout, Op, OutputLayout, Problem, ProblemFields, Rows, Scaling, Stage};
use serde::Deserialize;
use serde::de::{self, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use crate::limits::MAX_PROBLEM_KEY;
use crate::nested::Version;

/// The fields as files hold them.
#[derive(Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub struct Shape {
    #[serde(rename = "version", default)]
    _version: Version,
    b: u64,
    m: u64,
    #[serde(rename = "M_dtype", deserialize_with = "torch_dtype")]
    m_dtype: DType,
    n: u64,
    k: u64,
    #[serde(rename = "K_dtype", deserialize_with = "torch_dtype")]
    k_dtype: DType,
    #[serde(rename = "out_dtype", deserialize_with = "torch_dtype")]
    out_dtype: DType,
    #[serde(rename = "out_size")]
    out_size: Extents,
    #[serde(rename = "out_stride")]
    out_stride: Extents,
    /// This and what follows are Diode's own fields.
    #[serde(rename = "scaling", default)]
    scaling: Option<Scaling>,
    #[serde(rename = "groups", default)]
    groups: Option<u32>,
    #[serde(rename = "top_k", default)]
    top_k: Option<u32>,
    #[serde(rename = "stage", default)]
    stage: Option<Stage>,
    #[serde(rename = "rows", default)]
    rows: Option<Rows>,
}

impl Shape {
    pub fn batch(&self) -> u64 {
        self.b
    }

    /// The problem that the shape describes. torch-diode does not say how inputs lie in memory, but
    /// it measured row-major inputs only. Operators that it does not know have their usual layouts.
    pub fn problem(&self, op: Op) -> Result<Problem, String> {
        let out_layout = output_layout(op, self.out_size.as_slice(), self.out_stride.as_slice())?;
        let plain = ProblemFields::plain(op, self.b, self.m, self.n, self.k, self.m_dtype);
        Problem::new(ProblemFields {
            b_dtype: self.k_dtype,
            out_dtype: self.out_dtype,
            out_layout: Some(out_layout),
            scaling: self.scaling.unwrap_or(Scaling::None),
            groups: Groups::from_parts(self.groups, self.top_k, self.stage, self.rows)
                .map_err(|invalid| invalid.to_string())?,
            ..plain
        })
        .map_err(|invalid| invalid.to_string())
    }
}

/// A list of up to three numbers.
struct Extents {
    numbers: [u64; 3],
    count: usize,
}

impl Extents {
    fn as_slice(&self) -> &[u64] {
        &self.numbers[..self.count]
    }
}

impl<'de> Deserialize<'de> for Extents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;

        impl<'de> Visitor<'de> for List {
            type Value = Extents;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of up to three numbers")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Extents, A::Error> {
                let mut extents = Extents { numbers: [0; 3], count: 0 };
                while let Some(number) = list.next_element()? {
                    let slot = extents.numbers.get_mut(extents.count);
                    *slot.ok_or_else(|| A::Error::custom("more than three sizes or strides"))? = number;
                    extents.count += 1;
                }
                Ok(extents)
            }
        }

        deserializer.deserialize_seq(List)
    }
}

/// Reads a dtype by its torch name. torch-diode's MessagePack has it as `{"__torch_dtype__":
/// name}`.
fn torch_dtype<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DType, D::Error> {
    struct Name;

    impl<'de> Visitor<'de> for Name {
        type Value = DType;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the name of a dtype")
        }

        fn visit_str<E: de::Error>(self, name: &str) -> Result<DType, E> {
            DType::from_torch_name(name).map_err(E::custom)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<DType, A::Error> {
            let entry = map.next_entry::<String, String>()?;
            let end = map.next_key::<String>()?;
            match (entry, end) {
                (Some((key, name)), None) if key == "__torch_dtype__" => self.visit_str(&name),
                _ => Err(A::Error::custom("expected a dtype as {\"__torch_dtype__\": name}")),
            }
        }
    }

    deserializer.deserialize_any(Name)
}

/// Reads the problem from a key.
pub(super) fn parse(op: Op, key: &str) -> Result<Problem, String> {
    if key.len() > MAX_PROBLEM_KEY {
        return Err(format!("a problem key of {} bytes, expected at most {MAX_PROBLEM_KEY}", key.len()));
    }
    let refuse = |cause: &dyn fmt::Display| format!("problem key {key:.200?}: {cause}");
    let shape: Shape = serde_json::from_str(key).map_err(|error| refuse(&error))?;
    shape.problem(op).map_err(|cause| refuse(&cause))
}

/// For plain multiplications torch-diode's collector writes three dimensions, and its integration
/// two. Both mean the same output.
fn output_layout(op: Op, size: &[u64], stride: &[u64]) -> Result<OutputLayout, String> {
    match (size, stride) {
        (&[b, rows, columns], &[sb, sr, sc]) => {
            Ok(OutputLayout { size: [b, rows, columns], stride: [sb, sr, sc] })
        }
        (&[rows, columns], &[sr, sc]) if !op.is_batched() => {
            Ok(OutputLayout { size: [1, rows, columns], stride: [rows.saturating_mul(columns), sr, sc] })
        }
        _ => Err(format!(
            "out_size and out_stride of {} and {} numbers, expected 3 each, or 2 without a batch",
            size.len(),
            stride.len()
        )),
    }
}

/// The key of a problem, byte for byte as torch-diode writes it. Scales and groups follow, if there are any.
pub(super) fn key(problem: &Problem) -> String {
    let p = &**problem;
    let out = p.out_layout.unwrap_or(OutputLayout::dense(p.b, p.rows(), p.n));
    let mut own = String::new();
    // Writing to a String cannot fail.
    if p.scaling != Scaling::None {
        let _ = write!(own, r#", "scaling": "{}""#, p.scaling);
    }
    if let Some(Groups { count, top_k, stage, rows }) = p.groups {
        let stage = stage.map_or_else(String::new, |stage| format!(r#", "stage": "{stage}""#));
        let _ = write!(own, r#", "groups": {count}, "top_k": {top_k}{stage}, "rows": "{rows}""#);
    }
    format!(
        r#"{{"version": 1, "B": {}, "M": {}, "M_dtype": "{}", "N": {}, "K": {}, "K_dtype": "{}", "out_dtype": "{}", "out_size": {:?}, "out_stride": {:?}{own}}}"#,
        p.b, p.m, p.a_dtype, p.n, p.k, p.b_dtype, p.out_dtype, out.size, out.stride
    )
}

/// Whether a key can describe a problem. Keys have no place for layouts, so the inputs must have the usual
/// ones.
pub(super) fn holds_layouts(problem: &Problem) -> bool {
    problem.a_layout == Layout::Row && problem.b_layout == problem.op.usual_b_layout()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(out_size: &str, out_stride: &str) -> String {
        format!(
            r#"{{"version": 1, "B": 1, "M": 64, "M_dtype": "bfloat16", "N": 128, "K": 32, "K_dtype": "bfloat16", "out_dtype": "bfloat16", "out_size": {out_size}, "out_stride": {out_stride}}}"#
        )
    }

    #[test]
    fn keys_round_trip_with_any_output_layout() {
        for (size, stride) in [
            ("[1, 64, 128]", "[8192, 128, 1]"),
            ("[1, 128, 64]", "[8192, 64, 1]"),
            ("[1, 64, 128]", "[0, 1, 64]"),
        ] {
            let text = with(size, stride);
            assert_eq!(key(&parse(Op::Mm, &text).unwrap()), text);
        }
    }

    #[test]
    fn two_dimensions_mean_the_same_as_three() {
        let two = parse(Op::Mm, &with("[64, 128]", "[128, 1]")).unwrap();
        assert_eq!(two, parse(Op::Mm, &with("[1, 64, 128]", "[8192, 128, 1]")).unwrap());
        assert_eq!(two.out_layout, None);
        assert!(parse(Op::Bmm, &with("[64, 128]", "[128, 1]")).is_err());
        assert!(parse(Op::Mm, &with("[64]", "[1]")).is_err());
    }

    #[test]
    fn what_the_old_readers_let_pass_is_refused() {
        let good = with("[1, 64, 128]", "[8192, 128, 1]");
        for (from, to) in [
            ("\"M\": 64", "\"M\": true"),
            ("\"M\": 64", "\"M\": 0"),
            ("\"M\": 64", "\"M\": -64"),
            ("\"M\": 64", "\"M\": \"s0\""),
            ("\"M\": 64, ", ""),
            ("\"M_dtype\": \"bfloat16\"", "\"M_dtype\": \"nn\""),
        ] {
            assert!(parse(Op::Mm, &good.replace(from, to)).is_err(), "{to}");
        }
        assert!(parse(Op::Mm, &good.replace("\"M\": 64", "\"M\": 64, \"later\": [1]")).is_ok());
        assert_eq!(parse(Op::Mm, &good.replace("\"version\": 1", "\"version\": 2")), parse(Op::Mm, &good));
        let alias = parse(Op::Mm, &good.replace("bfloat16", "half")).unwrap();
        assert_eq!(alias.a_dtype, DType::Float16);
    }
}
