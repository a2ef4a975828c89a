//! Which problems somebody can compute. What no kernel exists for is refused before it is measured, asked for or predicted.

use diode_core::{KernelVariant, Problem};

use crate::failure::Usage;

/// Refuses problems if one of them cannot be computed.
pub(crate) fn check_all(problems: &[Problem]) -> Result<(), Usage> {
    match problems.iter().find_map(KernelVariant::obstacle) {
        Some(why) => Err(Usage::new(why)),
        None => Ok(()),
    }
}

/// Refuses problems if none of them can be computed.
pub(crate) fn check_one_of(problems: &[Problem]) -> Result<(), Usage> {
    if problems.iter().all(|problem| KernelVariant::obstacle(problem).is_some()) {
        check_all(problems)
    } else {
        Ok(())
    }
}
