//! Questions that read much of the data at once: comparisons, contributors, coming work.

use async_trait::async_trait;
use diode_api::{
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

/// What passes a filter, or an even sample of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample<T> {
    /// How many pass the filter in all.
    pub total: u64,
    pub items: Vec<T>,
}

/// A problem that was measured on two sides, with the best config of each.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    pub problem: Problem,
    pub a: TimedConfig,
    pub b: TimedConfig,
}

/// A problem on which nobody is faster than a contributor.
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
    /// A number that changes with each change of a hardware's entries.
    async fn entries_revision(&self, slug: &HardwareSlug) -> StoreResult<Option<i64>>;

    /// Problems with a timed Triton config, in the order of ids. If there are more than `cap`, returns an even
    /// sample of them.
    async fn triton_problems(
        &self,
        slug: &HardwareSlug,
        filter: &ProblemFilter,
        cap: u32,
    ) -> StoreResult<Sample<ProblemId>>;

    /// The best times of some kernels on the problems that two sides share. Each side is a hardware and a method. If
    /// there are more than `cap` problems, returns an even sample of them.
    async fn pairs(
        &self,
        of: [&MethodOn; 2],
        kernels: Kernels,
        filter: &ProblemFilter,
        cap: u32,
    ) -> StoreResult<Sample<Pair>>;

    /// On how many problems of a hardware the kernels were timed.
    async fn timed_problems(
        &self,
        slug: &HardwareSlug,
        kernels: Kernels,
        filter: &ProblemFilter,
    ) -> StoreResult<u64>;

    /// The problems that pass a filter, with what a map of sizes needs of them. K does not matter. If there are more
    /// than `cap`, returns an even sample of them.
    async fn sized_problems(
        &self,
        slug: &HardwareSlug,
        filter: &ProblemFilter,
        cap: u32,
    ) -> StoreResult<Vec<SizedProblem>>;

    /// The measured problems of a hardware with exactly the sizes and type of `problem`, but any op and layout. The
    /// most similar come first.
    async fn same_size(
        &self,
        slug: &HardwareSlug,
        problem: &Problem,
        method: Method,
    ) -> StoreResult<Vec<NearestProblem>>;

    /// The contributors of a hardware. Those with the most problems come first.
    async fn contributors(&self, slug: &HardwareSlug, limit: u32) -> StoreResult<Vec<HardwareContributor>>;

    /// The uploads that the solutions of a view come from, without quarantined uploads, the newest first.
    async fn solution_sources(&self, view: &View, limit: u32) -> StoreResult<Sample<SolutionSource>>;

    /// The problems on which nobody is faster than an account, and how many there are. Problems with the most
    /// operations come first.
    async fn records(&self, account: &AccountId, limit: u32) -> StoreResult<Sample<Record>>;

    /// The solutions of an upload that count or are fenced.
    async fn upload_solutions(&self, upload: &UploadId) -> StoreResult<StoredSolutions>;

    /// The libraries of uploads that count, by name. If there are more than `newest`, only the libraries of the
    /// newest uploads. Uploads of several kinds of hardware are left out, because they do not say which hardware had
    /// which library.
    async fn libraries(&self, newest: u32) -> StoreResult<Vec<LibraryUse>>;

    /// The newest uploads of a library, the newest first.
    async fn library_uploads(&self, library: &LibraryOn, limit: u32) -> StoreResult<Vec<UploadId>>;

    /// The work that agents get next.
    async fn waiting_work(&self, slug: &HardwareSlug, limit: u32) -> StoreResult<Vec<NewWork>>;
}
