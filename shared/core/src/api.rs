//! The messages between the server and its clients, in one module per resource. Lists are pages.
//! All errors have the same form. Times are in microseconds.

mod accounts;
mod activity;
mod agents;
mod contributions;
mod contributors;
mod cover;
mod coverage_map;
mod datasets;
mod epoch;
mod error;
mod evaluation;
mod everywhere;
mod hardware;
mod jobs;
mod leaderboard;
mod libraries;
mod measuring;
mod method_on;
mod models;
mod moderation;
mod nearest;
mod packs;
mod page;
mod picks;
mod problem_filter;
mod problems;
mod publications;
pub mod query;
mod ratios;
mod size_map;
mod snapshots;
mod terms;
mod tokens;
mod uploads;
mod versions;

pub use accounts::{
    Account, DeleteAccount, Invitation, LinkedIdentity, NewPassword, Password, SignIn, SignUp,
    UnlinkIdentity, Uploads, WhoAsks,
};
pub use activity::{Activity, HardwareName, NewestUpload, WorkingAgent};
pub use agents::{
    AGENT_KEY, Ability, Agent, AgentDetail, Breadth, Coverage, CoveragePart, GivenBack, Lease, LeaseAnswer,
    LeaseRequest, LeaseState, LeaseSummary, LeasedProblem, Purpose, Reach, RefusedWork, Registration,
    Renewal, Wanted,
};
pub use contributions::{
    Contribution, ContributionState, Licence, MAX_MODEL_BYTES, ModelDescription, ModelFigures, Review,
    ReviewAction,
};
pub use contributors::HardwareContributor;
pub use cover::{ConfigCover, CoverStep};
pub use coverage_map::{CoverageCell, CoverageMap, CoverageMapQuery, PlannedProblem, SizeRange};
pub use datasets::{MAX_IN_OTHERS, MAX_IN_PARQUET};
pub use epoch::Epoch;
pub use error::ApiError;
pub use evaluation::{EvaluationReport, KeptReport, TopK};
pub use everywhere::ShapeOnHardware;
pub use hardware::HardwareSummary;
pub use jobs::{Job, JobEvent, JobKind, JobRequest, JobState};
pub use leaderboard::{
    KernelResult, Kernels, Leaderboard, LeaderboardQuery, LeaderboardRow, LeaderboardSort, SortOrder,
};
pub use libraries::{LibraryOn, LibraryUse, LibraryVersion};
pub use measuring::{AskedProblems, Measuring, MeasuringQuery, MeasuringState};
pub use method_on::MethodOn;
pub use models::{ModelSource, ModelState, ModelSummary, ModelType};
pub use moderation::{
    HardwareConfirmation, HardwareMerge, HardwareMerged, LogEntry, Moderated, Moderation, ModerationAction,
    ModerationSubject, NewReport, Reason, Report,
};
pub use nearest::{NearestProblem, NearestQuery};
pub use packs::{MAX_PACK_BYTES, PackSummary, PackVariant};
pub use page::Page;
pub use picks::{MAX_PICKED, Pick, Picks};
pub use problem_filter::ProblemFilter;
pub use problems::{
    ConfigResult, FailedConfig, MAX_POINTS, ProblemDetail, ProblemPoint, ProblemSources, ProblemView,
    SolutionSource,
};
pub use publications::{NewPublication, Publication, PublicationAction};
pub use ratios::{ComparedProblem, Noise, RatioBin, RatioQuery, Ratios, TimedConfig};
pub use size_map::{SizeCell, SizeClass, SizeMap};
pub use snapshots::{
    AbsentFormat, CHECKSUMS, Citation, CitationFormat, MANIFEST, NewSnapshot, RemoveSnapshot, SnapshotDetail,
    SnapshotFile, SnapshotManifest, SnapshotName, SnapshotState, SnapshotSummary, SnapshotUpload,
};
pub use terms::{
    Agree, Agreement, DATA_LICENCE, LicenceBasis, TERMS_HEADER, TERMS_VERSION, Terms, UploadLicence,
};
pub use tokens::{DeviceCode, DevicePoll, DeviceRequest, IssuedToken, NewToken, Scope, Token};
pub use uploads::{
    HardwareReceipt, MAX_UPLOAD_BYTES, MAX_UPLOAD_PROBLEMS, MAX_UPLOAD_TIMINGS, Receipt, SetApart,
    SetApartReason, Standing,
};
pub use versions::{OLDEST_PROGRAM, OLDEST_SERVER, PROGRAM, SERVER_HEADER, Version};
