//! The cluster's state as it changes, as server-sent events.
//!
//! A frame is made once, while anybody looks, and handed to all who do: fifty viewers cost the core
//! what one costs.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
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
/// Whoever was shut out is shown no more after that.
const LOOKED_AT_AGAIN: Duration = Duration::from_secs(2);

#[derive(Clone)]
pub(super) struct Frames(Arc<watch::Sender<Frame>>);

#[derive(Debug, Clone, Default, PartialEq)]
enum Frame {
    #[default]
    None,
    /// JSON, as `GET /api/v1/status` gives it.
    Status(Bytes),
    /// Why there is no status.
    Trouble(Bytes),
}

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
                let frame = make(&house).await;
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
        };
        let events = unfold(viewer, |mut viewer| async {
            let event = viewer.next().await?;
            Some((Ok::<_, Infallible>(event), viewer))
        });
        Sse::new(events)
            .keep_alive(KeepAlive::default())
            .into_response()
    }
}

async fn make(house: &House) -> Frame {
    let page = Asker::Member(Member::new(Role::Viewer, "page"));
    let problem = match http::ask(house, page, Request::Status).await {
        Some(Answer::Status(status)) => match serde_json::to_vec(&status) {
            Ok(json) => return Frame::Status(json.into()),
            Err(_) => Problem::unexpected(),
        },
        Some(Answer::Refused(refused)) => refused.into(),
        Some(_) => Problem::unexpected(),
        None => Problem::no_answer(),
    };
    Frame::Trouble(serde_json::to_vec(&problem).unwrap_or_default().into())
}

struct Viewer {
    visitor: Visitor,
    house: House,
    frames: watch::Receiver<Frame>,
    looked_at: Instant,
}

impl Viewer {
    /// Nothing more when its token is not good any more, or nobody makes frames.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if self.looked_at.elapsed() >= LOOKED_AT_AGAIN {
                self.visitor.name(&self.house).await.ok()?;
                self.looked_at = Instant::now();
            }
            match timeout(LOOKED_AT_AGAIN, self.frames.changed()).await {
                Ok(changed) => changed.ok()?,
                Err(_) => continue,
            }
            let frame = self.frames.borrow_and_update().clone();
            if let Some(event) = shown(&frame) {
                return Some(event);
            }
        }
    }
}

fn shown(frame: &Frame) -> Option<Event> {
    let (name, json) = match frame {
        Frame::None => return None,
        Frame::Status(json) => ("status", json),
        Frame::Trouble(json) => ("trouble", json),
    };
    let json = std::str::from_utf8(json).ok()?;
    Some(Event::default().event(name).data(json))
}
