//! The policy in force, and changes to it while the cluster runs.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::{HeaderMap, HeaderValue, header};
use reweave_common::operator::{PolicyStatus, Request, Response as Answer, SettingSource};
use reweave_common::setting_value::{setting_list, setting_value};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::problem::Problem;
use super::sealed;
use super::tagged::Tagged;
use super::visitor::Visitor;
use super::{ApiResult, Served};

/// No policy changes this often, so a request that expects this revision is refused.
const NO_REVISION: u64 = u64::MAX;

/// The header as a parameter in the API description; the code reads it from the headers.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct SeenPolicy {
    /// ETag of the policy as it was shown. Answers 412 if the policy has changed.
    #[param(
        rename = "If-Match",
        required = false,
        value_type = String,
        pattern = r#"^(\*|(W/)?"[!#-+\--~]*"( *, *(W/)?"[!#-+\--~]*")*)$"#
    )]
    #[expect(dead_code, reason = "it is read from the headers")]
    seen: Option<String>,
}

/// New values of settings.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewSettings {
    /// Values by key.
    settings: BTreeMap<String, SettingValue>,
}

/// A value as JSON, or the TOML text of one, as answers have it. Null returns the key to the value of the coordinator's
/// file, or to its default.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
#[serde(expecting = "a setting is true, false, a number, a text, a list of texts or null")]
enum SettingValue {
    Switch(bool),
    Number(f64),
    Text(String),
    Texts(Vec<String>),
    Reset,
}

impl SettingValue {
    /// Returns the value as TOML, or none for a reset.
    fn toml(self) -> Option<String> {
        match self {
            Self::Switch(is_on) => Some(is_on.to_string()),
            // Without a fraction if it has none, as keys of whole numbers need it.
            Self::Number(number) => Some(number.to_string()),
            Self::Text(text) => Some(setting_value(&text)),
            Self::Texts(texts) => Some(setting_list(texts)),
            Self::Reset => None,
        }
    }
}

type NewSettingsBody = Result<Json<NewSettings>, JsonRejection>;

/// TOML values by key.
type SettingTexts = BTreeMap<String, Option<String>>;

fn texts(body: NewSettingsBody) -> Result<SettingTexts, Problem> {
    let Json(NewSettings { settings }) = body.map_err(|error| Problem::bad_body(&error))?;
    let settings = settings.into_iter();
    Ok(settings.map(|(key, value)| (key, value.toml())).collect())
}

/// Returns every setting of the policy with its source, and who set it when.
///
/// The ETag is the revision, which rises with each change. It does not cover ages and the values of files, so
/// `If-None-Match` is ignored here.
#[utoipa::path(
    get,
    path = "/policy",
    responses((
        status = 200,
        description = "The policy in force",
        body = PolicyStatus,
        headers(("etag" = String, description = "Value for If-Match in a change"))
    ))
)]
pub(super) async fn policy(served: State<Served>, visitor: Visitor) -> ApiResult {
    let policy = asked(&served, &visitor, Request::Policy).await?;
    shown(&policy)
}

/// Sets these settings, and leaves all others as they are.
///
/// The leader uses them at once, and every later leader has them. With `If-Match`, answers 412 unless the policy still
/// has that ETag. Four settings cannot change while a plan is in progress. For operators.
#[utoipa::path(
    patch,
    path = "/policy",
    operation_id = "change_policy",
    params(SeenPolicy),
    request_body = NewSettings,
    responses((
        status = 200,
        description = "The policy after the change",
        body = PolicyStatus,
        headers(("etag" = String, description = "Value for If-Match in the next change"))
    ))
)]
pub(super) async fn change(
    served: State<Served>,
    visitor: Visitor,
    headers: HeaderMap,
    body: NewSettingsBody,
) -> ApiResult {
    let expected = expected(&headers)?;
    let settings = texts(body)?;
    set(&served, &visitor, settings, expected).await
}

/// Sets these settings, and returns all others to the value of the coordinator's file, or to their default.
///
/// Answers 412 if the policy no longer has the ETag of `If-Match`, or if it changes during the request. For operators.
#[utoipa::path(
    put,
    path = "/policy",
    operation_id = "replace_policy",
    params(SeenPolicy),
    request_body = NewSettings,
    responses((
        status = 200,
        description = "The policy after the change",
        body = PolicyStatus,
        headers(("etag" = String, description = "Value for If-Match in the next change"))
    ))
)]
pub(super) async fn replace(
    served: State<Served>,
    visitor: Visitor,
    headers: HeaderMap,
    body: NewSettingsBody,
) -> ApiResult {
    let expected = expected(&headers)?;
    let mut settings = texts(body)?;
    let present = asked(&served, &visitor, Request::Policy).await?;
    for setting in present.settings {
        if matches!(setting.source, SettingSource::Set) || setting.unfit.is_some() {
            settings.entry(setting.key).or_insert(None);
        }
    }
    // Other settings may have been set since `present`, up to the revision that the client has seen.
    let is_seen = expected.is_none_or(|expected| expected == present.revision);
    let expected = if is_seen {
        present.revision
    } else {
        NO_REVISION
    };
    set(&served, &visitor, settings, Some(expected)).await
}

async fn set(
    served: &Served,
    visitor: &Visitor,
    settings: SettingTexts,
    expected: Option<u64>,
) -> ApiResult {
    let request = Request::PolicySet { settings, expected };
    let policy = asked(served, visitor, request).await?;
    shown(&policy)
}

async fn asked(
    served: &Served,
    visitor: &Visitor,
    request: Request,
) -> Result<PolicyStatus, Problem> {
    match visitor.ask(&served.context, request).await? {
        Answer::Policy(policy) => Ok(policy),
        _ => Err(Problem::unexpected()),
    }
}

fn shown(policy: &PolicyStatus) -> ApiResult {
    let body = serde_json::to_vec(policy).ok();
    let revision = policy.revision.to_string();
    let tagged = body.and_then(|body| Tagged::sealed(body.into(), &revision));
    let tagged = tagged.ok_or_else(Problem::unexpected)?;
    // The file of another leader may have other values at the same revision, so no answer is 304.
    let mut response = tagged.answer(&HeaderMap::new());
    // A browser that stored the answer would show its ages for as long as the revision stays.
    let unstored = HeaderValue::from_static("no-store");
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, unstored);
    Ok(response)
}

/// Returns the revision that the headers require. Each change raises the revision, so the latest of several is the only
/// one that the policy may still have.
fn expected(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let tags = sealed::if_match(headers)?;
    Ok(tags.map(|tags| {
        let revisions = tags.iter().filter_map(|tag| revision(tag));
        revisions.max().unwrap_or(NO_REVISION)
    }))
}

/// Returns the revision with exactly this ETag.
fn revision(tag: &str) -> Option<u64> {
    let revision: u64 = tag.parse().ok()?;
    (revision.to_string() == tag).then_some(revision)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected_with(value: &'static str) -> Option<u64> {
        let value = HeaderValue::from_static(value);
        let headers = HeaderMap::from_iter([(header::IF_MATCH, value)]);
        expected(&headers).unwrap()
    }

    #[test]
    fn if_match_header_selects_policy_revision() {
        assert_eq!(expected(&HeaderMap::new()).ok(), Some(None));
        assert_eq!(expected_with("*"), None);
        assert_eq!(expected_with("\"7\""), Some(7));
        assert_eq!(expected_with("\"9\", \"12\", \"x\""), Some(12));
        for none in ["W/\"7\"", "\"07\"", "\"+7\"", "\"x\"", ""] {
            assert_eq!(expected_with(none), Some(NO_REVISION), "{none}");
        }
    }

    #[test]
    fn json_settings_become_toml() {
        for (json, toml) in [
            ("true", "true"),
            ("3", "3"),
            ("300.0", "300"),
            ("0.25", "0.25"),
            ("\"auto\"", "\"auto\""),
            ("\"\\\"auto\\\"\"", "\"auto\""),
            ("\"0.25\"", "0.25"),
            ("[\"Sat 22:00-06:00\"]", "[\"Sat 22:00-06:00\"]"),
        ] {
            let value: SettingValue = serde_json::from_str(json).unwrap();
            assert_eq!(value.toml().as_deref(), Some(toml), "{json}");
        }
        let reset: SettingValue = serde_json::from_str("null").unwrap();
        assert_eq!(reset.toml(), None);
        for wrong in ["{}", "[1]"] {
            let error = serde_json::from_str::<SettingValue>(wrong).unwrap_err();
            assert!(error.to_string().contains("a list of texts"), "{error}");
        }
    }
}
