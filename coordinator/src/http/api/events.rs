//! The cluster's state as it changes, as server-sent events.
//!
//! A frame is made once, while anybody looks, as it goes over the line, and handed to all who do: fifty
//! viewers cost the core what one costs, and the rest no more than sending takes.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::unfold;
use reweave_common::member::{Member, Role};
use reweave_common::operator::{Request, Response as Answer};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::problem::Problem;
use super::visitor::Visitor;
use crate::house::House;
use crate::http;
use crate::intake::Asker;

/// The eye sees no more of numbers.
const EVERY: Duration = Duration::from_millis(500);
/// Whoever is told nothing for longer takes the line for dead.
const SIGN_OF_LIFE_AFTER: Duration = Duration::from_secs(15);
const SIGN_OF_LIFE: &[u8] = b":\n\n";
/// Whoever was shut out is shown no more after that.
const LOOKED_AT_AGAIN: Duration = Duration::from_secs(2);

#[derive(Clone)]
pub(super) struct Frames(Arc<watch::Sender<Frame>>);

/// Nothing before the first.
type Frame = Option<Bytes>;

impl Frames {
    /// They are made for as long as there is a runtime.
    pub(super) fn begin(house: House) -> Self {
        let frames = Self(Arc::default());
        tokio::spawn(frames.clone().keep_making(house));
        frames
    }

    async fn keep_making(self, house: House) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if self.0.receiver_count() > 0 {
                let frame = Some(make(&house).await);
                self.0.send_if_modified(|shown| {
                    let changed = *shown != frame;
                    *shown = frame;
                    changed
                });
            }
        }
    }

    /// The first frame comes at once, where there is one.
    pub(super) fn follow(&self, visitor: Visitor, house: House) -> Response {
        let mut frames = self.0.subscribe();
        frames.mark_changed();
        let viewer = Viewer {
            visitor,
            house,
            frames,
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
}

/// `status`, as `GET /api/v1/status` gives it, or `trouble`: why there is none.
async fn make(house: &House) -> Bytes {
    let page = Asker::Member(Member::new(Role::Viewer, "page"));
    let problem = match http::ask(house, page, Request::Status).await {
        Some(Answer::Status(status)) => match serde_json::to_vec(&status) {
            Ok(json) => return event("status", &json),
            Err(_) => Problem::unexpected(),
        },
        Some(Answer::Refused(refused)) => refused.into(),
        Some(_) => Problem::unexpected(),
        None => Problem::no_answer(),
    };
    let json = serde_json::to_vec(&problem).unwrap_or_default();
    event("trouble", &json)
}

/// JSON is one line.
fn event(name: &str, json: &[u8]) -> Bytes {
    [b"event: ", name.as_bytes(), b"\ndata: ", json, b"\n\n"]
        .concat()
        .into()
}

struct Viewer {
    visitor: Visitor,
    house: House,
    frames: watch::Receiver<Frame>,
    looked_at: Instant,
    told_at: Instant,
}

impl Viewer {
    /// Nothing more when its token is not good any more, or nobody makes frames.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.looked_at.elapsed() >= LOOKED_AT_AGAIN {
                self.visitor.name(&self.house).await.ok()?;
                self.looked_at = Instant::now();
            }
            let event = match timeout(LOOKED_AT_AGAIN, self.frames.changed()).await {
                Ok(changed) => {
                    changed.ok()?;
                    self.frames.borrow_and_update().clone()
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
