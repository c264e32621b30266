//! Answers that say whether they have changed: who has the same one already is sent nothing.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ring::digest::{SHA256, digest};
use serde::Serialize;

use super::problem::Problem;
use crate::hex::hex;

/// Enough to tell answers apart.
const TAG_BYTES: usize = 12;

pub(super) fn tagged(asked: &HeaderMap, value: &impl Serialize) -> Result<Response, Problem> {
    let body = serde_json::to_vec(value).map_err(|_| Problem::unexpected())?;
    let tag = tag(&body);
    let held = asked.get(header::IF_NONE_MATCH);
    let held = held.is_some_and(|held| held.as_bytes() == tag.as_bytes());
    let mut response = match held {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => {
            let kind = (header::CONTENT_TYPE, "application/json");
            ([kind], body).into_response()
        }
    };
    let headers = response.headers_mut();
    let tag = HeaderValue::from_str(&tag).map_err(|_| Problem::unexpected())?;
    headers.insert(header::ETAG, tag);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

fn tag(body: &[u8]) -> String {
    let digest = digest(&SHA256, body);
    format!("\"{}\"", hex(&digest.as_ref()[..TAG_BYTES]))
}
