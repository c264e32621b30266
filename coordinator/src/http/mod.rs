//! The HTTP server: health and metrics for monitoring, and on loopback and over TLS the API and the page.
//!
//! Other networks would carry tokens in clear text. So beyond loopback, HTTP without TLS serves only health and
//! metrics; other clients use TLS, or forward the port over SSH.

mod api;
mod faces;
mod health;
mod metrics;
mod page;
mod plain_listener;
mod tls_listener;

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::AsFd;
use std::pin::pin;
use std::time::Duration;

use axum::http::StatusCode;
use reweave_common::operator::{Request, Response as Answer};
use reweave_common::plan::Generation;
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::config::Config;
use crate::error::CoordinatorError;
use crate::intake::Asker;
use crate::server_context::ServerContext;
use tls_listener::{Shown, TlsListener};

/// The default address.
pub(crate) const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7334));

/// Time limit for the core; a slower core is unhealthy.
pub(crate) const CORE_TIMEOUT: Duration = Duration::from_secs(2);

/// Binds the configured address or the default one. An occupied default is skipped.
pub(crate) async fn bind(config: &Config) -> Result<Option<TcpListener>, CoordinatorError> {
    let address = config.http_address();
    match (TcpListener::bind(address).await, &config.http) {
        (Ok(listener), _) => Ok(Some(listener)),
        (Err(source), Some(said)) => Err(said.wrong(CoordinatorError::Http { address, source })),
        (Err(error), None) => {
            let what = what_is_at(address);
            tracing::warn!("no {what} at {address}: {error}; --http gives another address");
            Ok(None)
        }
    }
}

/// Binds the configured address. Returns None without one.
pub(crate) async fn bind_secure(config: &Config) -> Result<Option<TcpListener>, CoordinatorError> {
    let Some(said) = &config.https else {
        return Ok(None);
    };
    let address = said.value;
    let bound = TcpListener::bind(address).await;
    bound
        .map(Some)
        .map_err(|source| said.wrong(CoordinatorError::Https { address, source }))
}

pub(crate) fn what_is_at(place: SocketAddr) -> &'static str {
    if place.ip().is_loopback() {
        "dashboard, API, health and metrics"
    } else {
        "health and metrics"
    }
}

/// Runs `work` and meanwhile serves health and metrics, so that monitors see a live but unready program.
pub(crate) async fn beside<T>(listener: Option<&TcpListener>, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    if let Some(twin) = listener.and_then(twin) {
        let served = plain_listener::serve(twin, health::too_early(), None);
        tokio::select! {
            done = &mut work => return done,
            // The server must not end before the work.
            () = served => {}
        }
    }
    work.await
}

/// Returns a second listener on the same socket. Connections that one has not accepted when it is dropped go to the
/// other.
fn twin(listener: &TcpListener) -> Option<TcpListener> {
    let socket = listener.as_fd().try_clone_to_owned().ok()?;
    TcpListener::from_std(socket.into()).ok()
}

/// Serves as long as the runtime exists. All listeners share one status cache.
pub(crate) fn serve(
    plain: Option<TcpListener>,
    secure: Option<TcpListener>,
    context: &ServerContext,
) {
    let status_cache = api::StatusCache::begin(context.clone());
    let health = health::routes(context.clone(), status_cache.clone());
    let all = health
        .clone()
        .merge(api::routes(context.clone(), status_cache));
    let all = all.merge(page::routes());
    if let Some(listener) = plain {
        let near = listener.local_addr();
        let near = near.is_ok_and(|address| address.ip().is_loopback());
        let routes = if near {
            all.clone()
        } else {
            health.fallback(far)
        };
        let intake = Some(context.intake.clone());
        tokio::spawn(plain_listener::serve(listener, routes, intake));
    }
    if let Some(listener) = secure {
        let known = all.into_make_service_with_connect_info::<Shown>();
        let tls_listener = TlsListener::to(listener, context.clone());
        tokio::spawn(axum::serve(tls_listener, known).into_future());
    }
}

async fn far() -> (StatusCode, &'static str) {
    let words = "only health and metrics are served here; the dashboard and the API are on \
                 loopback (use `ssh -L`), and over TLS if `https` is set\n";
    (StatusCode::NOT_FOUND, words)
}

/// Approves a plan. Returns nothing if the core does not answer in time. A repeated approval of a running plan
/// succeeds.
pub(crate) async fn approve(
    context: &ServerContext,
    by: Asker,
    generation: Generation,
    approval: Request,
) -> Option<Answer> {
    let asked = context.approve(by, generation, approval);
    timeout(CORE_TIMEOUT, asked).await.ok()?.ok()
}

pub(crate) async fn ask(context: &ServerContext, by: Asker, request: Request) -> Option<Answer> {
    timeout(CORE_TIMEOUT, context.ask(by, request))
        .await
        .ok()?
        .ok()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    async fn get(place: SocketAddr, path: &str) -> String {
        let mut line = TcpStream::connect(place).await.unwrap();
        let asked = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        line.write_all(asked.as_bytes()).await.unwrap();
        let mut said = String::new();
        line.read_to_string(&mut said).await.unwrap();
        said
    }

    #[tokio::test]
    async fn health_is_served_during_startup() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let place = listener.local_addr().unwrap();
        let asked = async {
            let health = get(place, "/healthz").await;
            let ready = get(place, "/readyz").await;
            let metrics = get(place, "/metrics").await;
            [health, ready, metrics]
        };
        let [health, ready, metrics] = beside(Some(&listener), asked).await;
        assert!(
            health.starts_with("HTTP/1.1 200") && health.ends_with("ok\n"),
            "{health}"
        );
        assert!(ready.starts_with("HTTP/1.1 503"), "{ready}");
        assert!(metrics.contains("\nreweave_leads 0\n"), "{metrics}");
        let late = tokio::spawn(async move { get(place, "/later").await });
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"the same place").await.unwrap();
        drop(stream);
        assert!(late.await.is_ok());
    }
}
