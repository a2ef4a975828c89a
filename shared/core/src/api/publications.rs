use serde::{Deserialize, Serialize};

use super::Reason;
use crate::Heuristic;
use crate::ids::{HardwareSlug, ModelId};
use crate::named_enum::named_enum;

named_enum! {
    /// What happens to a model.
    PublicationAction("action") {
        /// It replaces the published model, even a pinned one.
        Publish = "publish",
        /// It is no longer published, and the model that was published before it is published
        /// again.
        RollBack = "roll-back",
        /// It stays published until an administrator says otherwise.
        Pin = "pin",
        /// Better models may replace it again.
        Unpin = "unpin",
        /// It is not published because it is worse. Only the server does this.
        Refuse = "refuse",
    }
}

/// Asks for something to happen to a model. It is written down with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewPublication {
    pub action: PublicationAction,
    pub model: ModelId,
    pub reason: Reason,
}

/// A step in the history of a hardware's models.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Publication {
    /// As RFC 3339.
    pub at: String,
    pub hardware: HardwareSlug,
    pub heuristic: Heuristic,
    pub model: ModelId,
    pub action: PublicationAction,
    /// The name of an account, `command line`, or `server` where it acted by itself.
    pub who: String,
    pub why: String,
}
