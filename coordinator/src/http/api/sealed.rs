//! Offered plans with an `ETag`, and approvals of exactly the plan that was shown.

use axum::extract::State;
use axum::http::{HeaderMap, header};
use reweave_common::operator::{Approval, Outcome, Plan, Request, Response as Answer};
use reweave_common::plan::Generation;
use utoipa::IntoParams;

use super::problem::Problem;
use super::tagged::Tagged;
use super::visitor::Visitor;
use super::{ApiResult, Number, Served, document, number};

/// The header as a parameter in the API description; the code reads it from the headers.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct Seen {
    /// ETag of the plan as it was shown. Answers 412 if the plan has changed.
    #[param(
        rename = "If-Match",
        required = false,
        value_type = String,
        pattern = r#"^(\*|(W/)?"[!#-+\--~]*"( *, *(W/)?"[!#-+\--~]*")*)$"#
    )]
    #[expect(dead_code, reason = "it is read from the headers")]
    seen: Option<String>,
}

/// Returns an offered plan with its changes, predictions and affected jobs.
///
/// Its ETag covers all of that except the number of flows of a job that send now.
#[utoipa::path(
    get,
    path = "/plans/{generation}",
    params(("generation" = u64, Path, description = "Generation of the plan")),
    responses((
        status = 200,
        description = "The plan",
        body = Plan,
        headers(("etag" = String, description = "Value for If-Match in an approval"))
    ))
)]
pub(super) async fn offer(
    served: State<Served>,
    visitor: Visitor,
    headers: HeaderMap,
    path: Number,
) -> ApiResult {
    let generation = number(path)?;
    let asked = Request::Record { generation };
    match visitor.ask(&served.context, asked).await? {
        Answer::Record(Some(record)) if record.outcome == Outcome::Offered => {
            shown(&headers, &record.plan)
        }
        Answer::Record(record) => {
            let place = record.map(|_| format!(": see {}", document::record(generation)));
            let place = place.unwrap_or_default();
            let detail = format!("plan {generation} is not on offer{place}");
            Err(Problem::nothing_there(detail))
        }
        _ => Err(Problem::unexpected()),
    }
}

fn shown(headers: &HeaderMap, plan: &Plan) -> ApiResult {
    let body = serde_json::to_vec(plan).ok();
    let tagged = body.and_then(|body| Tagged::sealed(body.into(), &plan.seal));
    Ok(tagged.ok_or_else(Problem::unexpected)?.answer(headers))
}

/// Returns the approval request for these headers.
pub(super) fn asked(
    headers: &HeaderMap,
    generation: Generation,
    approval: Approval,
) -> Result<Request, Problem> {
    Ok(match if_match(headers)? {
        Some(seals) => approval.of_sealed(generation, seals),
        None => approval.of(generation),
    })
}

/// Returns the ETags of the `If-Match` headers. None if any state will do: without such a header, or with `*`.
pub(super) fn if_match(headers: &HeaderMap) -> Result<Option<Vec<String>>, Problem> {
    let mut all = Vec::new();
    for value in headers.get_all(header::IF_MATCH) {
        match value.to_str().ok().map(str::trim) {
            Some("*") => return Ok(None),
            Some(tags) => all.extend(tags_of(tags)?),
            None => return Err(no_tag()),
        }
    }
    Ok(headers.contains_key(header::IF_MATCH).then_some(all))
}

/// Returns the ETags of a header. A weak one equals none (RFC 9110, section 13.1.1). Empty list elements are ignored
/// (5.6.1.2).
fn tags_of(text: &str) -> Result<Vec<String>, Problem> {
    let mut tags = Vec::new();
    let elements = text.split(',').map(str::trim);
    for tag in elements.filter(|it| !it.is_empty()) {
        let (strong, quoted) = match tag.strip_prefix("W/") {
            Some(quoted) => (false, quoted),
            None => (true, tag),
        };
        let inner = quoted.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
        let inner = inner.filter(|it| !it.contains('"')).ok_or_else(no_tag)?;
        tags.extend(strong.then(|| inner.to_owned()));
    }
    Ok(tags)
}

fn no_tag() -> Problem {
    Problem::bad_request("If-Match must be * or a list of ETags in quotes, as GET gives one")
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn asked_with(values: &[&'static str]) -> Option<Request> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::IF_MATCH, HeaderValue::from_static(value));
        }
        asked(&headers, Generation(7), Approval::default()).ok()
    }

    #[test]
    fn if_match_header_selects_approved_plan() {
        let plain = Approval::default().of(Generation(7));
        assert_eq!(asked_with(&[]), Some(plain.clone()));
        assert_eq!(asked_with(&[" * "]), Some(plain));
        let sealed = |seals: &[&str]| {
            let seals = seals.iter().map(|it| (*it).to_owned()).collect();
            Some(Approval::default().of_sealed(Generation(7), seals))
        };
        assert_eq!(asked_with(&["\"a\""]), sealed(&["a"]));
        assert_eq!(
            asked_with(&["\"a\", W/\"b\"", "\"c\""]),
            sealed(&["a", "c"])
        );
        assert_eq!(asked_with(&["W/\"b\""]), sealed(&[]));
        assert_eq!(asked_with(&[""]), sealed(&[]));
        assert_eq!(asked_with(&["\"a\",, "]), sealed(&["a"]));
        for bad in ["a", "\"a", "\"", "\"a\"b\"", "w/\"a\""] {
            assert_eq!(asked_with(&[bad]), None, "{bad}");
        }
    }
}
