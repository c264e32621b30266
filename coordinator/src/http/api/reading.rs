//! Requests that change nothing.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use reweave_common::flow::Protocol;
use reweave_common::member::Member;
use reweave_common::operator::{
    Between, Explanation, Findings, FlowEnd, Imbalances, JobStatus, Matrix, MeasuredPairs, Record,
    RegisteredJob, Request, Response as Answer, Status, TracedFlow,
};
use reweave_common::plan::Generation;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::events;
use super::fabric::Shown;
use super::problem::Problem;
use super::tagged::tagged;
use super::visitor::Visitor;
use super::{ApiResult, Name, Number, Options, Served, name, number, options};

/// Returns the name and role of the caller.
#[utoipa::path(get, path = "/me", responses((status = 200, description = "Name and role of the caller", body = Member)))]
pub(super) async fn me(served: State<Served>, visitor: Visitor) -> ApiResult {
    let member = visitor.name(&served.context).await?;
    Ok(Json(member).into_response())
}

/// Returns the status of the cluster, problems first.
///
/// Measurements are at most one second old; all decisions are included.
#[utoipa::path(get, path = "/status", responses((status = 200, description = "The state of the cluster", body = Status)))]
pub(super) async fn status(
    served: State<Served>,
    visitor: Visitor,
    headers: HeaderMap,
) -> ApiResult {
    visitor.may(&served.context, &Request::Status).await?;
    Ok(served.status_cache.status().await?.answer(&headers))
}

/// Returns the nodes, links and NICs of the fabric.
#[utoipa::path(get, path = "/fabric", responses((status = 200, description = "The fabric", body = Shown)))]
pub(super) async fn fabric(
    served: State<Served>,
    visitor: Visitor,
    headers: HeaderMap,
) -> ApiResult {
    visitor.name(&served.context).await?;
    tagged(&headers, &Shown::of(&served.context.fabric))
}

/// Returns the findings, and gaps in the measurements that may hide others.
#[utoipa::path(get, path = "/findings", responses((status = 200, description = "Findings", body = Findings)))]
pub(super) async fn findings(
    served: State<Served>,
    visitor: Visitor,
    headers: HeaderMap,
) -> ApiResult {
    match visitor.ask(&served.context, Request::Diagnose).await? {
        Answer::Findings(findings) => tagged(&headers, &findings),
        _ => Err(Problem::unexpected()),
    }
}

/// Selects the measurements of one rail.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct OfRail {
    /// Only NICs of this rail. Without it, all NICs for training.
    pub(super) rail: Option<u16>,
}

/// Returns latency, loss and bandwidth of each probed pair of hosts, over all rails or one.
#[utoipa::path(get, path = "/matrix", params(OfRail), responses((status = 200, description = "The pairs", body = Matrix)))]
pub(super) async fn matrix(
    served: State<Served>,
    visitor: Visitor,
    headers: HeaderMap,
    of: Options<OfRail>,
) -> ApiResult {
    let most = u32::MAX;
    let asked = match options(of)?.rail {
        Some(rail) => Request::RailMatrix { rail, most },
        None => Request::Matrix { most },
    };
    match visitor.ask(&served.context, asked).await? {
        Answer::Matrix(matrix) => tagged(&headers, &matrix),
        _ => Err(Problem::unexpected()),
    }
}

/// Returns the bandwidth between hosts and the median of their peers, slowest relative to peers first.
#[utoipa::path(get, path = "/pairs", responses((status = 200, description = "The pairs", body = MeasuredPairs)))]
pub(super) async fn pairs(
    served: State<Served>,
    visitor: Visitor,
    headers: HeaderMap,
) -> ApiResult {
    let asked = Request::Pairs { most: u32::MAX };
    match visitor.ask(&served.context, asked).await? {
        Answer::Pairs(pairs) => tagged(&headers, &pairs),
        _ => Err(Problem::unexpected()),
    }
}

/// Jobs by traffic, those with the highest rate first, and registered jobs.
#[derive(Debug, Serialize, ToSchema)]
struct Jobs {
    jobs: Vec<JobStatus>,
    registered: Vec<RegisteredJob>,
}

/// Returns the jobs that traffic shows, with promised and measured rates, and the registered jobs.
#[utoipa::path(get, path = "/jobs", responses((status = 200, description = "The jobs", body = Jobs)))]
pub(super) async fn jobs(served: State<Served>, visitor: Visitor, headers: HeaderMap) -> ApiResult {
    let seen = visitor.ask(&served.context, Request::Jobs).await?;
    let report = visitor.ask(&served.context, Request::Registered).await?;
    match (seen, report) {
        (Answer::Jobs(jobs), Answer::Registered(registered)) => {
            tagged(&headers, &Jobs { jobs, registered })
        }
        _ => Err(Problem::unexpected()),
    }
}

/// Returns how evenly large flows are spread over equivalent links, per layer.
#[utoipa::path(get, path = "/imbalance", responses((status = 200, description = "The flow imbalance metric", body = Imbalances)))]
pub(super) async fn imbalance(
    served: State<Served>,
    visitor: Visitor,
    headers: HeaderMap,
) -> ApiResult {
    match visitor.ask(&served.context, Request::Imbalance).await? {
        Answer::Imbalances(found) => tagged(&headers, &found),
        _ => Err(Problem::unexpected()),
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Ends {
    /// Name or address of the sending host.
    from: String,
    /// Name or address of the receiving host.
    to: String,
    /// Source port. Together with `port` it also selects a flow that does not exist.
    #[param(minimum = 1)]
    source_port: Option<u16>,
    /// Destination port.
    #[param(minimum = 1)]
    port: Option<u16>,
    /// Protocol of the flows.
    protocol: Option<Protocol>,
    /// Start a new trace, which takes some seconds. For operators.
    #[serde(default)]
    refresh: bool,
}

/// Traced paths in both directions.
#[derive(Debug, Serialize, ToSchema)]
struct Traces {
    flows: Vec<TracedFlow>,
}

/// Returns the last traced paths of flows between two hosts, node by node, in both directions.
#[utoipa::path(get, path = "/traces", params(Ends), responses((status = 200, description = "The paths", body = Traces)))]
pub(super) async fn traces(
    served: State<Served>,
    visitor: Visitor,
    headers: HeaderMap,
    ends: Options<Ends>,
) -> ApiResult {
    let ends = options(ends)?;
    if [ends.source_port, ends.port].contains(&Some(0)) {
        return Err(Problem::bad_request("ports are 1 to 65535"));
    }
    let end = |host, port| FlowEnd { host, port };
    let between = Between {
        protocol: ends.protocol,
        from: end(ends.from, ends.source_port),
        to: end(ends.to, ends.port),
    };
    let refresh = ends.refresh;
    match visitor
        .ask(&served.context, Request::Trace { between, refresh })
        .await?
    {
        Answer::Traced(flows) => tagged(&headers, &Traces { flows }),
        _ => Err(Problem::unexpected()),
    }
}

/// Returns why a job is slow: from its slowest collective to the link and the cause.
#[utoipa::path(
    get,
    path = "/explanations/{job}",
    params(("job" = String, Path, description = "Registered name of the job, or one of its hosts")),
    responses((status = 200, description = "Explanation", body = Explanation))
)]
pub(super) async fn explanation(
    served: State<Served>,
    visitor: Visitor,
    headers: HeaderMap,
    path: Name,
) -> ApiResult {
    let job = name(path)?;
    let detail = format!("{job} has no large flows to other hosts now");
    let asked = Request::Explain { job, hosts: vec![] };
    match visitor.ask(&served.context, asked).await? {
        Answer::Explanation(Some(report)) => tagged(&headers, &report),
        Answer::Explanation(None) => Err(Problem::nothing_there(detail)),
        _ => Err(Problem::unexpected()),
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    /// Only changes older than this generation.
    before: Option<u64>,
}

/// Changes, newest first, as many as fit into one answer.
#[derive(Debug, Serialize, ToSchema)]
struct History {
    history: Vec<Record>,
}

/// Returns the changes, newest first.
///
/// `before` selects older changes.
#[utoipa::path(get, path = "/history", params(Page), responses((status = 200, description = "The changes", body = History)))]
pub(super) async fn history(
    served: State<Served>,
    visitor: Visitor,
    headers: HeaderMap,
    page: Options<Page>,
) -> ApiResult {
    let before = options(page)?.before.map(Generation);
    let asked = Request::History { before };
    match visitor.ask(&served.context, asked).await? {
        Answer::History(history) => tagged(&headers, &History { history }),
        _ => Err(Problem::unexpected()),
    }
}

/// Returns the record of one plan.
#[utoipa::path(
    get,
    path = "/history/{generation}",
    params(("generation" = u64, Path, description = "Generation of the plan")),
    responses((status = 200, description = "The record", body = Record))
)]
pub(super) async fn record(
    served: State<Served>,
    visitor: Visitor,
    headers: HeaderMap,
    path: Number,
) -> ApiResult {
    let generation = number(path)?;
    let asked = Request::Record { generation };
    match visitor.ask(&served.context, asked).await? {
        Answer::Record(Some(record)) => tagged(&headers, &record),
        Answer::Record(None) => {
            let detail = format!("no plan {generation}");
            Err(Problem::nothing_there(detail))
        }
        _ => Err(Problem::unexpected()),
    }
}

/// Sends events: `status` after each change, at most twice a second, and `trouble` with a problem if there is no
/// status.
#[utoipa::path(
    get,
    path = "/events",
    responses((status = 200, description = "Events", body = String, content_type = "text/event-stream"))
)]
pub(super) async fn events(State(served): State<Served>, visitor: Visitor) -> ApiResult {
    visitor.name(&served.context).await?;
    Ok(events::follow(
        &served.status_cache,
        visitor,
        served.context,
    ))
}
