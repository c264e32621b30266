//! The page, as it lies in `web/`: within the program, so that nothing is fetched from anywhere else.

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

/// Nothing from elsewhere, and nothing that a name or a label could smuggle in.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

macro_rules! assets {
    ($($path:literal $kind:ident $file:literal),* $(,)?) => {
        /// Where it is found, what it is, and what it holds.
        const ASSETS: &[(&str, &str, &str)] =
            &[$(($path, $kind, include_str!(concat!("../../web/", $file)))),*];
    };
}

assets! {
    "/" HTML "index.html",
    "/assets/style.css" CSS "style.css",
    "/assets/icon.svg" PICTURE "icon.svg",
    "/assets/main.js" SCRIPT "main.js",
    "/assets/api.js" SCRIPT "api.js",
    "/assets/dom.js" SCRIPT "dom.js",
    "/assets/elsewhere.js" SCRIPT "elsewhere.js",
    "/assets/units.js" SCRIPT "units.js",
    "/assets/fabric.js" SCRIPT "fabric.js",
    "/assets/find.js" SCRIPT "find.js",
    "/assets/layout.js" SCRIPT "layout.js",
    "/assets/matrix.js" SCRIPT "matrix.js",
    "/assets/heat.js" SCRIPT "heat.js",
    "/assets/axes.js" SCRIPT "axes.js",
    "/assets/changes.js" SCRIPT "changes.js",
    "/assets/review.js" SCRIPT "review.js",
    "/assets/running.js" SCRIPT "running.js",
    "/assets/overview.js" SCRIPT "overview.js",
    "/assets/findings.js" SCRIPT "findings.js",
    "/assets/flows.js" SCRIPT "flows.js",
    "/assets/agents.js" SCRIPT "agents.js",
    "/assets/past.js" SCRIPT "past.js",
    "/assets/then.js" SCRIPT "then.js",
    "/assets/jobs.js" SCRIPT "jobs.js",
    "/assets/sandbox.js" SCRIPT "sandbox.js",
    "/assets/source.js" SCRIPT "source.js",
    "/assets/trace.js" SCRIPT "trace.js",
    "/assets/variant.js" SCRIPT "variant.js",
    "/assets/compared.js" SCRIPT "compared.js",
    "/assets/kept.js" SCRIPT "kept.js",
    "/assets/link.js" SCRIPT "link.js",
    "/assets/troubles.js" SCRIPT "troubles.js",
}

pub(super) fn routes() -> Router {
    let none = Router::new();
    ASSETS.iter().fold(none, |routes, &(path, kind, text)| {
        routes.route(path, get(move || async move { served(kind, text) }))
    })
}

fn served(kind: &'static str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    let mut response = (headers, text).into_response();
    // A newer program brings a newer page.
    let fresh = HeaderValue::from_static("no-cache");
    response.headers_mut().insert(header::CACHE_CONTROL, fresh);
    response
}

#[cfg(test)]
mod tests {
    use reweave_common::cause::Class;

    /// The same words as in the terminal, for those who read both.
    #[test]
    fn the_page_has_the_words_of_every_class_of_cause() {
        let page = include_str!("../../web/troubles.js");
        for class in Class::ALL {
            let letters = serde_json::to_string(&class).expect("a class is a word");
            assert!(
                page.contains(&format!("{letters}: \"{class}\"")),
                "{letters}"
            );
        }
    }
}
