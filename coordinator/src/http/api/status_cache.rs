//! One status of the cluster for all requests at about the same time.
//!
//! With thousands of agents, a status costs the core, and its encoding a core of the machine, more than an answer may
//! take. It is made once, and valid until a decision is made, or for a short while. While clients ask, the next one
//! is ready before it expires. Fifty viewers cost as much as one, plus the sending. Permissions and leadership are
//! checked for each request.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use reweave_common::lock::lock;
use reweave_common::member::{Member, Role};
use reweave_common::operator::{Request, Response as Answer, Status};
use tokio::sync::{Mutex as Turn, Notify, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::problem::Problem;
use super::tagged::Tagged;
use crate::http;
use crate::intake::Asker;
use crate::server_context::ServerContext;

/// The eye sees no more of numbers.
const REFRESH_INTERVAL: Duration = Duration::from_millis(500);
/// Longer than it takes until there is another.
const STATUS_TTL: Duration = Duration::from_secs(1);
/// A client that asked is taken to ask again for this long.
const INTEREST_TTL: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub(in crate::http) struct StatusCache(Arc<Shared>);

struct Shared {
    context: ServerContext,
    /// None before the first, and when no client looks.
    shown: watch::Sender<Option<CachedStatus>>,
    /// Of the task that makes the next.
    turn: Turn<()>,
    asked: Mutex<Option<Instant>>,
    reader_arrived: Notify,
}

#[derive(Clone)]
pub(super) struct CachedStatus {
    /// `status`, or `trouble`: why there is none.
    pub(super) event: Bytes,
    seen: Option<Seen>,
    fresh: Fresh,
}

#[derive(Clone)]
struct Seen {
    status: Arc<Status>,
    /// The same, as it goes over the line.
    tagged: Tagged,
}

/// How new something is that the core answered.
#[derive(Debug, Clone, Copy)]
pub(in crate::http) struct Fresh {
    begun: Instant,
    /// It shows this many decisions for sure.
    decisions: u64,
}

impl Fresh {
    /// Of what is asked now.
    pub(in crate::http) fn now(context: &ServerContext) -> Self {
        Self {
            begun: Instant::now(),
            decisions: context.decisions.count(),
        }
    }

    /// Whether it is new enough for a client that knows of this many decisions.
    pub(in crate::http) fn is_good(self, decisions: u64) -> bool {
        self.decisions >= decisions && self.begun.elapsed() < STATUS_TTL
    }
}

impl StatusCache {
    /// They are made for as long as there is a runtime.
    pub(in crate::http) fn begin(context: ServerContext) -> Self {
        let status_cache = Self(Arc::new(Shared {
            context,
            shown: watch::Sender::default(),
            turn: Turn::default(),
            asked: Mutex::default(),
            reader_arrived: Notify::default(),
        }));
        tokio::spawn(status_cache.clone().keep_making());
        status_cache
    }

    /// All that follow come as they change; the first one soon.
    pub(super) fn follow(&self) -> watch::Receiver<Option<CachedStatus>> {
        let mut shown = self.0.shown.subscribe();
        shown.mark_changed();
        self.0.reader_arrived.notify_one();
        shown
    }

    /// Shows all that was decided before this was asked.
    pub(super) async fn status(&self) -> Result<Tagged, Problem> {
        *lock(&self.0.asked) = Some(Instant::now());
        Ok(self.seen().await?.tagged)
    }

    /// The same for a machine that comes by: none is made for its next time. None where another leads,
    /// or the core is too busy.
    pub(in crate::http) async fn passing(&self) -> Option<Arc<Status>> {
        Some(self.seen().await.ok()?.status)
    }

    async fn seen(&self) -> Result<Seen, Problem> {
        let decisions = self.0.context.decisions.count();
        let seen = timeout(http::CORE_TIMEOUT, self.seen_with(decisions));
        seen.await.unwrap_or_else(|_| Err(Problem::no_answer()))
    }

    async fn seen_with(&self, decisions: u64) -> Result<Seen, Problem> {
        if let Some(seen) = self.good(decisions) {
            return Ok(seen);
        }
        let _turn = self.0.turn.lock().await;
        match self.good(decisions) {
            Some(seen) => Ok(seen),
            None => self.make().await,
        }
    }

    fn good(&self, decisions: u64) -> Option<Seen> {
        let shown = self.0.shown.borrow();
        let cached = shown.as_ref()?;
        let is_good = cached.fresh.is_good(decisions);
        cached.seen.clone().filter(|_| is_good)
    }

    async fn keep_making(self) {
        let mut ticks = interval(REFRESH_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = self.0.reader_arrived.notified() => ticks.reset(),
            }
            if self.has_readers() {
                let _turn = self.0.turn.lock().await;
                // Followers of the events are sent errors, and a client that asks gets them too.
                let _ = self.make().await;
            } else {
                self.0.shown.send_if_modified(|shown| {
                    let is_old = |it: &mut CachedStatus| !it.fresh.is_good(0);
                    shown.take_if(is_old).is_some()
                });
            }
        }
    }

    fn has_readers(&self) -> bool {
        let asked = *lock(&self.0.asked);
        let asks = asked.is_some_and(|at| at.elapsed() < INTEREST_TTL);
        asks || self.0.shown.receiver_count() > 0
    }

    /// In turn.
    async fn make(&self) -> Result<Seen, Problem> {
        let fresh = Fresh::now(&self.0.context);
        let made = match look(&self.0.context).await {
            Ok(status) => encoded(status).await,
            Err(problem) => Err(problem),
        };
        let event = match &made {
            Ok((event, _)) => event.clone(),
            Err(problem) => event("trouble", &serde_json::to_vec(problem).unwrap_or_default()),
        };
        let made = made.map(|(_, seen)| seen);
        let cached = CachedStatus {
            event,
            seen: made.as_ref().ok().cloned(),
            fresh,
        };
        self.0.shown.send_if_modified(|shown| {
            let is_new = shown.as_ref().map(|it| &it.event) != Some(&cached.event);
            *shown = Some(cached);
            is_new
        });
        made
    }
}

async fn look(context: &ServerContext) -> Result<Box<Status>, Problem> {
    let page = Asker::Member(Member::new(Role::Viewer, "page"));
    match http::ask(context, page, Request::Status).await {
        Some(Answer::Status(status)) => Ok(status),
        Some(Answer::Refused(refused)) => Err(refused.into()),
        Some(_) => Err(Problem::unexpected()),
        None => Err(Problem::no_answer()),
    }
}

/// As it goes over the line, to those who follow and to those who ask. Sessions of agents do not wait
/// meanwhile.
async fn encoded(status: Box<Status>) -> Result<(Bytes, Seen), Problem> {
    let encoding = spawn_blocking(move || {
        let status: Arc<Status> = status.into();
        let json = serde_json::to_vec(&*status).ok()?;
        let event = event("status", &json);
        let end = event.len() - EVENT_TERMINATOR.len();
        let body = event.slice(end - json.len()..end);
        let tagged = Tagged::of(body)?;
        Some((event, Seen { status, tagged }))
    });
    let encoded = encoding.await.ok().flatten();
    encoded.ok_or_else(Problem::unexpected)
}

const EVENT_TERMINATOR: &[u8] = b"\n\n";

/// JSON is one line.
fn event(name: &str, json: &[u8]) -> Bytes {
    [
        b"event: ",
        name.as_bytes(),
        b"\ndata: ",
        json,
        EVENT_TERMINATOR,
    ]
    .concat()
    .into()
}
