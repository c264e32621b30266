//! Any values of what tells who belongs to a cluster.

use std::net::SocketAddr;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::{array, option};
use reweave_common::member::{Admission, DeniedCoordinators, Digest, Member, Role};
use reweave_common::operator::{
    CoordinatorStanding, CoordinatorState, CoordinatorStatus, MemberOrder, OpenInvitation,
    RefusedPeer, Request, Response,
};
use reweave_common::time_span::TimeSpan;

use super::arbitrary::{MAX_LIST_ITEMS, text};
use crate::message::CoordinatorAddress;

pub(super) fn member() -> impl Strategy<Value = Member> {
    let role = proptest::sample::select(&Role::ALL[..]);
    (role, text()).prop_map(|(role, name)| Member::new(role, &name))
}

pub(super) fn request() -> impl Strategy<Value = Request> {
    let digest = array::uniform32(any::<u8>()).prop_map(Digest);
    let invite = (member(), digest, any::<u32>()).prop_map(|(member, token, ms)| Request::Invite {
        member,
        token,
        lasting: TimeSpan::from_millis(ms.into()),
    });
    let renew = vec(any::<u8>(), 0..MAX_LIST_ITEMS).prop_map(|request| Request::Renew { request });
    let revoke = member().prop_map(|member| Request::Revoke { member });
    let change = order().prop_map(Request::ChangeMembers);
    let ask = prop_oneof![
        Just(Request::Coordinators),
        Just(Request::Standing),
        Just(Request::DenyLists),
    ];
    prop_oneof![invite, revoke, renew, change, ask]
}

/// Of IPv4; what else an address of IPv6 may hold is not sent.
fn address() -> impl Strategy<Value = SocketAddr> {
    any::<([u8; 4], u16)>().prop_map(SocketAddr::from)
}

fn order() -> impl Strategy<Value = MemberOrder> {
    let add = (text(), address()).prop_map(|(name, address)| MemberOrder::Add { name, address });
    let remove = text().prop_map(|who| MemberOrder::Remove { who });
    let replace = (text(), option::of(text()), option::of(address()));
    let replace =
        replace.prop_map(|(who, name, address)| MemberOrder::Replace { who, name, address });
    prop_oneof![add, remove, replace]
}

pub(super) fn coordinator() -> impl Strategy<Value = CoordinatorStatus> {
    let state = prop_oneof![
        Just(CoordinatorState::Leads),
        Just(CoordinatorState::Follows),
        Just(CoordinatorState::Learns),
        Just(CoordinatorState::Silent),
        Just(CoordinatorState::Unseen),
    ];
    let [term, heard, behind, certificate, signer] =
        std::array::from_fn(|_| option::of(any::<u64>()));
    let who = (any::<u64>(), text(), address(), state, any::<bool>());
    let how = (term, heard, behind, certificate, signer);
    let what = (
        option::of(text()),
        option::of(text()),
        option::of(any::<i64>()),
    );
    (who, how, what).prop_map(|(who, how, what)| {
        let (number, name, address, state, votes) = who;
        let (term, heard_ms, behind, certificate_left_s, signer_left_s) = how;
        let (build, protocol, clock_skew_ms) = what;
        CoordinatorStatus {
            number,
            name,
            address,
            state,
            votes,
            term,
            heard_ms,
            behind,
            build,
            protocol,
            certificate_left_s,
            signer_left_s,
            clock_skew_ms,
        }
    })
}

pub(super) fn standing() -> impl Strategy<Value = Response> {
    let parts = (any::<[u64; 3]>(), vec(coordinator(), 0..MAX_LIST_ITEMS));
    parts.prop_map(|([number, last, committed], coordinators)| {
        Response::Standing(Box::new(CoordinatorStanding {
            number,
            last,
            committed,
            coordinators,
        }))
    })
}

pub(super) fn deny_lists() -> impl Strategy<Value = Response> {
    let list = || {
        let up_to = any::<u64>().prop_map(Admission);
        btree_map(text(), up_to, 0..MAX_LIST_ITEMS)
    };
    let parts = (any::<u64>(), list(), list());
    parts.prop_map(|(as_of, revoked, removed)| {
        Response::DenyLists(DeniedCoordinators {
            as_of: Admission(as_of),
            revoked,
            removed,
        })
    })
}

pub(super) fn seats() -> impl Strategy<Value = Vec<CoordinatorAddress>> {
    let seat = (text(), address()).prop_map(|(name, address)| CoordinatorAddress { name, address });
    vec(seat, 0..MAX_LIST_ITEMS)
}

pub(super) fn refused() -> impl Strategy<Value = RefusedPeer> {
    let parts = (text(), text(), any::<u64>(), any::<u64>());
    parts.prop_map(|(from, why, times, age_ms)| RefusedPeer {
        from,
        why,
        times,
        age_ms,
    })
}

pub(super) fn invitation() -> impl Strategy<Value = OpenInvitation> {
    let parts = (member(), text(), any::<u64>());
    parts.prop_map(|(member, by, expires_in_ms)| OpenInvitation {
        member,
        by,
        expires_in_ms,
    })
}
