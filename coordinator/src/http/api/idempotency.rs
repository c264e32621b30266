//! Idempotent requests: a repeated request with the same `Idempotency-Key` gets the answer of the first.
//!
//! Only the coordinator that answered keeps the answer. A later leader does not need it: a repeated request for a plan
//! changes nothing, and neither does a repeated approval of a running plan.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use tokio::time::Instant;
use utoipa::IntoParams;

use super::ApiResult;
use super::problem::Problem;
use super::visitor::Visitor;

const IDEMPOTENCY_KEY_HEADER: &str = "idempotency-key";
const MAX_KEY_BYTES: usize = 128;
/// Lifetime of an answer. Clients retry for a shorter time.
const ANSWER_TTL: Duration = Duration::from_hours(24);
/// Lifetime of an entry with unknown outcome: by then the request is decided or lost.
const UNDECIDED_TTL: Duration = Duration::from_mins(1);
/// Maximum number of entries, requests in progress included. The oldest answers are removed first, a client's own
/// before those of others. A request in progress stays, because a repeat would start it a second time.
const MAX_ANSWERS: usize = 1024;
/// Maximum number of requests in progress of one client, so that others have room.
const MAX_OPEN_PER_VISITOR: usize = 128;
/// Maximum size of all answers. An answer above it is not kept: a repeated request is processed again.
const MAX_ANSWERS_BYTES: usize = 64 << 20;

/// The header as a parameter in the API description; the code reads it from the headers.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct Key {
    /// A repeated request with the same key gets the answer of the first.
    #[param(
        rename = "Idempotency-Key",
        pattern = "^[!-~]{1,128}$",
        required = false
    )]
    #[expect(dead_code, reason = "it is read from the headers")]
    key: Option<String>,
}

/// A request to be processed once. A request without a key is always a new one.
pub(super) struct Idempotency {
    key: Option<(Visitor, String)>,
    /// Description of the request, so that one key cannot stand for two requests.
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

    /// Adds to the description what is read after the key.
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
    answer: AnswerState,
}

enum AnswerState {
    /// The request is in progress.
    NotYet,
    /// The coordinator did not answer in time, and may still process the request.
    Unknown,
    Answer(StatusCode, HeaderMap, Bytes),
}

impl Kept {
    fn is_answered(&self) -> bool {
        matches!(self.answer, AnswerState::Answer(..))
    }

    fn is_kept(&self) -> bool {
        let kept_for = match self.answer {
            AnswerState::Unknown => UNDECIDED_TTL,
            AnswerState::NotYet | AnswerState::Answer(..) => ANSWER_TTL,
        };
        self.since.elapsed() < kept_for
    }
}

impl Answers {
    /// Processes a request once. Refusals are not kept, because their reason may disappear. The request continues if
    /// the client disconnects: the client asks again with the same key, and the work must not start twice.
    pub(super) async fn answer(
        &self,
        idempotency: Idempotency,
        asked: impl Future<Output = ApiResult> + Send + 'static,
    ) -> ApiResult {
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

    /// Returns the answer of the first request, if there is one. Otherwise marks the request as in progress.
    fn begin(&self, key: &(Visitor, String), what: String) -> Result<Option<Response>, Problem> {
        let mut kept = self.lock();
        kept.retain(|_, kept| kept.is_kept());
        let Some(first) = kept.get(key) else {
            make_room(&mut kept, &key.0)?;
            let since = Instant::now();
            let answer = AnswerState::NotYet;
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
            AnswerState::NotYet | AnswerState::Unknown => Err(still_at_it()),
            AnswerState::Answer(code, headers, body) => {
                let mut answer = Response::new(Body::from(body.clone()));
                *answer.status_mut() = *code;
                *answer.headers_mut() = headers.clone();
                Ok(Some(answer))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        // The entries are consistent at any moment, even after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type All = BTreeMap<(Visitor, String), Kept>;

/// Makes room for one more request of this client. Refuses it if all entries are in progress.
fn make_room(kept: &mut All, by: &Visitor) -> Result<(), Problem> {
    let open = kept
        .iter()
        .filter(|((visitor, _), kept)| visitor == by && !kept.is_answered());
    if open.count() >= MAX_OPEN_PER_VISITOR {
        return Err(too_many_open());
    }
    while kept.len() >= MAX_ANSWERS {
        if !drop_oldest_answer(kept, by) {
            return Err(no_room());
        }
    }
    Ok(())
}

/// Removes the oldest answer, to make room for this client. Returns whether there was one.
fn drop_oldest_answer(kept: &mut All, by: &Visitor) -> bool {
    let answered = kept.iter().filter(|(_, kept)| kept.is_answered());
    let oldest = answered.min_by_key(|((visitor, _), kept)| (visitor != by, kept.since));
    let oldest = oldest.map(|(key, _)| key.clone());
    oldest.is_some_and(|key| kept.remove(&key).is_some())
}

fn bytes(kept: &All) -> usize {
    kept.values()
        .map(|kept| match &kept.answer {
            AnswerState::Answer(_, _, body) => body.len(),
            AnswerState::NotYet | AnswerState::Unknown => 0,
        })
        .sum()
}

/// A request in progress. If it is dropped without an answer, the request can be repeated.
struct Open {
    answers: Answers,
    key: Option<(Visitor, String)>,
}

impl Open {
    async fn kept(mut self, asked: impl Future<Output = ApiResult>) -> ApiResult {
        let asked = asked.await;
        if asked.as_ref().is_err_and(Problem::is_unknown) {
            self.note(AnswerState::Unknown);
        }
        let (head, body) = asked?.into_parts();
        // The body is in memory already, and the kept size is bounded.
        let body = to_bytes(body, usize::MAX).await;
        let body = body.map_err(|_| Problem::unexpected())?;
        if body.len() <= MAX_ANSWERS_BYTES {
            self.keep(head.status, head.headers.clone(), body.clone());
        }
        Ok(Response::from_parts(head, Body::from(body)))
    }

    fn keep(&mut self, code: StatusCode, headers: HeaderMap, body: Bytes) {
        if let Some((by, _)) = &self.key {
            let mut kept = self.answers.lock();
            while bytes(&kept) + body.len() > MAX_ANSWERS_BYTES && drop_oldest_answer(&mut kept, by)
            {
            }
        }
        self.note(AnswerState::Answer(code, headers, body));
    }

    fn note(&mut self, found: AnswerState) {
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

fn too_many_open() -> Problem {
    let detail = format!(
        "{MAX_OPEN_PER_VISITOR} requests with an Idempotency-Key are in progress: wait for their \
         answers"
    );
    let code = StatusCode::TOO_MANY_REQUESTS;
    Problem::new(code, "urn:reweave:too-often", detail)
}

fn no_room() -> Problem {
    let detail = format!(
        "{MAX_ANSWERS} requests with an Idempotency-Key are in progress at this coordinator: \
         retry in a second"
    );
    let code = StatusCode::SERVICE_UNAVAILABLE;
    Problem::new(code, "urn:reweave:busy-answering", detail)
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

    /// Returns how often requests with these keys were processed again.
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

    fn visitor() -> Visitor {
        Visitor::Token(AccessToken::random().digest())
    }

    /// Starts a request that stays in progress, or returns the status of the refusal.
    fn begun(answers: &Answers, by: &Visitor, nth: usize) -> Result<(), StatusCode> {
        let key = (by.clone(), nth.to_string());
        match answers.begin(&key, "the same".to_owned()) {
            Ok(None) => Ok(()),
            Ok(Some(answer)) => Err(answer.status()),
            Err(problem) => Err(problem.into_response().status()),
        }
    }

    #[test]
    fn open_requests_are_never_evicted() {
        let (answers, operator) = (Answers::default(), visitor());
        assert_eq!(begun(&answers, &operator, 0), Ok(()));
        let others = (0..2 * MAX_ANSWERS).map(|_| begun(&answers, &visitor(), 0));
        let refused: Vec<_> = others.filter_map(Result::err).collect();
        assert_eq!(refused, [StatusCode::SERVICE_UNAVAILABLE; MAX_ANSWERS + 1]);
        assert_eq!(begun(&answers, &operator, 0), Err(StatusCode::CONFLICT));
    }

    #[test]
    fn open_requests_are_bounded_per_visitor() {
        let (answers, by) = (Answers::default(), visitor());
        let all = (0..=MAX_OPEN_PER_VISITOR).map(|nth| begun(&answers, &by, nth));
        let refused: Vec<_> = all.filter_map(Result::err).collect();
        assert_eq!(refused, [StatusCode::TOO_MANY_REQUESTS]);
        assert_eq!(begun(&answers, &by, 0), Err(StatusCode::CONFLICT));
        assert_eq!(begun(&answers, &visitor(), 0), Ok(()));
    }

    #[tokio::test]
    async fn own_answers_leave_before_others() {
        let (answers, [operator, viewer]) = (Answers::default(), [visitor(), visitor()]);
        assert_eq!(made(&answers, &operator, &[0], 1).await, 1);
        let many: Vec<_> = (0..MAX_ANSWERS).collect();
        assert_eq!(made(&answers, &viewer, &many, 1).await, MAX_ANSWERS as u32);
        assert_eq!(answers.lock().len(), MAX_ANSWERS);
        assert_eq!(made(&answers, &operator, &[0], 1).await, 0, "it is kept");
        assert_eq!(made(&answers, &viewer, &many[..1], 1).await, 1, "it left");
        assert_eq!(made(&answers, &operator, &[1], 1).await, 1);
        assert_eq!(made(&answers, &operator, &[0], 1).await, 1, "its own left");
    }

    #[tokio::test(start_paused = true)]
    async fn request_of_unknown_fate_conflicts() {
        let by = visitor();
        let answers = Answers::default();
        let lost = async { Err(Problem::no_answer()) };
        assert!(answers.answer(idempotency(&by, 0), lost).await.is_err());
        assert!(is_conflict(
            answers.answer(idempotency(&by, 0), twice()).await
        ));
        tokio::time::advance(UNDECIDED_TTL).await;
        assert_eq!(made(&answers, &by, &[0], 1).await, 1);
    }

    /// Whether the answer is a conflict. A request that is processed a second time panics.
    fn is_conflict(answer: ApiResult) -> bool {
        answer.is_err_and(|it| it.into_response().status() == StatusCode::CONFLICT)
    }

    async fn twice() -> ApiResult {
        panic!("it is made twice")
    }

    #[tokio::test]
    async fn abandoned_request_is_answered_once() {
        let by = visitor();
        let answers = Answers::default();
        let (begins, begun) = oneshot::channel();
        let (ends, ended) = oneshot::channel::<()>();
        let first = async move {
            begins.send(()).unwrap();
            ended.await.unwrap();
            Ok(Response::new(Body::from("first")))
        };
        tokio::select! {
            _ = answers.answer(idempotency(&by, 0), first) => panic!("nothing let it end"),
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
        let by = visitor();
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
