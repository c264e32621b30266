//! The API for scripts and for the page: JSON over HTTP, versioned by its path.
//!
//! It asks the core the way sessions do, in the name of whoever made the token, so that a role may do
//! here what it may do there, and nothing is decided here.

mod events;
mod fabric;
mod problem;
mod tagged;
mod visitor;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use reweave_common::operator::{Refused, Request, Response as Answer};
use reweave_common::plan::Generation;
use serde::{Deserialize, Serialize};

use crate::house::House;
use events::Frames;
use problem::Problem;
use tagged::tagged;
use visitor::Visitor;

#[derive(Clone)]
struct Served {
    house: House,
    frames: Frames,
}

type Answered = Result<Response, Problem>;

pub(super) fn routes(house: House) -> Router {
    let frames = Frames::begin(house.clone());
    let api = Router::new()
        .route("/me", get(me))
        .route("/status", get(status))
        .route("/fabric", get(shape))
        .route("/findings", get(findings))
        .route("/matrix", get(matrix))
        .route("/history", get(history))
        .route("/history/{generation}", get(record))
        .route("/plans", post(plan))
        .route("/plans/{generation}/approval", post(approve))
        .route("/events", get(follow))
        .fallback(nothing_there)
        .method_not_allowed_fallback(no_such_method)
        .with_state(Served { house, frames });
    Router::new().nest("/api/v1", api)
}

async fn nothing_there(uri: Uri) -> Problem {
    let detail = format!("there is nothing at {}", uri.path());
    Problem::new(StatusCode::NOT_FOUND, "urn:reweave:nothing-there", detail)
}

async fn no_such_method(uri: Uri) -> Problem {
    let detail = format!("{} cannot be asked this way", uri.path());
    let code = StatusCode::METHOD_NOT_ALLOWED;
    Problem::new(code, "urn:reweave:no-such-method", detail)
}

/// Who the token speaks for.
async fn me(served: State<Served>, visitor: Visitor) -> Answered {
    let member = visitor.name(&served.house).await?;
    Ok(Json(member).into_response())
}

async fn status(served: State<Served>, visitor: Visitor, headers: HeaderMap) -> Answered {
    match visitor.ask(&served.house, Request::Status).await? {
        Answer::Status(status) => tagged(&headers, &status),
        _ => Err(Problem::unexpected()),
    }
}

async fn shape(served: State<Served>, visitor: Visitor, headers: HeaderMap) -> Answered {
    visitor.name(&served.house).await?;
    tagged(&headers, &fabric::Shown::of(&served.house.fabric))
}

async fn findings(served: State<Served>, visitor: Visitor, headers: HeaderMap) -> Answered {
    match visitor.ask(&served.house, Request::Diagnose).await? {
        Answer::Findings(findings) => tagged(&headers, &findings),
        _ => Err(Problem::unexpected()),
    }
}

async fn matrix(served: State<Served>, visitor: Visitor, headers: HeaderMap) -> Answered {
    match visitor
        .ask(&served.house, Request::Matrix { most: u32::MAX })
        .await?
    {
        Answer::Matrix(matrix) => tagged(&headers, &matrix),
        _ => Err(Problem::unexpected()),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    /// Only changes older than this one.
    before: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Listed<T> {
    history: T,
}

/// The newest changes first, as many as fit; `before` asks for older ones.
async fn history(
    served: State<Served>,
    visitor: Visitor,
    headers: HeaderMap,
    page: Result<Query<Page>, QueryRejection>,
) -> Answered {
    let Query(Page { before }) = page.map_err(|error| bad_request(&error))?;
    let before = before.map(Generation);
    match visitor
        .ask(&served.house, Request::History { before })
        .await?
    {
        Answer::History(history) => tagged(&headers, &Listed { history }),
        _ => Err(Problem::unexpected()),
    }
}

type Number = Result<Path<u64>, PathRejection>;

fn number(path: Number) -> Result<Generation, Problem> {
    let Path(number) = path.map_err(|error| bad_request(&error))?;
    Ok(Generation(number))
}

fn bad_request(rejection: &impl ToString) -> Problem {
    Problem::new(
        StatusCode::BAD_REQUEST,
        "urn:reweave:bad-request",
        rejection.to_string(),
    )
}

async fn record(
    served: State<Served>,
    visitor: Visitor,
    headers: HeaderMap,
    path: Number,
) -> Answered {
    let generation = number(path)?;
    match visitor
        .ask(&served.house, Request::Record { generation })
        .await?
    {
        Answer::Record(Some(record)) => tagged(&headers, &record),
        Answer::Record(None) => {
            let detail = format!("nothing is known of plan {generation}");
            let code = StatusCode::NOT_FOUND;
            Err(Problem::new(code, "urn:reweave:nothing-there", detail))
        }
        _ => Err(Problem::unexpected()),
    }
}

/// What would mend the cluster; the plan is null when nothing would.
async fn plan(served: State<Served>, visitor: Visitor) -> Answered {
    match visitor.ask(&served.house, Request::Plan).await? {
        Answer::Plan { plan, not_seen } => {
            let answer = serde_json::json!({ "plan": plan, "not_seen": not_seen });
            Ok(Json(answer).into_response())
        }
        _ => Err(Problem::unexpected()),
    }
}

/// Its record tells what comes of it. Approved once more while it is carried out, nothing changes.
async fn approve(served: State<Served>, visitor: Visitor, path: Number) -> Answered {
    let generation = number(path)?;
    let asked = Request::Apply { generation };
    match crate::http::ask(&served.house, visitor.asker(), asked).await {
        Some(Answer::ApplyStarted { .. }) => {}
        Some(Answer::Refused(Refused::Busy { running })) if running == generation => {}
        Some(Answer::Refused(refused)) => return Err(refused.into()),
        Some(_) => return Err(Problem::unexpected()),
        None => return Err(Problem::no_answer()),
    }
    let record = format!("/api/v1/history/{generation}");
    let started = serde_json::json!({ "generation": generation, "record": record });
    let place = [(header::LOCATION, record)];
    Ok((StatusCode::ACCEPTED, place, Json(started)).into_response())
}

async fn follow(State(served): State<Served>, visitor: Visitor) -> Answered {
    visitor.name(&served.house).await?;
    Ok(served.frames.follow(visitor, served.house))
}
