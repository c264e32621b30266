//! The sandbox: traffic of the past, played with variants. Nothing here asks the core for anything but who
//! asks; what comes of it is told to them alone.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use reweave_common::fabric::Fabric;
use reweave_common::moment::Moment;
use reweave_common::operator::Request;
use reweave_common::traffic::Burst;
use reweave_history::{Kind, Question, written};
use reweave_planner::sandbox::{Compared, Effort, Traffic, Variant, VariantFile, compare};
use reweave_planner::sim::network::Costs;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::changing::planned;
use super::past::{moment, no_such_moment};
use super::problem::Problem;
use super::visitor::Visitor;
use super::{Answered, Served};
use crate::desk::Undone;

/// Connections over which nothing goes for half a minute end.
pub(super) const LONGEST: Duration = Duration::from_secs(25);
const LONGEST_SPAN: Duration = Duration::from_hours(1);
const MOST_VARIANTS: usize = 4;
const MOST_BURSTS: usize = 20_000;
/// Links looked at; a core looks at some 20 million a second.
const MOST_WORK: u64 = 400_000_000;
/// As many as people look at, the largest first.
const TOLD_BURSTS: usize = 50;
/// What variants call the fabric of this cluster.
const OWN_FABRIC: &str = "fabric.toml";

type Asked<T> = Result<Json<T>, JsonRejection>;

/// What is to be played.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Plays {
    /// `2026-11-20T14:00:00Z`, or `15m` for so long ago.
    from: String,
    to: String,
    /// At most four.
    #[schema(min_items = 1, max_items = 4)]
    variants: Vec<Otherwise>,
}

/// What is to be otherwise.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Otherwise {
    name: String,
    /// As `reweave sim history --with` takes it. `fabric.toml` is the cluster's own fabric, unless a file here
    /// is called so.
    variant: String,
    /// Fabrics that it names.
    #[serde(default)]
    files: BTreeMap<String, String>,
}

/// How the same traffic fared.
#[derive(Debug, Serialize, ToSchema)]
struct Played {
    from: String,
    to: String,
    /// 1s, 10s or 5min.
    resolution: &'static str,
    /// In the order in which they were asked for.
    variants: Vec<Fared>,
}

#[derive(Debug, Serialize, ToSchema)]
struct Fared {
    name: String,
    /// What `reweave --output json sim history` prints, with the largest bursts alone.
    #[schema(value_type = Option<Object>)]
    compared: Option<Value>,
    /// Why there is nothing of it.
    problem: Option<String>,
}

/// Plays what was sent in a stretch of the past: as it was, and as each variant has it. Nothing of the cluster
/// is changed. An hour at most, and one at a time.
#[utoipa::path(
    post,
    path = "/sandbox",
    request_body = Plays,
    responses((status = 200, description = "How it fared", body = Played))
)]
pub(super) async fn play(
    State(served): State<Served>,
    visitor: Visitor,
    asked: Asked<Plays>,
) -> Answered {
    let Json(asked) = asked.map_err(|error| Problem::bad_request(error.body_text()))?;
    let [from, to] = span(&asked, SystemTime::now())?;
    visitor.name(&served.house).await?;
    let question = Question {
        from,
        to,
        resolution: None,
        kinds: vec![Kind::Flows],
    };
    let reading = served.house.archive.read(move |past| past.look(&question));
    let window = reading.await?;
    let resolution = window.resolution.name();
    let bursts = window.bursts();
    if bursts.len() > MOST_BURSTS {
        let detail = format!(
            "{} bursts are more than {MOST_BURSTS}: take less time",
            bursts.len()
        );
        return Err(too_much(detail));
    }
    let fabric = served.house.fabric.clone();
    let playing = served.sandbox.work(move |goes_on| {
        let each = asked.variants.iter();
        let played = each.map(|it| it.played(&fabric, &bursts, from, &goes_on));
        played.collect::<Vec<_>>()
    });
    let variants = playing.await?;
    let [from, to] = [from, to].map(written);
    let played = Played {
        from,
        to,
        resolution,
        variants,
    };
    Ok(Json(played).into_response())
}

fn span(asked: &Plays, now: SystemTime) -> Result<[Moment; 2], Problem> {
    let span = [moment(&asked.from, now)?, moment(&asked.to, now)?];
    let [from, to] = span;
    match (from < to, asked.variants.len()) {
        (false, _) => {
            let [from, to] = span.map(written);
            Err(no_such_moment(format!("{from} is not before {to}")))
        }
        (_, 0) => Err(Problem::bad_request("there is no variant to play")),
        (_, many) if many > MOST_VARIANTS => {
            let detail = format!("{many} variants are more than {MOST_VARIANTS}");
            Err(Problem::bad_request(detail))
        }
        _ if to.since(from) > LONGEST_SPAN => {
            Err(too_much("more than an hour is too much to play here"))
        }
        _ => Ok(span),
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
            Undone::Busy => "somebody else plays just now: try again",
            Undone::Died => "whatever played has died",
        };
        let code = StatusCode::SERVICE_UNAVAILABLE;
        Self::new(code, "urn:reweave:busy-playing", detail)
    }
}

impl Otherwise {
    fn played(
        &self,
        fabric: &Fabric,
        bursts: &[Burst],
        from: Moment,
        goes_on: &dyn Fn() -> bool,
    ) -> Fared {
        let mut effort = Effort {
            costs: Costs::default(),
            limit: MOST_WORK,
            watch: &mut |_| goes_on(),
        };
        let compared = self.variant(fabric).and_then(|variant| {
            let traffic = Traffic::seen(bursts, from, &variant.recorded);
            let compared = compare(&traffic, &variant, &mut effort);
            compared.map_err(|error| error.to_string())
        });
        let told = compared.and_then(told);
        Fared {
            name: self.name.clone(),
            problem: told.as_ref().err().cloned(),
            compared: told.ok(),
        }
    }

    fn variant(&self, fabric: &Fabric) -> Result<Variant, String> {
        let file = VariantFile::parse(&self.name, &self.variant).map_err(|it| it.to_string())?;
        let recorded = file.recorded().map_err(|it| it.to_string())?;
        let names = [recorded, file.fabric().unwrap_or(recorded)];
        let [recorded, other] = names.map(|name| match self.files.get(name) {
            Some(text) => Fabric::parse(name, text).map_err(|error| error.to_string()),
            None if name == OWN_FABRIC => Ok(fabric.clone()),
            None => Err(format!(
                "{name:?} is none of the files sent, and the cluster's own fabric is {OWN_FABRIC:?}"
            )),
        });
        file.on([recorded?, other?]).map_err(|it| it.to_string())
    }
}

fn told(mut compared: Compared) -> Result<Value, String> {
    compared
        .bursts
        .sort_by_key(|it| std::cmp::Reverse(it.bytes));
    compared.bursts.truncate(TOLD_BURSTS);
    serde_json::to_value(&compared).map_err(|error| error.to_string())
}

/// A variant that somebody wants.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// Its text.
    variant: String,
}

/// Plans that nothing is sent over the links that a variant does without; nothing is changed yet. What it says
/// besides of ways, hosts, hashes and fabrics no plan can bring about, and it is refused. For operators.
#[utoipa::path(
    post,
    path = "/sandbox/plan",
    request_body = Wanted,
    responses((status = 200, description = "A plan, or none", body = super::changing::Planned))
)]
pub(super) async fn promote(
    served: State<Served>,
    visitor: Visitor,
    asked: Asked<Wanted>,
) -> Answered {
    let Json(Wanted { variant }) =
        asked.map_err(|error| Problem::bad_request(error.body_text()))?;
    let links = doing_without(&variant)?;
    planned(&served, &visitor, Request::Drain { links }).await
}

/// The links that a plan can lead traffic away from, if that is all that is wanted.
fn doing_without(variant: &str) -> Result<Vec<String>, Problem> {
    let file = VariantFile::parse("variant", variant);
    let file = file.map_err(|error| refused("urn:reweave:no-such-variant", error.to_string()))?;
    let (links, beyond) = (file.without(), file.beyond_plans());
    let detail = match (links.is_empty(), beyond.is_empty()) {
        (false, true) => return Ok(links),
        (_, false) => format!(
            "no plan can bring about what the variant says of {}: a plan leads traffic away from \
             links, those under `without`",
            beyond.join(", ")
        ),
        (true, true) => "the variant changes nothing: name links under `without`".to_owned(),
    };
    Err(refused("urn:reweave:not-a-plan", detail))
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn problem<T>(outcome: Result<T, Problem>) -> (u64, String) {
        let problem = outcome.err().expect("it is refused");
        let told = serde_json::to_value(problem).unwrap();
        let detail = told["detail"].as_str().unwrap().to_owned();
        (told["status"].as_u64().unwrap(), detail)
    }

    #[test]
    fn only_what_a_plan_can_do_becomes_one() {
        let wanted = |text: &str| doing_without(&format!("recorded = \"f.toml\"\n{text}"));
        let links = wanted("without = [\"leaf0-spine0\"]\n").unwrap();
        assert_eq!(links, ["leaf0-spine0"]);
        let (status, detail) = problem(wanted(
            "without = [\"leaf0-spine0\"]\nrouting = \"even\"\n[hosts]\nh0 = \"h1\"\n",
        ));
        assert!(
            status == 422 && detail.contains("says of routing, hosts: "),
            "{detail}"
        );
        let (status, detail) = problem(wanted(""));
        assert!(
            status == 422 && detail.contains("changes nothing"),
            "{detail}"
        );
        assert_eq!(problem(doing_without("x = 1")).0, 422);
    }

    #[test]
    fn no_more_is_played_than_somebody_has_patience_for() {
        let now = UNIX_EPOCH + Duration::from_secs(1_795_183_200);
        let asked = |from: &str, to: &str, variants: usize| {
            let variant = || Otherwise {
                name: "v".to_owned(),
                variant: String::new(),
                files: BTreeMap::new(),
            };
            let asked = Plays {
                from: from.to_owned(),
                to: to.to_owned(),
                variants: (0..variants).map(|_| variant()).collect(),
            };
            span(&asked, now)
        };
        assert!(asked("1h", "0s", 4).is_ok());
        for (from, to, variants, status, says) in [
            ("1h", "0s", 5, 400, "5 variants are more than 4"),
            ("1h", "0s", 0, 400, "no variant"),
            ("1m", "2m", 1, 422, "is not before"),
            ("then", "2m", 1, 422, "no moment"),
            ("2h", "0s", 1, 422, "more than an hour"),
        ] {
            let told = problem(asked(from, to, variants));
            assert!(told.0 == status && told.1.contains(says), "{told:?}");
        }
    }
}
