//! Who asks over HTTP: whoever has a token that the cluster knows the digest of.

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use reweave_common::member::{Digest, Member};
use reweave_common::operator::{Request, Response};
use reweave_link::visit::Visit;

use super::problem::Problem;
use crate::house::House;
use crate::http;
use crate::intake::Asker;

#[derive(Debug, Clone, Copy)]
pub(super) struct Visitor(Digest);

impl Visitor {
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let value = headers.get(AUTHORIZATION).and_then(|it| it.to_str().ok());
        let token = value.and_then(|value| value.strip_prefix("Bearer "));
        let visit: Visit = token
            .and_then(|token| token.parse().ok())
            .ok_or_else(Problem::no_token)?;
        Ok(Self(visit.digest()))
    }

    pub(super) fn digest(self) -> Digest {
        self.0
    }

    pub(super) fn asker(self) -> Asker {
        Asker::Visitor(self.0)
    }

    /// What the core refuses is a problem.
    pub(super) async fn ask(self, house: &House, request: Request) -> Result<Response, Problem> {
        match http::ask(house, self.asker(), request).await {
            None => Err(Problem::no_answer()),
            Some(Response::Refused(refused)) => Err(refused.into()),
            Some(response) => Ok(response),
        }
    }

    pub(super) async fn name(self, house: &House) -> Result<Member, Problem> {
        match self.ask(house, Request::WhoAmI).await? {
            Response::You(member) => Ok(member),
            _ => Err(Problem::unexpected()),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Visitor {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Self::of(&parts.headers)
    }
}
