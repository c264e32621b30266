//! Audit entries for requests over HTTP, including unauthenticated ones.

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::Response;
use reweave_common::operator::{Audited, Request as Question, Response as Answer};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::document::API_ROOT;
use super::problem::Problem;
use super::tagged::tagged;
use super::visitor::Visitor;
use super::{ApiResult, Options, Served, options};
use crate::audit::Who;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    /// Only entries with a lower number.
    before: Option<u64>,
}

/// Audit entries, newest first, as many as fit into one answer.
#[derive(Debug, Serialize, ToSchema)]
struct Audit {
    audit: Vec<Audited>,
}

/// Returns the audit log of this coordinator: requests with requester, time and result, newest first.
///
/// `before` selects older entries. For operators.
#[utoipa::path(get, path = "/audit", params(Page), responses((status = 200, description = "Audit log", body = Audit)))]
pub(super) async fn audit(
    served: State<Served>,
    visitor: Visitor,
    headers: HeaderMap,
    page: Options<Page>,
) -> ApiResult {
    let before = options(page)?.before;
    let asked = Question::Audit { before };
    match visitor.ask(&served.context, asked).await? {
        Answer::Audit(audit) => tagged(&headers, &Audit { audit }),
        _ => Err(Problem::unexpected()),
    }
}

/// Writes an audit entry for requests without token or certificate, because these never reach the core.
pub(super) async fn note_strangers(
    State(served): State<Served>,
    request: Request,
    next: Next,
) -> Response {
    let refused = Visitor::of(request.headers(), request.extensions()).err();
    if let Some(problem) = refused {
        let what = format!(
            "{} {API_ROOT}{} over HTTP",
            request.method(),
            request.uri().path()
        );
        let who = Who::Stranger("unknown".to_owned());
        let refused = Err(problem.detail().to_owned());
        served.context.audit.note(who, what, refused).await;
    }
    next.run(request).await
}
