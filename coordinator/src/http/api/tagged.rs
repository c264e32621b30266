//! Answers with an `ETag`: a client with the current version gets no body.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use ring::digest::{SHA256, digest};
use serde::Serialize;

use super::problem::Problem;
use crate::hex::hex;

/// Length of a hash that distinguishes answers.
const ETAG_BYTES: usize = 12;

/// Encoded JSON with its `ETag`. Clones are cheap.
#[derive(Clone)]
pub(super) struct Tagged {
    body: Bytes,
    tag: HeaderValue,
}

impl Tagged {
    pub(super) fn of(body: Bytes) -> Option<Self> {
        let digest = digest(&SHA256, &body);
        let tag = format!("\"{}\"", hex(&digest.as_ref()[..ETAG_BYTES]));
        let tag = HeaderValue::from_str(&tag).ok()?;
        Some(Self { body, tag })
    }

    /// Returns an answer whose `ETag` is made from the seal.
    pub(super) fn sealed(body: Bytes, seal: &str) -> Option<Self> {
        let tag = HeaderValue::from_str(&format!("\"{seal}\"")).ok()?;
        Some(Self { body, tag })
    }

    pub(super) fn answer(self, asked: &HeaderMap) -> Response {
        let Self { body, tag } = self;
        let mut response = if has_it(asked, &tag) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            let kind = (header::CONTENT_TYPE, "application/json");
            ([kind], body).into_response()
        };
        let headers = response.headers_mut();
        headers.insert(header::ETAG, tag);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        response
    }
}

/// Whether the header has this tag (RFC 9110): `*`, or one tag of a list, weak or strong.
fn has_it(asked: &HeaderMap, tag: &HeaderValue) -> bool {
    let lists = asked.get_all(header::IF_NONE_MATCH).iter();
    let lists = lists.filter_map(|list| list.to_str().ok());
    // Own tags contain no comma.
    let mut tags = lists.flat_map(|list| list.split(',')).map(str::trim);
    tags.any(|it| it == "*" || it.strip_prefix("W/").unwrap_or(it).as_bytes() == tag.as_bytes())
}

pub(super) fn tagged(asked: &HeaderMap, value: &impl Serialize) -> Result<Response, Problem> {
    let body = serde_json::to_vec(value).ok();
    let tagged = body.and_then(|body| Tagged::of(body.into()));
    Ok(tagged.ok_or_else(Problem::unexpected)?.answer(asked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matching_etag_returns_not_modified() {
        let tagged = Tagged::sealed(Bytes::from_static(b"{}"), "a1").unwrap();
        let status = |lists: &[&'static str]| {
            let mut asked = HeaderMap::new();
            for list in lists {
                asked.append(header::IF_NONE_MATCH, HeaderValue::from_static(list));
            }
            tagged.clone().answer(&asked).status().as_u16()
        };
        for has in [
            "\"a1\"",
            "*",
            "W/\"a1\"",
            "\"b\", \"a1\"",
            "W/\"a1\", \"x\"",
        ] {
            assert_eq!(status(&[has]), 304, "{has}");
        }
        assert_eq!(status(&["\"b\"", "\"a1\""]), 304);
        for other in ["\"b\"", "a1", "\"a\", \"1\"", ""] {
            assert_eq!(status(&[other]), 200, "{other}");
        }
        assert_eq!(status(&[]), 200);
    }
}
