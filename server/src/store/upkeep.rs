//! What operators ask of the store: how much it has, and whether it is right.

use std::fmt::Display;

use diode_api::JobState;

use super::types::NamedBlob;
use crate::solutions::Damaged;

/// The blobs that rows name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedBlobs {
    pub named: Vec<NamedBlob>,
    /// Rows that cannot be read, in words. Which blobs they name is not known.
    pub damaged: Vec<String>,
}

/// The result of checking that standings and owners follow from the uploads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckedUploads {
    pub uploads: usize,
    /// Uploads that wait to be judged anew. They are not compared.
    pub to_judge: usize,
    /// Rows that cannot be read, in words.
    pub damaged: Vec<String>,
    /// Values that differ from what they should be, in words.
    pub misjudged: Vec<String>,
}

/// The result of reading the rows of jobs, agents and contributed models.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckedRows {
    pub rows: usize,
    /// Rows that cannot be read, in words.
    pub damaged: Vec<String>,
}

impl CheckedRows {
    pub(super) fn note(&mut self, kind: &str, id: &dyn Display, read: Result<(), Damaged>) {
        self.rows += 1;
        self.damaged.extend(read.err().map(|damaged| format!("{kind} {id}: {damaged}")));
    }
}

/// How much the database has and how much waits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    pub jobs: Vec<(JobState, u64)>,
    pub stale_entries: u64,
    /// Uploads that wait to be judged anew.
    pub to_judge: u64,
    pub uploads: u64,
    pub upload_bytes: u64,
    /// Agents that have asked for something within the time of a lease.
    pub agents: u64,
    pub leases: u64,
    pub waiting_work: u64,
}

/// The connections of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections {
    pub pool: &'static str,
    pub open: u32,
    pub idle: u32,
}
