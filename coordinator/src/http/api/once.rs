//! Requests that are sent again, because nobody knows whether the first arrived, and have the answer of
//! the first: those with the same `Idempotency-Key`.
//!
//! Answers are kept by the coordinator that gave them. One that leads later does not know them, and
//! need not: a plan that is made anew changes nothing, and approving one that runs neither.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use tokio::time::Instant;
use utoipa::IntoParams;

use super::Answered;
use super::problem::Problem;
use super::visitor::Visitor;

const HEADER: &str = "idempotency-key";
const LONGEST_KEY: usize = 128;
/// Nobody tries again after that.
const KEPT: Duration = Duration::from_hours(24);
/// The oldest leave first.
const MOST: usize = 1024;

/// Only for the document: it is read from the headers.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct Key {
    /// The same request with the same key has the answer of the first.
    #[param(
        rename = "Idempotency-Key",
        pattern = "^[!-~]{1,128}$",
        required = false
    )]
    #[expect(dead_code, reason = "it is read from the headers")]
    key: Option<String>,
}

/// A request that shall be answered once. Without a key, each is another.
pub(super) struct Once {
    key: Option<(Visitor, String)>,
    /// What is asked, so that a key is not taken for two things.
    what: String,
}

impl Once {
    pub(super) fn asked(headers: &HeaderMap, by: &Visitor, what: &str) -> Result<Self, Problem> {
        let key = headers.get(HEADER).map(|value| {
            let key = value.to_str().ok().filter(|key| is_key(key));
            key.map(|key| (by.clone(), key.to_owned()))
                .ok_or_else(no_key)
        });
        Ok(Self {
            key: key.transpose()?,
            what: what.to_owned(),
        })
    }
}

fn is_key(text: &str) -> bool {
    (1..=LONGEST_KEY).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[derive(Clone, Default)]
pub(super) struct Answers(Arc<Mutex<BTreeMap<(Visitor, String), Kept>>>);

struct Kept {
    what: String,
    since: Instant,
    /// Absent while it is being found.
    answer: Option<(StatusCode, HeaderMap, Bytes)>,
}

impl Answers {
    /// A refusal is not kept: what was wrong may be mended by then.
    pub(super) async fn answer(
        &self,
        once: Once,
        asked: impl Future<Output = Answered>,
    ) -> Answered {
        let Some(key) = once.key else {
            return asked.await;
        };
        if let Some(answer) = self.begin(&key, once.what)? {
            return Ok(answer);
        }
        let mut open = Open {
            answers: self,
            key: Some(key),
        };
        let (head, body) = asked.await?.into_parts();
        let body = to_bytes(body, usize::MAX).await;
        let body = body.map_err(|_| Problem::unexpected())?;
        open.keep((head.status, head.headers.clone(), body.clone()));
        Ok(Response::from_parts(head, Body::from(body)))
    }

    /// The answer of the first, where there is one.
    fn begin(&self, key: &(Visitor, String), what: String) -> Result<Option<Response>, Problem> {
        let mut kept = self.lock();
        kept.retain(|_, kept| kept.since.elapsed() < KEPT);
        let Some(first) = kept.get(key) else {
            drop_oldest(&mut kept);
            let since = Instant::now();
            let answer = None;
            kept.insert(
                key.clone(),
                Kept {
                    what,
                    since,
                    answer,
                },
            );
            return Ok(None);
        };
        match &first.answer {
            _ if first.what != what => Err(other_request()),
            None => Err(still_at_it()),
            Some((code, headers, body)) => {
                let mut answer = Response::new(Body::from(body.clone()));
                *answer.status_mut() = *code;
                *answer.headers_mut() = headers.clone();
                Ok(Some(answer))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Visitor, String), Kept>> {
        // What is kept is whole at any moment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn drop_oldest(kept: &mut BTreeMap<(Visitor, String), Kept>) {
    while kept.len() >= MOST {
        let oldest = kept.iter().min_by_key(|(_, kept)| kept.since);
        let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
            return;
        };
        kept.remove(&oldest);
    }
}

/// A request that is being answered. Dropped before it is, because it was refused or whoever asked
/// went away, it may be made again.
struct Open<'a> {
    answers: &'a Answers,
    key: Option<(Visitor, String)>,
}

impl Open<'_> {
    fn keep(&mut self, answer: (StatusCode, HeaderMap, Bytes)) {
        let key = self.key.take();
        let mut kept = self.answers.lock();
        if let Some(kept) = key.and_then(|key| kept.get_mut(&key)) {
            kept.answer = Some(answer);
        }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.answers.lock().remove(&key);
        }
    }
}

fn no_key() -> Problem {
    Problem::bad_request(format!(
        "Idempotency-Key must be 1 to {LONGEST_KEY} printable characters without spaces"
    ))
}

fn other_request() -> Problem {
    let detail = "this Idempotency-Key was sent with another request: take a new one for each";
    let code = StatusCode::UNPROCESSABLE_ENTITY;
    Problem::new(code, "urn:reweave:other-request", detail)
}

fn still_at_it() -> Problem {
    let detail =
        "the request with this Idempotency-Key is still being answered: ask again in a second";
    Problem::new(StatusCode::CONFLICT, "urn:reweave:still-at-it", detail)
}
