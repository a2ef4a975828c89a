//! The SQL of questions that read much of the data at once.

mod contributors;
mod libraries;
mod pairs;
mod records;
mod same_size;
mod sized;
mod sources;

use diode_api::{
    HardwareContributor, Kernels, LibraryOn, LibraryUse, MethodOn, NearestProblem, ProblemFilter,
    SolutionSource,
};
use diode_core::ids::{AccountId, HardwareSlug, ProblemId, UploadId};
use diode_core::{Method, Problem};

use super::solutions::{Selection, load};
use super::{agents, hardware};
use crate::size_map::SizedProblem;
use crate::solutions::StoredSolutions;
use crate::store::Store;
use crate::store::agents::NewWork;
use crate::store::error::StoreResult;
use crate::store::survey::{Pair, Record, Sample};
use crate::store::types::View;

impl Store {
    /// A number that changes with each change of a hardware's entries.
    pub async fn entries_revision(&self, slug: &HardwareSlug) -> StoreResult<Option<i64>> {
        hardware::revision(&mut self.reader().await?, slug).await
    }

    /// Problems with a timed Triton config, in the order of ids. If there are more than `cap`, returns an even
    /// sample of them.
    pub async fn triton_problems(
        &self,
        slug: &HardwareSlug,
        filter: &ProblemFilter,
        cap: u32,
    ) -> StoreResult<Sample<ProblemId>> {
        pairs::triton_problems(&mut self.read_transaction().await?, slug, filter, cap).await
    }

    /// The best times of some kernels on the problems that two sides share. Each side is a hardware and a method. If
    /// there are more than `cap` problems, returns an even sample of them.
    pub async fn pairs(
        &self,
        of: [&MethodOn; 2],
        kernels: Kernels,
        filter: &ProblemFilter,
        cap: u32,
    ) -> StoreResult<Sample<Pair>> {
        pairs::pairs(&mut self.read_transaction().await?, of, kernels, filter, cap).await
    }

    /// On how many problems of a hardware the kernels were timed.
    pub async fn timed_problems(
        &self,
        slug: &HardwareSlug,
        kernels: Kernels,
        filter: &ProblemFilter,
    ) -> StoreResult<u64> {
        pairs::timed_problems(&mut self.reader().await?, slug, kernels, filter).await
    }

    /// The problems that pass a filter, with what a map of sizes needs of them. K does not matter. If there are more
    /// than `cap`, returns an even sample of them.
    pub async fn sized_problems(
        &self,
        slug: &HardwareSlug,
        filter: &ProblemFilter,
        cap: u32,
    ) -> StoreResult<Vec<SizedProblem>> {
        sized::sized_problems(&mut self.reader().await?, slug, filter, cap).await
    }

    /// The measured problems of a hardware with exactly the sizes and type of `problem`, but any op and layout. The
    /// most similar come first.
    pub async fn same_size(
        &self,
        slug: &HardwareSlug,
        problem: &Problem,
        method: Method,
    ) -> StoreResult<Vec<NearestProblem>> {
        same_size::same_size(&mut self.read_transaction().await?, slug, problem, method).await
    }

    /// The contributors of a hardware. Those with the most problems come first.
    pub async fn contributors(
        &self,
        slug: &HardwareSlug,
        limit: u32,
    ) -> StoreResult<Vec<HardwareContributor>> {
        contributors::contributors(&mut self.read_transaction().await?, slug, limit).await
    }

    /// The uploads that the solutions of a view come from, without quarantined uploads, the newest first.
    pub async fn solution_sources(&self, view: &View, limit: u32) -> StoreResult<Sample<SolutionSource>> {
        sources::sources(&mut self.read_transaction().await?, view, limit).await
    }

    /// The problems on which nobody is faster than an account, and how many there are. Problems with the most
    /// operations come first.
    pub async fn records(&self, account: &AccountId, limit: u32) -> StoreResult<Sample<Record>> {
        records::records(&mut self.read_transaction().await?, account, limit).await
    }

    /// The solutions of an upload that count or are fenced.
    pub async fn upload_solutions(&self, upload: &UploadId) -> StoreResult<StoredSolutions> {
        load(&mut self.read_transaction().await?, Selection::Upload(upload)).await
    }

    /// The libraries of uploads that count, by name. If there are more than `newest`, only the libraries of the
    /// newest uploads. Uploads of several kinds of hardware are left out, because they do not say which hardware had
    /// which library.
    pub async fn libraries(&self, newest: u32) -> StoreResult<Vec<LibraryUse>> {
        libraries::list(&mut self.reader().await?, newest).await
    }

    /// The newest uploads of a library, the newest first.
    pub async fn library_uploads(&self, library: &LibraryOn, limit: u32) -> StoreResult<Vec<UploadId>> {
        libraries::uploads(&mut self.reader().await?, library, limit).await
    }

    /// The work that agents get next.
    pub async fn waiting_work(&self, slug: &HardwareSlug, limit: u32) -> StoreResult<Vec<NewWork>> {
        agents::waiting_work(&mut self.reader().await?, slug, limit).await
    }
}
