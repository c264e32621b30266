//! How often each visitor may ask, so that a script that runs wild takes nothing from other people.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::Instant;

use super::problem::Problem;
use super::visitor::Visitor;

/// A page asks a few times a second, a script that polls ten times.
const PER_SECOND: f64 = 50.0;
/// For pages that ask for much at once when they are opened.
const AT_ONCE: f64 = 100.0;
/// Tokens are remembered while they have not all their requests back; strangers make up many.
const MOST_TOKENS: usize = 4096;

/// How many requests each token may still make. Whoever has none shares with all others who have none.
#[derive(Clone, Default)]
pub(super) struct Limits(Arc<Mutex<BTreeMap<Option<Visitor>, Budget>>>);

#[derive(Debug, Clone, Copy)]
struct Budget {
    left: f64,
    at: Instant,
}

pub(super) async fn hold(State(limits): State<Limits>, request: Request, next: Next) -> Response {
    let visitor = Visitor::of(request.headers(), request.extensions());
    match limits.allow(visitor.ok(), Instant::now()) {
        true => next.run(request).await,
        false => Problem::too_often().into_response(),
    }
}

impl Limits {
    fn allow(&self, visitor: Option<Visitor>, now: Instant) -> bool {
        // A budget is whole at any moment.
        let mut budgets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if budgets.len() >= MOST_TOKENS && !budgets.contains_key(&visitor) {
            budgets.retain(|_, budget| budget.refilled(now) < AT_ONCE);
        }
        let may_have_one = budgets.len() < MOST_TOKENS || budgets.contains_key(&visitor);
        let visitor = visitor.filter(|_| may_have_one);
        let whole = Budget {
            left: AT_ONCE,
            at: now,
        };
        budgets.entry(visitor).or_insert(whole).take(now)
    }
}

impl Budget {
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

    fn allowed(limits: &Limits, visitor: &Option<Visitor>, now: Instant) -> usize {
        let asked = (0..1000).take_while(|_| limits.allow(visitor.clone(), now));
        asked.count()
    }

    fn token() -> Option<Visitor> {
        Some(Visitor::Token(Visit::random().digest()))
    }

    #[test]
    fn who_asks_too_often_waits_and_others_do_not() {
        let (limits, start) = (Limits::default(), Instant::now());
        let (one, other) = (token(), token());
        assert_eq!(allowed(&limits, &one, start), 100);
        assert_eq!(allowed(&limits, &other, start), 100);
        assert_eq!(allowed(&limits, &None, start), 100);
        let later = start + Duration::from_millis(500);
        assert_eq!(allowed(&limits, &one, later), 25);
        let much_later = start + Duration::from_hours(1);
        assert_eq!(allowed(&limits, &one, much_later), 100);
    }

    #[test]
    fn tokens_that_strangers_make_up_take_no_memory() {
        let (limits, start) = (Limits::default(), Instant::now());
        let known = token();
        assert!(limits.allow(known.clone(), start));
        let made_up = (0..3 * MOST_TOKENS).filter(|_| limits.allow(token(), start));
        assert!(made_up.count() < MOST_TOKENS + 100);
        assert!(limits.0.lock().unwrap().len() <= MOST_TOKENS + 1);
        assert!(
            limits.allow(known.clone(), start),
            "it has a budget of its own"
        );
        let later = start + Duration::from_secs(1);
        assert_eq!(
            allowed(&limits, &token(), later),
            100,
            "the others have theirs back"
        );
    }
}
