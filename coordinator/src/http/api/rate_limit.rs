//! Rate limit for each client, so that a runaway script does not affect others.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{ConnectInfo, Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::Instant;

use super::problem::Problem;
use super::visitor::Visitor;
use crate::http::tls_listener::Shown;
use crate::server_context::ServerContext;

/// Sustained rate of one client. A page sends a few requests a second, a polling script ten.
const REQUESTS_PER_S: f64 = 50.0;
/// Burst of one client, for pages that send many requests when they are opened.
const BURST_REQUESTS: f64 = 100.0;
/// Ratio of the limit for all unknown clients together to that of one client.
const STRANGER_FACTOR: f64 = 20.0;
/// Maximum number of remembered limits. A limit is forgotten when it is full again.
const MAX_BUDGETS: usize = 4096;

/// The remaining requests of each client.
#[derive(Clone, Default)]
pub(super) struct RateLimits(Arc<Mutex<Budgets>>);

#[derive(Default)]
struct Budgets {
    /// Shared limit of all unknown clients at one place: without a token, or with one that was never valid. A client
    /// can invent any number of tokens, and so cannot take requests from new clients elsewhere.
    strangers: BTreeMap<ClientNetwork, Budget>,
    /// Shared limit of all unknown clients on other machines, because the leader is asked about each new one.
    together: Option<Budget>,
    known: BTreeMap<Visitor, Budget>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ClientNetwork {
    /// The coordinator's own machine.
    Here,
    /// An IPv4 address or an IPv6 subnet. A machine has any number of addresses in its subnet (RFC 4862).
    At(IpAddr),
    /// All places beyond `MAX_BUDGETS`.
    Elsewhere,
}

impl ClientNetwork {
    fn of(request: &Request) -> Self {
        let shown = request.extensions().get::<ConnectInfo<Shown>>();
        shown.map_or(Self::Here, |ConnectInfo(it)| Self::at(it.from))
    }

    fn at(address: IpAddr) -> Self {
        const IPV6_SUBNET_MASK: u128 = u128::MAX << 64;
        Self::At(match address.to_canonical() {
            IpAddr::V6(it) => Ipv6Addr::from_bits(it.to_bits() & IPV6_SUBNET_MASK).into(),
            it @ IpAddr::V4(_) => it,
        })
    }
}

#[derive(Debug, Clone, Copy)]
struct Budget {
    left: f64,
    at: Instant,
    /// Ratio to the limit of one client.
    times: f64,
}

/// Applies the limits. The core is asked once about a new client, so that its later requests count against its own
/// limit.
pub(super) async fn hold(
    State((limits, context)): State<(RateLimits, ServerContext)>,
    request: Request,
    next: Next,
) -> Response {
    let visitor = Visitor::of(request.headers(), request.extensions()).ok();
    // A client with a verified certificate is known.
    if let Some(member @ Visitor::Member(_)) = &visitor {
        limits.learn(member.clone(), Instant::now());
    }
    if !limits.allow(
        visitor.as_ref(),
        ClientNetwork::of(&request),
        Instant::now(),
    ) {
        return Problem::too_often().into_response();
    }
    let new = visitor.as_ref().filter(|visitor| !limits.knows(visitor));
    if let Some(new) = new
        && new.name(&context).await.is_ok()
    {
        limits.learn(new.clone(), Instant::now());
    }
    let response = next.run(request).await;
    if response.status() == StatusCode::UNAUTHORIZED {
        limits.forget(visitor.as_ref());
    }
    response
}

impl RateLimits {
    fn allow(&self, visitor: Option<&Visitor>, network: ClientNetwork, now: Instant) -> bool {
        let mut budgets = self.lock();
        let Budgets {
            strangers,
            together,
            known,
        } = &mut *budgets;
        if let Some(own) = visitor.and_then(|visitor| known.get_mut(visitor)) {
            return own.take(now);
        }
        let is_remembered = network == ClientNetwork::Here
            || strangers.contains_key(&network)
            || has_room(strangers, now);
        let network = if is_remembered {
            network
        } else {
            ClientNetwork::Elsewhere
        };
        let own = strangers.entry(network).or_insert(Budget::whole(now));
        if !own.take(now) {
            return false;
        }
        let together = together.get_or_insert(Budget::of_all(now));
        network == ClientNetwork::Here || together.take(now)
    }

    fn knows(&self, visitor: &Visitor) -> bool {
        self.lock().known.contains_key(visitor)
    }

    fn learn(&self, visitor: Visitor, now: Instant) {
        let known = &mut self.lock().known;
        if has_room(known, now) {
            known.entry(visitor).or_insert(Budget::whole(now));
        }
    }

    /// Forgets a client whose token has become invalid, so that it counts as unknown.
    fn forget(&self, visitor: Option<&Visitor>) {
        if let Some(visitor) = visitor {
            self.lock().known.remove(visitor);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Budgets> {
        // A limit is consistent at any moment, even after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether there is room for one more limit. Removes full limits first.
fn has_room<W: Ord>(budgets: &mut BTreeMap<W, Budget>, now: Instant) -> bool {
    if budgets.len() >= MAX_BUDGETS {
        budgets.retain(|_, budget| budget.refilled(now) < BURST_REQUESTS);
    }
    budgets.len() < MAX_BUDGETS
}

impl Budget {
    fn whole(now: Instant) -> Self {
        Self {
            left: BURST_REQUESTS,
            at: now,
            times: 1.0,
        }
    }

    fn of_all(now: Instant) -> Self {
        Self {
            left: BURST_REQUESTS * STRANGER_FACTOR,
            at: now,
            times: STRANGER_FACTOR,
        }
    }

    fn refilled(self, now: Instant) -> f64 {
        let since = now.saturating_duration_since(self.at);
        (BURST_REQUESTS * self.times)
            .min(self.left + since.as_secs_f64() * REQUESTS_PER_S * self.times)
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

    use reweave_link::access_token::AccessToken;

    use super::*;

    const LOCAL_PLACE: ClientNetwork = ClientNetwork::Here;

    fn allowed(limits: &RateLimits, visitor: Option<&Visitor>, now: Instant) -> usize {
        let asked = (0..1000).take_while(|_| limits.allow(visitor, LOCAL_PLACE, now));
        asked.count()
    }

    fn at(address: &str) -> ClientNetwork {
        ClientNetwork::at(address.parse().unwrap())
    }

    fn token() -> Visitor {
        Visitor::Token(AccessToken::random().digest())
    }

    fn known(limits: &RateLimits, now: Instant) -> Visitor {
        let token = token();
        limits.learn(token.clone(), now);
        token
    }

    #[test]
    fn newcomers_elsewhere_are_not_starved() {
        let (limits, start) = (RateLimits::default(), Instant::now());
        let flooded = at("2001:db8:0:1::1");
        let flood = (0..1000).filter(|_| limits.allow(Some(&token()), flooded, start));
        assert_eq!(flood.count(), 100);
        let same_site = at("2001:db8:0:1:ffff::2");
        assert!(!limits.allow(Some(&token()), same_site, start));
        for other in [at("2001:db8:0:2::1"), at("192.0.2.1"), LOCAL_PLACE] {
            assert!(limits.allow(Some(&token()), other, start), "{other:?}");
        }
        let mapped = at("::ffff:192.0.2.1");
        assert_eq!(mapped, at("192.0.2.1"), "the same by another socket");
    }

    #[test]
    fn strangers_from_everywhere_are_bounded_together() {
        let (limits, start) = (RateLimits::default(), Instant::now());
        let places = (0..3 * MAX_BUDGETS as u32)
            .map(|number| ClientNetwork::at(number.to_be_bytes().into()));
        let allowed = places.filter(|network| limits.allow(None, *network, start));
        assert_eq!(allowed.count(), 2000);
        assert!(
            limits.allow(None, LOCAL_PLACE, start),
            "this machine is not among them"
        );
        assert!(limits.lock().strangers.len() <= MAX_BUDGETS + 2);
        let later = start + Duration::from_secs(2);
        assert!(limits.allow(None, at("192.0.2.1"), later));
        assert!(
            limits.lock().strangers.len() <= 3,
            "the others have theirs back"
        );
    }

    #[test]
    fn frequent_client_is_limited_alone() {
        let (limits, start) = (RateLimits::default(), Instant::now());
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
    fn unknown_tokens_share_one_budget() {
        let (limits, start) = (RateLimits::default(), Instant::now());
        let good = known(&limits, start);
        let made_up = (0..10_000).filter(|_| {
            let token = token();
            let may = limits.allow(Some(&token), LOCAL_PLACE, start);
            limits.forget(Some(&token));
            may
        });
        assert_eq!(made_up.count(), 100);
        assert_eq!(limits.lock().known.len(), 1, "they take no memory");
        assert_eq!(allowed(&limits, Some(&good), start), 100, "it has its own");
        let later = start + Duration::from_secs(1);
        assert!(
            limits.allow(Some(&token()), LOCAL_PLACE, later),
            "newcomers come in"
        );
    }

    #[test]
    fn expired_token_loses_its_budget() {
        let (limits, start) = (RateLimits::default(), Instant::now());
        let token = known(&limits, start);
        assert_eq!(allowed(&limits, None, start), 100);
        assert!(limits.allow(Some(&token), LOCAL_PLACE, start));
        limits.forget(Some(&token));
        assert!(!limits.allow(Some(&token), LOCAL_PLACE, start));
    }

    #[test]
    fn known_tokens_are_bounded() {
        let (limits, start) = (RateLimits::default(), Instant::now());
        for _ in 0..MAX_BUDGETS {
            let token = known(&limits, start);
            assert!(limits.allow(Some(&token), LOCAL_PLACE, start));
        }
        let late = known(&limits, start);
        assert_eq!(limits.lock().known.len(), MAX_BUDGETS);
        assert!(
            limits.allow(Some(&late), LOCAL_PLACE, start),
            "it shares with strangers"
        );
        let later = start + Duration::from_secs(1);
        known(&limits, later);
        assert_eq!(limits.lock().known.len(), 1, "the others have theirs back");
    }
}
