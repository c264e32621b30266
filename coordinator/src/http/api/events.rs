//! The cluster's state as it changes, as server-sent events: what is made for all who look, handed to each.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::unfold;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::glances::{Glance, Glances};
use super::visitor::Visitor;
use crate::house::House;

/// Whoever is told nothing for longer takes the line for dead.
const SIGN_OF_LIFE_AFTER: Duration = Duration::from_secs(15);
const SIGN_OF_LIFE: &[u8] = b":\n\n";
/// Whoever was shut out is shown no more after that.
const LOOKED_AT_AGAIN: Duration = Duration::from_secs(2);

pub(super) fn follow(glances: &Glances, visitor: Visitor, house: House) -> Response {
    let viewer = Viewer {
        visitor,
        house,
        glances: glances.follow(),
        looked_at: Instant::now(),
        told_at: Instant::now(),
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
    house: House,
    glances: watch::Receiver<Option<Glance>>,
    looked_at: Instant,
    told_at: Instant,
}

impl Viewer {
    /// Nothing more when its token is not good any more, or nobody makes glances.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.looked_at.elapsed() >= LOOKED_AT_AGAIN {
                self.visitor.name(&self.house).await.ok()?;
                self.looked_at = Instant::now();
            }
            let event = match timeout(LOOKED_AT_AGAIN, self.glances.changed()).await {
                Ok(changed) => {
                    changed.ok()?;
                    let glance = self.glances.borrow_and_update();
                    glance.as_ref().map(|glance| glance.event.clone())
                }
                Err(_) => self.is_long_silent().then(|| SIGN_OF_LIFE.into()),
            };
            if event.is_some() {
                self.told_at = Instant::now();
                return event;
            }
        }
    }

    fn is_long_silent(&self) -> bool {
        self.told_at.elapsed() >= SIGN_OF_LIFE_AFTER
    }
}
