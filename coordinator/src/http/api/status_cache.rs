//! One status of the cluster for all requests at about the same time.
//!
//! With thousands of agents, a status costs much time of the core, and its encoding a CPU core more than an answer may
//! take. So it is made once, and is valid until the next decision or for a short time. While clients ask, the next one
//! is ready before it expires. Fifty clients cost as much as one, plus the sending. Permissions and leadership are
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

/// Interval of new statuses: a faster display would be no more readable.
const REFRESH_INTERVAL: Duration = Duration::from_millis(500);
/// Lifetime of a status, longer than the time to make the next.
const STATUS_TTL: Duration = Duration::from_secs(1);
/// A client is expected to ask again within this time.
const INTEREST_TTL: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub(in crate::http) struct StatusCache(Arc<Shared>);

struct Shared {
    context: ServerContext,
    /// None before the first status, and while no client asks.
    shown: watch::Sender<Option<CachedStatus>>,
    /// Lock of the task that makes the next status.
    turn: Turn<()>,
    asked: Mutex<Option<Instant>>,
    reader_arrived: Notify,
}

#[derive(Clone)]
pub(super) struct CachedStatus {
    /// The event `status`, or `trouble` with the reason why there is no status.
    pub(super) event: Bytes,
    seen: Option<Seen>,
    fresh: Fresh,
}

#[derive(Clone)]
struct Seen {
    status: Arc<Status>,
    /// The encoded status.
    tagged: Tagged,
}

/// Age of an answer of the core.
#[derive(Debug, Clone, Copy)]
pub(in crate::http) struct Fresh {
    begun: Instant,
    /// Number of decisions that the answer includes at least.
    decisions: u64,
}

impl Fresh {
    /// Returns the age of an answer to a request made now.
    pub(in crate::http) fn now(context: &ServerContext) -> Self {
        Self {
            begun: Instant::now(),
            decisions: context.decisions.count(),
        }
    }

    /// Whether the answer is recent and includes this number of decisions.
    pub(in crate::http) fn is_good(self, decisions: u64) -> bool {
        self.decisions >= decisions && self.begun.elapsed() < STATUS_TTL
    }
}

impl StatusCache {
    /// Starts the cache. Statuses are made as long as the runtime exists.
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

    /// Subscribes to new statuses; the first one follows soon.
    pub(super) fn follow(&self) -> watch::Receiver<Option<CachedStatus>> {
        let mut shown = self.0.shown.subscribe();
        shown.mark_changed();
        self.0.reader_arrived.notify_one();
        shown
    }

    /// Returns a status that includes all decisions before this call.
    pub(super) async fn status(&self) -> Result<Tagged, Problem> {
        *lock(&self.0.asked) = Some(Instant::now());
        Ok(self.seen().await?.tagged)
    }

    /// Returns the status for a monitor, which does not count as a client: no further status is made for it. Returns
    /// none if another coordinator leads, or the core is too busy.
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
                // Subscribers receive errors as events, and requests receive them as answers.
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

    /// Makes a status. One task at a time does so.
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

/// Encodes the status for events and for answers, on a thread that does not delay sessions of agents.
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

/// Formats an event; JSON fits on one line.
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
