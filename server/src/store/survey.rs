//! Questions about much of what was measured at once: comparisons, contributors, what comes next.

use async_trait::async_trait;
use diode_core::api::{
    HardwareContributor, Kernels, LibraryOn, LibraryUse, MethodOn, NearestProblem, ProblemFilter,
    SolutionSource, TimedConfig,
};
use diode_core::ids::{AccountId, HardwareSlug, ProblemId, UploadId};
use diode_core::{Method, Nanos, Problem};

use super::agents::NewWork;
use super::error::StoreResult;
use super::types::View;
use crate::size_map::SizedProblem;
use crate::solutions::StoredSolutions;

/// The problems that a filter leaves, or an even sample.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample<T> {
    /// How many there are in all.
    pub total: u64,
    pub items: Vec<T>,
}

/// A problem that was measured twice, with the best config of either.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    pub problem: Problem,
    pub a: TimedConfig,
    pub b: TimedConfig,
}

/// A problem on which nobody is faster than one contributor.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    pub hardware: HardwareSlug,
    pub problem: Problem,
    /// The contributor's best time.
    pub time: Nanos,
    /// How many contributors have timed the board's best config.
    pub contributors: u64,
}

/// Every method is one transaction and changes nothing.
#[async_trait]
pub trait SurveyStore: Send + Sync {
    /// A number that changes whenever entries of a hardware do.
    async fn entries_revision(&self, slug: &HardwareSlug) -> StoreResult<Option<i64>>;

    /// Problems with a timed Triton config, in the order of ids; an even sample where there are more than `cap`.
    async fn triton_problems(
        &self,
        slug: &HardwareSlug,
        filter: &ProblemFilter,
        cap: u32,
    ) -> StoreResult<Sample<ProblemId>>;

    /// The best of some kernels on the problems of two hardwares, each by its method; an even sample where there
    /// are more than `cap`.
    async fn pairs(
        &self,
        of: [&MethodOn; 2],
        kernels: Kernels,
        filter: &ProblemFilter,
        cap: u32,
    ) -> StoreResult<Sample<Pair>>;

    /// How many problems of a hardware the kernels were timed on.
    async fn timed_problems(
        &self,
        slug: &HardwareSlug,
        kernels: Kernels,
        filter: &ProblemFilter,
    ) -> StoreResult<u64>;

    /// The problems that a filter leaves, whatever K it wants, as far as a map of sizes shows them; an even sample
    /// where there are more than `cap`.
    async fn sized_problems(
        &self,
        slug: &HardwareSlug,
        filter: &ProblemFilter,
        cap: u32,
    ) -> StoreResult<Vec<SizedProblem>>;

    /// The measured problems of a hardware that have exactly the sizes and type of one, whatever their op and
    /// layout; the most alike first.
    async fn same_size(
        &self,
        slug: &HardwareSlug,
        problem: &Problem,
        method: Method,
    ) -> StoreResult<Vec<NearestProblem>>;

    /// Who measured a hardware, whoever measured most first.
    async fn contributors(&self, slug: &HardwareSlug, limit: u32) -> StoreResult<Vec<HardwareContributor>>;

    /// Where the solutions of a view come from, newest first; without those that are quarantined.
    async fn solution_sources(&self, view: &View, limit: u32) -> StoreResult<Sample<SolutionSource>>;

    /// The problems on which nobody is faster than an account, those with the most operations first, and how many
    /// there are.
    async fn records(&self, account: &AccountId, limit: u32) -> StoreResult<Sample<Record>>;

    /// The solutions of an upload, of those that count or are fenced.
    async fn upload_solutions(&self, upload: &UploadId) -> StoreResult<StoredSolutions>;

    /// The libraries beside which uploads that count were measured, those of the newest uploads; by name. Uploads of
    /// several kinds of hardware say of none which was its own, so they are left out.
    async fn libraries(&self, newest: u32) -> StoreResult<Vec<LibraryUse>>;

    /// The newest of the uploads beside a library, newest first.
    async fn library_uploads(&self, library: &LibraryOn, limit: u32) -> StoreResult<Vec<UploadId>>;

    /// What agents will be given first.
    async fn waiting_work(&self, slug: &HardwareSlug, limit: u32) -> StoreResult<Vec<NewWork>>;
}
