//! The table of contents of everything that the server serves.

use axum::Router;
use axum::body::Bytes;
use axum::http::{Extensions, HeaderMap, StatusCode, Uri, Version, header};
use axum::middleware::{from_fn, from_fn_with_state, map_response};
use axum::routing::get;
use diode_api::{CitationFormat, JobEvent, Kernels, LeaderboardSort, SnapshotManifest, SortOrder};
use diode_core::table::TableFormat;
use diode_core::table::inductor::TorchVersion;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{DefaultPredicate, NotForContentType, Predicate as _};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::handlers::{
    account, activity, agents, comparisons, configs, contributions, contributors, coverage_map, datasets,
    devices, everywhere, hardware, hardware_moderation, health, identities, invitations, job_events, jobs,
    leaderboard, leases, libraries, measuring, model_comparison, models, moderation, nearest, packs, picks,
    problems, publications, reviews, session, sizes, snapshots, tables, terms, tokens, unseen_models,
    uploads,
};
use crate::http::{
    ApiFault, around, describe_unchanged, no_token_in_url, same_site, tagged, versions, weakened,
};
use crate::limits::{describe, rated};
use crate::metrics::measured;
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
    describe(&mut description);
    describe_unchanged(&mut description);
    // The description is made into text once: it is large, and each connection has its own copy of the routes.
    let description = Bytes::from(description.to_json().expect("a description is plain data"));
    let json = [(header::CONTENT_TYPE, "application/json")];
    let (hosts, metrics) = (app.hosts.clone(), app.metrics.clone());
    let is_strict = app.policy().is_strict();
    let api = api
        .route("/api/v1/openapi.json", get(move || async move { (json, description) }))
        .route("/docs", get(ui::docs))
        .route("/docs/", get(ui::docs))
        .route("/docs/{*page}", get(ui::docs))
        .layer(from_fn(tagged))
        .layer(CompressionLayer::new().compress_when(compressible()))
        .layer(map_response(weakened));
    let router = api
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .merge(pages::routes())
        .fallback(ui::serve)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(app.clone(), rated))
        .with_state(app)
        .layer(from_fn(no_token_in_url))
        .layer(from_fn_with_state(hosts, same_site))
        .layer(from_fn(versions::agree))
        .layer(from_fn_with_state(metrics, measured));
    around(router, is_strict)
}

/// The API's description, as `/api/v1/openapi.json` gives it.
pub fn openapi() -> utoipa::openapi::OpenApi {
    let mut description = api().into_openapi();
    describe(&mut description);
    describe_unchanged(&mut description);
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
    let own = OpenApiRouter::new()
        .routes(routes!(account::create, account::get, account::delete))
        .routes(routes!(account::change_password))
        .routes(routes!(account::agree))
        .routes(routes!(terms::get))
        .routes(routes!(session::create, session::get, session::delete))
        .routes(routes!(tokens::create, tokens::list))
        .routes(routes!(tokens::delete))
        .routes(routes!(devices::create))
        .routes(routes!(devices::token))
        .routes(routes!(invitations::create))
        .routes(routes!(identities::list, identities::unlink));
    let moderate = OpenApiRouter::new()
        .routes(routes!(moderation::create, moderation::list))
        .routes(routes!(moderation::report, moderation::reports))
        .routes(routes!(hardware_moderation::confirm_hardware))
        .routes(routes!(hardware_moderation::merge))
        .routes(routes!(reviews::create, reviews::list))
        .routes(routes!(reviews::download));
    let v1 = contribute
        .merge(measure)
        .merge(look)
        .merge(compare)
        .merge(take)
        .merge(train)
        .merge(own)
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
