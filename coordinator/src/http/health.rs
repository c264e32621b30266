//! Health and metrics: read only, without secrets.
//!
//! The metrics serve what `reweave status` shows. A status that was made a moment ago is reused.

use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRef, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use reweave_common::member::{Member, Role};
use reweave_common::operator::{Refused, Request, Response as Answer};
use tokio::sync::Mutex;

use super::api::{Fresh, StatusCache};
use super::metrics::{self, Log, Sight, Work};
use crate::intake::Asker;
use crate::server_context::ServerContext;

/// The content type of the Prometheus text format.
const EXPOSITION_CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) fn routes(context: ServerContext, status_cache: StatusCache) -> Router {
    let watched = Watched {
        context,
        status_cache,
        cached_work: Arc::default(),
    };
    Router::new()
        .route("/healthz", get(health))
        .route("/readyz", get(readiness))
        .route("/metrics", get(metrics))
        .with_state(watched)
}

/// Serves health and metrics before the log is read and the core exists.
pub(super) fn too_early() -> Router {
    let metrics = || async { exposition(&metrics::text(&Sight::default())) };
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/metrics", get(metrics))
        .fallback(|| async { unavailable("no connection to the other coordinators yet") })
}

/// Answers 200: if this runs, so does the runtime that serves peers.
async fn health(State(context): State<ServerContext>) -> Response {
    if context.intake.is_open() {
        "ok\n".into_response()
    } else {
        unavailable("the event loop has ended")
    }
}

/// Answers 200 if the log has been read and the core keeps up.
async fn readiness(State(context): State<ServerContext>) -> Response {
    // The cheapest request is enough: a full status costs a hundred times as much.
    match ask(&context, Request::WhoAmI).await {
        Some(Answer::You(_) | Answer::Refused(Refused::NotLeading { leader: Some(_) })) => {
            "ready\n".into_response()
        }
        Some(_) => unavailable("no leader"),
        None => unavailable("the core does not answer"),
    }
}

/// Returns the metrics. A follower knows few, and says so. Metrics that need no core are served even while the core is
/// busy: an operator then wants to know whether the log advances.
async fn metrics(State(watched): State<Watched>) -> Response {
    let context = &watched.context;
    let status = watched.status_cache.passing().await;
    let work = match status {
        Some(_) => Some(watched.work().await),
        None => None,
    };
    let Some(replicated) = context.replication.status().await else {
        return unavailable("the log writer has ended");
    };
    let raft_counts = context.replication.raft_counts();
    exposition(&metrics::text(&Sight {
        leads: status.is_some() || replicated.leader == Some(replicated.id),
        status: status.as_deref(),
        work: work.as_deref(),
        log: Some(Log {
            status: &replicated,
            raft_counts: &raft_counts,
        }),
        disk_is_full: context.cluster.borrow().disk_is_full,
        counts: context.intake.counts(),
        sessions: context.open_sessions.open_by_key(),
        local_health: context.local_health.clone(),
        endings: context.endings.clone(),
        deliveries: context.deliveries.clone(),
    }))
}

/// Metrics cache: one status serves all monitors that ask at about the same time.
#[derive(Clone)]
struct Watched {
    context: ServerContext,
    status_cache: StatusCache,
    cached_work: Arc<Mutex<Option<CachedWork>>>,
}

struct CachedWork {
    fresh: Fresh,
    work: Arc<Work>,
}

impl FromRef<Watched> for ServerContext {
    fn from_ref(watched: &Watched) -> Self {
        watched.context.clone()
    }
}

impl Watched {
    async fn work(&self) -> Arc<Work> {
        let decisions = self.context.decisions.count();
        let mut cached = self.cached_work.lock().await;
        if let Some(cached) = &*cached
            && cached.fresh.is_good(decisions)
        {
            return Arc::clone(&cached.work);
        }
        let fresh = Fresh::now(&self.context);
        let work = Arc::new(work(&self.context).await);
        *cached = Some(CachedWork {
            fresh,
            work: Arc::clone(&work),
        });
        work
    }
}

async fn work(context: &ServerContext) -> Work {
    let imbalances = match ask(context, Request::Imbalance).await {
        Some(Answer::Imbalances(found)) => Some(found),
        _ => None,
    };
    let found = match ask(context, Request::Diagnose).await {
        Some(Answer::Findings(found)) => Some(found),
        _ => None,
    };
    let jobs = match ask(context, Request::Jobs).await {
        Some(Answer::Jobs(jobs)) => jobs,
        _ => vec![],
    };
    let most = u32::MAX;
    let nics = match ask(context, Request::Nics { from_nic: 0, most }).await {
        Some(Answer::Nics(nics)) => nics,
        _ => vec![],
    };
    Work {
        imbalances,
        found,
        jobs,
        nics,
    }
}

fn exposition(text: &str) -> Response {
    (
        [(header::CONTENT_TYPE, EXPOSITION_CONTENT_TYPE)],
        text.to_owned(),
    )
        .into_response()
}

fn unavailable(why: &'static str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response()
}

async fn ask(context: &ServerContext, request: Request) -> Option<Answer> {
    let viewer = Asker::Member(Member::new(Role::Viewer, "http"));
    super::ask(context, viewer, request).await
}
