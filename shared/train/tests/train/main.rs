//! Training and judging on a made-up GPU.

mod evaluating;
mod learning;
mod legacy;
mod made_up;
mod merging;
mod shipped;
