//! Idempotent requests: a repetition with the same `Idempotency-Key` gets the answer of the first request.
//!
//! The coordinator that answered keeps the answer. A later leader does not have it, and does not need it: making a
//! plan again changes nothing, and neither does approving a running one.

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

const IDEMPOTENCY_KEY_HEADER: &str = "idempotency-key";
const MAX_KEY_BYTES: usize = 128;
/// Nobody tries again after that.
const ANSWER_TTL: Duration = Duration::from_hours(24);
/// A request of which nobody knows what came of it has been decided by then, or is lost.
const UNDECIDED_TTL: Duration = Duration::from_mins(1);
/// The oldest leave first.
const MAX_ANSWERS: usize = 1024;
/// Together. One that is longer alone is not kept: its request is answered anew.
const MAX_ANSWERS_BYTES: usize = 64 << 20;

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
pub(super) struct Idempotency {
    key: Option<(Visitor, String)>,
    /// What is asked, so that a key is not taken for two things.
    what: String,
}

impl Idempotency {
    pub(super) fn asked(headers: &HeaderMap, by: &Visitor, what: &str) -> Result<Self, Problem> {
        let key = headers.get(IDEMPOTENCY_KEY_HEADER).map(|value| {
            let key = value.to_str().ok().filter(|key| is_key(key));
            key.map(|key| (by.clone(), key.to_owned()))
                .ok_or_else(no_key)
        });
        Ok(Self {
            key: key.transpose()?,
            what: what.to_owned(),
        })
    }

    /// The same of what is asked, where that is read after the key.
    pub(super) fn about(self, what: String) -> Self {
        Self { what, ..self }
    }
}

fn is_key(text: &str) -> bool {
    (1..=MAX_KEY_BYTES).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[derive(Clone, Default)]
pub(super) struct Answers(Arc<Mutex<All>>);

struct Kept {
    what: String,
    since: Instant,
    answer: Found,
}

enum Found {
    /// It is being found.
    NotYet,
    /// The coordinator did not answer in time, and may do it yet.
    Unknown,
    Answer(StatusCode, HeaderMap, Bytes),
}

impl Kept {
    fn is_kept(&self) -> bool {
        let kept_for = match self.answer {
            Found::Unknown => UNDECIDED_TTL,
            Found::NotYet | Found::Answer(..) => ANSWER_TTL,
        };
        self.since.elapsed() < kept_for
    }
}

impl Answers {
    /// A refusal is not kept: what was wrong may be mended by then. Whoever leaves before the answer comes asks again
    /// with the same key, and what was begun must not be begun twice: it goes on.
    pub(super) async fn answer(
        &self,
        idempotency: Idempotency,
        asked: impl Future<Output = Answered> + Send + 'static,
    ) -> Answered {
        let Some(key) = idempotency.key else {
            return asked.await;
        };
        if let Some(answer) = self.begin(&key, idempotency.what)? {
            return Ok(answer);
        }
        let open = Open {
            answers: self.clone(),
            key: Some(key),
        };
        let kept = tokio::spawn(open.kept(asked));
        kept.await.unwrap_or_else(|_| Err(Problem::unexpected()))
    }

    /// The answer of the first, where there is one.
    fn begin(&self, key: &(Visitor, String), what: String) -> Result<Option<Response>, Problem> {
        let mut kept = self.lock();
        kept.retain(|_, kept| kept.is_kept());
        let Some(first) = kept.get(key) else {
            while kept.len() >= MAX_ANSWERS && drop_oldest(&mut kept, |_| true) {}
            let since = Instant::now();
            let answer = Found::NotYet;
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
            Found::NotYet | Found::Unknown => Err(still_at_it()),
            Found::Answer(code, headers, body) => {
                let mut answer = Response::new(Body::from(body.clone()));
                *answer.status_mut() = *code;
                *answer.headers_mut() = headers.clone();
                Ok(Some(answer))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        // What is kept is whole at any moment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type All = BTreeMap<(Visitor, String), Kept>;

/// Of these. Whether there was one.
fn drop_oldest(kept: &mut All, of: impl Fn(&Kept) -> bool) -> bool {
    let all = kept.iter().filter(|(_, kept)| of(kept));
    let oldest = all.min_by_key(|(_, kept)| kept.since);
    let oldest = oldest.map(|(key, _)| key.clone());
    oldest.is_some_and(|key| kept.remove(&key).is_some())
}

fn bytes(kept: &All) -> usize {
    let bytes = |kept: &Kept| match &kept.answer {
        Found::Answer(_, _, body) => body.len(),
        Found::NotYet | Found::Unknown => 0,
    };
    kept.values().map(bytes).sum()
}

/// A request that is being answered. Dropped before it is, because it was refused, it may be made again.
struct Open {
    answers: Answers,
    key: Option<(Visitor, String)>,
}

impl Open {
    async fn kept(mut self, asked: impl Future<Output = Answered>) -> Answered {
        let asked = asked.await;
        if asked.as_ref().is_err_and(Problem::is_unknown) {
            self.note(Found::Unknown);
        }
        let (head, body) = asked?.into_parts();
        // It is in memory already; how much of that stays is bounded.
        let body = to_bytes(body, usize::MAX).await;
        let body = body.map_err(|_| Problem::unexpected())?;
        if body.len() <= MAX_ANSWERS_BYTES {
            self.keep(head.status, head.headers.clone(), body.clone());
        }
        Ok(Response::from_parts(head, Body::from(body)))
    }

    fn keep(&mut self, code: StatusCode, headers: HeaderMap, body: Bytes) {
        let mut kept = self.answers.lock();
        let is_answered = |kept: &Kept| matches!(kept.answer, Found::Answer(..));
        while bytes(&kept) + body.len() > MAX_ANSWERS_BYTES && drop_oldest(&mut kept, is_answered) {
        }
        drop(kept);
        self.note(Found::Answer(code, headers, body));
    }

    fn note(&mut self, found: Found) {
        let key = self.key.take();
        let mut kept = self.answers.lock();
        if let Some(kept) = key.and_then(|key| kept.get_mut(&key)) {
            (kept.since, kept.answer) = (Instant::now(), found);
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.answers.lock().remove(&key);
        }
    }
}

fn no_key() -> Problem {
    Problem::bad_request(format!(
        "Idempotency-Key must be 1 to {MAX_KEY_BYTES} printable characters without spaces"
    ))
}

fn other_request() -> Problem {
    let detail = "this Idempotency-Key was used for another request: use a new one for each";
    let code = StatusCode::UNPROCESSABLE_ENTITY;
    Problem::new(code, "urn:reweave:other-request", detail)
}

fn still_at_it() -> Problem {
    let detail = "the request with this Idempotency-Key is still in progress: retry in a second";
    Problem::new(StatusCode::CONFLICT, "urn:reweave:still-at-it", detail)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use axum::http::HeaderName;
    use axum::response::IntoResponse as _;
    use reweave_link::access_token::AccessToken;
    use tokio::sync::oneshot;
    use tokio::time::timeout;

    use super::*;

    fn idempotency(by: &Visitor, nth: usize) -> Idempotency {
        let key = nth.to_string().parse().expect("a header's value");
        let headers =
            HeaderMap::from_iter([(HeaderName::from_static(IDEMPOTENCY_KEY_HEADER), key)]);
        Idempotency::asked(&headers, by, "the same").expect("a key")
    }

    /// How often those with these keys were answered anew.
    async fn made(answers: &Answers, by: &Visitor, keys: &[usize], bytes: usize) -> u32 {
        let made = Arc::<AtomicU32>::default();
        for &nth in keys {
            let made = Arc::clone(&made);
            let asked = async move {
                made.fetch_add(1, Ordering::Relaxed);
                Ok(Response::new(Body::from(vec![b'x'; bytes])))
            };
            let answer = answers.answer(idempotency(by, nth), asked).await;
            assert!(answer.is_ok());
        }
        made.load(Ordering::Relaxed)
    }

    #[tokio::test(start_paused = true)]
    async fn request_of_unknown_fate_conflicts() {
        let by = Visitor::Token(AccessToken::random().digest());
        let answers = Answers::default();
        let lost = async { Err(Problem::no_answer()) };
        assert!(answers.answer(idempotency(&by, 0), lost).await.is_err());
        assert!(is_conflict(
            answers.answer(idempotency(&by, 0), twice()).await
        ));
        tokio::time::advance(UNDECIDED_TTL).await;
        assert_eq!(made(&answers, &by, &[0], 1).await, 1);
    }

    /// And no panic of a request that was made a second time.
    fn is_conflict(answer: Answered) -> bool {
        answer.is_err_and(|it| it.into_response().status() == StatusCode::CONFLICT)
    }

    async fn twice() -> Answered {
        panic!("it is made twice")
    }

    #[tokio::test]
    async fn abandoned_request_is_answered_once() {
        let by = Visitor::Token(AccessToken::random().digest());
        let answers = Answers::default();
        let (begins, begun) = oneshot::channel();
        let (ends, ended) = oneshot::channel::<()>();
        let first = async move {
            begins.send(()).unwrap();
            ended.await.unwrap();
            Ok(Response::new(Body::from("first")))
        };
        tokio::select! {
            _ = answers.answer(idempotency(&by, 0), first) => panic!("nobody let it end"),
            begun = begun => begun.unwrap(),
        }
        let busy = answers.answer(idempotency(&by, 0), twice()).await;
        assert!(is_conflict(busy), "the first goes on");
        ends.send(()).unwrap();
        let answered = timeout(Duration::from_mins(1), async {
            loop {
                match answers.answer(idempotency(&by, 0), twice()).await {
                    Ok(answer) => break answer,
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        });
        let answer = answered.await.expect("the first is kept");
        let body = to_bytes(answer.into_body(), 10).await.unwrap();
        assert_eq!(body, "first");
    }

    #[tokio::test]
    async fn kept_responses_are_bounded_oldest_leave() {
        let by = Visitor::Token(AccessToken::random().digest());
        let (answers, third) = (Answers::default(), MAX_ANSWERS_BYTES / 3);
        assert_eq!(made(&answers, &by, &[0, 1, 2], third).await, 3);
        assert_eq!(made(&answers, &by, &[0, 1, 2], third).await, 0);
        assert_eq!(made(&answers, &by, &[3], third).await, 1);
        assert!(bytes(&answers.lock()) <= MAX_ANSWERS_BYTES);
        assert_eq!(made(&answers, &by, &[1, 2, 3], third).await, 0);
        assert_eq!(made(&answers, &by, &[0], third).await, 1);
        assert_eq!(made(&answers, &by, &[4, 4], MAX_ANSWERS_BYTES + 1).await, 2);
        assert_eq!(made(&answers, &by, &[2, 3, 0], third).await, 0, "they stay");
    }
}
