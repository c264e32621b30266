//! Health and metrics: read only, and of no secrets.
//!
//! They ask the core the way a viewer does, so what they serve is what `reweave status` shows.

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use reweave_common::member::{Member, Role};
use reweave_common::operator::{Refused, Request, Response as Answer};

use super::metrics::{self, Log, Sight, Work};
use crate::house::House;
use crate::intake::Asker;

/// As Prometheus names its text.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) fn routes(house: House) -> Router {
    Router::new()
        .route("/healthz", get(health))
        .route("/readyz", get(readiness))
        .route("/metrics", get(metrics))
        .with_state(house)
}

/// Before there is a log, and a core that knows anything.
pub(super) fn too_early() -> Router {
    let metrics = || async { exposition(&metrics::text(&Sight::default())) };
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/metrics", get(metrics))
        .fallback(|| async { unavailable("the coordinators have not found each other yet") })
}

/// Alive: what runs this runs everything that hears peers.
async fn health(State(house): State<House>) -> Response {
    match house.intake.is_open() {
        true => "ok\n".into_response(),
        false => unavailable("the drive has ended"),
    }
}

/// Able to answer, or to say who does: the log has been read, and the core keeps up.
async fn readiness(State(house): State<House>) -> Response {
    // Anything shows that; the whole status would cost the core a hundred times as much.
    match ask(&house, Request::WhoAmI).await {
        Some(Answer::You(_) | Answer::Refused(Refused::NotLeading { leader: Some(_) })) => {
            "ready\n".into_response()
        }
        Some(_) => unavailable("nobody leads"),
        None => unavailable("the core does not answer"),
    }
}

/// Who does not lead knows little, and says so.
async fn metrics(State(house): State<House>) -> Response {
    let status = match ask(&house, Request::Status).await {
        Some(Answer::Status(status)) => Some(status),
        Some(_) => None,
        None => return unavailable("the core does not answer"),
    };
    let found = match status {
        Some(_) => ask(&house, Request::Imbalance).await,
        None => None,
    };
    let imbalances = match found {
        Some(Answer::Imbalances(found)) => Some(found),
        _ => None,
    };
    let work = match status {
        Some(_) => work(&house).await,
        None => Work::default(),
    };
    let Some(replicated) = house.replication.status().await else {
        return unavailable("the log is not kept any more");
    };
    let pulse = house.replication.pulse();
    exposition(&metrics::text(&Sight {
        status: status.as_deref(),
        imbalances: imbalances.as_ref(),
        work,
        log: Some(Log {
            status: &replicated,
            pulse: &pulse,
        }),
        disk_is_full: house.cluster.borrow().disk_is_full,
        counts: house.intake.counts(),
        sessions: house.company.by_role(),
    }))
}

async fn work(house: &House) -> Work {
    let found = match ask(house, Request::Diagnose).await {
        Some(Answer::Findings(found)) => Some(found),
        _ => None,
    };
    let jobs = match ask(house, Request::Jobs).await {
        Some(Answer::Jobs(jobs)) => jobs,
        _ => vec![],
    };
    Work { found, jobs }
}

fn exposition(text: &str) -> Response {
    ([(header::CONTENT_TYPE, EXPOSITION)], text.to_owned()).into_response()
}

fn unavailable(why: &'static str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response()
}

async fn ask(house: &House, request: Request) -> Option<Answer> {
    let viewer = Asker::Member(Member::new(Role::Viewer, "http"));
    super::ask(house, viewer, request).await
}
