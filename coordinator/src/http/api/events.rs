//! The state of the cluster as server-sent events. Each event is encoded once for all clients.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::unfold;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::status_cache::{CachedStatus, StatusCache};
use super::visitor::Visitor;
use crate::server_context::ServerContext;

/// Interval of keepalives. Clients take a connection for dead after a longer silence.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEPALIVE_FRAME: &[u8] = b":\n\n";
/// Interval of permission checks. A revoked client gets no events after that.
const ACCESS_CHECK_INTERVAL: Duration = Duration::from_secs(2);

pub(super) fn follow(
    status_cache: &StatusCache,
    visitor: Visitor,
    context: ServerContext,
) -> Response {
    let viewer = Viewer {
        visitor,
        context,
        updates: status_cache.follow(),
        looked_at: Instant::now(),
        reported_at: Instant::now(),
    };
    let events = unfold(viewer, |mut viewer| async {
        let event = viewer.next().await?;
        Some((Ok::<_, Infallible>(event), viewer))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, Body::from_stream(events)).into_response()
}

struct Viewer {
    visitor: Visitor,
    context: ServerContext,
    updates: watch::Receiver<Option<CachedStatus>>,
    looked_at: Instant,
    reported_at: Instant,
}

impl Viewer {
    /// Returns the next event, or nothing once the token is invalid or the cache is gone.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.looked_at.elapsed() >= ACCESS_CHECK_INTERVAL {
                self.visitor.name(&self.context).await.ok()?;
                self.looked_at = Instant::now();
            }
            let event = match timeout(ACCESS_CHECK_INTERVAL, self.updates.changed()).await {
                Ok(changed) => {
                    changed.ok()?;
                    let cached = self.updates.borrow_and_update();
                    cached.as_ref().map(|cached| cached.event.clone())
                }
                Err(_) => self.is_long_silent().then(|| KEEPALIVE_FRAME.into()),
            };
            if event.is_some() {
                self.reported_at = Instant::now();
                return event;
            }
        }
    }

    fn is_long_silent(&self) -> bool {
        self.reported_at.elapsed() >= KEEPALIVE_INTERVAL
    }
}
