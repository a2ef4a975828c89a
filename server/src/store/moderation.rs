//! Moderation in domain words: what the rest of the server may ask of the store about it.

use async_trait::async_trait;
use diode_core::api::{HardwareMerge, LogEntry, Moderation, NewReport, Reason, Receipt, Report, Standing};
use diode_core::hardware::Facts;
use diode_core::ids::{AccountId, AccountName, AgentId, HardwareSlug, UploadId};

use super::error::StoreResult;
use super::types::Now;
use crate::blobs::BlobKey;

/// What became of a moderation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    pub uploads: Vec<UploadId>,
    /// Files that no upload and no snapshot names any more.
    pub files: Vec<BlobKey>,
}

/// Why two kinds of hardware are not made one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotMerged {
    /// There is none by this slug, or it was merged before.
    Unknown(HardwareSlug),
    /// It would be merged into itself.
    Same,
    /// It is in the catalogue, so it is a kind of its own.
    Listed,
    /// Made-up times and real ones.
    Simulated,
    /// Jobs about it wait or run.
    Busy(u64),
}

impl NotMerged {
    /// In words for whoever asked.
    pub(crate) fn explain(&self, merge: &HardwareMerge) -> String {
        let HardwareMerge { from, into, .. } = merge;
        match self {
            Self::Unknown(slug) => format!("no hardware `{slug}`; GET /api/v1/hardware lists what there is"),
            Self::Same => format!("into: got `{into}`, which is the same, expected another hardware"),
            Self::Listed => format!(
                "from: got `{from}`, which is in the catalogue and so a kind of its own, expected hardware that is not"
            ),
            Self::Simulated => {
                format!(
                    "into: got `{into}`; of `{from}` and `{into}`, one has made-up times and one has real ones"
                )
            }
            Self::Busy(jobs) => {
                format!("{jobs} jobs about `{from}` wait or run; cancel them or wait until they have ended")
            }
        }
    }
}

/// Which uploads are listed.
#[derive(Debug, Clone, Default)]
pub struct UploadFilter {
    pub contributor: Option<AccountName>,
    pub standing: Option<Standing>,
}

/// What the server remembers of moderation. Every method is one transaction.
#[async_trait]
pub trait ModerationStore: Send + Sync {
    /// Does it, and writes it down. Boards, tables and datasets follow at once, the entries of large
    /// uploads within seconds. `None` if there is no such upload or account.
    async fn moderate(&self, moderation: &Moderation, who: &str, now: Now) -> StoreResult<Option<Done>>;

    /// Vouches for the facts of a hardware, or for these in their place, and writes it down. Times that
    /// arrive from then on are judged by them. `false` if there are none.
    async fn confirm_hardware(
        &self,
        slug: &HardwareSlug,
        facts: Option<&Facts>,
        why: &Reason,
        who: &str,
        now: Now,
    ) -> StoreResult<bool>;

    /// Makes one kind of hardware a part of another, and writes it down: what was measured on it and what it is
    /// asked to measure are the other's from then on, and so is what comes later under its name. Boards follow within
    /// seconds. Its models and snapshots stay, and none of its models is published any more. Returns how many
    /// solutions are the other's now.
    async fn merge_hardware(
        &self,
        merge: &HardwareMerge,
        who: &str,
        now: Now,
    ) -> StoreResult<Result<u64, NotMerged>>;

    /// Gives an agent that was put aside work again, and writes it down. `false` if none was.
    async fn readmit_agent(&self, agent: &AgentId, why: &Reason, who: &str, now: Now) -> StoreResult<bool>;

    /// Writes down what was done elsewhere, such as to an account, and why or by which way.
    async fn write_down(&self, what: &str, why: &str, who: &str, now: Now) -> StoreResult<()>;

    /// The newest entries of the log, newest first.
    async fn moderation_log(&self, limit: u32) -> StoreResult<Vec<LogEntry>>;

    /// Adds a report; `false` if there is no such upload.
    async fn add_report(
        &self,
        report: &NewReport,
        account: Option<&AccountId>,
        now: Now,
    ) -> StoreResult<bool>;

    /// The newest reports, newest first.
    async fn reports(&self, limit: u32) -> StoreResult<Vec<Report>>;

    /// The newest uploads that a filter leaves, newest first.
    async fn uploads(&self, filter: &UploadFilter, limit: u32) -> StoreResult<Vec<Receipt>>;
}
