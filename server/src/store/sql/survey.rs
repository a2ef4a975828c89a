//! The SQL of questions that read much of the data at once.

mod contributors;
mod libraries;
mod pairs;
mod records;
mod same_size;
mod sized;
mod sources;

use async_trait::async_trait;
use diode_api::{
    HardwareContributor, Kernels, LibraryOn, LibraryUse, MethodOn, NearestProblem, ProblemFilter,
    SolutionSource,
};
use diode_core::ids::{AccountId, HardwareSlug, ProblemId, UploadId};
use diode_core::{Method, Problem};
use sqlx::Database;

use super::connection::Connection;
use super::solutions::{Selection, load};
use super::{SqlStore, agents, hardware, reader, snapshot};
use crate::size_map::SizedProblem;
use crate::solutions::StoredSolutions;
use crate::store::agents::NewWork;
use crate::store::error::StoreResult;
use crate::store::survey::{Pair, Record, Sample, SurveyStore};
use crate::store::types::View;

#[async_trait]
impl<DB: Database<Connection: Connection>> SurveyStore for SqlStore<DB> {
    async fn entries_revision(&self, slug: &HardwareSlug) -> StoreResult<Option<i64>> {
        hardware::revision(&mut *reader(self).await?, slug).await
    }

    async fn triton_problems(
        &self,
        slug: &HardwareSlug,
        filter: &ProblemFilter,
        cap: u32,
    ) -> StoreResult<Sample<ProblemId>> {
        pairs::triton_problems(&mut *snapshot(self).await?, slug, filter, cap).await
    }

    async fn pairs(
        &self,
        of: [&MethodOn; 2],
        kernels: Kernels,
        filter: &ProblemFilter,
        cap: u32,
    ) -> StoreResult<Sample<Pair>> {
        pairs::pairs(&mut *snapshot(self).await?, of, kernels, filter, cap).await
    }

    async fn timed_problems(
        &self,
        slug: &HardwareSlug,
        kernels: Kernels,
        filter: &ProblemFilter,
    ) -> StoreResult<u64> {
        pairs::timed_problems(&mut *reader(self).await?, slug, kernels, filter).await
    }

    async fn sized_problems(
        &self,
        slug: &HardwareSlug,
        filter: &ProblemFilter,
        cap: u32,
    ) -> StoreResult<Vec<SizedProblem>> {
        sized::sized_problems(&mut *reader(self).await?, slug, filter, cap).await
    }

    async fn same_size(
        &self,
        slug: &HardwareSlug,
        problem: &Problem,
        method: Method,
    ) -> StoreResult<Vec<NearestProblem>> {
        same_size::same_size(&mut *snapshot(self).await?, slug, problem, method).await
    }

    async fn contributors(&self, slug: &HardwareSlug, limit: u32) -> StoreResult<Vec<HardwareContributor>> {
        contributors::contributors(&mut *snapshot(self).await?, slug, limit).await
    }

    async fn solution_sources(&self, view: &View, limit: u32) -> StoreResult<Sample<SolutionSource>> {
        sources::sources(&mut *snapshot(self).await?, view, limit).await
    }

    async fn records(&self, account: &AccountId, limit: u32) -> StoreResult<Sample<Record>> {
        records::records(&mut *snapshot(self).await?, account, limit).await
    }

    async fn upload_solutions(&self, upload: &UploadId) -> StoreResult<StoredSolutions> {
        load(&mut *snapshot(self).await?, Selection::Upload(upload)).await
    }

    async fn libraries(&self, newest: u32) -> StoreResult<Vec<LibraryUse>> {
        libraries::list(&mut *reader(self).await?, newest).await
    }

    async fn library_uploads(&self, library: &LibraryOn, limit: u32) -> StoreResult<Vec<UploadId>> {
        libraries::uploads(&mut *reader(self).await?, library, limit).await
    }

    async fn waiting_work(&self, slug: &HardwareSlug, limit: u32) -> StoreResult<Vec<NewWork>> {
        agents::waiting_work(&mut *reader(self).await?, slug, limit).await
    }
}
