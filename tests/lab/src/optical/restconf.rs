//! The RESTCONF server: one circuit per request. A request to replace all circuits is refused.

use std::future::pending;

use axum::Json;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use reweave_common::units::Loss;
use serde::{Deserialize, Serialize};

use super::crossbar::Refusal;
use super::device::{Answer, Device, DeviceError, Seen};
use super::mishap::Mishap;
use super::xml;

const CROSS_CONNECTS_PATH: &str = "/api/data/optical-switch:cross-connects";
const CROSS_CONNECT_PATH: &str = "/api/data/optical-switch:cross-connects/{entry}";
/// Path for setting faults, which real switches do not have.
const MISHAP_PATH: &str = "/lab/mishap";
/// Path for setting losses. Real switches with power meters can only measure them.
const LOSS_PATH: &str = "/lab/loss";
const LIGHT_PATH: &str = "/lab/light";

pub(super) fn router(device: Device) -> Router {
    let one = get(read).put(connect).delete(disconnect);
    Router::new()
        .route(CROSS_CONNECTS_PATH, get(read_all).fallback(refuse_all))
        .route(CROSS_CONNECT_PATH, one)
        .route(MISHAP_PATH, put(set_mishap))
        .route(LOSS_PATH, put(set_loss))
        .route(LIGHT_PATH, get(light))
        .with_state(device)
}

async fn read_all(State(device): State<Device>) -> Response {
    as_xml(StatusCode::OK, xml::all(&device.pairs()))
}

async fn refuse_all() -> Response {
    let message = "all circuits at once are not for the taking: ask for one pair";
    refusal(
        StatusCode::METHOD_NOT_ALLOWED,
        "operation-not-supported",
        message,
    )
}

async fn read(State(device): State<Device>, Path(entry): Path<String>) -> Response {
    let found = key(&entry).and_then(|ingress| Some((ingress, *device.pairs().get(&ingress)?)));
    match found {
        Some((ingress, egress)) => as_xml(StatusCode::OK, xml::one(ingress, egress)),
        None => refusal(
            StatusCode::NOT_FOUND,
            "invalid-value",
            "there is no such pair",
        ),
    }
}

async fn connect(
    State(device): State<Device>,
    Path(entry): Path<String>,
    body: String,
) -> Response {
    let asked = xml::read_pair(&body).filter(|(ingress, _)| key(&entry) == Some(*ingress));
    let Some((ingress, egress)) = asked else {
        let message = "the body is no pair with the ingress of the path";
        return refusal(StatusCode::BAD_REQUEST, "malformed-message", message);
    };
    // A separate task: mirrors do not stop when a client disconnects.
    let moved = tokio::spawn(async move { device.connect(ingress, egress).await });
    match moved.await {
        Ok(Ok(Answer::Done)) => StatusCode::NO_CONTENT.into_response(),
        Ok(Ok(Answer::Silence)) => pending().await,
        Ok(Err(error)) => failure(&error),
        Err(error) => refusal(
            StatusCode::INTERNAL_SERVER_ERROR,
            "operation-failed",
            &error.to_string(),
        ),
    }
}

async fn disconnect(State(device): State<Device>, Path(entry): Path<String>) -> Response {
    let Some(ingress) = key(&entry) else {
        return refusal(
            StatusCode::NOT_FOUND,
            "invalid-value",
            "there is no such pair",
        );
    };
    match device.disconnect(ingress) {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => failure(&error),
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wish {
    mishap: Option<Mishap>,
}

/// Takes JSON of any content type, as `curl -d` sends it.
async fn set_mishap(State(device): State<Device>, body: Bytes) -> StatusCode {
    let Ok(wish) = serde_json::from_slice::<Wish>(&body) else {
        return StatusCode::BAD_REQUEST;
    };
    device.set_mishap(wish.mishap);
    StatusCode::NO_CONTENT
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Dirt {
    port: u16,
    db: f64,
}

async fn set_loss(State(device): State<Device>, body: Bytes) -> StatusCode {
    let dirt = serde_json::from_slice::<Dirt>(&body).ok();
    let found = dirt.and_then(|dirt| Some((dirt.port, Loss::from_db(dirt.db)?)));
    let Some((port, loss)) = found else {
        return StatusCode::BAD_REQUEST;
    };
    match device.set_loss(port, loss) {
        Ok(()) => StatusCode::NO_CONTENT,
        Err(error) => {
            eprintln!("error: {error}");
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}

async fn light(State(device): State<Device>) -> Json<Vec<Seen>> {
    Json(device.light())
}

/// The port that an entry `pair=N` is named by.
fn key(entry: &str) -> Option<u16> {
    entry.strip_prefix("pair=")?.parse().ok()
}

fn failure(error: &DeviceError) -> Response {
    let (status, tag) = match error {
        DeviceError::Refused(Refusal::InUse(_) | Refusal::Moving(_)) => {
            (StatusCode::CONFLICT, "in-use")
        }
        DeviceError::Refused(Refusal::NoCircuit(_)) => (StatusCode::NOT_FOUND, "data-missing"),
        DeviceError::Refused(_) => (StatusCode::BAD_REQUEST, "invalid-value"),
        DeviceError::Broken(_) => (StatusCode::INTERNAL_SERVER_ERROR, "operation-failed"),
    };
    refusal(status, tag, &error.to_string())
}

fn refusal(status: StatusCode, tag: &str, message: &str) -> Response {
    as_xml(status, xml::error(tag, message))
}

fn as_xml(status: StatusCode, text: String) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/yang-data+xml")];
    (status, kind, text).into_response()
}
