//! How often each visitor may ask, so that a script that runs wild takes nothing from other people.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::Instant;

use super::problem::Problem;
use super::visitor::Visitor;
use crate::house::House;

/// A page asks a few times a second, a script that polls ten times.
const PER_SECOND: f64 = 50.0;
/// For pages that ask for much at once when they are opened.
const AT_ONCE: f64 = 100.0;
/// They are remembered while they have not all their requests back.
const MOST_KNOWN: usize = 4096;

/// How many requests each visitor may still make.
#[derive(Clone, Default)]
pub(super) struct Limits(Arc<Mutex<Budgets>>);

#[derive(Default)]
struct Budgets {
    /// Of all together who have no token, or one that has not been good for anything yet: anybody makes up as
    /// many as he likes.
    strangers: Option<Budget>,
    known: BTreeMap<Visitor, Budget>,
}

#[derive(Debug, Clone, Copy)]
struct Budget {
    left: f64,
    at: Instant,
}

/// Whoever is new is asked for once, so that what he asks later is taken from his own.
pub(super) async fn hold(
    State((limits, house)): State<(Limits, House)>,
    request: Request,
    next: Next,
) -> Response {
    let visitor = Visitor::of(request.headers(), request.extensions()).ok();
    if !limits.allow(visitor.as_ref(), Instant::now()) {
        return Problem::too_often().into_response();
    }
    let new = visitor.as_ref().filter(|visitor| !limits.knows(visitor));
    if let Some(new) = new
        && new.name(&house).await.is_ok()
    {
        limits.learn(new.clone(), Instant::now());
    }
    let response = next.run(request).await;
    if response.status() == StatusCode::UNAUTHORIZED {
        limits.forget(visitor.as_ref());
    }
    response
}

impl Limits {
    fn allow(&self, visitor: Option<&Visitor>, now: Instant) -> bool {
        let mut budgets = self.lock();
        let Budgets { strangers, known } = &mut *budgets;
        let own = visitor.and_then(|visitor| known.get_mut(visitor));
        own.unwrap_or_else(|| strangers.get_or_insert(Budget::whole(now)))
            .take(now)
    }

    fn knows(&self, visitor: &Visitor) -> bool {
        self.lock().known.contains_key(visitor)
    }

    fn learn(&self, visitor: Visitor, now: Instant) {
        let known = &mut self.lock().known;
        if known.len() >= MOST_KNOWN {
            known.retain(|_, budget| budget.refilled(now) < AT_ONCE);
        }
        if known.len() < MOST_KNOWN {
            known.entry(visitor).or_insert(Budget::whole(now));
        }
    }

    /// A token that is not good any more is a stranger's.
    fn forget(&self, visitor: Option<&Visitor>) {
        if let Some(visitor) = visitor {
            self.lock().known.remove(visitor);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Budgets> {
        // A budget is whole at any moment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Budget {
    fn whole(now: Instant) -> Self {
        Self {
            left: AT_ONCE,
            at: now,
        }
    }

    fn refilled(self, now: Instant) -> f64 {
        let since = now.saturating_duration_since(self.at);
        AT_ONCE.min(self.left + since.as_secs_f64() * PER_SECOND)
    }

    fn take(&mut self, now: Instant) -> bool {
        self.left = self.refilled(now);
        self.at = now;
        let may = self.left >= 1.0;
        if may {
            self.left -= 1.0;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use reweave_link::visit::Visit;

    use super::*;

    fn allowed(limits: &Limits, visitor: Option<&Visitor>, now: Instant) -> usize {
        let asked = (0..1000).take_while(|_| limits.allow(visitor, now));
        asked.count()
    }

    fn token() -> Visitor {
        Visitor::Token(Visit::random().digest())
    }

    fn known(limits: &Limits, now: Instant) -> Visitor {
        let token = token();
        limits.learn(token.clone(), now);
        token
    }

    #[test]
    fn who_asks_too_often_waits_and_others_do_not() {
        let (limits, start) = (Limits::default(), Instant::now());
        let [one, other] = [(); 2].map(|()| known(&limits, start));
        assert_eq!(allowed(&limits, Some(&one), start), 100);
        assert_eq!(allowed(&limits, Some(&other), start), 100);
        assert_eq!(allowed(&limits, None, start), 100);
        let later = start + Duration::from_millis(500);
        assert_eq!(allowed(&limits, Some(&one), later), 25);
        let much_later = start + Duration::from_hours(1);
        assert_eq!(allowed(&limits, Some(&one), much_later), 100);
    }

    #[test]
    fn tokens_that_strangers_make_up_have_one_budget_together() {
        let (limits, start) = (Limits::default(), Instant::now());
        let good = known(&limits, start);
        let made_up = (0..10_000).filter(|_| {
            let token = token();
            let may = limits.allow(Some(&token), start);
            limits.forget(Some(&token));
            may
        });
        assert_eq!(made_up.count(), 100);
        assert_eq!(limits.lock().known.len(), 1, "they take no memory");
        assert_eq!(allowed(&limits, Some(&good), start), 100, "it has its own");
        let later = start + Duration::from_secs(1);
        assert!(limits.allow(Some(&token()), later), "newcomers come in");
    }

    #[test]
    fn a_token_that_is_not_good_any_more_is_a_strangers_again() {
        let (limits, start) = (Limits::default(), Instant::now());
        let token = known(&limits, start);
        assert_eq!(allowed(&limits, None, start), 100);
        assert!(limits.allow(Some(&token), start));
        limits.forget(Some(&token));
        assert!(!limits.allow(Some(&token), start));
    }

    #[test]
    fn those_who_are_known_are_so_many_at_most() {
        let (limits, start) = (Limits::default(), Instant::now());
        for _ in 0..MOST_KNOWN {
            let token = known(&limits, start);
            assert!(limits.allow(Some(&token), start));
        }
        let late = known(&limits, start);
        assert_eq!(limits.lock().known.len(), MOST_KNOWN);
        assert!(limits.allow(Some(&late), start), "it shares with strangers");
        let later = start + Duration::from_secs(1);
        known(&limits, later);
        assert_eq!(limits.lock().known.len(), 1, "the others have theirs back");
    }
}
