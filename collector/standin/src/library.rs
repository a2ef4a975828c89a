//! What the stand-ins for the libraries of multiplications share.

use std::ffi::c_int;

use crate::node::Node;
use crate::number::Number;
use crate::product::{Matrix, Product};
use crate::script::Effect;

const NOT_SUPPORTED: i32 = 15;

/// A handle whose value nobody reads.
pub(crate) const HANDLE: usize = 0xb1a5;

pub(crate) fn number(kind: c_int) -> Result<Number, i32> {
    match kind {
        0 => Ok(Number::Single),
        2 => Ok(Number::Half),
        14 => Ok(Number::BFloat),
        28 => Ok(Number::Fp8),
        _ => Err(NOT_SUPPORTED),
    }
}

/// A column-major matrix of the library, transposed or not, with its distances between rows and
/// between columns.
pub(crate) fn matrix(
    address: u64,
    kind: c_int,
    transposed: bool,
    leading: u64,
    batch: u64,
) -> Result<Matrix, i32> {
    let (row, column) = if transposed { (leading, 1) } else { (1, leading) };
    Ok(Matrix { address, number: number(kind)?, row, column, batch })
}

pub(crate) fn queue(node: &mut Node, mut product: Product, effect: Option<Effect>) -> Result<(), i32> {
    const LEAST: u64 = 1100;
    product.wrong = effect == Some(Effect::Wrong);
    if let Err(outside) = product.check(&mut node.memory) {
        return Err(node.violation(&format!("the library: {outside}")));
    }
    let mut took = LEAST + product.size.iter().product::<u64>() * 70 / 1000;
    if let Some(Effect::Slow(times)) = effect {
        took = (took as f64 * times) as u64;
    }
    node.clock += took;
    node.pending.add(product, &mut node.memory).map_err(|outside| node.outside(&outside))
}
