//! A shape as parameters of the address of Predict.

use diode_core::{Bias, DType, Epilogue, Field, Invalid, Layout, Op, Problem, ProblemFields};

use super::sizes::size;

/// A parameter of the address.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    /// The value that applies if the address leaves the parameter out.
    pub(crate) default: &'static str,
    /// Whether the address names the parameter even if it has the default value.
    always: bool,
}

const fn key(name: &'static str, default: &'static str, always: bool) -> Key {
    Key { name, default, always }
}

/// The parameters that describe a shape, in the order of the address.
pub(crate) const SHAPE: [Key; 9] = [
    key("op", "mm", true),
    key("b", "1", true),
    key("m", "4096", true),
    key("n", "4096", true),
    key("k", "4096", true),
    key("dtype", "bfloat16", true),
    key("a_layout", "row", false),
    key("b_layout", "row", true),
    key("bias", "matrix", false),
];

/// The epilogue, which stands after the shape.
pub(super) const EPILOGUE: Key = key("epilogue", Epilogue::None.as_str(), false);

impl Key {
    /// A parameter that the address names only if it has a value.
    pub(super) const fn optional(name: &'static str) -> Self {
        key(name, "", false)
    }

    /// Whether the address names the parameter. An emptied size must stay in the address as empty: if it were
    /// left out, it would have its default again.
    pub(super) fn is_said(&self, value: &str) -> bool {
        self.always || value != self.default
    }
}

/// The problem that values of [`SHAPE`] describe. The error has the same words as on the server and the command
/// line.
pub(crate) fn problem_of(values: [&str; 9]) -> Result<Problem, Invalid> {
    let [op, b, m, n, k, dtype, a_layout, b_layout, bias] = values;
    let op: Op = op.parse()?;
    let dtype: DType = dtype.parse()?;
    let (a_layout, b_layout) = (a_layout.parse()?, b_layout.parse()?);
    let bias = if op.has_bias() { bias.parse()? } else { Bias::None };
    let b = if op.is_batched() { size(Field::B, b)? } else { 1 };
    let (m, n, k) = (size(Field::M, m)?, size(Field::N, n)?, size(Field::K, k)?);
    let plain = ProblemFields::plain(op, b, m, n, k, dtype);
    Problem::new(ProblemFields { a_layout, b_layout, bias, ..plain })
}

/// Whether Predict's form can describe a problem completely.
pub(crate) fn has_a_form(problem: &Problem) -> bool {
    let p = problem;
    p.a_dtype == p.b_dtype && p.a_dtype == p.out_dtype && p.out_layout.is_none()
}

/// The values of [`SHAPE`] for a problem. Parameters that the address leaves out are empty.
pub(crate) fn shape_of(problem: &Problem) -> [(&'static str, String); 9] {
    let p = problem;
    let bias = if p.op.has_bias() { p.bias.to_string() } else { String::new() };
    let values = [
        p.op.to_string(),
        p.b.to_string(),
        p.m.to_string(),
        p.n.to_string(),
        p.k.to_string(),
        p.a_dtype.to_string(),
        p.a_layout.to_string(),
        p.b_layout.to_string(),
        bias,
    ];
    let mut pairs = SHAPE.map(|key| (key.name, String::new()));
    for ((pair, key), value) in pairs.iter_mut().zip(SHAPE).zip(values) {
        if key.is_said(&value) {
            pair.1 = value;
        }
    }
    pairs
}

/// The flags of `diode predict` for a problem.
pub(crate) fn flags(problem: &Problem) -> String {
    let p = problem;
    let mut flags = format!("--op {}", p.op);
    if p.op.is_batched() {
        flags += &format!(" --b {}", p.b);
    }
    flags += &format!(" --m {} --n {} --k {} --dtype {}", p.m, p.n, p.k, p.a_dtype);
    for (name, layout) in [("a", p.a_layout), ("b", p.b_layout)] {
        if layout != Layout::Row {
            flags += &format!(" --{name}-layout {layout}");
        }
    }
    if p.op.has_bias() {
        flags += &format!(" --bias {}", p.bias);
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::link;

    #[test]
    fn nothing_of_a_shape_is_lost() {
        let plain = ProblemFields::plain(Op::Addmm, 1, 64, 128, 32, DType::Float16);
        let linear = ProblemFields { bias: Bias::Vector, b_layout: Layout::Column, ..plain.clone() };
        let linear = Problem::new(linear).unwrap();
        assert_eq!(
            link("/predict", shape_of(&linear)),
            "/predict?op=addmm&b=1&m=64&n=128&k=32&dtype=float16&b_layout=column&bias=vector"
        );
        assert_eq!(
            flags(&linear),
            "--op addmm --m 64 --n 128 --k 32 --dtype float16 --b-layout column --bias vector"
        );
        let plain = Problem::new(ProblemFields { a_layout: Layout::Column, ..plain }).unwrap();
        assert_eq!(
            link("/predict", shape_of(&plain)),
            "/predict?op=addmm&b=1&m=64&n=128&k=32&dtype=float16&a_layout=column&b_layout=row"
        );
        assert!(has_a_form(&plain));
        for problem in [linear, plain] {
            let values = shape_of(&problem);
            let values = [0, 1, 2, 3, 4, 5, 6, 7, 8].map(|place: usize| match values[place].1.as_str() {
                "" => SHAPE[place].default,
                value => value,
            });
            assert_eq!(problem_of(values), Ok(problem));
        }
    }
}
