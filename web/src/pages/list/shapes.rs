//! Lists of shapes in the forms that people have: a shape per line, CSV with a head, a log of Inductor, or a file of
//! `torch_diode.record()`.

use diode_core::problem::{Columns, ProblemWords};
use diode_core::{Bias, DType, Layout, Op, Problem};
use diode_worker::Line;
use serde_json::Value;

use crate::pages::list::log;
use crate::pages::predict::{on_hardware, usual_notation};

/// The defaults for whatever a list leaves out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Defaults {
    pub(crate) op: Op,
    pub(crate) dtype: DType,
    pub(crate) b_layout: Layout,
    pub(crate) bias: Bias,
}

impl Defaults {
    fn words(self) -> ProblemWords {
        ProblemWords {
            op: Some(self.op),
            dtype: Some(self.dtype),
            b_layout: Some(self.b_layout),
            bias: Some(self.bias),
            ..ProblemWords::default()
        }
    }

    pub(crate) fn problem(self, said: ProblemWords) -> Result<Problem, String> {
        said.problem(&self.words()).map_err(|error| error.to_string())
    }
}

/// Reads a shape per line, or CSV. Skips empty lines and lines that begin with `#`.
pub(super) fn shapes(text: &str, defaults: Defaults) -> Vec<Line> {
    let lines = (1..).zip(text.lines().map(str::trim));
    let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).peekable();
    let head = lines.peek().and_then(|(_, line)| Columns::read(line));
    lines
        .skip(usize::from(head.is_some()))
        .flat_map(|(number, line)| {
            let said = match &head {
                Some(head) => head.said(line).map_err(|mut wrong| wrong.remove(0).to_string()),
                None => {
                    let (shape, _) = on_hardware(line);
                    ProblemWords::read(&usual_notation(shape)).map_err(|error| error.to_string())
                }
            };
            let line = move |said: ProblemWords| {
                let tf32 = said.tf32;
                Line { number, problem: defaults.problem(said), tf32 }
            };
            match said {
                Ok(said) => said.launches().into_iter().map(line).collect(),
                Err(why) => vec![Line::new(number, Err(why))],
            }
        })
        .collect()
}

/// Reads one shape, such as `1x28672x4096 bf16 addmm column`, and whether float32 may be rounded to TF32. The hardware at
/// its end does not count.
pub(crate) fn one_shape(text: &str) -> Result<(Problem, bool), String> {
    let (text, _) = on_hardware(text);
    let text = &usual_notation(text);
    let tf32 = ProblemWords::read(text).is_ok_and(|said| said.tf32);
    Ok((shape_of_kind(text, Op::Mm, DType::BFloat16)?, tf32))
}

/// Reads one shape. `op` and `dtype` apply unless the text names others. A batched `op` becomes `mm` if the text has no batch.
pub(crate) fn shape_of_kind(text: &str, op: Op, dtype: DType) -> Result<Problem, String> {
    let mut said = ProblemWords::read(text).map_err(|error| error.to_string())?;
    let op = if said.b.is_none() && op.is_batched() { Op::Mm } else { op };
    said.dtype = said.named_dtype();
    Defaults { op, dtype, b_layout: Layout::Row, bias: Bias::Vector }.problem(said)
}

/// Reads a list in any of these forms.
pub(super) fn parse(text: &str, defaults: Defaults) -> Vec<Line> {
    // Spreadsheets begin a file with a byte-order mark, which is no part of the first cell.
    let text = text.trim_start_matches('\u{feff}');
    // The log is tried first, because a log may begin like JSON: `[rank0]: AUTOTUNE mm(…)`.
    log::read(text, defaults).or_else(|| read_recorded(text)).unwrap_or_else(|| shapes(text, defaults))
}

/// Reads a list. `None` if the text is no JSON. The line's number is the problem's place in the list.
fn read_recorded(text: &str) -> Option<Vec<Line>> {
    if !text.trim_start().starts_with(['[', '{']) {
        return None;
    }
    let problems = match serde_json::from_str(text) {
        Ok(Value::Array(problems)) => problems,
        Ok(_) => {
            return Some(refused(
                1,
                "got a JSON object, expected the list that save_problems() writes".to_owned(),
            ));
        }
        Err(error) => return Some(refused(error.line(), format!("this JSON cannot be read: {error}"))),
    };
    let lines = (1..).zip(problems).map(|(number, fields)| {
        let problem = serde_json::from_value::<Problem>(fields).map_err(|error| error.to_string());
        Line::new(number, problem)
    });
    Some(lines.collect())
}

fn refused(number: usize, why: String) -> Vec<Line> {
    vec![Line::new(number, Err(why))]
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULTS: Defaults =
        Defaults { op: Op::Mm, dtype: DType::BFloat16, b_layout: Layout::Row, bias: Bias::Matrix };

    fn read(text: &str) -> Vec<Result<String, String>> {
        shapes(text, DEFAULTS)
            .into_iter()
            .map(|line| line.problem.map(|problem| problem.canonical().replace(";out=bfloat16", "")))
            .collect()
    }

    #[test]
    fn a_line_may_name_the_hardware() {
        assert_eq!(read("64^3 bf16 x @ W.T on H100"), read("64x64x64 bf16 column"));
    }

    #[test]
    fn shapes_are_read_line_by_line() {
        let text = "# my shapes\n4096x4096x11008\n\n16, 4096, 1e4 fp16\n8x512x512x64\n 2 × 3 × 4 addmm column vector";
        let lines = shapes(text, DEFAULTS);
        let numbers: Vec<usize> = lines.iter().map(|line| line.number).collect();
        assert_eq!(numbers, [2, 4, 5, 6]);
        assert_eq!(
            read(text).into_iter().collect::<Result<Vec<_>, _>>().unwrap(),
            [
                "mm;b=1;m=4096;n=4096;k=11008;in=bfloat16,bfloat16;layout=row,row;bias=none",
                "mm;b=1;m=16;n=4096;k=10000;in=float16,float16;out=float16;layout=row,row;bias=none",
                "bmm;b=8;m=512;n=512;k=64;in=bfloat16,bfloat16;layout=row,row;bias=none",
                "addmm;b=1;m=2;n=3;k=4;in=bfloat16,bfloat16;layout=row,column;bias=vector",
            ]
        );
    }

    #[test]
    fn columns_are_found_by_their_names() {
        let text = "name,B,M,K,N,Transposed\nmm,1,4,2,8,False\naddmm,1,4,2,8,True\n";
        assert_eq!(
            read(text).into_iter().collect::<Result<Vec<_>, _>>().unwrap(),
            [
                "mm;b=1;m=4;n=8;k=2;in=bfloat16,bfloat16;layout=row,row;bias=none",
                "addmm;b=1;m=4;n=8;k=2;in=bfloat16,bfloat16;layout=row,column;bias=matrix",
            ]
        );
        let text = "m;n;k;dtype;bias;ignored\n\"4\";8;2;torch.float32;none;x";
        assert_eq!(
            read(text)[0].as_deref(),
            Ok("mm;b=1;m=4;n=8;k=2;in=float32,float32;out=float32;layout=row,row;bias=none")
        );
    }

    #[test]
    fn a_line_or_a_cell_may_ask_for_tf32() {
        for text in ["64x64x64 tf32", "64x64x64 fp32 tf32", "m,n,k,dtype\n64,64,64,tf32"] {
            let lines = shapes(text, DEFAULTS);
            let problem = lines[0].problem.as_ref().unwrap();
            assert!(lines[0].tf32 && problem.a_dtype == DType::Float32, "{text}");
        }
        assert!(!shapes("64x64x64 fp32", DEFAULTS)[0].tf32);
    }

    #[test]
    fn a_bad_line_says_what_is_wrong_and_spoils_no_other() {
        let lines = read("64x64x0\n64x64\n64 64 64 int3\n1,2,3,4,5\n64x64x64");
        let errors: Vec<String> = lines[..4].iter().map(|line| line.clone().unwrap_err()).collect();
        assert_eq!(errors[0], "K: got 0, expected a size from 1 to 2147483648");
        assert!(
            errors[1].starts_with("problem: got `64x64`, expected a size such as 16x4096x4096"),
            "{errors:?}"
        );
        assert!(errors[2].starts_with("problem: got `int3`, expected a size such as"), "{errors:?}");
        assert_eq!(errors[3], "sizes: got 5, expected M, N and K, or B, M, N and K");
        assert!(lines[4].is_ok());
        assert_eq!(
            read("m,n,k\n1,2,").pop().unwrap().unwrap_err(),
            "K: got none, expected a size from 1 to 2147483648"
        );
        assert!(read("mm,bfloat16")[0].is_err());
    }
}

#[cfg(test)]
mod parse_tests {
    use diode_core::{Bias, DType, Layout, Op};

    use super::*;

    #[test]
    fn a_log_may_begin_like_json() {
        let defaults =
            Defaults { op: Op::Mm, dtype: DType::BFloat16, b_layout: Layout::Row, bias: Bias::Matrix };
        let read = |text| parse(text, defaults).remove(0).problem.map(|problem| problem.canonical());
        assert_eq!(
            read("{\"num_choices\": 2}\n[rank0]: AUTOTUNE mm(64x32, 32x128)").as_deref(),
            Ok("mm;b=1;m=64;n=128;k=32;in=bfloat16,bfloat16;out=bfloat16;layout=row,row;bias=none")
        );
        assert!(read("[{\"op\": \"mm\"}]").is_err());
    }

    #[test]
    fn a_byte_order_mark_hides_no_head() {
        let defaults =
            Defaults { op: Op::Mm, dtype: DType::BFloat16, b_layout: Layout::Row, bias: Bias::Matrix };
        let lines = parse("\u{feff}k,m,n\r\n1,2,3\r\n", defaults);
        let problems: Vec<_> =
            lines.into_iter().map(|line| line.problem.map(|problem| problem.dims())).collect();
        assert_eq!(problems, [Ok("2×3×1".to_owned())]);
    }
}

#[cfg(test)]
mod recorded_tests {
    use super::*;

    #[test]
    fn a_recording_is_read_problem_by_problem() {
        let text = r#"[
 {"a_dtype": "bfloat16", "op": "addmm", "b": 1, "m": 16, "n": 64, "k": 32, "b_dtype": "bfloat16",
  "out_dtype": "float32", "a_layout": "row", "b_layout": "column", "bias": "vector"},
 {"a_dtype": "bfloat16", "op": "mm", "b": 1, "m": 0, "n": 64, "k": 32, "b_dtype": "bfloat16",
  "out_dtype": "bfloat16", "a_layout": "row", "b_layout": "row", "bias": "none"}
]"#;
        let lines = read_recorded(text).unwrap();
        let [first, second] = lines.as_slice() else { panic!("{lines:?}") };
        assert_eq!(
            first.problem.as_ref().map(Problem::canonical).as_deref(),
            Ok("addmm;b=1;m=16;n=64;k=32;in=bfloat16,bfloat16;out=float32;layout=row,column;bias=vector")
        );
        assert_eq!(second.number, 2);
        assert_eq!(second.problem.as_ref().unwrap_err(), "M: got 0, expected a size from 1 to 2147483648");
    }

    #[test]
    fn other_json_says_what_is_expected() {
        assert_eq!(read_recorded("4096x4096x4096"), None);
        assert!(read_recorded("{}").unwrap()[0].problem.as_ref().unwrap_err().contains("save_problems()"));
        let cut = read_recorded("[\n {\"op\": \"mm\",").unwrap();
        assert_eq!(cut[0].number, 2);
        assert!(cut[0].problem.as_ref().unwrap_err().starts_with("this JSON cannot be read: "));
    }
}
