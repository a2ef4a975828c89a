use diode_core::api::{HardwareSummary, LeaderboardRow, Page, ProblemPoint};
use diode_core::ids::HardwareSlug;
use sqlx::PgPool;

use super::super::board;
use super::super::summaries::{PointRow, hardware_summaries};
use super::super::{BoardQuery, StoreResult};
use super::BEGIN_READ;

/// All hardware, or the one of a slug.
pub(super) async fn summaries(
    pool: &PgPool,
    slug: Option<&HardwareSlug>,
) -> StoreResult<Vec<HardwareSummary>> {
    // One snapshot for both queries.
    let mut tx = pool.begin_with(BEGIN_READ).await?;
    let hardware = sqlx::query_as(
        "SELECT h.slug, h.name, h.vendor, h.facts, h.updated_at, \
         (SELECT COUNT(*) FROM models WHERE models.hardware = h.slug) AS models \
         FROM hardware h WHERE $1::TEXT IS NULL OR h.slug = $1 ORDER BY h.slug",
    )
    .bind(slug.map(HardwareSlug::as_str))
    .fetch_all(&mut *tx)
    .await?;
    let figures = sqlx::query_as(
        "SELECT e.hardware, e.problem, p.op, p.a_dtype, e.method, e.tflops, e.roofline_share, \
         e.gain_over_defaults, e.timings, e.solutions \
         FROM entries e JOIN problems p ON p.id = e.problem WHERE $1::TEXT IS NULL OR e.hardware = $1",
    )
    .bind(slug.map(HardwareSlug::as_str))
    .fetch_all(&mut *tx)
    .await?;
    hardware_summaries(hardware, figures)
}

pub(super) async fn leaderboard(
    pool: &PgPool,
    slug: &HardwareSlug,
    query: &BoardQuery,
) -> StoreResult<Page<LeaderboardRow>> {
    let mut tx = pool.begin_with(BEGIN_READ).await?;
    let total = board::total(slug, query).build_query_scalar().fetch_one(&mut *tx).await?;
    let rows = board::page(slug, query).build_query_as().fetch_all(&mut *tx).await?;
    board::assemble(query, total, rows)
}

pub(super) async fn points(pool: &PgPool, slug: &HardwareSlug, cap: u32) -> StoreResult<Vec<ProblemPoint>> {
    // Problem ids are digests, so the first of them are an even sample.
    let rows: Vec<PointRow> = sqlx::query_as(
        "SELECT p.fields, e.tflops, e.best_ns FROM ( \
             SELECT problem, tflops, best_ns, \
                    ROW_NUMBER() OVER (PARTITION BY problem ORDER BY timings DESC, method) AS place \
             FROM entries WHERE hardware = $1 \
         ) e JOIN problems p ON p.id = e.problem WHERE e.place = 1 ORDER BY e.problem LIMIT $2",
    )
    .bind(slug.as_str())
    .bind(i64::from(cap))
    .fetch_all(pool)
    .await?;
    rows.into_iter().map(PointRow::point).collect()
}
