//! The OpenAPI 3.1 description of the API.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response as Answer};
use axum::routing::get;
use axum::{Json, Router};
use bytes::Bytes;
use reweave_common::plan::Generation;
use serde::Serialize;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{KnownFormat, Schema, SchemaFormat};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Components, ComponentsBuilder, ContentBuilder, Info, OpenApi, OpenApiBuilder, Ref, RefOr,
    Required, Response, ResponseBuilder, Server,
};
use utoipa::{PartialSchema, ToSchema};

use super::problem::Problem;
use super::{Served, hooked};

pub(super) const API_ROOT: &str = "/api/v1";

/// Returns the URL of the record of this change.
pub(super) fn record(generation: Generation) -> String {
    format!("{API_ROOT}/history/{generation}")
}

/// Returns 202 with the URL of the record if there is a plan, because the plan is not over. Without a plan, returns
/// 200.
pub(super) fn led_to(generation: Option<Generation>, body: impl Serialize) -> Answer {
    let Some(generation) = generation else {
        return Json(body).into_response();
    };
    let place = [(header::LOCATION, record(generation))];
    (StatusCode::ACCEPTED, place, Json(body)).into_response()
}

const API_DESCRIPTION: &str = "The requests of the command line. `reweave dashboard` makes a \
    token with the permissions of the caller's role. Over TLS, the certificate of an operator or \
    a viewer works as well. A follower answers 503 with the address of the leader.";
const TOKEN_SCHEME: &str = "token";
const CERTIFICATE_SCHEME: &str = "certificate";
const PROBLEM_RESPONSE: &str = "Problem";

/// Serves the description without a token.
pub(super) fn routes(document: OpenApi) -> Router<Served> {
    let document = serde_json::to_value(finished(document)).unwrap_or_default();
    let document = Bytes::from(hooked::with_webhooks(document).to_string());
    let kind = (header::CONTENT_TYPE, "application/json");
    let describe = move || async move { ([kind], document).into_response() };
    Router::new().route("/openapi.json", get(describe))
}

/// Returns the common parts of the description.
pub(super) fn head() -> OpenApi {
    let mut info = Info::new("Reweave", env!("CARGO_PKG_VERSION"));
    info.description = Some(API_DESCRIPTION.to_owned());
    OpenApiBuilder::new()
        .info(info)
        .servers(Some([Server::new(API_ROOT)]))
        .components(Some(shared()))
        .security(Some(
            [TOKEN_SCHEME, CERTIFICATE_SCHEME].map(|way| SecurityRequirement::new(way, [""; 0])),
        ))
        .build()
}

fn shared() -> Components {
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    ComponentsBuilder::new()
        .security_scheme(TOKEN_SCHEME, SecurityScheme::Http(bearer))
        .security_scheme(CERTIFICATE_SCHEME, certificate())
        .schema(Problem::name(), Problem::schema())
        .response(PROBLEM_RESPONSE, problem())
        .build()
}

fn certificate() -> SecurityScheme {
    SecurityScheme::MutualTls {
        description: Some("Of an operator or a viewer of the cluster".to_owned()),
        deprecated: None,
        extensions: None,
    }
}

fn problem() -> Response {
    let schema = Ref::from_schema_name(Problem::name());
    let content = ContentBuilder::new().schema(Some(schema)).build();
    ResponseBuilder::new()
        .description("Error and remedy")
        .content("application/problem+json", content)
        .build()
}

/// Adds the responses that every operation has: a problem, and 304 for reads.
fn finished(mut document: OpenApi) -> OpenApi {
    for item in document.paths.paths.values_mut() {
        if let Some(read) = &mut item.get {
            let unchanged = Response::new("Not modified, by `If-None-Match`");
            add(read, "304", unchanged);
            read.parameters
                .get_or_insert_default()
                .push(known_already().into());
            add(read, "default", Ref::from_response_name(PROBLEM_RESPONSE));
        }
        let changes = [
            &mut item.post,
            &mut item.put,
            &mut item.patch,
            &mut item.delete,
        ];
        for change in changes.into_iter().flatten() {
            add(change, "default", Ref::from_response_name(PROBLEM_RESPONSE));
        }
        let all = [
            &mut item.get,
            &mut item.post,
            &mut item.put,
            &mut item.patch,
            &mut item.delete,
        ];
        for operation in all.into_iter().flatten() {
            for parameter in operation.parameters.iter_mut().flatten() {
                bound(parameter);
            }
        }
    }
    document
}

fn known_already() -> Parameter {
    ParameterBuilder::new()
        .name("If-None-Match")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(
            "ETags of answers that the client has, or *: 304 if one matches",
        ))
        .schema(Some(String::schema()))
        .build()
}

/// Adds the upper limit of an integer type, because larger numbers are refused.
fn bound(parameter: &mut RefOr<Parameter>) {
    if let RefOr::T(Parameter { schema, .. }) = parameter
        && let Some(RefOr::T(Schema::Object(number))) = schema
    {
        number.maximum = match number.format {
            Some(SchemaFormat::KnownFormat(KnownFormat::UInt16)) => Some(u16::MAX.into()),
            Some(SchemaFormat::KnownFormat(KnownFormat::UInt64)) => Some(u64::MAX.into()),
            _ => return,
        };
    }
}

fn add(operation: &mut Operation, code: &str, response: impl Into<RefOr<Response>>) {
    let responses = &mut operation.responses.responses;
    responses.insert(code.to_owned(), response.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_response_has_location() {
        let begun = led_to(Some(Generation(7)), "begun");
        assert_eq!(begun.status(), 202);
        assert_eq!(begun.headers()[header::LOCATION], "/api/v1/history/7");
        let nothing = led_to(None, "begun");
        assert_eq!(nothing.status(), 200);
        assert!(!nothing.headers().contains_key(header::LOCATION));
    }
}
