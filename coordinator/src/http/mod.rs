//! Health and metrics, for machines that watch machines: read only, and of no secrets.
//!
//! It asks the core the way a viewer does, so what it serves is what `reweave status` shows.

mod metrics;

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use reweave_common::member::{Member, Role};
use reweave_common::operator::{Refused, Request, Response as Answer};
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::error::CoordinatorError;
use crate::house::House;

/// Unless somebody says otherwise.
pub(crate) const USUAL: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7334));

/// A core that takes longer is not well.
const PATIENCE: Duration = Duration::from_secs(2);
/// As Prometheus names its text.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Where it was told to, or else where it usually is; there it does without when the place is taken.
pub(crate) async fn bind(
    address: Option<SocketAddr>,
) -> Result<Option<TcpListener>, CoordinatorError> {
    let place = address.unwrap_or(USUAL);
    match TcpListener::bind(place).await {
        Ok(listener) => {
            let place = listener.local_addr().unwrap_or(place);
            tracing::info!("health and metrics on {place}");
            Ok(Some(listener))
        }
        Err(source) if address.is_some() => Err(CoordinatorError::Http {
            address: place,
            source,
        }),
        Err(error) => {
            tracing::warn!("no health and metrics at {place}: {error}; --http gives another place");
            Ok(None)
        }
    }
}

/// Serves for as long as there is a runtime.
pub(crate) async fn serve(listener: TcpListener, house: House) {
    let served = axum::serve(listener, routes(house)).await;
    if let Err(error) = served {
        tracing::error!("health and metrics are not served any more: {error}");
    }
}

fn routes(house: House) -> Router {
    Router::new()
        .route("/healthz", get(health))
        .route("/readyz", get(readiness))
        .route("/metrics", get(metrics))
        .with_state(house)
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
    match ask(&house).await {
        Some(Answer::Status(_) | Answer::Refused(Refused::NotLeading { leader: Some(_) })) => {
            "ready\n".into_response()
        }
        Some(_) => unavailable("nobody leads"),
        None => unavailable("the core does not answer"),
    }
}

/// Who does not lead knows little, and says so.
async fn metrics(State(house): State<House>) -> Response {
    let status = match ask(&house).await {
        Some(Answer::Status(status)) => Some(status),
        Some(_) => None,
        None => return unavailable("the core does not answer"),
    };
    let text = metrics::text(status.as_deref(), &house.intake.counts());
    ([(header::CONTENT_TYPE, EXPOSITION)], text).into_response()
}

fn unavailable(why: &'static str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response()
}

async fn ask(house: &House) -> Option<Answer> {
    let principal = Member::new(Role::Viewer, "http");
    let asking = house.ask(principal, Request::Status);
    timeout(PATIENCE, asking).await.ok()?.ok()
}
