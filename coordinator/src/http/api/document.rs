//! The API's description of itself, as OpenAPI 3.1 has it.

use axum::http::header;
use axum::routing::get;
use axum::{Router, response::IntoResponse};
use bytes::Bytes;
use reweave_common::plan::Generation;
use utoipa::openapi::path::{Operation, Parameter};
use utoipa::openapi::schema::{KnownFormat, Schema, SchemaFormat};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Components, ComponentsBuilder, ContentBuilder, Info, OpenApi, OpenApiBuilder, Ref, RefOr,
    Response, ResponseBuilder, Server,
};
use utoipa::{PartialSchema, ToSchema};

use super::Served;
use super::problem::Problem;

pub(super) const ROOT: &str = "/api/v1";

/// Where the record of this change is.
pub(super) fn record(generation: Generation) -> String {
    format!("{ROOT}/history/{generation}")
}

const ABOUT: &str = "Asks what the command line asks. `reweave dashboard` makes a token for whoever \
    may connect: what their role may do, the token may. Over TLS the certificate of an operator or a \
    viewer does, too. A coordinator that does not lead answers \
    503 and says who does.";
const TOKEN: &str = "token";
const CERTIFICATE: &str = "certificate";
const PROBLEM: &str = "Problem";

/// Nobody needs a token to learn what could be asked.
pub(super) fn routes(document: OpenApi) -> Router<Served> {
    let document = Bytes::from(finished(document).to_json().unwrap_or_default());
    let kind = (header::CONTENT_TYPE, "application/json");
    let told = move || async move { ([kind], document).into_response() };
    Router::new().route("/openapi.json", get(told))
}

/// What is said once of all that is served.
pub(super) fn head() -> OpenApi {
    let mut info = Info::new("Reweave", env!("CARGO_PKG_VERSION"));
    info.description = Some(ABOUT.to_owned());
    OpenApiBuilder::new()
        .info(info)
        .servers(Some([Server::new(ROOT)]))
        .components(Some(shared()))
        .security(Some(
            [TOKEN, CERTIFICATE].map(|way| SecurityRequirement::new(way, [""; 0])),
        ))
        .build()
}

fn shared() -> Components {
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    ComponentsBuilder::new()
        .security_scheme(TOKEN, SecurityScheme::Http(bearer))
        .security_scheme(CERTIFICATE, certificate())
        .schema(Problem::name(), Problem::schema())
        .response(PROBLEM, problem())
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
        .description("What went wrong, and what to do")
        .content("application/problem+json", content)
        .build()
}

/// Whatever is asked may be refused, and what is read may not have changed.
fn finished(mut document: OpenApi) -> OpenApi {
    for item in document.paths.paths.values_mut() {
        if let Some(read) = &mut item.get {
            let unchanged = Response::new("As it was, by `If-None-Match`");
            add(read, "304", unchanged);
            add(read, "default", Ref::from_response_name(PROBLEM));
        }
        let changes = [&mut item.post, &mut item.put, &mut item.delete];
        for change in changes.into_iter().flatten() {
            add(change, "default", Ref::from_response_name(PROBLEM));
        }
        let all = [
            &mut item.get,
            &mut item.post,
            &mut item.put,
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

/// A number is refused that is larger than its type.
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
