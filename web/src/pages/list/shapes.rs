//! Shapes in lines, or in CSV with a head.

use diode_core::{Bias, DType, Field, Layout, Op, Problem};
use diode_ranking::Line;

use crate::pages::predict::{Defaults, ShapeWords, size};

/// Reads a shape per line, or CSV. Skips empty lines and lines that begin with `#`.
pub(super) fn shapes(text: &str, defaults: Defaults) -> Vec<Line> {
    let lines = (1..).zip(text.lines().map(str::trim));
    let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).peekable();
    let head = lines.peek().and_then(|(_, line)| Head::read(line));
    lines
        .skip(usize::from(head.is_some()))
        .map(|(number, line)| {
            let said = match &head {
                Some(head) => head.said(line),
                None => ShapeWords::read(line),
            };
            let tf32 = said.as_ref().is_ok_and(|said| said.tf32);
            let problem = said.and_then(|said| said.problem(defaults));
            Line { number, problem, tf32 }
        })
        .collect()
}

/// Reads one shape, such as `1x28672x4096 bf16 addmm column`, and whether float32 may be rounded to TF32.
pub(crate) fn one_shape(text: &str) -> Result<(Problem, bool), String> {
    let tf32 = ShapeWords::read(text)?.tf32;
    Ok((shape_of_kind(text, Op::Mm, DType::BFloat16)?, tf32))
}

/// Reads one shape. `op` and `dtype` apply unless the text names others. A batched `op` becomes `mm` if the text has no batch.
pub(crate) fn shape_of_kind(text: &str, op: Op, dtype: DType) -> Result<Problem, String> {
    let usual = Defaults { op, dtype, b_layout: Layout::Row, bias: Bias::Vector };
    let mut said = ShapeWords::read(text)?;
    if said.b.is_none() && op.is_batched() {
        said.op = said.op.or(Some(Op::Mm));
    }
    said.problem(usual)
}

/// The columns of a CSV that have a meaning here.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Column {
    Op,
    Size(Field),
    DType,
    ALayout,
    BLayout,
    Bias,
    /// torch-diode's column that says whether B is in columns.
    Transposed,
    Other,
}

/// The head of a CSV, which names its columns.
#[derive(Debug)]
struct Head {
    separator: char,
    columns: Vec<Column>,
}

impl Head {
    /// `None` if the line is no head: it must name M, N and K.
    fn read(line: &str) -> Option<Self> {
        let separator = [',', ';', '\t'].into_iter().find(|separator| line.contains(*separator))?;
        let column = |name: &str| match plain(name).to_ascii_lowercase().as_str() {
            "op" | "operation" | "name" => Column::Op,
            "b" | "batch" => Column::Size(Field::B),
            "m" => Column::Size(Field::M),
            "n" => Column::Size(Field::N),
            "k" => Column::Size(Field::K),
            "dtype" | "a_dtype" => Column::DType,
            "a_layout" => Column::ALayout,
            "b_layout" => Column::BLayout,
            "bias" => Column::Bias,
            "transposed" => Column::Transposed,
            _ => Column::Other,
        };
        let columns: Vec<Column> = line.split(separator).map(column).collect();
        let sizes = [Field::M, Field::N, Field::K].map(Column::Size);
        sizes.iter().all(|size| columns.contains(size)).then_some(Self { separator, columns })
    }

    fn said(&self, line: &str) -> Result<ShapeWords, String> {
        let mut said = ShapeWords::default();
        let (mut m, mut n, mut k) = (None, None, None);
        for (column, value) in self.columns.iter().zip(line.split(self.separator).map(plain)) {
            if value.is_empty() {
                continue;
            }
            let refusal = |error: diode_core::Invalid| error.to_string();
            match *column {
                Column::Op => said.op = Some(value.parse().map_err(refusal)?),
                Column::Size(field) => {
                    let size = Some(size(field, value).map_err(refusal)?);
                    match field {
                        Field::M => m = size,
                        Field::N => n = size,
                        Field::K => k = size,
                        _ => said.b = size,
                    }
                }
                Column::DType => said.take_dtype(value)?,
                Column::ALayout => said.a_layout = Some(value.parse().map_err(refusal)?),
                Column::BLayout => said.b_layout = Some(value.parse().map_err(refusal)?),
                Column::Bias if value == "none" => {}
                Column::Bias => said.bias = Some(value.parse().map_err(refusal)?),
                Column::Transposed => {
                    let transposed = value.eq_ignore_ascii_case("true");
                    said.b_layout = Some(if transposed { Layout::Column } else { Layout::Row });
                }
                Column::Other => {}
            }
        }
        if let (Some(m), Some(n), Some(k)) = (m, n, k) {
            said.sizes = Some([m, n, k]);
        }
        Ok(said)
    }
}

/// A cell without the blanks and quotes around it.
fn plain(cell: &str) -> &str {
    cell.trim().trim_matches('"')
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
        assert_eq!(
            errors[1],
            "got `64x64`, expected a shape such as M×N×K, an op, a dtype, a layout of B or a bias"
        );
        assert_eq!(
            errors[2],
            "got `int3`, expected a shape such as M×N×K, an op, a dtype, a layout of B or a bias"
        );
        assert_eq!(errors[3], "got 5 sizes, expected M, N and K, or B, M, N and K");
        assert!(lines[4].is_ok());
        assert_eq!(
            read("m,n,k\n1,2,").pop().unwrap().unwrap_err(),
            "got no shape, expected M×N×K or B×M×N×K, such as 4096x4096x4096"
        );
        assert!(read("mm,bfloat16")[0].is_err());
    }
}
