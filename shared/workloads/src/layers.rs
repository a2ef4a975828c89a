//! The multiplications of a model, as its server runs them.
