//! What the rest of the server may ask of the store about moderation.

use diode_api::{HardwareMerge, Standing};
use diode_core::ids::{AccountName, HardwareSlug, UploadId};

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
