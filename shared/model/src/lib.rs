//! Uses trained models: ranking, the one answer to a question, epilogues and the model file. `diode_numeric`
//! computes the features and the forward pass. "The library" is cuBLAS or, on AMD GPUs, hipBLASLt.
//!
//! The same code runs in the server, the command line, the Python wheel and the browser. All give
//! the same numbers, to a few millionths, because the code uses only plain IEEE arithmetic in a fixed
//! order. It has no I/O, clocks or threads.
#![forbid(unsafe_code)]

mod answer;
pub mod contribution;
pub mod epilogue;
pub mod error;
pub mod features;
pub mod file;
mod limits;
pub mod metadata;
pub mod model;

mod ranker;
mod serving;
mod tile_network;
pub use answer::{Answer, Confidence, Question};
pub use diode_numeric::{Layer, Misfit, Network, math, normalise};
pub use error::ModelError;
pub use features::{COLUMN_COUNT, COLUMNS, FEATURE_SET, LIBRARY_COLUMNS};
pub use file::UnseenModels;
pub use limits::{Forms, Limits};
pub use metadata::{GroupConfidence, Metadata, Training, TrainingRange, Unsure};
pub use model::{Judgement, Model, Predictor, Shortlister};

pub use ranker::{MOST_PICKS, RankedSpace, Ranker, rank};
pub use serving::{LayerAnswer, MAX_NETWORKS, Serving, ServingAbout, ServingFigures, ServingKind, put_first};
pub use tile_network::{TileKey, TileNetwork, TileValues, tile_key};
