//! Hold, resume and abort a running plan.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use reweave_common::operator::{Request, Response as Answer, Steering};
use reweave_common::plan::Generation;
use serde::Serialize;
use utoipa::ToSchema;

use super::idempotency::{Idempotency, Key};
use super::problem::Problem;
use super::visitor::Visitor;
use super::{ApiResult, Number, Served, document, number};

/// State of the plan after the request.
#[derive(Debug, Serialize, ToSchema)]
struct Steered {
    generation: Generation,
    how: Steering,
    /// URL of the record of the plan.
    record: String,
}

/// Pauses a plan: steps that have started are completed, and no further step starts.
///
/// For operators.
#[utoipa::path(
    post,
    path = "/plans/{generation}/hold",
    params(("generation" = u64, Path, description = "Generation of the plan"), Key),
    responses((status = 200, description = "Held: no further step starts", body = Steered))
)]
pub(super) async fn hold(
    served: State<Served>,
    visitor: Visitor,
    headers: HeaderMap,
    path: Number,
) -> ApiResult {
    steer(&served, &visitor, &headers, path, Steering::Hold).await
}

/// Resumes a plan that was paused by an operator or by a failed step. The failed step is retried at once.
///
/// For operators.
#[utoipa::path(
    post,
    path = "/plans/{generation}/resume",
    params(("generation" = u64, Path, description = "Generation of the plan"), Key),
    responses((status = 200, description = "Resumed", body = Steered))
)]
pub(super) async fn resume(
    served: State<Served>,
    visitor: Visitor,
    headers: HeaderMap,
    path: Number,
) -> ApiResult {
    steer(&served, &visitor, &headers, path, Steering::Resume).await
}

/// Aborts a plan and rolls back its changes without packet loss.
///
/// A plan that has not started is withdrawn. For operators.
#[utoipa::path(
    post,
    path = "/plans/{generation}/abort",
    params(("generation" = u64, Path, description = "Generation of the plan"), Key),
    responses((status = 200, description = "Aborted", body = Steered))
)]
pub(super) async fn abort(
    served: State<Served>,
    visitor: Visitor,
    headers: HeaderMap,
    path: Number,
) -> ApiResult {
    steer(&served, &visitor, &headers, path, Steering::Abort).await
}

async fn steer(
    served: &Served,
    visitor: &Visitor,
    headers: &HeaderMap,
    path: Number,
    how: Steering,
) -> ApiResult {
    let generation = number(path)?;
    let idempotency = Idempotency::asked(headers, visitor, &format!("{how} {generation}"))?;
    let asked = steered(served.clone(), visitor.clone(), generation, how);
    served.answers.answer(idempotency, asked).await
}

async fn steered(
    served: Served,
    visitor: Visitor,
    generation: Generation,
    how: Steering,
) -> ApiResult {
    let asked = Request::Steer { generation, how };
    match visitor.ask(&served.context, asked).await? {
        Answer::Steered { generation, how } => {
            let record = document::record(generation);
            let steered = Steered {
                generation,
                how,
                record,
            };
            Ok(Json(steered).into_response())
        }
        _ => Err(Problem::unexpected()),
    }
}
