//! Shapes in lines, or in CSV with a head.

use diode_core::{Bias, DType, Field, Layout, Op, Problem, ProblemFields};
use diode_ranking::Line;

use crate::format::counted;
use crate::pages::predict::{batched, dims, size, whole};

/// The defaults for whatever a line leaves out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Defaults {
    pub(super) op: Op,
    pub(super) dtype: DType,
    pub(super) b_layout: Layout,
    pub(super) bias: Bias,
}

/// Reads a shape per line, or CSV. Skips empty lines and lines that begin with `#`.
pub(super) fn shapes(text: &str, defaults: Defaults) -> Vec<Line> {
    let lines = (1..).zip(text.lines().map(str::trim));
    let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).peekable();
    let head = lines.peek().and_then(|(_, line)| Head::read(line));
    lines
        .skip(usize::from(head.is_some()))
        .map(|(number, line)| {
            let parts = match &head {
                Some(head) => head.parts(line),
                None => words(line),
            };
            let problem = parts.and_then(|parts| parts.problem(defaults));
            Line { number, problem }
        })
        .collect()
}

/// Reads one shape, such as `1x28672x4096 bf16 addmm column`.
pub(crate) fn one_shape(text: &str) -> Result<Problem, String> {
    shape_of_kind(text, Op::Mm, DType::BFloat16)
}

/// The same for another op and type, unless the text names them. Without a batch, a batched op stands for the plain one.
pub(crate) fn shape_of_kind(text: &str, op: Op, dtype: DType) -> Result<Problem, String> {
    let usual = Defaults { op, dtype, b_layout: Layout::Row, bias: Bias::Vector };
    let mut parts = words(text.trim())?;
    if parts.b.is_none() && op.is_batched() {
        parts.op = parts.op.or(Some(Op::Mm));
    }
    parts.problem(usual)
}

/// What a line says about a problem.
#[derive(Debug, Default)]
struct Parts {
    op: Option<Op>,
    b: Option<u64>,
    sizes: Option<[u64; 3]>,
    dtype: Option<DType>,
    a_layout: Option<Layout>,
    b_layout: Option<Layout>,
    bias: Option<Bias>,
}

impl Parts {
    fn problem(self, defaults: Defaults) -> Result<Problem, String> {
        let Some([m, n, k]) = self.sizes else {
            return Err("got no shape, expected M×N×K or B×M×N×K, such as 4096x4096x4096".to_owned());
        };
        // A batch needs a batched op, unless the line names the op.
        let op = match self.b {
            Some(b) if b > 1 => self.op.unwrap_or(batched(defaults.op)),
            _ => self.op.unwrap_or(defaults.op),
        };
        let dtype = self.dtype.unwrap_or(defaults.dtype);
        let plain = ProblemFields::plain(op, self.b.unwrap_or(1), m, n, k, dtype);
        let bias = if op.has_bias() { self.bias.unwrap_or(defaults.bias) } else { plain.bias };
        let a_layout = self.a_layout.unwrap_or(plain.a_layout);
        let b_layout = self.b_layout.unwrap_or(defaults.b_layout);
        Problem::new(ProblemFields { a_layout, b_layout, bias, ..plain }).map_err(|error| error.to_string())
    }
}

/// Reads a line without a head: a shape, and words for everything that differs from the defaults, in any
/// order.
fn words(line: &str) -> Result<Parts, String> {
    let mut parts = Parts::default();
    let mut sizes = Vec::new();
    let line = line.replace('×', "x").replace(" x ", "x");
    for word in line.split(|c: char| c.is_whitespace() || c == ';') {
        if let Some((b, shape)) = dims(word) {
            (parts.b, parts.sizes) = (b.or(parts.b), Some(shape));
            continue;
        }
        for word in word.split(',').filter(|word| !word.is_empty()) {
            if let Some((b, shape)) = dims(word) {
                (parts.b, parts.sizes) = (b.or(parts.b), Some(shape));
            } else if let Some(size) = whole(word) {
                sizes.push(size);
            } else if let Ok(op) = word.parse() {
                parts.op = Some(op);
            } else if let Ok(dtype) = dtype(word) {
                parts.dtype = Some(dtype);
            } else if let Ok(layout) = word.parse() {
                parts.b_layout = Some(layout);
            } else if let Ok(bias) = word.parse() {
                parts.bias = Some(bias);
            } else {
                return Err(format!(
                    "got `{word}`, expected a shape such as M×N×K, an op, a dtype, a layout of B or a bias"
                ));
            }
        }
    }
    match (&sizes[..], parts.sizes) {
        ([], _) => {}
        ([m, n, k], None) => parts.sizes = Some([*m, *n, *k]),
        ([b, m, n, k], None) => (parts.b, parts.sizes) = (Some(*b), Some([*m, *n, *k])),
        (sizes, _) => {
            let given = counted(sizes.len() as u64, "size");
            return Err(format!("got {given}, expected M, N and K, or B, M, N and K"));
        }
    }
    Ok(parts)
}

/// Reads a dtype by its torch name or by the short name that people type.
pub(super) fn dtype(text: &str) -> Result<DType, String> {
    match text {
        "fp16" => Ok(DType::Float16),
        "bf16" => Ok(DType::BFloat16),
        "fp32" => Ok(DType::Float32),
        other => {
            DType::from_torch_name(other.trim_start_matches("torch.")).map_err(|error| error.to_string())
        }
    }
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

    fn parts(&self, line: &str) -> Result<Parts, String> {
        let mut parts = Parts::default();
        let (mut m, mut n, mut k) = (None, None, None);
        for (column, value) in self.columns.iter().zip(line.split(self.separator).map(plain)) {
            if value.is_empty() {
                continue;
            }
            let said = |error: diode_core::Invalid| error.to_string();
            match *column {
                Column::Op => parts.op = Some(value.parse().map_err(said)?),
                Column::Size(field) => {
                    let size = Some(size(field, value).map_err(said)?);
                    match field {
                        Field::M => m = size,
                        Field::N => n = size,
                        Field::K => k = size,
                        _ => parts.b = size,
                    }
                }
                Column::DType => parts.dtype = Some(dtype(value)?),
                Column::ALayout => parts.a_layout = Some(value.parse().map_err(said)?),
                Column::BLayout => parts.b_layout = Some(value.parse().map_err(said)?),
                Column::Bias if value == "none" => {}
                Column::Bias => parts.bias = Some(value.parse().map_err(said)?),
                Column::Transposed => {
                    let transposed = value.eq_ignore_ascii_case("true");
                    parts.b_layout = Some(if transposed { Layout::Column } else { Layout::Row });
                }
                Column::Other => {}
            }
        }
        if let (Some(m), Some(n), Some(k)) = (m, n, k) {
            parts.sizes = Some([m, n, k]);
        }
        Ok(parts)
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
