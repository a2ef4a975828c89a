//! The list that `torch_diode.record()` writes: a JSON list of problems.

use diode_core::Problem;
use diode_ranking::Line;
use serde_json::Value;

/// Reads a list. `None` if the text is no JSON. The line's number is the problem's place in the list.
pub(super) fn read(text: &str) -> Option<Vec<Line>> {
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

    #[test]
    fn a_recording_is_read_problem_by_problem() {
        let text = r#"[
 {"a_dtype": "bfloat16", "op": "addmm", "b": 1, "m": 16, "n": 64, "k": 32, "b_dtype": "bfloat16",
  "out_dtype": "float32", "a_layout": "row", "b_layout": "column", "bias": "vector"},
 {"a_dtype": "bfloat16", "op": "mm", "b": 1, "m": 0, "n": 64, "k": 32, "b_dtype": "bfloat16",
  "out_dtype": "bfloat16", "a_layout": "row", "b_layout": "row", "bias": "none"}
]"#;
        let lines = read(text).unwrap();
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
        assert_eq!(read("4096x4096x4096"), None);
        assert!(read("{}").unwrap()[0].problem.as_ref().unwrap_err().contains("save_problems()"));
        let cut = read("[\n {\"op\": \"mm\",").unwrap();
        assert_eq!(cut[0].number, 2);
        assert!(cut[0].problem.as_ref().unwrap_err().starts_with("this JSON cannot be read: "));
    }
}
