//! The messages between the server and its clients, in one module per resource. Lists are pages.
//! All errors have the same form. Times are in microseconds.
#![forbid(unsafe_code)]

/// Lets serde read a type from text by its `FromStr`, and write it by its `Display`.
macro_rules! as_text {
    ($name:ident) => {
        impl TryFrom<String> for $name {
            type Error = diode_core::Invalid;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }
    };
}

mod accounts;
mod agents;
pub mod bibtex;
mod boards;
mod common;
mod compare;
mod contributions;
mod coverage;
mod hardware;
mod kernels;
mod models;
mod problems;
pub mod query;
mod snapshots;
pub mod upload_check;
mod uploads;
mod workloads;

pub use accounts::*;
pub use agents::*;
pub use boards::*;
pub use common::*;
pub use compare::*;
pub use contributions::*;
pub use coverage::*;
pub use diode_core::physics::SetApartReason;
pub use hardware::*;
pub use kernels::*;
pub use models::*;
pub use problems::*;
pub use snapshots::*;
pub use uploads::*;
pub use workloads::*;
