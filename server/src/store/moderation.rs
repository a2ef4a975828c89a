//! What the rest of the server may ask of the store about moderation.

use async_trait::async_trait;
use diode_api::{HardwareMerge, LogEntry, Moderation, NewReport, Reason, Receipt, Report, Standing};
use diode_core::hardware::Facts;
use diode_core::ids::{AccountId, AccountName, AgentId, HardwareSlug, UploadId};

use super::error::StoreResult;
use super::types::Now;
use crate::blobs::BlobKey;

/// The result of a moderation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    pub uploads: Vec<UploadId>,
    /// Files that no upload and no snapshot names any more.
    pub files: Vec<BlobKey>,
}

/// Why one hardware is not merged into another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotMerged {
    /// There is no hardware with this slug, or it was merged before.
    Unknown(HardwareSlug),
    /// The hardware would be merged into itself.
    Same,
    /// The hardware is in the catalogue, so it is a kind of its own.
    Listed,
    /// One hardware is simulated and the other is not.
    Simulated,
    /// How many jobs about the hardware wait or run.
    Busy(u64),
}

impl NotMerged {
    /// The reason in words, for the caller.
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

/// What the server stores about moderation. Every method is one transaction.
#[async_trait]
pub trait ModerationStore: Send + Sync {
    /// Carries out a moderation, and writes it to the log. Boards, tables and datasets follow at once; entries of
    /// large uploads follow within seconds. `None` if there is no such upload or account.
    async fn moderate(&self, moderation: &Moderation, who: &str, now: Now) -> StoreResult<Option<Done>>;

    /// Confirms the stored facts of a hardware, or replaces them with `facts` and confirms these. Writes it to the
    /// log. Times that arrive later are judged by the confirmed facts. `false` if there are no facts to confirm.
    async fn confirm_hardware(
        &self,
        slug: &HardwareSlug,
        facts: Option<&Facts>,
        why: &Reason,
        who: &str,
        now: Now,
    ) -> StoreResult<bool>;

    /// Merges one hardware into another for good, and writes it to the log. The other hardware gets all timings of
    /// the first and its waiting work. It also gets uploads that arrive later under the first hardware's name. Boards
    /// follow within seconds. The models and snapshots of the first hardware stay, but none of its models is
    /// published any more. Returns how many solutions have moved.
    async fn merge_hardware(
        &self,
        merge: &HardwareMerge,
        who: &str,
        now: Now,
    ) -> StoreResult<Result<u64, NotMerged>>;

    /// Gives work again to an agent that was put aside, and writes it to the log. `false` if it was not put aside.
    async fn readmit_agent(&self, agent: &AgentId, why: &Reason, who: &str, now: Now) -> StoreResult<bool>;

    /// Writes to the log an action that another part of the server did, such as a change of an account. `why` is the
    /// reason, or the way in which the action was done.
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

    /// The newest uploads that pass a filter, the newest first.
    async fn uploads(&self, filter: &UploadFilter, limit: u32) -> StoreResult<Vec<Receipt>>;
}
