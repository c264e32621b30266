//! The page from `web/`, built into the program, so that nothing is loaded from elsewhere.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use reweave_common::cause::Class;

/// The page loads nothing from other origins, and text in names or labels cannot run as a script.
const CONTENT_SECURITY_POLICY_VALUE: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML_TYPE: &str = "text/html; charset=utf-8";
const CSS_TYPE: &str = "text/css; charset=utf-8";
const SCRIPT_TYPE: &str = "text/javascript; charset=utf-8";
const SVG_TYPE: &str = "image/svg+xml";

macro_rules! assets {
    ($($path:literal $kind:ident $file:literal),* $(,)?) => {
        /// Path, content type and content of each file.
        const ASSETS: &[(&str, &str, &str)] =
            &[$(($path, $kind, include_str!(concat!("../../web/", $file)))),*];
    };
}

assets! {
    "/" HTML_TYPE "index.html",
    "/assets/style.css" CSS_TYPE "style.css",
    "/assets/icon.svg" SVG_TYPE "icon.svg",
    "/assets/main.js" SCRIPT_TYPE "main.js",
    "/assets/api.js" SCRIPT_TYPE "api.js",
    "/assets/dom.js" SCRIPT_TYPE "dom.js",
    "/assets/elsewhere.js" SCRIPT_TYPE "elsewhere.js",
    "/assets/units.js" SCRIPT_TYPE "units.js",
    "/assets/fabric.js" SCRIPT_TYPE "fabric.js",
    "/assets/find.js" SCRIPT_TYPE "find.js",
    "/assets/layout.js" SCRIPT_TYPE "layout.js",
    "/assets/matrix.js" SCRIPT_TYPE "matrix.js",
    "/assets/heat.js" SCRIPT_TYPE "heat.js",
    "/assets/axes.js" SCRIPT_TYPE "axes.js",
    "/assets/changes.js" SCRIPT_TYPE "changes.js",
    "/assets/review.js" SCRIPT_TYPE "review.js",
    "/assets/running.js" SCRIPT_TYPE "running.js",
    "/assets/overview.js" SCRIPT_TYPE "overview.js",
    "/assets/findings.js" SCRIPT_TYPE "findings.js",
    "/assets/flows.js" SCRIPT_TYPE "flows.js",
    "/assets/agents.js" SCRIPT_TYPE "agents.js",
    "/assets/past.js" SCRIPT_TYPE "past.js",
    "/assets/policy.js" SCRIPT_TYPE "policy.js",
    "/assets/then.js" SCRIPT_TYPE "then.js",
    "/assets/tiles.js" SCRIPT_TYPE "tiles.js",
    "/assets/jobs.js" SCRIPT_TYPE "jobs.js",
    "/assets/sandbox.js" SCRIPT_TYPE "sandbox.js",
    "/assets/source.js" SCRIPT_TYPE "source.js",
    "/assets/trace.js" SCRIPT_TYPE "trace.js",
    "/assets/variant.js" SCRIPT_TYPE "variant.js",
    "/assets/compared.js" SCRIPT_TYPE "compared.js",
    "/assets/kept.js" SCRIPT_TYPE "kept.js",
    "/assets/link.js" SCRIPT_TYPE "link.js",
    "/assets/troubles.js" SCRIPT_TYPE "troubles.js",
}

/// A JavaScript module with the titles of the classes of findings, the same as in the terminal.
static CLASSES: LazyLock<String> = LazyLock::new(|| {
    let titles = Class::ALL.map(|class| (class, class.to_string()));
    let titles = serde_json::to_string(&BTreeMap::from(titles)).expect("a class is a word");
    format!("export const TITLES = {titles};\n")
});

pub(super) fn routes() -> Router {
    let classes = get(|| async { served(SCRIPT_TYPE, &CLASSES) });
    let none = Router::new().route("/assets/classes.js", classes);
    ASSETS.iter().fold(none, |routes, &(path, kind, text)| {
        routes.route(path, get(move || async move { served(kind, text) }))
    })
}

fn served(kind: &'static str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (
            header::CONTENT_SECURITY_POLICY,
            CONTENT_SECURITY_POLICY_VALUE,
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    let mut response = (headers, text).into_response();
    // A newer program has a newer page.
    let fresh = HeaderValue::from_static("no-cache");
    response.headers_mut().insert(header::CACHE_CONTROL, fresh);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page and the terminal use the same titles.
    #[test]
    fn page_names_every_cause_class() {
        for class in Class::ALL {
            let letters = serde_json::to_string(&class).expect("a class is a word");
            assert!(
                CLASSES.contains(&format!("{letters}:\"{class}\"")),
                "{letters}"
            );
        }
    }
}
