//! torch-diode's shape sets: `{"operations": {op: {"shapes": [...]}}}`, or a
//! plain `{"shapes": [...]}`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use diode_core::{DType, Op, OutputLayout, Problem, ProblemFields};
use serde::Deserialize;

#[derive(Deserialize)]
struct ShapeSetFile {
    operations: Option<BTreeMap<Op, Shapes>>,
    shapes: Option<Vec<Shape>>,
}

#[derive(Deserialize)]
struct Shapes {
    shapes: Vec<Shape>,
}

/// torch-diode's MMShape. It has no input layout: inputs are row-major.
#[derive(Deserialize)]
struct Shape {
    #[serde(rename = "B")]
    b: u64,
    #[serde(rename = "M")]
    m: u64,
    #[serde(rename = "N")]
    n: u64,
    #[serde(rename = "K")]
    k: u64,
    #[serde(rename = "M_dtype")]
    a_dtype: String,
    #[serde(rename = "K_dtype")]
    b_dtype: String,
    out_dtype: String,
    out_size: [u64; 3],
    out_stride: [u64; 3],
}

/// Reads a shape set: op by op, in file order within each. `ops` chooses some of
/// the ops; none chooses all. The second number counts repeated problems, which
/// are left out.
pub(crate) fn read_shapeset(path: &Path, ops: &[Op]) -> anyhow::Result<(Vec<Problem>, usize)> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text, ops).with_context(|| format!("shape set {}", path.display()))
}

fn parse(text: &str, ops: &[Op]) -> anyhow::Result<(Vec<Problem>, usize)> {
    let file: ShapeSetFile = serde_json::from_str(text)?;
    let shapes: Vec<(Op, Shape)> = match (file.operations, file.shapes) {
        (Some(operations), None) => operations
            .into_iter()
            .flat_map(|(op, set)| set.shapes.into_iter().map(move |shape| (op, shape)))
            .collect(),
        // A plain set names no op; a batch is what tells them apart.
        (None, Some(shapes)) => {
            shapes.into_iter().map(|shape| (if shape.b > 1 { Op::Bmm } else { Op::Mm }, shape)).collect()
        }
        _ => bail!("expected an object with either `operations` or `shapes`"),
    };
    let mut seen = std::collections::HashSet::new();
    let (mut problems, mut repeated) = (Vec::new(), 0);
    for (number, (op, shape)) in (1..).zip(shapes) {
        if !ops.is_empty() && !ops.contains(&op) {
            continue;
        }
        let problem = shape.problem(op).with_context(|| format!("shape {number} ({op})"))?;
        if seen.insert(problem.id()) {
            problems.push(problem);
        } else {
            repeated += 1;
        }
    }
    if problems.is_empty() {
        bail!("no shape to measure: expected at least one, of the chosen ops");
    }
    Ok((problems, repeated))
}

impl Shape {
    fn problem(self, op: Op) -> Result<Problem, diode_core::Invalid> {
        Problem::new(ProblemFields {
            a_dtype: DType::from_torch_name(&self.a_dtype)?,
            b_dtype: DType::from_torch_name(&self.b_dtype)?,
            out_dtype: DType::from_torch_name(&self.out_dtype)?,
            out_layout: Some(OutputLayout { size: self.out_size, stride: self.out_stride }),
            ..ProblemFields::plain(op, self.b, self.m, self.n, self.k, DType::Float32)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: &str = r#"{"version":1,"B":1,"M":4,"M_dtype":"float16","N":8,"K":2,"K_dtype":"half",
        "out_dtype":"float16","out_size":[1,4,8],"out_stride":[32,8,1]}"#;

    #[test]
    fn ops_are_kept_and_repeats_are_counted() {
        let text = format!(
            r#"{{"operations":{{"mm":{{"shapes":[{SHAPE},{SHAPE}]}},"addmm":{{"shapes":[{SHAPE}]}}}}}}"#
        );
        let (problems, repeated) = parse(&text, &[]).unwrap();
        assert_eq!((problems.len(), repeated), (2, 1));
        assert_eq!(problems[0].op, Op::Mm);
        assert_eq!(problems[0].b_dtype, DType::Float16);
        assert_eq!(problems[0].out_layout, None, "a dense output is the normal case");
        assert_eq!(parse(&text, &[Op::Addmm]).unwrap().0.len(), 1);
        assert!(parse(&text, &[Op::Bmm]).is_err());
    }

    #[test]
    fn a_plain_set_is_read_and_mistakes_are_named() {
        let (problems, _) =
            parse(&format!(r#"{{"shapes":[{}]}}"#, SHAPE.replace("\"B\":1", "\"B\":3")), &[]).unwrap();
        assert_eq!((problems[0].op, problems[0].b), (Op::Bmm, 3));
        let bad = format!(r#"{{"shapes":[{}]}}"#, SHAPE.replace("\"M\":4", "\"M\":0"));
        assert!(format!("{:#}", parse(&bad, &[]).unwrap_err()).contains("shape 1 (mm): M: got 0"));
        assert!(parse("{}", &[]).is_err());
        assert!(parse(r#"{"operations":{"conv":{"shapes":[]}}}"#, &[]).is_err());
    }
}
