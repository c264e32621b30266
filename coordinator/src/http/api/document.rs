//! The API's description of itself, as OpenAPI 3.1 has it.

use axum::http::header;
use axum::routing::get;
use axum::{Router, response::IntoResponse};
use bytes::Bytes;
use reweave_common::plan::Generation;
use utoipa::openapi::path::Operation;
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
    may connect: what their role may do, the token may. A coordinator that does not lead answers \
    503 and says who does.";
const TOKEN: &str = "token";
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
        .security(Some([SecurityRequirement::new(TOKEN, [""; 0])]))
        .build()
}

fn shared() -> Components {
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    ComponentsBuilder::new()
        .security_scheme(TOKEN, SecurityScheme::Http(bearer))
        .schema(Problem::name(), Problem::schema())
        .response(PROBLEM, problem())
        .build()
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
        if let Some(change) = &mut item.post {
            add(change, "default", Ref::from_response_name(PROBLEM));
        }
    }
    document
}

fn add(operation: &mut Operation, code: &str, response: impl Into<RefOr<Response>>) {
    let responses = &mut operation.responses.responses;
    responses.insert(code.to_owned(), response.into());
}
