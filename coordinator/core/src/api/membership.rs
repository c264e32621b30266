//! Invites and revokes members.

use std::collections::BTreeSet;
use std::time::Duration;

use reweave_common::member::{Digest, Member, Role};
use reweave_common::moment::Moment;
use reweave_common::operator::{Refused, Response};

use crate::log::command::{Author, Change};
use crate::log::millis::millis;
use crate::log::state::{MAX_REVOKED_MEMBERS, MAX_TOKENS, MAX_VISITORS, Membership};
use crate::rollout::DecisionContext;

/// A token that leaks later is void.
const MAX_TOKEN_TTL: Duration = Duration::from_mins(15);

/// A working day; longer sessions need a new token.
const MAX_VISIT_TTL: Duration = Duration::from_hours(12);

/// Every token is a log entry, and many short-lived ones would delay all other requests.
const MIN_VISIT_TTL: Duration = Duration::from_mins(1);
/// The limit of a member's valid tokens.
const MAX_VISITS_PER_MEMBER: usize = 64;

/// The time from the removal of a coordinator until certificates of its signer are void. Members' certificates last a
/// day, and clocks may differ by an hour: by then, the last of its certificates has expired, or another signer has
/// renewed it.
pub const REVOCATION_DELAY: Duration = Duration::from_hours(26);

pub(crate) fn no_visit() -> Refused {
    let longest_s = MAX_VISIT_TTL.as_secs();
    Refused::NoVisit { longest_s }
}

/// Creates a token for the requester, with at most its own rights.
pub(super) fn let_visit(
    turn: &mut DecisionContext<'_>,
    member: Member,
    token: Digest,
    lasting: Duration,
) -> Response {
    let now = turn.known.now;
    if !(MIN_VISIT_TTL..=MAX_VISIT_TTL).contains(&lasting) {
        return Response::Refused(no_visit());
    }
    if turn.state.membership().visits_of(&member, now) >= MAX_VISITS_PER_MEMBER {
        return Response::Refused(Refused::TooManyVisitors {
            most: MAX_VISITS_PER_MEMBER,
        });
    }
    if turn.state.membership().is_full_of_visitors(now) {
        let most = MAX_VISITORS;
        return Response::Refused(Refused::TooManyVisitors { most });
    }
    let expires = now + lasting;
    turn.decide(Change::Visited {
        token,
        member,
        expires,
    });
    let expires_in_ms = millis(lasting);
    // The core does not know the address of the page.
    Response::MayVisit {
        expires_in_ms,
        http: None,
        https: None,
    }
}

pub(super) fn invite(
    turn: &mut DecisionContext<'_>,
    principal: String,
    member: Member,
    token: Digest,
    lasting: Duration,
) -> Response {
    if let Some(refused) = hindrance(turn, &member, lasting) {
        return Response::Refused(refused);
    }
    turn.decide_beside(Change::Invited {
        token,
        member,
        expires: turn.known.now + lasting,
        by: Author::Operator(principal),
    });
    Response::Invited {
        expires_in_ms: millis(lasting),
    }
}

fn hindrance(turn: &DecisionContext<'_>, member: &Member, lasting: Duration) -> Option<Refused> {
    let fabric = turn.known.fabric;
    if !member.is_sound() || (member.role == Role::Agent && fabric.find(&member.name).is_none()) {
        let member = member.clone();
        return Some(Refused::NoSuchMember { member });
    }
    if lasting > MAX_TOKEN_TTL {
        let longest_s = MAX_TOKEN_TTL.as_secs();
        return Some(Refused::TooLong { longest_s });
    }
    let is_full = turn.state.membership().is_full(turn.known.now);
    is_full.then_some(Refused::TooManyTokens { most: MAX_TOKENS })
}

/// Revokes a member. A node that the fabric no longer has may still have a certificate, so the name need not be in the
/// fabric.
pub(super) fn revoke(turn: &mut DecisionContext<'_>, asking: &Member, member: Member) -> Response {
    if !member.is_sound() {
        return Response::Refused(Refused::NoSuchMember { member });
    }
    if member == *asking {
        return Response::Refused(Refused::Oneself);
    }
    if !turn.state.membership().has_room_for(&member) {
        let most = MAX_REVOKED_MEMBERS;
        return Response::Refused(Refused::TooManyRevoked { most });
    }
    turn.decide_beside(Change::Revoked {
        member: member.clone(),
        by: Author::Operator(asking.name.clone()),
    });
    Response::Revoked { member }
}

/// Follows removals. A removed coordinator's own certificate is refused at once. Certificates of its signer stay valid
/// for [`REVOCATION_DELAY`]: those of a leader are all agents' and operators' certificates. An operator who does not
/// trust the machine revokes it without that delay.
pub(crate) fn handle_removals(turn: &mut DecisionContext<'_>, removed: Option<&BTreeSet<String>>) {
    // A new leader does not know the removals yet.
    let Some(removed) = removed else { return };
    let state = turn.state;
    let membership = state.membership();
    // A new log dates its lists even without a removal: otherwise members would keep the lists of an earlier log as
    // the latest.
    let is_news = membership.is_undated() || !membership.has_removed(removed);
    let change = is_news.then(|| {
        let coordinators = removed.clone();
        Change::CoordinatorsRemoved { coordinators }
    });
    match change {
        Some(change) if change.since() <= state.cluster_version() => turn.decide(change),
        _ => revoke_lapsed(turn, membership, removed),
    }
}

/// Revokes removed coordinators after the delay. One that was revoked since its removal is left alone: a new token may
/// have admitted it again. So is one that was added again, which the log does not record at an earlier cluster
/// version.
fn revoke_lapsed(
    turn: &mut DecisionContext<'_>,
    membership: &Membership,
    coordinators: &BTreeSet<String>,
) {
    let denied = membership.removed().iter();
    for (member, removed) in denied.filter(|(member, _)| coordinators.contains(&member.name)) {
        let lapses = Moment::from_micros(removed.0) + REVOCATION_DELAY;
        let is_revoked = membership.denied().denies(member, removed);
        if turn.known.now >= lapses && !is_revoked && membership.has_room_for(member) {
            let (member, by) = (member.clone(), Author::Policy);
            turn.decide_beside(Change::Revoked { member, by });
        }
    }
}
