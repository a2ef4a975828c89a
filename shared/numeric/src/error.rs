//! Why weights cannot make a network.

/// A tensor whose shape or values do not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("tensor `{name}`: got {given}, expected {expected}")]
pub struct Misfit {
    pub name: String,
    pub given: String,
    pub expected: String,
}
