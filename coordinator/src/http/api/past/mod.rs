//! The state of the cluster at a past moment, from the history.

mod shown;

use std::time::SystemTime;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use reweave_common::moment::Moment;
use reweave_history::{Kept, Kind, PastError, moment_of, written};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::problem::Problem;
use super::tagged::tagged;
use super::visitor::Visitor;
use super::{ApiResult, Options, Served, options};
use crate::archive::Unread;
use shown::{Was, was};

/// Periods with records in the history.
#[derive(Debug, Serialize, ToSchema)]
struct Spans {
    /// Time of the coordinator's clock.
    now: String,
    /// Finest resolution first, then earliest.
    spans: Vec<Span>,
}

/// A period with records.
#[derive(Debug, Serialize, ToSchema)]
struct Span {
    /// 1s, 10s or 5min.
    resolution: &'static str,
    from: String,
    to: String,
}

impl From<&Kept> for Span {
    fn from(kept: &Kept) -> Self {
        Self {
            resolution: kept.resolution.name(),
            from: written(kept.from),
            to: written(kept.to),
        }
    }
}

/// Returns the periods with records. Records of the last minute are not written yet.
#[utoipa::path(get, path = "/past/spans", responses((status = 200, description = "Periods with records", body = Spans)))]
pub(super) async fn spans(
    served: State<Served>,
    visitor: Visitor,
    headers: HeaderMap,
) -> ApiResult {
    visitor.name(&served.context).await?;
    let archive = &served.context.archive;
    let kept = archive.read(|past| past.kept(Kind::Links)).await?;
    let now = written(now());
    let spans = kept.iter().map(Span::from).collect();
    tagged(&headers, &Spans { now, spans })
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct When {
    /// Past moment: `2026-11-20T14:00:00Z`, or `15m` for 15 minutes ago.
    at: String,
}

/// Returns the load of links, rates of flows and probe results at a past moment, and recent decisions.
///
/// The data have the finest resolution that is kept. The fabric is the present one.
#[utoipa::path(get, path = "/past", params(When), responses((status = 200, description = "Past state of the cluster", body = Was)))]
pub(super) async fn past(
    served: State<Served>,
    visitor: Visitor,
    headers: HeaderMap,
    when: Options<When>,
) -> ApiResult {
    let at = moment(&options(when)?.at, SystemTime::now())?;
    visitor.name(&served.context).await?;
    let context = &served.context;
    let fabric = context.fabric.clone();
    let was = context
        .archive
        .read(move |past| was(past, &fabric, at))
        .await?;
    let nothing = || Problem::nothing_there(format!("no history of {}", written(at)));
    tagged(&headers, &was.ok_or_else(nothing)?)
}

/// Parses a moment, which must not be in the future.
pub(super) fn moment(text: &str, now: SystemTime) -> Result<Moment, Problem> {
    let at = moment_of(text, now).ok_or_else(|| {
        let ways = "write 2026-11-20T14:00:00Z, or 15m for 15 minutes ago";
        no_such_moment(format!("{text:?} is not a time: {ways}"))
    })?;
    if moment_of("0s", now).is_some_and(|now| at > now) {
        Err(no_such_moment(format!("{} is in the future", written(at))))
    } else {
        Ok(at)
    }
}

/// Returns the problem for text that is not a time. Its type matches the description, so the status is 422.
pub(super) fn no_such_moment(detail: String) -> Problem {
    let code = StatusCode::UNPROCESSABLE_ENTITY;
    Problem::new(code, "urn:reweave:no-such-moment", detail)
}

fn now() -> Moment {
    moment_of("0s", SystemTime::now()).unwrap_or_default()
}

impl From<Unread> for Problem {
    fn from(unread: Unread) -> Self {
        let (code, kind) = match &unread {
            Unread::NotKept => (StatusCode::NOT_FOUND, "urn:reweave:no-history"),
            Unread::Busy | Unread::Failed(PastError::Stopped) => {
                (StatusCode::SERVICE_UNAVAILABLE, "urn:reweave:busy-reading")
            }
            Unread::Failed(PastError::TooMuch { .. }) => {
                (StatusCode::UNPROCESSABLE_ENTITY, "urn:reweave:too-much")
            }
            Unread::Failed(PastError::NotBefore { .. }) => {
                let code = StatusCode::UNPROCESSABLE_ENTITY;
                (code, "urn:reweave:no-such-moment")
            }
            Unread::Failed(_) | Unread::Died => {
                (StatusCode::INTERNAL_SERVER_ERROR, "urn:reweave:unread")
            }
        };
        Self::new(code, kind, unread.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn future_moment_is_refused() {
        let now = UNIX_EPOCH + Duration::from_secs(1_795_183_200);
        let at = |text| moment(text, now).map(written);
        assert_eq!(
            at("2026-11-20T13:59:00Z").unwrap(),
            "2026-11-20T13:59:00.000000Z"
        );
        assert_eq!(at("2m").unwrap(), "2026-11-20T13:58:00.000000Z");
        for (text, says) in [
            ("yesterday", "\"yesterday\" is not a time"),
            ("", "is not a time"),
            ("2026-11-20T14:00:01Z", "is in the future"),
            ("1960-01-01T00:00:00Z", "is not a time"),
            ("99999999999999999999999h", "is not a time"),
        ] {
            let problem = serde_json::to_value(at(text).unwrap_err()).unwrap();
            assert_eq!(problem["status"], 422, "{problem}");
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.contains(says), "{detail}");
        }
    }
}
