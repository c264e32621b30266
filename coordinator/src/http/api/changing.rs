//! Requests of operators that plan or change something.

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use reweave_common::operator::{Approval, NotSeen, Plan, Request, Response as Answer};
use reweave_common::plan::Generation;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::idempotency::{Idempotency, Key};
use super::problem::Problem;
use super::sealed::{self, Seen};
use super::visitor::Visitor;
use super::wishes::Wish;
use super::{ApiResult, Number, Options, Served, document, number, options};

/// A plan, if one is needed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Planned {
    /// Null if no plan is needed.
    plan: Option<Plan>,
    not_seen: NotSeen,
}

/// Makes a plan that repairs the cluster, or the requested plan. Changes nothing.
///
/// For operators.
#[utoipa::path(
    post,
    path = "/plans",
    params(Key),
    request_body = Option<Wish>,
    responses((status = 200, description = "A plan, or none", body = Planned))
)]
pub(super) async fn plan(
    served: State<Served>,
    visitor: Visitor,
    headers: HeaderMap,
    wish: Result<Option<Json<Option<Wish>>>, JsonRejection>,
) -> ApiResult {
    let wish = wish.map_err(|error| Problem::bad_body(&error))?;
    // An absent body and null both request a repair.
    let wish = wish.and_then(|Json(wish)| wish);
    let request = wish.map_or(Ok(Request::Plan), Request::try_from)?;
    let idempotency = Idempotency::asked(&headers, &visitor, &format!("{request:?}"))?;
    let asked = planned(served.0.clone(), visitor, request);
    served.answers.answer(idempotency, asked).await
}

/// Makes a plan that restores the state before this change. Changes nothing yet.
///
/// For operators.
#[utoipa::path(
    post,
    path = "/history/{generation}/taking-back",
    params(("generation" = u64, Path, description = "Generation of the change"), Key),
    responses((status = 200, description = "A plan", body = Planned))
)]
pub(super) async fn take_back(
    served: State<Served>,
    visitor: Visitor,
    headers: HeaderMap,
    path: Number,
) -> ApiResult {
    let generation = number(path)?;
    let idempotency =
        Idempotency::asked(&headers, &visitor, &format!("rolling {generation} back"))?;
    let generation = Some(generation);
    let asked = planned(served.0.clone(), visitor, Request::TakeBack { generation });
    served.answers.answer(idempotency, asked).await
}

pub(super) async fn planned(served: Served, visitor: Visitor, asked: Request) -> ApiResult {
    let planned = Planned::asked(&served, &visitor, asked).await?;
    Ok(Json(planned).into_response())
}

impl Planned {
    pub(super) async fn asked(
        served: &Served,
        visitor: &Visitor,
        asked: Request,
    ) -> Result<Self, Problem> {
        match visitor.ask(&served.context, asked).await? {
            Answer::Plan { plan, not_seen } => Ok(Self {
                plan: plan.map(|plan| *plan),
                not_seen,
            }),
            _ => Err(Problem::unexpected()),
        }
    }

    pub(super) fn generation(&self) -> Option<Generation> {
        self.plan.as_ref().map(|plan| plan.generation)
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Insistence {
    /// Keep the change even if flows become slower. An unsound plan is refused in any case.
    #[serde(default)]
    force: bool,
    /// Apply the change now, outside the change windows of the policy.
    #[serde(default)]
    now: bool,
}

/// A change that has started.
#[derive(Debug, Serialize, ToSchema)]
struct Begun {
    generation: Generation,
    /// URL of the record of the change.
    record: String,
}

/// Applies a plan. The record of the change shows its progress and outcome.
///
/// A repeated approval of a running change has no effect, and its `force` and `now` are ignored. With `If-Match`,
/// answers 412 unless the plan still has that ETag. For operators.
#[utoipa::path(
    post,
    path = "/plans/{generation}/approval",
    params(("generation" = u64, Path, description = "Generation of the plan"), Insistence, Seen, Key),
    responses((
        status = 202,
        description = "The change has started",
        body = Begun,
        headers(("location" = String, description = "URL of the record of the change"))
    ))
)]
pub(super) async fn approve(
    served: State<Served>,
    visitor: Visitor,
    headers: HeaderMap,
    path: Number,
    insistence: Options<Insistence>,
) -> ApiResult {
    let generation = number(path)?;
    let Insistence { force, now } = options(insistence)?;
    let approval = Approval { force, now };
    let asked = sealed::asked(&headers, generation, approval)?;
    let idempotency = Idempotency::asked(&headers, &visitor, &format!("{asked:?}"))?;
    let asked = begin(served.0.clone(), visitor, generation, asked);
    served.answers.answer(idempotency, asked).await
}

async fn begin(
    served: Served,
    visitor: Visitor,
    generation: Generation,
    asked: Request,
) -> ApiResult {
    match crate::http::approve(&served.context, visitor.asker(), generation, asked).await {
        Some(Answer::ApplyStarted { .. }) => {}
        Some(Answer::Refused(refused)) => return Err(refused.into()),
        Some(_) => return Err(Problem::unexpected()),
        None => return Err(Problem::no_answer()),
    }
    let record = document::record(generation);
    let begun = Begun { generation, record };
    Ok(document::led_to(Some(generation), begun))
}
