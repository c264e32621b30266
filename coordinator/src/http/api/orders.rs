//! Requests of orchestrators: registration and phases of jobs, and checks before placement.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use reweave_common::operator::{
    Allocation, JobOrder, RegisteredJob, Request, Response as Answer, StartedJob,
};
use reweave_common::units::Rate;
use reweave_formats::hostlist::unfold;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::idempotency::{Idempotency, Key};
use super::problem::{BAD_JOB, Problem};
use super::tagged::tagged;
use super::visitor::Visitor;
use super::{ApiResult, Name, Options, Served, document, name, options};

/// Maximum rate in Gb/s, more than any port has.
const MAX_RATE_GBPS: f64 = 100_000.0;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Gate {
    /// Hosts as a Slurm hostlist: `node[01-04,07]`.
    hosts: String,
    /// Name of the job. If it is registered on these hosts, its first order is returned.
    job: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Hosts {
    /// Hosts in rank order, as a Slurm hostlist: `node[01-04,07]`.
    hosts: String,
    /// Allow another rank order. The answer has the best order as of now, which stays fixed.
    #[serde(default)]
    reorder: bool,
}

/// Returns the problem for well-formed input with impossible values.
fn unfit(detail: String) -> Problem {
    let code = StatusCode::UNPROCESSABLE_ENTITY;
    Problem::new(code, BAD_JOB, detail)
}

fn all(hosts: &str) -> Result<Vec<String>, Problem> {
    unfold(hosts).map_err(|error| unfit(format!("hosts: {error}")))
}

/// Checks whether hosts are fit for a job, and returns problems and the best rank order.
#[utoipa::path(get, path = "/gate", params(Gate), responses((status = 200, description = "Problems and rank order of the hosts", body = Allocation)))]
pub(super) async fn gate(
    served: State<Served>,
    visitor: Visitor,
    headers: HeaderMap,
    asked: Options<Gate>,
) -> ApiResult {
    let asked = options(asked)?;
    let hosts = all(&asked.hosts)?;
    let request = Request::Gate {
        hosts,
        job: asked.job,
    };
    match visitor.ask(&served.context, request).await? {
        Answer::Allocation(report) => tagged(&headers, &report),
        _ => Err(Problem::unexpected()),
    }
}

/// Registers a job and its hosts in rank order.
///
/// A repeated request confirms that the job still runs. For operators.
#[utoipa::path(
    put,
    path = "/jobs/{job}",
    operation_id = "register_job",
    params(("job" = String, Path, description = "Name of the job"), Hosts),
    responses((status = 200, description = "The job", body = RegisteredJob))
)]
pub(super) async fn register(
    served: State<Served>,
    visitor: Visitor,
    path: Name,
    hosts: Options<Hosts>,
) -> ApiResult {
    let Hosts { hosts, reorder } = options(hosts)?;
    let order = JobOrder::Register {
        hosts: all(&hosts)?,
        may_reorder: reorder,
    };
    order_job(&served, &visitor, name(path)?, order).await
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Phase {
    /// Name of the phase.
    name: String,
    /// Rate from each host to the next around a ring, in Gb/s. Without it, nothing is predicted.
    ring_gbps: Option<f64>,
}

impl Phase {
    fn order(self) -> Result<JobOrder, Problem> {
        let rate = |gbps: f64| {
            if gbps > 0.0 && gbps <= MAX_RATE_GBPS {
                Ok(Rate::from_bits_per_s((gbps * 1e9) as u64))
            } else {
                Err(unfit(format!("ring_gbps: {gbps} is not a rate")))
            }
        };
        Ok(JobOrder::Phase {
            ring_bits_per_s: self.ring_gbps.map(rate).transpose()?,
            name: self.name,
        })
    }
}

/// Announces the next traffic phase of a job.
///
/// For operators.
#[utoipa::path(
    put,
    path = "/jobs/{job}/phase",
    operation_id = "enter_phase",
    params(("job" = String, Path, description = "Name of the job"), Phase),
    responses((status = 200, description = "The job", body = RegisteredJob))
)]
pub(super) async fn phase(
    served: State<Served>,
    visitor: Visitor,
    path: Name,
    phase: Options<Phase>,
) -> ApiResult {
    let order = options(phase)?.order()?;
    order_job(&served, &visitor, name(path)?, order).await
}

async fn order_job(served: &Served, visitor: &Visitor, job: String, order: JobOrder) -> ApiResult {
    match visitor
        .ask(&served.context, Request::Job { job, order })
        .await?
    {
        Answer::Registered(mut report) if !report.is_empty() => {
            Ok(Json(report.swap_remove(0)).into_response())
        }
        _ => Err(Problem::unexpected()),
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Wish {
    /// What may be changed for the job.
    #[param(inline)]
    #[serde(default)]
    topology: Topology,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum Topology {
    /// Routes, chosen by the planner.
    #[default]
    Auto,
    /// Nothing.
    None,
}

/// Plans routes for a job, and applies the plan if the policy allows it.
///
/// For operators.
#[utoipa::path(
    post,
    path = "/jobs/{job}/start",
    operation_id = "start_job",
    params(("job" = String, Path, description = "Name of the job"), Wish, Key),
    responses(
        (status = 200, description = "No change, with the reason", body = StartedJob),
        (
            status = 202,
            description = "A change has started",
            body = StartedJob,
            headers(("location" = String, description = "URL of the record of the change"))
        )
    )
)]
pub(super) async fn start(
    served: State<Served>,
    visitor: Visitor,
    headers: HeaderMap,
    path: Name,
    wish: Options<Wish>,
) -> ApiResult {
    let (job, Wish { topology }) = (name(path)?, options(wish)?);
    let idempotency =
        Idempotency::asked(&headers, &visitor, &format!("start of {job}, {topology:?}"))?;
    let may_change = matches!(topology, Topology::Auto);
    let order = JobOrder::Start { may_change };
    let answer = started(served.0.clone(), visitor, job, order);
    served.answers.answer(idempotency, answer).await
}

async fn started(served: Served, visitor: Visitor, job: String, order: JobOrder) -> ApiResult {
    let answer = visitor.ask(&served.context, Request::Job { job, order });
    let Answer::Started(started) = answer.await? else {
        return Err(Problem::unexpected());
    };
    Ok(document::led_to(started.generation, started))
}

/// Ends a job: predictions and freezes for it end.
///
/// A repeated request, or one for an unknown job, changes nothing. For operators.
#[utoipa::path(
    delete,
    path = "/jobs/{job}",
    operation_id = "end_job",
    params(("job" = String, Path, description = "Name of the job")),
    responses((status = 204, description = "The job has ended"))
)]
pub(super) async fn end(served: State<Served>, visitor: Visitor, path: Name) -> ApiResult {
    let (job, order) = (name(path)?, JobOrder::End);
    match visitor
        .ask(&served.context, Request::Job { job, order })
        .await?
    {
        Answer::Registered(_) => Ok(StatusCode::NO_CONTENT.into_response()),
        _ => Err(Problem::unexpected()),
    }
}
