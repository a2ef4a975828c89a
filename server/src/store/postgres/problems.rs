use diode_core::Problem;
use diode_core::api::ProblemView;
use diode_core::ids::{HardwareSlug, ProblemId};
use sqlx::{PgConnection, PgPool};

use super::super::rows::{self, EntryRow, parse};
use super::super::selection::{Selection, assemble};
use super::super::{Entry, PackedSolutions, StoreResult, View};
use super::BEGIN_READ;

pub(super) async fn problem(pool: &PgPool, id: &ProblemId) -> StoreResult<Option<Problem>> {
    let fields: Option<String> = sqlx::query_scalar("SELECT fields FROM problems WHERE id = $1")
        .bind(id.as_str())
        .fetch_optional(pool)
        .await?;
    fields.map(|fields| rows::problem(&fields)).transpose()
}

pub(super) async fn problem_views(pool: &PgPool, id: &ProblemId) -> StoreResult<Vec<ProblemView>> {
    let views: Vec<(String, String)> = sqlx::query_as(
        "SELECT DISTINCT hardware, method FROM solutions WHERE problem = $1 ORDER BY hardware, method",
    )
    .bind(id.as_str())
    .fetch_all(pool)
    .await?;
    let view = |(hardware, method)| {
        Ok(ProblemView { hardware: parse("hardware slug", hardware)?, method: parse("method", method)? })
    };
    views.into_iter().map(view).collect()
}

/// The views that a hardware has solutions for.
pub(super) async fn hardware_views(db: &mut PgConnection, slug: &HardwareSlug) -> StoreResult<Vec<View>> {
    let views =
        sqlx::query_as("SELECT DISTINCT hardware, problem, method FROM solutions WHERE hardware = $1")
            .bind(slug.as_str())
            .fetch_all(db)
            .await?;
    views.into_iter().map(rows::view).collect()
}

pub(super) async fn views(pool: &PgPool) -> StoreResult<Vec<View>> {
    let views = sqlx::query_as(
        "SELECT hardware, problem, method FROM solutions UNION SELECT hardware, problem, method FROM entries \
         ORDER BY hardware, problem, method",
    )
    .fetch_all(pool)
    .await?;
    views.into_iter().map(rows::view).collect()
}

pub(super) async fn entry(pool: &PgPool, view: &View) -> StoreResult<Option<Entry>> {
    let row: Option<EntryRow> = sqlx::query_as(
        "SELECT best, best_ns, tflops, roofline_share, gain_over_defaults, library_ns, configs, timings, \
         solutions FROM entries WHERE hardware = $1 AND problem = $2 AND method = $3",
    )
    .bind(view.hardware.as_str())
    .bind(view.problem.as_str())
    .bind(view.method.to_string())
    .fetch_optional(pool)
    .await?;
    row.map(EntryRow::entry).transpose()
}

pub(super) async fn view_solutions(pool: &PgPool, view: &View) -> StoreResult<PackedSolutions> {
    load_view(&mut *pool.begin_with(BEGIN_READ).await?, view).await
}

pub(super) async fn hardware_solutions(pool: &PgPool, slug: &HardwareSlug) -> StoreResult<PackedSolutions> {
    load(&mut *pool.begin_with(BEGIN_READ).await?, Selection::Hardware(slug)).await
}

pub(super) async fn load_view(db: &mut PgConnection, view: &View) -> StoreResult<PackedSolutions> {
    load(db, Selection::View(view)).await
}

async fn load(db: &mut PgConnection, selection: Selection<'_>) -> StoreResult<PackedSolutions> {
    let solutions = selection.solutions().build_query_as().fetch_all(&mut *db).await?;
    let problems = selection.problems().build_query_as().fetch_all(&mut *db).await?;
    let config_lists = selection.config_lists().build_query_as().fetch_all(&mut *db).await?;
    assemble(solutions, problems, config_lists)
}
