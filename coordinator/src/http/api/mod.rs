//! The API for scripts and for the page: JSON over HTTP, with the version in the path.
//!
//! Requests go to the core in the name of the token's owner, as sessions' requests do. So a role has the same
//! permissions here as there, and this module decides nothing.

mod audit;
mod changing;
mod document;
mod events;
mod fabric;
mod hooked;
mod idempotency;
mod nics;
mod orders;
mod past;
mod policy;
mod problem;
mod rate_limit;
mod reading;
mod sandbox;
mod sealed;
mod status_cache;
mod steering;
mod tagged;
mod upkeep;
mod visitor;
mod wishes;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Path, Query};
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use axum::{Router, middleware};
use reweave_common::plan::Generation;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouterExt as _};
use utoipa_axum::routes;

use crate::exclusive_job::ExclusiveJob;
use crate::server_context::ServerContext;
use idempotency::Answers;
use problem::Problem;
use rate_limit::RateLimits;
pub(super) use status_cache::{Fresh, StatusCache};

#[derive(Clone)]
struct Served {
    context: ServerContext,
    status_cache: StatusCache,
    answers: Answers,
    sandbox: ExclusiveJob,
}

type ApiResult = Result<Response, Problem>;

pub(super) fn routes(context: ServerContext, status_cache: StatusCache) -> Router {
    let served = Served {
        status_cache,
        answers: Answers::default(),
        sandbox: ExclusiveJob::new(sandbox::PLAY_TIMEOUT),
        context,
    };
    let (api, document) = described().split_for_parts();
    let limits = (RateLimits::default(), served.context.clone());
    let limits = middleware::from_fn_with_state(limits, rate_limit::hold);
    let strangers = middleware::from_fn_with_state(served.clone(), audit::note_strangers);
    let api = api
        .layer(strangers)
        .layer(limits)
        .merge(document::routes(document))
        .fallback(nothing_there)
        .method_not_allowed_fallback(no_such_method)
        .with_state(served);
    Router::new().nest(document::API_ROOT, api)
}

/// Returns the routes with their API description.
fn described() -> OpenApiRouter<Served> {
    OpenApiRouter::with_openapi(document::head())
        .routes(routes!(reading::me))
        .routes(routes!(reading::status))
        .routes(routes!(reading::fabric))
        .routes(routes!(reading::findings))
        .routes(routes!(reading::matrix))
        .routes(routes!(reading::pairs))
        .routes(routes!(nics::nics))
        .routes(routes!(nics::traffic))
        .routes(routes!(reading::jobs))
        .routes(routes!(reading::imbalance))
        .routes(routes!(reading::traces))
        .routes(routes!(reading::explanation))
        .routes(routes!(reading::history))
        .routes(routes!(reading::record))
        .routes(routes!(audit::audit))
        .routes(routes!(reading::events))
        .routes(routes!(past::spans))
        .routes(routes!(past::past))
        .routes(routes!(sandbox::play).layer(DefaultBodyLimit::max(sandbox::MAX_BODY_BYTES)))
        .routes(routes!(sandbox::promote))
        .routes(routes!(changing::plan))
        .routes(routes!(sealed::offer))
        .routes(routes!(changing::approve))
        .routes(routes!(changing::take_back))
        .routes(routes!(steering::hold))
        .routes(routes!(steering::resume))
        .routes(routes!(steering::abort))
        .routes(routes!(upkeep::maintain, upkeep::end))
        .routes(routes!(upkeep::take_over))
        .routes(routes!(upkeep::freeze, upkeep::thaw))
        .routes(routes!(policy::policy, policy::replace, policy::change))
        .routes(routes!(orders::gate))
        .routes(routes!(orders::register, orders::end))
        .routes(routes!(orders::phase))
        .routes(routes!(orders::start))
}

/// Returns the full path of a request, because routes are described relative to the API root.
fn whole(uri: &Uri) -> String {
    format!("{}{}", document::API_ROOT, uri.path())
}

async fn nothing_there(uri: Uri) -> Problem {
    Problem::nothing_there(format!("no resource at {}", whole(&uri)))
}

async fn no_such_method(uri: Uri) -> Problem {
    let detail = format!("{} does not support this method", whole(&uri));
    let code = StatusCode::METHOD_NOT_ALLOWED;
    Problem::new(code, "urn:reweave:no-such-method", detail)
}

type Number = Result<Path<u64>, PathRejection>;

fn number(path: Number) -> Result<Generation, Problem> {
    let Path(number) = path.map_err(bad_path)?;
    Ok(Generation(number))
}

#[expect(clippy::needless_pass_by_value, reason = "it is how errors are mapped")]
fn bad_path(error: PathRejection) -> Problem {
    Problem::bad_request(format!("in the path: {}", error.body_text()))
}

type Name = Result<Path<String>, PathRejection>;

fn name(path: Name) -> Result<String, Problem> {
    let Path(name) = path.map_err(bad_path)?;
    Ok(name)
}

type Options<T> = Result<Query<T>, QueryRejection>;

fn options<T>(query: Options<T>) -> Result<T, Problem> {
    let Query(query) = query.map_err(|error| Problem::bad_request(error.body_text()))?;
    Ok(query)
}
