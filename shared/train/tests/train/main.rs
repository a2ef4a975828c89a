//! Tests of training and judging on a made-up GPU.

mod evaluating;
mod kept;
mod learning;
mod made_up;
mod merging;
mod related;
mod shipped;
#[cfg(test)]
mod unseen;
