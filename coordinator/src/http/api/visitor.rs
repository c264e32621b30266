//! Authentication over HTTP: a token whose digest the cluster has, or a certificate over TLS.

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderName};
use reweave_common::member::{Digest, Member};
use reweave_common::operator::{Refused, Request, Response};
use reweave_link::access_token::AccessToken;

use super::problem::Problem;
use crate::http;
use crate::http::tls_listener::Shown;
use crate::intake::Asker;
use crate::server_context::ServerContext;

/// Header in which browsers report whether a request comes from a page of the same origin.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Visitor {
    Token(Digest),
    Member(Member),
}

impl Visitor {
    /// Returns the identity of a client. A token wins over a certificate.
    pub(super) fn of(headers: &HeaderMap, extensions: &Extensions) -> Result<Self, Problem> {
        let shown = extensions.get::<ConnectInfo<Shown>>();
        let member = shown.and_then(|ConnectInfo(it)| it.member.clone());
        match member {
            Some(member) if !headers.contains_key(AUTHORIZATION) => {
                if is_of_page(headers) {
                    Ok(Self::Member(member))
                } else {
                    Err(Problem::other_site())
                }
            }
            _ => Self::by_token(headers),
        }
    }

    fn by_token(headers: &HeaderMap) -> Result<Self, Problem> {
        let value = headers.get(AUTHORIZATION).and_then(|it| it.to_str().ok());
        let visit: AccessToken = value
            .and_then(token)
            .and_then(|token| token.parse().ok())
            .ok_or_else(Problem::no_token)?;
        Ok(Self::Token(visit.digest()))
    }

    pub(super) fn asker(&self) -> Asker {
        match self {
            Self::Token(digest) => Asker::Visitor(*digest),
            Self::Member(member) => Asker::Member(member.clone()),
        }
    }

    /// Sends a request to the core, and returns a refusal as a problem.
    pub(super) async fn ask(
        &self,
        context: &ServerContext,
        request: Request,
    ) -> Result<Response, Problem> {
        match http::ask(context, self.asker(), request).await {
            None => Err(Problem::no_answer()),
            Some(Response::Refused(refused)) => Err(refused.into()),
            Some(response) => Ok(response),
        }
    }

    /// Checks that the client has permission and that this coordinator leads, without making an answer.
    pub(super) async fn may(
        &self,
        context: &ServerContext,
        request: &Request,
    ) -> Result<(), Problem> {
        let role = self.name(context).await?.role;
        if request.may_be_asked_by(role) {
            Ok(())
        } else {
            Err(Refused::NotAllowed {
                role: role.to_string(),
            }
            .into())
        }
    }

    pub(super) async fn name(&self, context: &ServerContext) -> Result<Member, Problem> {
        match self.ask(context, Request::WhoAmI).await? {
            Response::You(member) => Ok(member),
            _ => Err(Problem::unexpected()),
        }
    }
}

/// Returns the token of a scheme `Bearer`, in any case and before any number of spaces (RFC 9110, section 11).
fn token(credentials: &str) -> Option<&str> {
    let (scheme, token) = credentials.split_once(' ')?;
    let is_bearer = scheme.eq_ignore_ascii_case("bearer");
    is_bearer.then(|| token.trim_start_matches(' '))
}

/// Whether a request comes from this page. Browsers present a certificate for requests of any page, and a page of
/// another origin does not act for the operator.
fn is_of_page(headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().ok());
    let site = text(SEC_FETCH_SITE).is_none_or(|site| matches!(site, Some("same-origin" | "none")));
    let ours = text(HOST).flatten().map(|host| format!("https://{host}"));
    site && text(ORIGIN).is_none_or(|origin| origin.is_some() && origin == ours.as_deref())
}

impl<S: Sync> FromRequestParts<S> for Visitor {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Self::of(&parts.headers, &parts.extensions)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn is_ours(headers: &[(HeaderName, &'static str)]) -> bool {
        let mut map = HeaderMap::new();
        map.insert(HOST, HeaderValue::from_static("c0:7335"));
        for (name, value) in headers {
            map.insert(name, HeaderValue::from_static(value));
        }
        is_of_page(&map)
    }

    #[test]
    fn cross_site_certificate_request_is_refused() {
        assert!(is_ours(&[]), "no browser");
        assert!(is_ours(&[
            (SEC_FETCH_SITE, "same-origin"),
            (ORIGIN, "https://c0:7335")
        ]));
        assert!(is_ours(&[(SEC_FETCH_SITE, "none")]), "a user has typed it");
        for site in ["cross-site", "same-site", "else", ""] {
            assert!(!is_ours(&[(SEC_FETCH_SITE, site)]), "{site}");
        }
        for origin in [
            "https://c0",
            "http://c0:7335",
            "https://evil.example",
            "null",
            "",
        ] {
            assert!(!is_ours(&[(ORIGIN, origin)]), "{origin}");
        }
    }
}
