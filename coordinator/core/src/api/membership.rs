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

/// A token that is found later is worthless.
const MAX_TOKEN_TTL: Duration = Duration::from_mins(15);

/// A working day; longer sessions need a new token.
const MAX_VISIT_TTL: Duration = Duration::from_hours(12);

/// Each token is written down, and a client that makes one after the other keeps all others waiting.
const MIN_VISIT_TTL: Duration = Duration::from_mins(1);
/// Of one member at a time.
const MAX_VISITS_PER_MEMBER: usize = 64;

/// From the removal of a coordinator until what its signer signed is void. Certificates of members last a day, and clocks may
/// be an hour apart: the last that it signed has expired by then, or another signer has renewed it.
pub const REVOCATION_DELAY: Duration = Duration::from_hours(26);

pub(crate) fn no_visit() -> Refused {
    let longest_s = MAX_VISIT_TTL.as_secs();
    Refused::NoVisit { longest_s }
}

/// In the name of the requester, with no more than its own rights.
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
    // Where the page is, the core does not know.
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

/// A node that the fabric has lost may still have a certificate, so only the name must be one.
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

/// A removed coordinator's own certificate is refused at once. What its signer signed is good until [`REVOCATION_DELAY`] is over:
/// of a leader, these are the certificates of all agents and operators. An operator who does not trust the machine revokes it
/// without that delay.
pub(crate) fn handle_removals(turn: &mut DecisionContext<'_>, removed: Option<&BTreeSet<String>>) {
    // A new leader has not heard of them yet.
    let Some(removed) = removed else { return };
    let state = turn.state;
    let membership = state.membership();
    // A log that begins again dates its lists even where none is removed: those of an earlier log would stay the latest.
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

/// One that was revoked since it was removed is left as it is: a new token may have admitted it again. One that
/// was added again is not revoked either: at an earlier cluster version, the log does not say that it was.
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
