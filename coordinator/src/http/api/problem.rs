//! Problem details (RFC 9457): one format for every refusal, with the remedy.

use std::net::SocketAddr;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use reweave_common::operator::Refused;
use serde::Serialize;
use utoipa::ToSchema;

/// Seconds until a retry: an election takes about as long.
const RETRY_AFTER_S: u16 = 1;

/// Problem details of RFC 9457.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Problem {
    /// Type of the problem for programs. Its meaning never changes.
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    /// Address of the leader, in answers of a follower.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    leader: Option<SocketAddr>,
    #[serde(skip)]
    code: StatusCode,
}

const NO_ANSWER: &str = "urn:reweave:no-answer";

impl Problem {
    pub(super) fn new(code: StatusCode, kind: &'static str, detail: impl Into<String>) -> Self {
        Self {
            kind,
            title: code.canonical_reason().unwrap_or("Problem"),
            status: code.as_u16(),
            detail: detail.into(),
            leader: None,
            code,
        }
    }

    pub(super) fn detail(&self) -> &str {
        &self.detail
    }

    pub(super) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "urn:reweave:bad-request", detail)
    }

    /// Returns the problem for an invalid or too large body.
    pub(super) fn bad_body(error: &JsonRejection) -> Self {
        let (code, detail) = (error.status(), without_types(&error.body_text()));
        match code {
            StatusCode::PAYLOAD_TOO_LARGE => Self::new(code, "urn:reweave:too-large", detail),
            _ => Self::bad_request(detail),
        }
    }

    pub(super) fn nothing_there(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "urn:reweave:nothing-there", detail)
    }

    pub(super) fn too_often() -> Self {
        let detail = "rate limit of this token exceeded: wait, and send fewer requests";
        let code = StatusCode::TOO_MANY_REQUESTS;
        Self::new(code, "urn:reweave:too-often", detail)
    }

    pub(super) fn no_token() -> Self {
        let detail = "this needs a token: send `Authorization: Bearer TOKEN`; `reweave dashboard` \
             makes one. Over TLS, the certificate of an operator or a viewer works as well";
        Self::new(StatusCode::UNAUTHORIZED, "urn:reweave:no-token", detail)
    }

    pub(super) fn other_site() -> Self {
        let detail = "cross-site request: certificates are accepted only from pages of this site";
        Self::new(StatusCode::FORBIDDEN, "urn:reweave:other-site", detail)
    }

    /// Whether the request may have been processed, or may still be.
    pub(super) fn is_unknown(&self) -> bool {
        self.kind == NO_ANSWER
    }

    pub(super) fn no_answer() -> Self {
        let detail = "the coordinator does not answer in time";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, NO_ANSWER, detail)
    }

    pub(super) fn unexpected() -> Self {
        let detail = "unexpected answer from the coordinator";
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "urn:reweave:unexpected",
            detail,
        )
    }
}

/// The words in which serde refuses a value, without the names of types, which clients do not know.
fn without_types(words: &str) -> String {
    const EXPECTATIONS: [(&str, &str); 3] = [
        ("expected struct ", "expected an object"),
        ("expected tuple struct ", "expected a list"),
        ("expected enum ", "expected another value"),
    ];
    for (typed, plain) in EXPECTATIONS {
        if let Some((before, named)) = words.split_once(typed) {
            let after = named.find(' ').map_or("", |end| &named[end..]);
            return format!("{before}{plain}{after}");
        }
    }
    words.to_owned()
}

/// Type of a problem with a job's well-formed but impossible values.
pub(super) const BAD_JOB: &str = "urn:reweave:bad-job";
const TOO_MANY_JOBS: &str = "urn:reweave:too-many-jobs";
const CLUSTER_VERSION_TOO_LOW: &str = "urn:reweave:cluster-version-too-low";
const BAD_SETTING: &str = "urn:reweave:bad-setting";
const POLICY_CHANGED: &str = "urn:reweave:policy-changed";
const NO_BETTER_CIRCUITS: &str = "urn:reweave:no-better-circuits";

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        let (code, kind) = code_and_kind(&refused);
        let leader = match refused {
            Refused::NotLeading { leader } => leader,
            _ => None,
        };
        Self {
            leader,
            ..Self::new(code, kind, refused.to_string())
        }
    }
}

fn code_and_kind(refused: &Refused) -> (StatusCode, &'static str) {
    match refused {
        Refused::NoVisitor => (StatusCode::UNAUTHORIZED, "urn:reweave:no-visitor"),
        Refused::NotAllowed { .. } | Refused::NoVisit { .. } => {
            (StatusCode::FORBIDDEN, "urn:reweave:not-allowed")
        }
        Refused::NoPlan => (StatusCode::NOT_FOUND, "urn:reweave:no-plan"),
        Refused::NotUnderWay { .. } => (StatusCode::NOT_FOUND, "urn:reweave:not-under-way"),
        Refused::NotStopped { .. } => (StatusCode::CONFLICT, "urn:reweave:not-stopped"),
        Refused::GoesBack { .. } => (StatusCode::CONFLICT, "urn:reweave:goes-back"),
        Refused::ClusterVersionTooLow { .. } => (StatusCode::CONFLICT, CLUSTER_VERSION_TOO_LOW),
        Refused::NoBetterCircuits { .. } => (StatusCode::CONFLICT, NO_BETTER_CIRCUITS),
        Refused::ChangedMeanwhile { .. } => (
            StatusCode::PRECONDITION_FAILED,
            "urn:reweave:changed-meanwhile",
        ),
        Refused::OtherPlan { .. } => (StatusCode::CONFLICT, "urn:reweave:other-plan"),
        Refused::NoSuchSwitch { .. } => (StatusCode::NOT_FOUND, "urn:reweave:no-such-switch"),
        Refused::NoSuchHost { .. } => (StatusCode::NOT_FOUND, "urn:reweave:no-such-host"),
        Refused::NoSuchLink { .. } => (StatusCode::NOT_FOUND, "urn:reweave:no-such-link"),
        Refused::WhichAddress { .. } => (StatusCode::BAD_REQUEST, "urn:reweave:which-address"),
        Refused::NoWayBack(_) => (StatusCode::CONFLICT, "urn:reweave:no-way-back"),
        Refused::CutOff { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "urn:reweave:cut-off"),
        Refused::NotAround { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "urn:reweave:not-around"),
        Refused::NotToMaintain { .. } => (StatusCode::NOT_FOUND, "urn:reweave:no-such-switch"),
        Refused::NotUnderMaintenance { .. } => {
            (StatusCode::NOT_FOUND, "urn:reweave:not-under-maintenance")
        }
        Refused::UnderMaintenance { .. } => (StatusCode::CONFLICT, "urn:reweave:under-maintenance"),
        Refused::OutOfHours { .. } => (StatusCode::CONFLICT, "urn:reweave:out-of-hours"),
        Refused::NoJob { .. } => (StatusCode::NOT_FOUND, "urn:reweave:no-job"),
        Refused::OtherJob { .. } => (StatusCode::CONFLICT, "urn:reweave:other-job"),
        Refused::NotReordered { .. } => (StatusCode::CONFLICT, "urn:reweave:not-reordered"),
        Refused::NoBetterOrder { .. } => (StatusCode::CONFLICT, "urn:reweave:no-better-order"),
        Refused::NotRegistered { .. } => (StatusCode::NOT_FOUND, "urn:reweave:not-registered"),
        Refused::TooManyJobs { .. } => (StatusCode::INSUFFICIENT_STORAGE, TOO_MANY_JOBS),
        Refused::NoSuchJob { .. } => (StatusCode::UNPROCESSABLE_ENTITY, BAD_JOB),
        Refused::NotEmpty { .. } => (StatusCode::CONFLICT, "urn:reweave:not-empty"),
        Refused::Contradicted { .. } => {
            (StatusCode::UNPROCESSABLE_ENTITY, "urn:reweave:contradicted")
        }
        Refused::BadSetting { .. } => (StatusCode::UNPROCESSABLE_ENTITY, BAD_SETTING),
        Refused::PolicyChanged { .. } => (StatusCode::PRECONDITION_FAILED, POLICY_CHANGED),
        Refused::SettingInUse { .. } => (StatusCode::CONFLICT, "urn:reweave:setting-in-use"),
        Refused::NothingToChange => (StatusCode::CONFLICT, "urn:reweave:nothing-to-change"),
        Refused::TooWide { .. } => (StatusCode::CONFLICT, "urn:reweave:too-wide"),
        Refused::Busy { .. } => (StatusCode::CONFLICT, "urn:reweave:busy"),
        Refused::Unfit { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "urn:reweave:unfit"),
        Refused::DiskFull => (StatusCode::INSUFFICIENT_STORAGE, "urn:reweave:disk-full"),
        Refused::NotLeading { .. } => (StatusCode::SERVICE_UNAVAILABLE, "urn:reweave:not-leading"),
        Refused::NoSuchMember { .. }
        | Refused::TooLong { .. }
        | Refused::TooManyTokens { .. }
        | Refused::TooManyRevoked { .. }
        | Refused::Oneself
        | Refused::TooManyVisitors { .. }
        | Refused::CannotSign { .. }
        | Refused::VersionStays { .. }
        | Refused::Membership { .. } => (StatusCode::BAD_REQUEST, "urn:reweave:refused"),
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let code = self.code;
        let mut response = (code, Json(self)).into_response();
        let headers = response.headers_mut();
        let kind = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, kind);
        match code {
            StatusCode::UNAUTHORIZED => {
                let scheme = HeaderValue::from_static("Bearer");
                headers.insert(header::WWW_AUTHENTICATE, scheme);
            }
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                headers.insert(header::RETRY_AFTER, RETRY_AFTER_S.into());
            }
            _ => {}
        }
        response
    }
}
