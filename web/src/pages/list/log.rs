//! Logs of Inductor: the multiplications that Inductor timed, or only met.

use std::collections::HashSet;

use diode_core::{Bias, DType, Layout, Op, Problem, ProblemFields};
use diode_worker::Line;

use crate::pages::list::shapes::Defaults;

/// The beginning of the results for one multiplication: `AUTOTUNE mm(16x4096, 4096x4096)`.
const TIMED: &str = "AUTOTUNE ";
/// The beginning of a line that `TORCH_LOGS=inductor` prints for one multiplication: `Tuned aten.mm: m=16,
/// n=4096, k=4096, …`.
const MET: &str = "Tuned aten.";
/// The number of lines after `AUTOTUNE` that describe the same multiplication.
const DETAILS: usize = 2;

/// Reads a log. `None` if the text is no log. A problem that was compiled several times is listed once.
pub(super) fn read(text: &str, defaults: Defaults) -> Option<Vec<Line>> {
    let lines: Vec<&str> = text.lines().collect();
    let numbered = || (1..).zip(&lines);
    let timed = numbered().filter_map(|(number, line)| {
        let details = lines.get(number..).unwrap_or_default();
        Some(Line::new(number, timed(line, &details[..details.len().min(DETAILS)], defaults)?))
    });
    let mut found: Vec<Line> = timed.collect();
    // `Tuned` lines name the same multiplications in less detail.
    if found.is_empty() {
        let met = numbered().filter_map(|(number, line)| Some(Line::new(number, met(line, defaults)?)));
        found = met.collect();
    }
    let mut seen = HashSet::new();
    found.retain(|line| seen.insert(line.problem.clone()));
    (!found.is_empty()).then_some(found)
}

/// The inputs of one multiplication, as Inductor prints them.
struct Inputs {
    sizes: Vec<Vec<u64>>,
    /// Older versions of torch print neither strides nor dtypes.
    strides: Vec<Vec<u64>>,
    dtypes: Vec<DType>,
}

fn timed(line: &str, details: &[&str], defaults: Defaults) -> Option<Result<Problem, String>> {
    let (op, rest) = line.split_once(TIMED)?.1.split_once('(')?;
    let is_name = op.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let sizes = rest.split_once(')')?.0;
    is_name.then(|| {
        let op = known(op)?;
        let inputs = Inputs {
            sizes: sizes.split(',').map(|size| numbers(size.trim().split('x'))).collect::<Result<_, _>>()?,
            strides: match said(details, "strides: ") {
                Some(strides) => strides
                    .split("],")
                    .map(|one| numbers(one.trim_matches([' ', '[', ']']).split(',').map(str::trim)))
                    .collect::<Result<_, _>>()?,
                None => Vec::new(),
            },
            dtypes: match said(details, "dtypes: ") {
                Some(dtypes) => dtypes.split(',').map(|one| dtype(one.trim())).collect::<Result<_, _>>()?,
                None => Vec::new(),
            },
        };
        problem(op, &inputs, defaults)
    })
}

/// The text after `name` in the lines of one multiplication. The next multiplication is not searched.
fn said<'a>(details: &[&'a str], name: &str) -> Option<&'a str> {
    let own = details.iter().take_while(|line| !line.contains(TIMED));
    own.filter_map(|line| line.split_once(name)).map(|(_, value)| value.trim()).next()
}

fn dtype(name: &str) -> Result<DType, String> {
    DType::from_short_name(name).map_err(|error| error.to_string())
}

fn known(op: &str) -> Result<Op, String> {
    let parsed = op.parse().ok().filter(|op: &Op| op.is_plain());
    parsed.ok_or_else(|| {
        format!("got the operator {op}, expected one of {}", Op::PLAIN.map(Op::as_str).join(", "))
    })
}

fn numbers<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Vec<u64>, String> {
    texts.map(|text| text.parse().map_err(|_| format!("got the size `{text}`, expected a number"))).collect()
}

fn problem(op: Op, inputs: &Inputs, defaults: Defaults) -> Result<Problem, String> {
    let Inputs { sizes, strides, dtypes } = inputs;
    let unfit = || {
        let all: Vec<String> = sizes.iter().map(|size| text(size, "x")).collect();
        format!("got {op}({}), which is no {op} of matrices", all.join(", "))
    };
    let [before @ .., a, b] = sizes.as_slice() else { return Err(unfit()) };
    let (batch, [m, k], [rows, n]) = match (op.is_batched(), a.as_slice(), b.as_slice()) {
        (false, &[m, k], &[rows, n]) => (1, [m, k], [rows, n]),
        (true, &[batch, m, k], &[other, rows, n]) if batch == other => (batch, [m, k], [rows, n]),
        _ => return Err(unfit()),
    };
    if rows != k {
        return Err(unfit());
    }
    // Places are counted from the end, because A and B are the last inputs.
    let stride = |back: usize| strides.len().checked_sub(back).and_then(|place| strides.get(place));
    let dtype = |back: usize| dtypes.len().checked_sub(back).and_then(|place| dtypes.get(place)).copied();
    let a_dtype = dtype(2).unwrap_or(defaults.dtype);
    let plain = ProblemFields::plain(op, batch, m, n, k, a_dtype);
    let bias = match (op.has_bias(), before.first(), stride(3)) {
        (false, ..) => Bias::None,
        (true, Some(size), _) if size.len() == 1 => Bias::Vector,
        (true, _, Some(stride)) => {
            if is_repeated(stride) {
                Bias::Vector
            } else {
                Bias::Matrix
            }
        }
        (true, _, None) => defaults.bias,
    };
    let fields = ProblemFields {
        a_layout: stride(2).map_or(Ok(plain.a_layout), |stride| layout("A", stride))?,
        b_layout: stride(1).map_or(Ok(defaults.b_layout), |stride| layout("B", stride))?,
        b_dtype: dtype(1).unwrap_or(a_dtype),
        bias,
        ..plain
    };
    Problem::new(fields).map_err(|error| error.to_string())
}

/// Whether all rows of the bias are the same row in memory.
fn is_repeated(stride: &[u64]) -> bool {
    stride.len() == 1 || stride.len().checked_sub(2).is_some_and(|row| stride[row] == 0)
}

fn layout(name: &str, stride: &[u64]) -> Result<Layout, String> {
    match stride {
        [.., 1] => Ok(Layout::Row),
        [.., 1, _] => Ok(Layout::Column),
        _ => Err(format!(
            "{name}: got the strides [{}], expected rows or columns without gaps",
            text(stride, ", ")
        )),
    }
}

fn text(numbers: &[u64], separator: &str) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(separator)
}

/// Reads a line that names only sizes and types.
fn met(line: &str, defaults: Defaults) -> Option<Result<Problem, String>> {
    let (op, rest) = line.split_once(MET)?.1.split_once(": ")?;
    let value = |name: &str| {
        let (_, value) =
            rest.split(", ").filter_map(|part| part.split_once('=')).find(|(own, _)| *own == name)?;
        Some(value)
    };
    let size = |name: &str| {
        let given = value(name).ok_or_else(|| format!("got no {name}, expected a size"))?;
        given.parse::<u64>().map_err(|_| format!("got the size `{given}`, expected a number"))
    };
    let read = || {
        let op = known(op)?;
        let batch = if op.is_batched() { size("batch")? } else { 1 };
        let a_dtype = value("mat1_dtype").map_or(Ok(defaults.dtype), dtype)?;
        let plain = ProblemFields::plain(op, batch, size("m")?, size("n")?, size("k")?, a_dtype);
        let fields = ProblemFields {
            b_dtype: value("mat2_dtype").map_or(Ok(a_dtype), dtype)?,
            b_layout: defaults.b_layout,
            bias: if op.has_bias() { defaults.bias } else { Bias::None },
            ..plain
        };
        Problem::new(fields).map_err(|error| error.to_string())
    };
    Some(read())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULTS: Defaults =
        Defaults { op: Op::Mm, dtype: DType::Float16, b_layout: Layout::Row, bias: Bias::Matrix };

    /// A log as torch 2.11 prints it.
    const LOG: &str =
        "/site-packages/torch/_inductor/compile_fx.py:312: UserWarning: TensorFloat32 is available
Autotune Choices Stats:
{\"num_choices\": 2, \"best_kernel\": \"bias_addmm\", \"best_time\": 0.016383999958634377}
AUTOTUNE addmm(16x1000, 16x512, 512x1000)
strides: [0, 1], [512, 1], [1, 512]
dtypes: torch.bfloat16, torch.bfloat16, torch.bfloat16
  bias_addmm 0.0164 ms 100.0% 
  triton_mm_18 1.0957 ms 61.1% ACC_TYPE='tl.float32', ALLOW_TF32=False, BLOCK_K=64, num_stages=3, num_warps=4
SingleProcess AUTOTUNE benchmarking takes 0.0290 seconds and 0.0002 seconds precompiling for 2 choices
AUTOTUNE bmm(8x128x64, 8x64x128)
strides: [8192, 64, 1], [8192, 128, 1]
dtypes: torch.float32, torch.float32
  bmm 0.0220 ms 100.0% 
AUTOTUNE addmm(16x1000, 16x512, 512x1000)
strides: [0, 1], [512, 1], [1, 512]
dtypes: torch.bfloat16, torch.bfloat16, torch.bfloat16
AUTOTUNE mm(s0x512, 512x1000)
AUTOTUNE convolution(1x3x224x224, 64x3x7x7)
AUTOTUNE mm(64x32, 32x128)
  mm 0.1 ms 100.0%
";

    fn said(text: &str) -> Vec<(usize, Result<String, String>)> {
        let lines = read(text, DEFAULTS).unwrap_or_default();
        lines.into_iter().map(|line| (line.number, line.problem.map(|problem| problem.canonical()))).collect()
    }

    #[test]
    fn each_multiplication_of_a_log_is_listed_once() {
        assert_eq!(
            said(LOG),
            [
                (4, Ok("addmm;b=1;m=16;n=1000;k=512;in=bfloat16,bfloat16;out=bfloat16;layout=row,column;bias=vector".to_owned())),
                (10, Ok("bmm;b=8;m=128;n=128;k=64;in=float32,float32;out=float32;layout=row,row;bias=none".to_owned())),
                (17, Err("got the size `s0`, expected a number".to_owned())),
                (18, Err("got the operator convolution, expected one of mm, addmm, bmm, baddbmm".to_owned())),
                (19, Ok("mm;b=1;m=64;n=128;k=32;in=float16,float16;out=float16;layout=row,row;bias=none".to_owned())),
            ]
        );
    }

    #[test]
    fn what_does_not_fit_together_is_said() {
        assert_eq!(
            said("AUTOTUNE mm(64x32, 31x128)"),
            [(1, Err("got mm(64x32, 31x128), which is no mm of matrices".to_owned()))]
        );
        let gaps = "AUTOTUNE mm(64x32, 32x128)\nstrides: [64, 2], [128, 1]\n";
        assert_eq!(
            said(gaps),
            [(1, Err("A: got the strides [64, 2], expected rows or columns without gaps".to_owned()))]
        );
    }

    #[test]
    fn lines_of_the_inductor_log_count_where_nothing_was_timed() {
        let log = "I1123 07:00:00.1 9 torch/_inductor/kernel/mm.py:1] [0/0] Tuned aten.addmm: m=16, n=64, k=32, \
                   mat1_dtype=torch.bfloat16, mat2_dtype=torch.bfloat16, output_layout=FixedLayout('cuda:0')\n\
                   Tuned aten.bmm: m=16, n=64, k=32, mat1_dtype=torch.float32, mat2_dtype=torch.float32\n";
        assert_eq!(
            said(log),
            [
                (1, Ok("addmm;b=1;m=16;n=64;k=32;in=bfloat16,bfloat16;out=bfloat16;layout=row,row;bias=matrix".to_owned())),
                (2, Err("got no batch, expected a size".to_owned())),
            ]
        );
        assert_eq!(said(&format!("{log}AUTOTUNE mm(64x32, 32x128)")).len(), 1);
    }

    #[test]
    fn other_texts_are_no_log() {
        for text in ["", "4096x4096x4096", "m,n,k\n1,2,3", "SingleProcess AUTOTUNE benchmarking takes (1) s"]
        {
            assert_eq!(read(text, DEFAULTS), None, "{text}");
        }
    }
}
