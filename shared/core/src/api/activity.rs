use serde::{Deserialize, Serialize};

use super::{Agent, Receipt};

/// What has happened lately, and what happens now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Activity {
    /// The newest uploads that count, newest first.
    pub uploads: Vec<Receipt>,
    /// Agents that have asked for something within three minutes.
    pub working: u64,
    /// Some of them, those seen last first.
    pub agents: Vec<Agent>,
}
