//! Training and judging on a made-up GPU.

mod learning;
mod made_up;
mod merging;
mod shipped;
