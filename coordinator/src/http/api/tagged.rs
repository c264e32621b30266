//! Answers that say whether they have changed: who has the same one already is sent nothing.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use ring::digest::{SHA256, digest};
use serde::Serialize;

use super::problem::Problem;
use crate::hex::hex;

/// Enough to tell answers apart.
const TAG_BYTES: usize = 12;

/// JSON, and what it is told apart by. Cheap to clone.
#[derive(Clone)]
pub(super) struct Tagged {
    body: Bytes,
    tag: HeaderValue,
}

impl Tagged {
    pub(super) fn of(body: Bytes) -> Option<Self> {
        let digest = digest(&SHA256, &body);
        let tag = format!("\"{}\"", hex(&digest.as_ref()[..TAG_BYTES]));
        let tag = HeaderValue::from_str(&tag).ok()?;
        Some(Self { body, tag })
    }

    /// Told apart by what stands for it.
    pub(super) fn sealed(body: Bytes, seal: &str) -> Option<Self> {
        let tag = HeaderValue::from_str(&format!("\"{seal}\"")).ok()?;
        Some(Self { body, tag })
    }

    pub(super) fn answer(self, asked: &HeaderMap) -> Response {
        let Self { body, tag } = self;
        let mut response = match asked.get(header::IF_NONE_MATCH) == Some(&tag) {
            true => StatusCode::NOT_MODIFIED.into_response(),
            false => {
                let kind = (header::CONTENT_TYPE, "application/json");
                ([kind], body).into_response()
            }
        };
        let headers = response.headers_mut();
        headers.insert(header::ETAG, tag);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        response
    }
}

pub(super) fn tagged(asked: &HeaderMap, value: &impl Serialize) -> Result<Response, Problem> {
    let body = serde_json::to_vec(value).ok();
    let tagged = body.and_then(|body| Tagged::of(body.into()));
    Ok(tagged.ok_or_else(Problem::unexpected)?.answer(asked))
}
