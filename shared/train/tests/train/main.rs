//! Tests of training and judging on a made-up GPU.

mod evaluating;
mod kept;
mod learning;
mod made_up;
mod merging;
mod predecessor;
mod related;
mod shipped;
#[cfg(test)]
mod unseen;
