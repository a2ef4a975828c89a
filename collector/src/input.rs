//! What commands read: flags, problems, datasets, tables and models.

pub(crate) mod arguments;
pub(crate) mod datasets;
pub(crate) mod generator;
pub(crate) mod models;
pub(crate) mod problems;
pub(crate) mod published;
pub(crate) mod served;
pub(crate) mod tables;

use diode_core::{KernelVariant, Problem};

use crate::failure::Usage;

/// Refuses problems if one of them cannot be computed.
pub(crate) fn check_computable(problems: &[Problem]) -> Result<(), Usage> {
    match problems.iter().find_map(KernelVariant::obstacle) {
        Some(why) => Err(Usage::new(why)),
        None => Ok(()),
    }
}

/// Refuses problems if none of them can be computed.
pub(crate) fn check_one_computable(problems: &[Problem]) -> Result<(), Usage> {
    if problems.iter().all(|problem| KernelVariant::obstacle(problem).is_some()) {
        check_computable(problems)
    } else {
        Ok(())
    }
}
