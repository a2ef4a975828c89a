//! Which problems somebody can compute. What no kernel exists for is refused before it is measured, asked for or predicted.

use diode_core::{KernelVariant, Problem};

use crate::failure::Usage;

/// Why nobody can compute a problem, in one sentence. `None` if there are kernels for its operator and types.
pub(crate) fn obstacle(problem: &Problem) -> Option<String> {
    let refused = KernelVariant::for_problem(problem).err()?;
    let why = if problem.op.is_plain() {
        [problem.a_dtype, problem.b_dtype]
            .into_iter()
            .find_map(|dtype| KernelVariant::check_dtype(dtype).err())?
    } else {
        refused
    };
    Some(format!("{} {}: {why}", problem.op, problem.dims()))
}

/// Refuses problems if one of them cannot be computed.
pub(crate) fn check_all(problems: &[Problem]) -> Result<(), Usage> {
    match problems.iter().find_map(obstacle) {
        Some(why) => Err(Usage::new(why)),
        None => Ok(()),
    }
}

/// Refuses problems if none of them can be computed.
pub(crate) fn check_one_of(problems: &[Problem]) -> Result<(), Usage> {
    if problems.iter().all(|problem| obstacle(problem).is_some()) { check_all(problems) } else { Ok(()) }
}
