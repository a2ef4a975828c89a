//! Reads problems from a JSON list. Each is either a map with every field of a problem, or the
//! short form that `diode shapes --json` prints.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;

use anyhow::Context as _;
use diode_core::{Bias, DType, Layout, Op, OutputLayout, Problem, ProblemFields, numbered};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use super::ShortProblem;

/// The most bytes of a list, enough for some 150,000 problems. One node could not measure more.
const MAX_BYTES: u64 = 16 << 20;

/// What a message says that the file must hold.
const EXPECTED: &str = "a JSON list of problems";

struct List(Vec<Row>);

impl<'de> Deserialize<'de> for List {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        numbered(deserializer, "problem").map(Self)
    }
}

/// The fields of both forms of a problem.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a problem: a map with op, b, m, n, k and dtype")]
struct Row {
    op: Op,
    b: Size,
    m: Size,
    n: Size,
    k: Size,
    dtype: Option<DType>,
    a_dtype: Option<DType>,
    b_dtype: Option<DType>,
    out_dtype: Option<DType>,
    a_layout: Option<Layout>,
    b_layout: Option<Layout>,
    bias: Option<Bias>,
    out_layout: Option<OutputLayout>,
}

/// A size. `Problem` says whether it is too large.
struct Size(u64);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_u64(SizeVisitor)
    }
}

struct SizeVisitor;

impl Visitor<'_> for SizeVisitor {
    type Value = Size;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 1 to {}", Problem::MAX_DIM)
    }

    fn visit_u64<E>(self, size: u64) -> Result<Size, E> {
        Ok(Size(size))
    }

    fn visit_i64<E: Error>(self, size: i64) -> Result<Size, E> {
        Err(E::invalid_value(Unexpected::Signed(size), &self))
    }
}

/// The distinct problems of a list, and how many were repeated.
pub(crate) fn read_problems(path: &Path) -> anyhow::Result<(Vec<Problem>, usize)> {
    let shown = path.display();
    let text = diode_formats::read_text(path, MAX_BYTES, EXPECTED)?;
    let List(rows) = serde_json::from_str(&text).with_context(|| format!("{shown}: expected {EXPECTED}"))?;
    let (mut problems, mut seen, mut repeated) = (Vec::new(), HashSet::new(), 0);
    for (number, row) in (1..).zip(rows) {
        let problem = row.problem().with_context(|| format!("{shown}: problem {number}"))?;
        if seen.insert(problem.id()) {
            problems.push(problem);
        } else {
            repeated += 1;
        }
    }
    anyhow::ensure!(!problems.is_empty(), "{shown}: expected at least one problem");
    Ok((problems, repeated))
}

impl Row {
    fn problem(self) -> anyhow::Result<Problem> {
        let Self { op, b: Size(b), m: Size(m), n: Size(n), k: Size(k), b_layout, .. } = self;
        let rest = (self.a_dtype, self.b_dtype, self.out_dtype, self.a_layout, b_layout, self.bias);
        Ok(match (self.dtype, rest, self.out_layout) {
            (Some(dtype), (None, None, None, None, b_layout, None), None) => {
                ShortProblem { op, b, m, n, k, dtype, b_layout }.problem()?
            }
            (
                None,
                (Some(a_dtype), Some(b_dtype), Some(out_dtype), Some(a_layout), Some(b_layout), Some(bias)),
                out_layout,
            ) => Problem::new(ProblemFields {
                op,
                b,
                m,
                n,
                k,
                a_dtype,
                b_dtype,
                out_dtype,
                a_layout,
                b_layout,
                bias,
                out_layout,
            })?,
            _ => anyhow::bail!(
                "expected {{op, b, m, n, k, dtype}} and b_layout where B is in columns, or \
                 {{op, b, m, n, k, a_dtype, b_dtype, out_dtype, a_layout, b_layout, bias}}"
            ),
        })
    }
}
