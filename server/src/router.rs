//! The table of contents of everything that the server serves.

use axum::Router;
use axum::body::Bytes;
use axum::handler::Handler as _;
use axum::http::{Extensions, HeaderMap, StatusCode, Uri, Version, header};
use axum::middleware::{from_fn, from_fn_with_state, map_response};
use axum::routing::get;
use diode_api::{ApiError, JobEvent, Kernels, LeaderboardSort, SnapshotManifest, SortOrder};
use diode_core::table::TableFormat;
use diode_core::table::inductor::TorchVersion;
use diode_workloads::model_config::Quantization;
use diode_workloads::served::Reader;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{DefaultPredicate, Predicate as _};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::accounts::{account_routes as of_accounts, devices, terms};
use crate::admin as administration;
use crate::agents::agent_routes;
use crate::app::App;
use crate::boards::board_routes;
use crate::boards::export_routes;
use crate::boards::findings;
use crate::boards::pick_routes;
use crate::boards::problem_routes;
use crate::compare::compare_routes;
use crate::description::{WithoutParameters, complete, refuse_unknown_query};
use crate::http::{
    ApiFault, Compressible, around, no_token_in_url, refuse_old_programs, same_site, tagged, weakened,
};
use crate::jobs;
use crate::kernels;
use crate::limits::rated;
use crate::metrics::measured;
use crate::models;
use crate::models::contribution_routes;
use crate::readiness::{healthz, readyz};
use crate::snapshots::snapshot_routes;
use crate::uploads;
use crate::workloads::workload_routes;
use crate::{pages, ui};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Diode",
        description = "Shared knowledge of GPU matmul performance: uploads, leaderboards, models and jobs. \
                       Every response that is no success is an ApiError.",
    ),
    // Types that only parameters use are not found through the routes.
    components(schemas(
        ApiError,
        JobEvent,
        Kernels,
        LeaderboardSort,
        Quantization,
        Reader,
        SnapshotManifest,
        SortOrder,
        TableFormat,
        TorchVersion
    )),
)]
struct Description;

/// Every route of the server.
pub fn router(app: App) -> Router {
    let (api, mut description) = api().split_for_parts();
    complete(&mut description);
    let plain = WithoutParameters::of(&description);
    // The description is made into text once: it is large, and each connection has its own copy of the routes.
    let description = Bytes::from(description.to_json().expect("a description is plain data"));
    let json = [(header::CONTENT_TYPE, "application/json")];
    let (hosts, metrics) = (app.hosts.clone(), app.metrics.clone());
    let is_strict = app.policy().is_strict();
    let api = api
        .layer(from_fn_with_state(plain, refuse_unknown_query))
        .route("/api/v1/openapi.json", get(move || async move { (json, description) }))
        .route("/docs", get(ui::docs))
        .route("/docs/", get(ui::docs))
        .route("/docs/{*page}", get(ui::docs))
        .layer(from_fn(tagged))
        .layer(CompressionLayer::new().compress_when(compressible()))
        .layer(map_response(weakened));
    let router = api
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .merge(pages::routes())
        .fallback(ui::serve.layer(CompressionLayer::new()))
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(app.clone(), rated))
        .with_state(app)
        .layer(from_fn(no_token_in_url))
        .layer(from_fn_with_state(hosts, same_site))
        .layer(from_fn(refuse_old_programs))
        .layer(from_fn_with_state(metrics, measured));
    around(router, is_strict)
}

/// The API's description, as `/api/v1/openapi.json` gives it.
pub fn openapi() -> utoipa::openapi::OpenApi {
    let mut description = api().into_openapi();
    complete(&mut description);
    description
}

fn api() -> OpenApiRouter<App> {
    let contribute = OpenApiRouter::new()
        .routes(routes!(uploads::create, uploads::list))
        .routes(routes!(uploads::get))
        .routes(routes!(uploads::download));
    let look = OpenApiRouter::new()
        .routes(routes!(board_routes::hardware_list))
        .routes(routes!(board_routes::hardware))
        .routes(routes!(board_routes::leaderboard))
        .routes(routes!(board_routes::problem_points))
        .routes(routes!(problem_routes::nearest))
        .routes(routes!(pick_routes::picks))
        .routes(routes!(problem_routes::problem))
        .routes(routes!(problem_routes::solution_sources))
        .routes(routes!(problem_routes::configs))
        .routes(routes!(board_routes::sizes))
        .routes(routes!(board_routes::contributors))
        .routes(routes!(findings::of_hardware))
        .routes(routes!(findings::overview))
        .routes(routes!(board_routes::activity));
    let compare = OpenApiRouter::new()
        .routes(routes!(compare_routes::everywhere))
        .routes(routes!(compare_routes::hardware))
        .routes(routes!(compare_routes::uploads))
        .routes(routes!(compare_routes::libraries))
        .routes(routes!(compare_routes::methods))
        .routes(routes!(compare_routes::models))
        .routes(routes!(compare_routes::library_list));
    let take = OpenApiRouter::new()
        .routes(routes!(models::models, contribution_routes::contribute))
        .routes(routes!(contribution_routes::contributions))
        .routes(routes!(models::model))
        .routes(routes!(models::download))
        .routes(routes!(models::unseen_model))
        .routes(routes!(models::publications))
        .routes(routes!(export_routes::dataset))
        .routes(routes!(snapshot_routes::create, snapshot_routes::list))
        .routes(routes!(snapshot_routes::get))
        .routes(routes!(snapshot_routes::file))
        .routes(routes!(export_routes::table));
    let measure = OpenApiRouter::new()
        .routes(routes!(agent_routes::create, agent_routes::list))
        .routes(routes!(agent_routes::get))
        .routes(routes!(agent_routes::take_lease))
        .routes(routes!(agent_routes::renew))
        .routes(routes!(agent_routes::results))
        .routes(routes!(agent_routes::end))
        .routes(routes!(kernels::create, kernels::list))
        .routes(routes!(kernels::get))
        .routes(routes!(agent_routes::coverage_of))
        .routes(routes!(agent_routes::coverage_map))
        .routes(routes!(agent_routes::want, agent_routes::measuring))
        .routes(routes!(workload_routes::list))
        .routes(routes!(workload_routes::get))
        .routes(routes!(workload_routes::want));
    let train = OpenApiRouter::new()
        .routes(routes!(jobs::create, jobs::list))
        .routes(routes!(jobs::get, jobs::cancel))
        .routes(routes!(jobs::events));
    let accounts = OpenApiRouter::new()
        .routes(routes!(of_accounts::make_account, of_accounts::show_account_of_caller))
        .routes(routes!(of_accounts::agree_of_caller))
        .routes(routes!(terms::terms_in_force))
        .routes(routes!(
            of_accounts::begin_session_by_password,
            of_accounts::who_asks,
            of_accounts::end_session
        ))
        .routes(routes!(of_accounts::make_token, of_accounts::list_tokens))
        .routes(routes!(of_accounts::revoke_token))
        .routes(routes!(devices::ask_for_token))
        .routes(routes!(devices::token_of_device));
    let moderate = OpenApiRouter::new()
        .routes(routes!(administration::act))
        .routes(routes!(administration::report))
        .routes(routes!(contribution_routes::download_contribution));
    let v1 = contribute
        .merge(measure)
        .merge(look)
        .merge(compare)
        .merge(take)
        .merge(train)
        .merge(accounts)
        .merge(moderate);
    OpenApiRouter::with_openapi(Description::openapi()).nest("/api/v1", v1)
}

/// Which answers are compressed. The dashboard and datasets (except those in text) are compressed
/// already, and archives are small. Event streams must not be delayed. Stored files are sent unchanged, because a file's tag and the
/// parts that clients ask for are those of the stored bytes.
fn compressible() -> impl tower_http::compression::Predicate {
    const PACKED: [&str; 4] =
        ["application/octet-stream", "application/zip", "application/zstd", "application/vnd.apache.parquet"];
    DefaultPredicate::new().and(|_: StatusCode, _: Version, headers: &HeaderMap, marks: &Extensions| {
        let kind = headers.get(header::CONTENT_TYPE);
        let is_whole_text = !headers.contains_key(header::ACCEPT_RANGES)
            && !kind.is_some_and(|kind| PACKED.iter().any(|packed| kind == packed));
        is_whole_text || marks.get::<Compressible>().is_some()
    })
}

async fn wrong_method(method: axum::http::Method, uri: Uri) -> ApiFault {
    ApiFault::method_not_allowed(format!(
        "{method} {}: the path exists, but not with this method; /api/v1/openapi.json lists what does",
        uri.path()
    ))
}
