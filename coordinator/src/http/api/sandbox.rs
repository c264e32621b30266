//! The sandbox: simulates past traffic, flows, a job or a trace with variants. The core is asked only to identify the
//! client, and only the client gets the result.

mod plays;
mod recorded;
mod scene;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest as _, Request as HttpRequest, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use reweave_common::moment::Moment;
use reweave_common::operator::Request;
use reweave_history::{Kind, Past, Question, moment_of, written};
use reweave_sim::engine::network::Costs;
use reweave_sim::sandbox::{Effort, VariantFile};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::changing::planned;
use super::idempotency::{Idempotency, Key};
use super::problem::Problem;
use super::visitor::Visitor;
use super::{ApiResult, Served};
use crate::archive::Unread;
use crate::exclusive_job::Undone;
use plays::Play;
use recorded::Trace;
use scene::{Scene, Source};

/// Time limit of a simulation. Idle connections are closed after 30 s.
pub(super) const PLAY_TIMEOUT: Duration = Duration::from_secs(25);
/// Maximum size of a request: a trace in base64, and its settings.
pub(super) const MAX_BODY_BYTES: usize = 10 << 20;
const MAX_BURSTS: usize = 20_000;
/// Maximum number of link visits; a core visits some 20 million per second.
const MAX_LINK_VISITS: u64 = 400_000_000;

type JsonBody<T> = Result<Json<T>, JsonRejection>;

/// Traffic to simulate: a past period (`from` and `to`), `flows`, a `job`, or a `trace`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Plays {
    /// Start of the period: `2026-11-20T14:00:00Z`, or `15m` for 15 minutes ago.
    from: Option<String>,
    to: Option<String>,
    /// Flow table, as for `reweave sim flows`.
    flows: Option<String>,
    /// Job file, as for `reweave sim job`.
    job: Option<String>,
    /// Timings of a job of operators. They replace the file that the job names.
    profile: Option<String>,
    trace: Option<Trace>,
    /// Fabric for flows, a job or a trace; by default that of the cluster. Variants refer to it as `fabric.toml` and
    /// `recorded`.
    fabric: Option<String>,
    /// At most four variants.
    #[schema(min_items = 1, max_items = 4)]
    variants: Vec<Otherwise>,
}

/// A variant.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Otherwise {
    name: String,
    /// Variant, as for `reweave sim history --with`. `fabric.toml` is the cluster's own fabric, unless `files` has that
    /// name.
    variant: String,
    /// Fabric files that the variant names.
    #[serde(default)]
    files: BTreeMap<String, String>,
}

/// Results of a simulation.
#[derive(Debug, Default, Serialize, ToSchema)]
struct Played {
    /// Start of the period. This field and the next two are present only for past traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    /// 1s, 10s or 5min.
    #[serde(skip_serializing_if = "Option::is_none")]
    resolution: Option<&'static str>,
    /// Part of the period with records, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    covered_percent: Option<f64>,
    /// Results in the order of the request.
    variants: Vec<Fared>,
}

#[derive(Debug, Serialize, ToSchema)]
struct Fared {
    name: String,
    /// Output of `reweave --output json sim history`, `sim flows`, `sim job` or `sim trace`, with only the largest
    /// bursts and without `apiVersion`.
    #[schema(value_type = Option<Object>)]
    compared: Option<Value>,
    /// Reason why there is no result.
    problem: Option<String>,
}

/// Simulates past traffic, flows, a job or a trace, with the original settings and with each variant.
///
/// The cluster is unchanged. The period is at most one hour, and one simulation runs at a time.
#[utoipa::path(
    post,
    path = "/sandbox",
    request_body = Plays,
    responses((status = 200, description = "Results", body = Played))
)]
pub(super) async fn play(
    State(served): State<Served>,
    visitor: Visitor,
    sent: HttpRequest,
) -> ApiResult {
    // Only known clients may send as much data.
    visitor.name(&served.context).await?;
    let asked = Json::<Plays>::from_request(sent, &()).await;
    let Json(mut asked) = asked.map_err(|error| Problem::bad_body(&error))?;
    let play = asked.play(SystemTime::now())?;
    let (source, mut played, until) = match play {
        Play::Past(span) => {
            let (source, played) = past(&served, span).await?;
            (source, played, Some(span[1]))
        }
        Play::Sent(sent) => (Source::Sent(sent), Played::default(), None),
    };
    let own = served.context.fabric.clone();
    let moved = moved(&served, until).await?;
    let playing = served.sandbox.work(move |goes_on| {
        let scene = Scene::set(source, asked.fabric.as_deref(), own, moved)?;
        let each = asked.variants.iter();
        let played = each.map(|it| it.played(&scene, &goes_on));
        Ok::<_, Problem>(played.collect())
    });
    played.variants = playing.await??;
    Ok(Json(played).into_response())
}

async fn past(served: &Served, [from, to]: [Moment; 2]) -> Result<(Source, Played), Problem> {
    let question = Question {
        from,
        to,
        resolution: None,
        kinds: vec![Kind::Flows],
    };
    let reading = served.context.archive.read(move |past| {
        let window = past.look(&question)?;
        let covered = past.covered([from, to], window.resolution)?;
        Ok((window, covered))
    });
    let (window, covered) = reading.await?;
    let bursts = window.bursts();
    if bursts.len() > MAX_BURSTS {
        let detail = format!(
            "{} bursts are more than {MAX_BURSTS}: use a shorter span",
            bursts.len()
        );
        return Err(too_much(detail));
    }
    let played = Played {
        from: Some(written(from)),
        to: Some(written(to)),
        resolution: Some(window.resolution.name()),
        covered_percent: Some(covered.share() * 100.0),
        variants: Vec::new(),
    };
    Ok((Source::Past { bursts, from }, played))
}

/// Returns the commands that moved circuits until then, or until now, as far as the history has them.
async fn moved(served: &Served, until: Option<Moment>) -> Result<Vec<String>, Problem> {
    if served.context.fabric.opticals().len() == 0 {
        return Ok(Vec::new());
    }
    let until = until.or_else(|| moment_of("0s", SystemTime::now()));
    let reading = move |past: &Past| past.circuits_moved(until.unwrap_or_default());
    match served.context.archive.read(reading).await {
        Err(Unread::NotKept) => Ok(Vec::new()),
        moved => Ok(moved?),
    }
}

fn too_much(detail: impl Into<String>) -> Problem {
    refused("urn:reweave:too-much", detail)
}

fn refused(kind: &'static str, detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, kind, detail)
}

impl From<Undone> for Problem {
    fn from(undone: Undone) -> Self {
        let detail = match undone {
            Undone::Busy => "another simulation is running: try again",
            Undone::Died => "the simulation has died",
        };
        let code = StatusCode::SERVICE_UNAVAILABLE;
        Self::new(code, "urn:reweave:busy-playing", detail)
    }
}

impl Otherwise {
    fn played(&self, scene: &Scene, goes_on: &dyn Fn() -> bool) -> Fared {
        let mut effort = Effort {
            costs: Costs::default(),
            limit: MAX_LINK_VISITS,
            watch: &mut |_| goes_on(),
        };
        let report = self.compared(scene, &mut effort);
        Fared {
            name: self.name.clone(),
            problem: report.as_ref().err().cloned(),
            compared: report.ok(),
        }
    }
}

/// A variant that a client asks for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// Text of the variant.
    variant: String,
}

/// Makes a plan that drains the links which a variant removes. Changes nothing yet.
///
/// Changes of paths, hosts, hashes and fabrics cannot be planned and are refused. For operators.
#[utoipa::path(
    post,
    path = "/sandbox/plan",
    params(Key),
    request_body = Wanted,
    responses((status = 200, description = "A plan, or none", body = super::changing::Planned))
)]
pub(super) async fn promote(
    served: State<Served>,
    visitor: Visitor,
    headers: HeaderMap,
    asked: JsonBody<Wanted>,
) -> ApiResult {
    let idempotency = Idempotency::asked(&headers, &visitor, "")?;
    let Json(Wanted { variant }) = asked.map_err(|error| Problem::bad_body(&error))?;
    let links = doing_without(&variant)?;
    let idempotency = idempotency.about(format!("without {links:?}, by a variant"));
    let asked = planned(served.0.clone(), visitor, Request::Drain { links });
    served.answers.answer(idempotency, asked).await
}

/// Returns the links that the variant removes, if it changes nothing else.
fn doing_without(variant: &str) -> Result<Vec<String>, Problem> {
    let file = VariantFile::parse("variant", variant);
    let file = file.map_err(|error| refused("urn:reweave:no-such-variant", error.to_string()))?;
    let (links, beyond) = (file.without(), file.beyond_plans());
    let detail = match (links.is_empty(), beyond.is_empty()) {
        (false, true) => return Ok(links),
        (_, false) => format!(
            "no plan can apply {} of the variant: a plan can only drain links, those under \
             `without`",
            beyond.join(", ")
        ),
        (true, true) => "the variant has no effect: name links under `without`".to_owned(),
    };
    Err(refused("urn:reweave:not-a-plan", detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn problem<T>(outcome: Result<T, Problem>) -> (u64, String) {
        let problem = outcome.err().expect("it is refused");
        let answer = serde_json::to_value(problem).unwrap();
        let detail = answer["detail"].as_str().unwrap().to_owned();
        (answer["status"].as_u64().unwrap(), detail)
    }

    #[test]
    fn only_feasible_variants_become_plans() {
        let wanted = |text: &str| doing_without(&format!("recorded = \"f.toml\"\n{text}"));
        let links = wanted("without = [\"leaf0-spine0\"]\n").unwrap();
        assert_eq!(links, ["leaf0-spine0"]);
        let (status, detail) = problem(wanted(
            "without = [\"leaf0-spine0\"]\nrouting = \"even\"\n[hosts]\nh0 = \"h1\"\n",
        ));
        assert!(
            status == 422 && detail.contains("apply routing, hosts of"),
            "{detail}"
        );
        let (status, detail) = problem(wanted(""));
        assert!(
            status == 422 && detail.contains("has no effect"),
            "{detail}"
        );
        assert_eq!(problem(doing_without("x = 1")).0, 422);
    }
}
