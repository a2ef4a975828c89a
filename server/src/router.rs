//! The table of contents of everything that the server serves.

use axum::Router;
use axum::body::Bytes;
use axum::http::{Extensions, HeaderMap, StatusCode, Uri, Version, header};
use axum::middleware::{from_fn, from_fn_with_state, map_response};
use axum::routing::get;
use diode_api::{ApiError, CitationFormat, JobEvent, Kernels, LeaderboardSort, SnapshotManifest, SortOrder};
use diode_core::table::TableFormat;
use diode_core::table::inductor::TorchVersion;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{DefaultPredicate, NotForContentType, Predicate as _};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::accounts::{devices, routes as of_accounts, terms};
use crate::admin::routes as administration;
use crate::app::App;
use crate::description::{WithoutParameters, complete, refuse_unknown_query};
use crate::handlers::{
    activity, agents, comparisons, configs, contributions, contributors, coverage_map, datasets, everywhere,
    hardware, job_events, jobs, leaderboard, leases, libraries, measuring, model_comparison, models, nearest,
    packs, picks, problems, publications, reviews, sizes, snapshots, tables, unseen_models, uploads,
};
use crate::http::{ApiFault, around, no_token_in_url, refuse_old_programs, same_site, tagged, weakened};
use crate::limits::rated;
use crate::metrics::measured;
use crate::readiness::{healthz, readyz};
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
        CitationFormat,
        JobEvent,
        Kernels,
        LeaderboardSort,
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
        .fallback(ui::serve)
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
        .routes(routes!(hardware::list))
        .routes(routes!(hardware::get))
        .routes(routes!(leaderboard::get))
        .routes(routes!(hardware::problems))
        .routes(routes!(nearest::get))
        .routes(routes!(picks::get))
        .routes(routes!(problems::get))
        .routes(routes!(problems::sources))
        .routes(routes!(configs::get))
        .routes(routes!(sizes::get))
        .routes(routes!(contributors::list))
        .routes(routes!(activity::get));
    let compare = OpenApiRouter::new()
        .routes(routes!(everywhere::get))
        .routes(routes!(comparisons::hardware))
        .routes(routes!(comparisons::uploads))
        .routes(routes!(comparisons::libraries))
        .routes(routes!(comparisons::methods))
        .routes(routes!(model_comparison::get))
        .routes(routes!(libraries::list));
    let take = OpenApiRouter::new()
        .routes(routes!(models::list, contributions::create))
        .routes(routes!(contributions::list))
        .routes(routes!(models::get))
        .routes(routes!(models::download))
        .routes(routes!(unseen_models::get))
        .routes(routes!(publications::create))
        .routes(routes!(publications::list))
        .routes(routes!(datasets::get))
        .routes(routes!(snapshots::create, snapshots::list))
        .routes(routes!(snapshots::get, snapshots::remove))
        .routes(routes!(snapshots::citation))
        .routes(routes!(snapshots::file))
        .routes(routes!(tables::get));
    let measure = OpenApiRouter::new()
        .routes(routes!(agents::create, agents::list))
        .routes(routes!(agents::get))
        .routes(routes!(leases::create))
        .routes(routes!(leases::renew))
        .routes(routes!(leases::results))
        .routes(routes!(leases::end))
        .routes(routes!(packs::create, packs::list))
        .routes(routes!(packs::get, packs::delete))
        .routes(routes!(agents::coverage_of))
        .routes(routes!(coverage_map::get))
        .routes(routes!(agents::want, measuring::get));
    let train = OpenApiRouter::new()
        .routes(routes!(jobs::create, jobs::list))
        .routes(routes!(jobs::get, jobs::cancel))
        .routes(routes!(job_events::get));
    let accounts = OpenApiRouter::new()
        .routes(routes!(
            of_accounts::make_account,
            of_accounts::show_account_of_caller,
            of_accounts::delete_account
        ))
        .routes(routes!(of_accounts::change_password_of_caller))
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
        .routes(routes!(devices::token_of_device))
        .routes(routes!(administration::invite))
        .routes(routes!(administration::identities, administration::unlink));
    let moderate = OpenApiRouter::new()
        .routes(routes!(administration::act, administration::log))
        .routes(routes!(administration::report, administration::reports))
        .routes(routes!(administration::confirm_hardware))
        .routes(routes!(administration::merge_hardware))
        .routes(routes!(reviews::create, reviews::list))
        .routes(routes!(reviews::download));
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

/// Which answers are compressed. Models, the dashboard and datasets (except those in text) are compressed
/// already. Event streams must not be delayed. Stored files are sent unchanged, because a file's tag and the
/// parts that clients ask for are those of the stored bytes.
fn compressible() -> impl tower_http::compression::Predicate {
    DefaultPredicate::new()
        .and(NotForContentType::const_new("application/octet-stream"))
        .and(NotForContentType::const_new("application/zstd"))
        .and(NotForContentType::const_new("application/vnd.apache.parquet"))
        .and(|_: StatusCode, _: Version, headers: &HeaderMap, _: &Extensions| {
            !headers.contains_key(header::ACCEPT_RANGES)
        })
}

async fn wrong_method(method: axum::http::Method, uri: Uri) -> ApiFault {
    ApiFault::method_not_allowed(format!(
        "{method} {}: the path exists, but not with this method; /api/v1/openapi.json lists what does",
        uri.path()
    ))
}
