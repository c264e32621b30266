//! Maintenance of switches, and frozen jobs.

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use reweave_common::operator::{MaintenanceStage, Request, Response as Answer};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::changing::Planned;
use super::problem::Problem;
use super::visitor::Visitor;
use super::{ApiResult, Name, Served, document, name};

/// Stage of maintenance to reach.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Work {
    stage: MaintenanceStage,
}

/// Starts maintenance of a switch or an optical switch, or moves it to its next stage.
///
/// If routes have to change, the answer has a plan that drains the switch or returns it to traffic. The stage `working`
/// requires the proof that no traffic passes the switch. 409 while another operator has the switch under maintenance, and
/// for a second `working`. For operators.
#[utoipa::path(
    put,
    path = "/maintenance/{name}",
    params(("name" = String, Path, description = "Name of the switch")),
    request_body = Work,
    responses(
        (status = 200, description = "Stage reached: no route changes needed", body = Planned),
        (
            status = 202,
            description = "The stage needs this plan, which is offered",
            body = Planned,
            headers(("location" = String, description = "URL of the record of the plan"))
        )
    )
)]
pub(super) async fn maintain(
    served: State<Served>,
    visitor: Visitor,
    path: Name,
    work: Result<Json<Work>, JsonRejection>,
) -> ApiResult {
    let name = name(path)?;
    let Json(Work { stage }) = work.map_err(|error| Problem::bad_body(&error))?;
    let stage = Some(stage);
    let asked = Request::Maintain { name, stage };
    let planned = Planned::asked(&served, &visitor, asked).await?;
    Ok(document::led_to(planned.generation(), planned))
}

/// Takes over the maintenance of a switch from the operator who has it.
///
/// Its stage stays. Requests of the other operator about it are refused from then on. For operators.
#[utoipa::path(
    post,
    path = "/maintenance/{name}/take-over",
    params(("name" = String, Path, description = "Name of the switch")),
    responses((status = 204, description = "The maintenance is the requester's"))
)]
pub(super) async fn take_over(served: State<Served>, visitor: Visitor, path: Name) -> ApiResult {
    let name = name(path)?;
    Planned::asked(&served, &visitor, Request::TakeOver { name }).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Ends the maintenance of a switch.
///
/// For operators.
#[utoipa::path(
    delete,
    path = "/maintenance/{name}",
    operation_id = "end_maintenance",
    params(("name" = String, Path, description = "Name of the switch")),
    responses((status = 204, description = "Maintenance has ended"))
)]
pub(super) async fn end(served: State<Served>, visitor: Visitor, path: Name) -> ApiResult {
    let (name, stage) = (name(path)?, None);
    let asked = Request::Maintain { name, stage };
    Planned::asked(&served, &visitor, asked).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The hosts of a job.
#[derive(Debug, Serialize, ToSchema)]
struct Hosts {
    hosts: Vec<String>,
}

/// Freezes the job of this host: no plan may touch a link that its flows use.
///
/// For operators.
#[utoipa::path(
    put,
    path = "/frozen/{host}",
    params(("host" = String, Path, description = "One host of the job")),
    responses((status = 200, description = "All hosts of the job", body = Hosts))
)]
pub(super) async fn freeze(served: State<Served>, visitor: Visitor, path: Name) -> ApiResult {
    let hosts = vec![name(path)?];
    froze(&served, &visitor, Request::Freeze { hosts }).await
}

/// Thaws the job of this host: plans may touch its links again.
///
/// For operators.
#[utoipa::path(
    delete,
    path = "/frozen/{host}",
    params(("host" = String, Path, description = "One host of the job")),
    responses((status = 200, description = "All hosts of the job", body = Hosts))
)]
pub(super) async fn thaw(served: State<Served>, visitor: Visitor, path: Name) -> ApiResult {
    let hosts = vec![name(path)?];
    froze(&served, &visitor, Request::Thaw { hosts }).await
}

async fn froze(served: &Served, visitor: &Visitor, asked: Request) -> ApiResult {
    match visitor.ask(&served.context, asked).await? {
        Answer::Froze { hosts } => Ok(Json(Hosts { hosts }).into_response()),
        _ => Err(Problem::unexpected()),
    }
}
