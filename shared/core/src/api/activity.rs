use serde::{Deserialize, Serialize};

use super::{Agent, Receipt};
use crate::ids::{AccountName, HardwareSlug, UploadId};

/// What has happened lately, and what happens now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Activity {
    /// The newest uploads that count, newest first.
    pub uploads: Vec<NewestUpload>,
    /// Agents that have asked for something within three minutes.
    pub working: u64,
    /// Some of them, those seen last first.
    pub agents: Vec<WorkingAgent>,
}

/// What a line has room for of an upload; `GET /uploads/{id}` has the rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewestUpload {
    pub id: UploadId,
    pub received_at: String,
    pub contributor: Option<AccountName>,
    pub hardware: Vec<HardwareName>,
    pub problems: u64,
    pub timings: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HardwareName {
    pub slug: HardwareSlug,
    pub name: String,
}

/// What a line has room for of an agent; `GET /agents/{id}` has the rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkingAgent {
    pub name: String,
    pub hardware: HardwareSlug,
    pub simulated: bool,
    pub measured: u64,
}

impl From<Receipt> for NewestUpload {
    fn from(receipt: Receipt) -> Self {
        let problems = receipt.hardware.iter().map(|one| one.problems).sum();
        let timings = receipt.hardware.iter().map(|one| one.timings).sum();
        let mut hardware: Vec<HardwareName> =
            receipt.hardware.into_iter().map(|one| HardwareName { slug: one.slug, name: one.name }).collect();
        // A file may hold several datasets of the same hardware.
        hardware.dedup();
        let Receipt { id, received_at, contributor, .. } = receipt;
        Self { id, received_at, contributor, hardware, problems, timings }
    }
}

impl From<Agent> for WorkingAgent {
    fn from(agent: Agent) -> Self {
        let Agent { name, hardware, simulated, measured, .. } = agent;
        Self { name, hardware, simulated, measured }
    }
}
