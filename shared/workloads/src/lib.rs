//! Models that are served: their sizes, their multiplications, and the files that vLLM and SGLang read tuned
//! configs from.
#![forbid(unsafe_code)]

pub mod agreed;
pub mod catalogue;
mod entry_check;
pub mod file_body;
pub mod file_check;
pub mod file_names;
pub mod files;
pub mod layers;
pub mod measured;
pub mod model_config;
pub mod named;
pub mod published;
pub mod served;
pub mod server_log;
pub mod slower;
pub mod tuning;
pub mod zip;
