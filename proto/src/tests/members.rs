//! Any values of what tells who belongs to a cluster.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::{array, option};
use reweave_common::member::{Digest, Member, Role};
use reweave_common::operator::{
    CoordinatorState, CoordinatorStatus, OpenInvitation, RefusedPeer, Request,
};

use super::arbitrary::{MANY, text};

pub(super) fn member() -> impl Strategy<Value = Member> {
    let role = proptest::sample::select(&Role::ALL[..]);
    (role, text()).prop_map(|(role, name)| Member::new(role, &name))
}

pub(super) fn request() -> impl Strategy<Value = Request> {
    let digest = array::uniform32(any::<u8>()).prop_map(Digest);
    let invite = (member(), digest, any::<u32>()).prop_map(|(member, token, ms)| Request::Invite {
        member,
        token,
        lasting: Duration::from_millis(ms.into()),
    });
    let renew = vec(any::<u8>(), 0..MANY).prop_map(|request| Request::Renew { request });
    let revoke = member().prop_map(|member| Request::Revoke { member });
    prop_oneof![invite, revoke, renew]
}

pub(super) fn coordinator() -> impl Strategy<Value = CoordinatorStatus> {
    let state = prop_oneof![
        Just(CoordinatorState::Leads),
        Just(CoordinatorState::Follows),
        Just(CoordinatorState::Stands),
        Just(CoordinatorState::Silent),
        Just(CoordinatorState::Unknown),
    ];
    let left = option::of(any::<u64>());
    let parts = (
        text(),
        state,
        left.clone(),
        option::of(text()),
        left.clone(),
        left,
    );
    parts.prop_map(
        |(name, state, term, build, certificate, signer)| CoordinatorStatus {
            name,
            state,
            term,
            build,
            certificate_left_s: certificate,
            signer_left_s: signer,
        },
    )
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
