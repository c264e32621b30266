//! How received lists change the lists in force. Each of the two lists has its own bound: a full one keeps nothing out
//! of the other.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reweave_common::member::{
    Admission, ClockBounds, DenyList, DenyLists, Member, RemovedCoordinators, Role,
};

/// The maximum length of each list: as many members as a log of the coordinators can revoke.
pub(super) const MAX_DENIED_COORDINATORS: usize = 1 << 16;
/// The maximum difference of two clocks. Lists have times of the leader's clock.
const MAX_TIME_AHEAD: Duration = Duration::from_hours(26);

pub(super) fn clock_at(now: SystemTime) -> ClockBounds {
    let since_epoch = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let admission = |time: Duration| Admission(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    ClockBounds {
        now: admission(since_epoch),
        latest: admission(since_epoch.saturating_add(MAX_TIME_AHEAD)),
    }
}

/// Whether the list can be from a log whose time is not ahead of this clock. In a log, no member is denied up to a
/// later time than the log's own.
pub(super) fn is_plausible(removed: &RemovedCoordinators, clock: ClockBounds) -> bool {
    let mut denied = removed.list.iter();
    removed.as_of <= clock.latest && denied.all(|(_, up_to)| up_to <= removed.as_of)
}

pub(super) fn revoke(held: &mut DenyLists, mut more: DenyList, clock: ClockBounds) {
    more.retain(can_be_met);
    let before = held.revoked.clone();
    held.revoke(more, clock);
    if held.revoked.len() > MAX_DENIED_COORDINATORS {
        held.revoked = before;
        warn_of_length("revoked");
    }
}

pub(super) fn replace_removed(
    held: &mut DenyLists,
    mut theirs: RemovedCoordinators,
    clock: ClockBounds,
) {
    theirs.list.retain(can_be_met);
    let before = held.removed_coordinators();
    held.replace_removed(theirs, clock);
    if held.removed.len() > MAX_DENIED_COORDINATORS {
        (held.as_of, held.removed) = (before.as_of, before.list);
        warn_of_length("removed");
    }
}

/// Takes over the lists that another program of this machine has learned.
pub(super) fn merge(held: &mut DenyLists, theirs: DenyLists, clock: ClockBounds) {
    let removed = RemovedCoordinators {
        as_of: theirs.as_of,
        list: theirs.removed,
    };
    revoke(held, theirs.revoked, clock);
    replace_removed(held, removed, clock);
}

/// Whether this member's certificate can be met. Agents, drivers and operators' commands connect only to coordinators,
/// and only coordinators sign. No certificate has an unsound name.
fn can_be_met(member: &Member) -> bool {
    member.role == Role::Coordinator && member.is_sound()
}

fn warn_of_length(list: &str) {
    tracing::warn!(
        "a list of {list} coordinators is ignored: with it, more than {MAX_DENIED_COORDINATORS} would be"
    );
}
