//! The work of what is fused into a tile, in numbers.

use diode_core::{DType, Epilogue, Problem};

/// A function and how long it takes, relative to `erf`: in a kernel of its own, and in a tile. Functions that
/// are not listed take no longer than reading and writing the memory.
type Work = (&'static str, f64, f64);

/// Long functions need registers of their own in a tile.
const LONG: [Work; 5] =
    [("erf", 1.0, 1.0), ("tanh", 1.0, 1.6), ("pow", 1.0, 1.0), ("sin", 1.0, 1.0), ("cos", 1.0, 1.0)];
const SHORT: [Work; 4] = [("exp", 0.3, 0.44), ("sigmoid", 0.3, 0.44), ("log", 0.5, 0.5), ("log1p", 0.5, 0.5)];

/// A change of type. It is named only if there is nothing else to name.
const CAST: &str = "convert_element_type";

/// What becomes part of a tile's kernel because it follows the multiplication element by element.
#[derive(Debug, Clone, PartialEq)]
pub struct Following {
    /// The names of torch's functions.
    pub ops: Vec<String>,
    /// The number of values in the product.
    pub elements: u64,
    pub product_bytes: u64,
    /// The bytes of all other operands.
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Whether the product itself is needed, too.
    pub keeps_product: bool,
}

impl Following {
    /// What an epilogue does after a problem. `None` if there is nothing to do.
    pub fn of(epilogue: Epilogue, problem: &Problem) -> Option<Self> {
        let p = problem;
        let elements = p.b.saturating_mul(p.m).saturating_mul(p.n);
        let product_bytes = elements.saturating_mul(p.out_dtype.size());
        let (op, read_bytes, written_bytes) = match epilogue {
            Epilogue::None => return None,
            Epilogue::Float32 if p.out_dtype == DType::Float32 => return None,
            Epilogue::Relu => ("relu", 0, product_bytes),
            Epilogue::Gelu => ("erf", 0, product_bytes),
            Epilogue::GeluTanh => ("tanh", 0, product_bytes),
            Epilogue::Silu => ("sigmoid", 0, product_bytes),
            Epilogue::SiluGate => ("sigmoid", product_bytes, product_bytes),
            Epilogue::Residual => ("add", product_bytes, product_bytes),
            Epilogue::Float32 => (CAST, 0, elements.saturating_mul(DType::Float32.size())),
        };
        let ops = vec![op.to_owned()];
        Some(Self { ops, elements, product_bytes, read_bytes, written_bytes, keeps_product: false })
    }

    /// The functions, each named once. Casts are named only if there is nothing else.
    pub fn label(&self) -> String {
        /// The most functions that are named.
        const MOST: usize = 6;
        let mut names: Vec<&str> = Vec::new();
        for op in self.ops.iter().filter(|op| *op != CAST) {
            if !names.contains(&op.as_str()) {
                names.push(op);
            }
        }
        if names.is_empty() {
            return CAST.to_owned();
        }
        let more = names.len().saturating_sub(MOST);
        let named = names[..names.len() - more].join(", ");
        if more > 0 { format!("{named} and {more} more") } else { named }
    }

    /// How long the functions take in a kernel of their own, relative to `erf`.
    pub(super) fn separate_work(&self) -> f64 {
        let all = [&LONG[..], &SHORT[..]].concat();
        self.sum(&all, |work| work.1)
    }

    /// How long the long functions take in a tile, relative to `erf`.
    pub(super) fn long_work(&self) -> f64 {
        self.sum(&LONG, |work| work.2)
    }

    /// How long the short functions take in a tile, relative to `erf`.
    pub(super) fn short_work(&self) -> f64 {
        self.sum(&SHORT, |work| work.2)
    }

    fn sum(&self, functions: &[Work], of: fn(&Work) -> f64) -> f64 {
        let known = |op: &String| functions.iter().find(|work| work.0 == op).map(of);
        self.ops.iter().filter_map(known).sum()
    }

    /// The bytes that a kernel writes beyond the product.
    pub(super) fn more_written(&self) -> u64 {
        let product = if self.keeps_product { 0 } else { self.product_bytes };
        self.written_bytes.saturating_sub(product)
    }
}

#[cfg(test)]
mod tests {
    use diode_core::{Op, ProblemFields};

    use super::*;

    #[test]
    fn a_label_names_each_function_once_and_casts_only_alone() {
        let label = |ops: &[&str]| {
            let ops = ops.iter().map(|op| (*op).to_owned()).collect();
            Following {
                ops,
                elements: 1,
                product_bytes: 2,
                read_bytes: 0,
                written_bytes: 2,
                keeps_product: false,
            }
            .label()
        };
        assert_eq!(label(&[CAST, "mul", "mul", "erf", CAST]), "mul, erf");
        assert_eq!(label(&[CAST]), CAST);
        assert_eq!(label(&["a", "b", "c", "d", "e", "f", "g", "h"]), "a, b, c, d, e, f and 2 more");
    }

    #[test]
    fn an_epilogue_reads_and_writes_what_it_is_named_for() {
        let of = |epilogue, dtype| {
            let problem = ProblemFields::plain(Op::Bmm, 2, 64, 128, 32, dtype);
            Following::of(epilogue, &Problem::new(problem).unwrap())
        };
        let bytes = |epilogue| {
            let found = of(epilogue, DType::BFloat16).unwrap();
            (found.product_bytes, found.read_bytes, found.written_bytes)
        };
        let product = 2 * 64 * 128 * 2;
        assert_eq!(bytes(Epilogue::Gelu), (product, 0, product));
        assert_eq!(bytes(Epilogue::Residual), (product, product, product));
        assert_eq!(bytes(Epilogue::Float32), (product, 0, 2 * product));
        assert_eq!(of(Epilogue::None, DType::BFloat16), None);
        assert_eq!(of(Epilogue::Float32, DType::Float32), None);
    }
}
