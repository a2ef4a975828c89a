//! Lists of problems without timings: torch-diode's shape sets, its operation shape sets, and its
//! table of shapes as CSV.

use std::path::Path;

use diode_core::{DType, Op, OutputLayout, Problem, ProblemFields};
use serde::Deserialize;

use diode_formats::FileKind;
use diode_formats::FormatError;
use diode_formats::limits::{MAX_SHAPES, too_many};
use diode_formats::reading::Shape;
use diode_formats::reading::expect;
use diode_formats::reading::read_with;
use diode_formats::reading::refused;
use diode_formats::reading::{Delimited, locate};
use diode_formats::reading::{Document, Entries};

/// The form of the file that a list of problems came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShapeForm {
    /// `{"shapes": […]}`. It does not name the op. With a batch the op is `bmm`, otherwise `mm`.
    ShapeSet,
    /// `{"operations": {<op>: {"shapes": […]}}}`
    OperationShapeSet,
    /// Columns `name,B,M,K,N,Transposed`. Everything is `float16`.
    Csv,
}

/// A list of problems in file order. Problems may repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShapeSet {
    pub form: ShapeForm,
    pub problems: Vec<Problem>,
}

impl ShapeSet {
    /// How many problems of an op the list has, with repeats.
    pub fn count(&self, op: Op) -> usize {
        self.problems.iter().filter(|problem| problem.op == op).count()
    }
}

/// Reads a shape set in any form, whatever the file's name.
pub fn read_shapes(path: &Path) -> Result<ShapeSet, FormatError> {
    read_with(path, decode_shapes)
}

/// Decodes a shape set in any form, recognised by content.
pub fn decode_shapes(bytes: &[u8]) -> Result<ShapeSet, FormatError> {
    expect(FileKind::ShapeSet, bytes, || {
        let document = Document::open(bytes)?;
        if let Document::Text(text) = &document {
            return csv(text);
        }
        let file = document.parse::<File>()?;
        match file.map(|file| (file.operations, file.shapes)) {
            Some((Some(Entries(operations)), None)) => {
                let mut problems = Vec::new();
                for (op, set) in operations {
                    convert(op, set.shapes, &mut problems)?;
                }
                Ok(ShapeSet { form: ShapeForm::OperationShapeSet, problems })
            }
            Some((None, Some(shapes))) => {
                let mut problems = Vec::new();
                for (number, shape) in (1..).zip(shapes) {
                    bound(problems.len())?;
                    let op = if shape.batch() > 1 { Op::Bmm } else { Op::Mm };
                    problems.push(problem(op, number, shape)?);
                }
                Ok(ShapeSet { form: ShapeForm::ShapeSet, problems })
            }
            _ => Err(refused(WHAT, "its top level".to_owned(), "expected either `operations` or `shapes`")),
        }
    })
}

const WHAT: &str = "shape set";

#[derive(Deserialize)]
struct File {
    operations: Option<Entries<Op, Shapes>>,
    shapes: Option<Vec<Shape>>,
}

#[derive(Deserialize)]
struct Shapes {
    shapes: Vec<Shape>,
}

fn convert(op: Op, shapes: Vec<Shape>, problems: &mut Vec<Problem>) -> Result<(), FormatError> {
    for (number, shape) in (1..).zip(shapes) {
        bound(problems.len())?;
        problems.push(problem(op, number, shape)?);
    }
    Ok(())
}

/// Refuses another shape if the list is full.
fn bound(shapes: usize) -> Result<(), FormatError> {
    if shapes < MAX_SHAPES {
        return Ok(());
    }
    Err(refused(WHAT, format!("shape {}", shapes + 1), too_many("shapes", MAX_SHAPES)))
}

fn problem(op: Op, number: usize, shape: Shape) -> Result<Problem, FormatError> {
    shape.problem(op).map_err(|cause| refused(WHAT, format!("shape {number} ({op})"), cause))
}

fn csv(text: &[u8]) -> Result<ShapeSet, FormatError> {
    let mut reader = Delimited::new(text, b',');
    let header = reader.record()?.map(<[String]>::to_vec).unwrap_or_default();
    let names = ["name", "B", "M", "K", "N", "Transposed"];
    let places = locate(&header, names).map_err(|cause| reader.refuse(cause))?;
    let mut columns = [0; 6];
    for ((column, place), name) in columns.iter_mut().zip(places).zip(names) {
        let missing = || reader.refuse(format_args!("no column `{name}`, expected {}", names.join(",")));
        *column = place.ok_or_else(missing)?;
    }
    let mut problems = Vec::new();
    while let Some(record) = reader.record()? {
        bound(problems.len())?;
        match csv_problem(record, header.len(), columns) {
            Ok(problem) => problems.push(problem),
            Err(cause) => return Err(reader.refuse(cause)),
        }
    }
    Ok(ShapeSet { form: ShapeForm::Csv, problems })
}

fn csv_problem(record: &[String], width: usize, columns: [usize; 6]) -> Result<Problem, String> {
    if record.len() != width {
        return Err(format!("{} fields, expected {width} as in the header", record.len()));
    }
    let [op, b, m, k, n, transposed] = columns.map(|column| record[column].trim());
    let size = |name: &str, text: &str| {
        text.parse::<u64>().map_err(|_| format!("{name}: got {text:?}, expected a whole number"))
    };
    let (b, m, k, n) = (size("B", b)?, size("M", m)?, size("K", k)?, size("N", n)?);
    let op: Op = op.parse().map_err(|invalid: diode_core::Invalid| invalid.to_string())?;
    let out_layout = match transposed {
        "True" | "true" => {
            // The output of A @ B is written as its transpose: (B, N, M).
            Some(OutputLayout { size: [b, n, m], stride: [n.saturating_mul(m), m, 1] })
        }
        "False" | "false" => None,
        other => return Err(format!("Transposed: got {other:?}, expected True or False")),
    };
    let plain = ProblemFields::plain(op, b, m, n, k, DType::Float16);
    Problem::new(ProblemFields { out_layout, ..plain }).map_err(|invalid| invalid.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: &str = r#"{"version":1,"B":1,"M":4,"M_dtype":"float16","N":8,"K":2,"K_dtype":"half",
        "out_dtype":"float16","out_size":[1,4,8],"out_stride":[32,8,1]}"#;

    fn error(bytes: &[u8]) -> String {
        decode_shapes(bytes).unwrap_err().to_string()
    }

    #[test]
    fn ops_are_kept_in_file_order_and_repeats_are_counted() {
        let text = format!(
            r#"{{"operations":{{"mm":{{"shapes":[{SHAPE},{SHAPE}]}},"addmm":{{"shapes":[{SHAPE}]}}}}}}"#
        );
        let set = decode_shapes(text.as_bytes()).unwrap();
        assert_eq!((set.form, set.problems.len()), (ShapeForm::OperationShapeSet, 3));
        assert_eq!((set.count(Op::Mm), set.count(Op::Addmm), set.count(Op::Bmm)), (2, 1, 0));
        assert_eq!(set.problems[0].out_layout, None, "a dense output is the normal case");
    }

    #[test]
    fn a_plain_set_is_read_from_messagepack_too() {
        let batched = format!(r#"{{"shapes":[{}]}}"#, SHAPE.replace("\"B\":1", "\"B\":3"));
        let mut tree: serde_json::Value = serde_json::from_str(&batched).unwrap();
        let set = decode_shapes(batched.as_bytes()).unwrap();
        assert_eq!((set.problems[0].op, set.problems[0].b), (Op::Bmm, 3));
        tree["shapes"][0]["M_dtype"] = serde_json::json!({"__torch_dtype__": "float16"});
        let msgpack = rmp_serde::to_vec(&tree).unwrap();
        assert_eq!(decode_shapes(&msgpack).unwrap(), set);
        assert!(error(&[&msgpack[..], b"\xc0"].concat()).contains("expected the end"));
    }

    #[test]
    fn the_csv_transposes_outputs() {
        let set = decode_shapes(b"name,B,M,K,N,Transposed,\naddmm,1,256,512,24,True,\nbmm,6,4,5,3,False,\n");
        let set = set.unwrap();
        assert_eq!((set.form, set.problems.len()), (ShapeForm::Csv, 2));
        let out = set.problems[0].out_layout.unwrap();
        assert_eq!((out.size, out.stride), ([1, 24, 256], [6144, 256, 1]));
        assert_eq!((set.problems[0].k, set.problems[1].out_layout), (512, None));
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let bad = format!(r#"{{"shapes":[{SHAPE},{}]}}"#, SHAPE.replace("\"M\":4", "\"M\":0"));
        assert!(error(bad.as_bytes()).starts_with("invalid shape set at shape 2 (mm): M: got 0"));
        let twice = r#"{"operations":{"mm":{"shapes":[]},"mm":{"shapes":[]}}}"#;
        assert!(error(twice.as_bytes()).contains("duplicate key Mm"), "{}", error(twice.as_bytes()));
        assert!(error(br#"{"operations":{"conv":{"shapes":[]}}}"#).contains("conv"));
        assert!(error(b"name,B,M,K,N,Transposed\nmm,1,2,3,x,True\n").contains("line 2: N: got \"x\""));
        assert!(error(b"name,B,M,K,N\n").contains("no column `Transposed`"));
        assert!(error(b"{}").contains("expected either"));
    }
}
