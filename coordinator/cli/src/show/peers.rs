//! Who leads, who was not let in, who may join, who is shut out.

use reweave_common::member::Member;
use reweave_common::operator::{CoordinatorState, CoordinatorStatus, OpenInvitation, RefusedPeer};

use super::status::dash;
use crate::page::{Ink, Page, age};

pub(super) fn coordinators(page: &mut Page, coordinators: &[CoordinatorStatus]) {
    if coordinators.is_empty() {
        return;
    }
    page.heading("Coordinators");
    let row = |one: &CoordinatorStatus| {
        [
            one.name.clone(),
            state(page, one.state),
            one.term.map_or_else(dash, |term| term.to_string()),
            one.build.clone().unwrap_or_else(dash),
            one.certificate_left_s.map_or_else(dash, seconds),
            one.signer_left_s.map_or_else(dash, seconds),
        ]
    };
    let rows: Vec<_> = coordinators.iter().map(row).collect();
    let headings = [
        "name",
        "state",
        "term",
        "build",
        "certificate for",
        "signer for",
    ];
    page.table(headings, rows);
}

fn state(page: &Page, state: CoordinatorState) -> String {
    match state {
        CoordinatorState::Leads => page.ink(Ink::Green, "leads"),
        CoordinatorState::Follows => "follows".to_owned(),
        CoordinatorState::Stands => page.ink(Ink::Yellow, "stands"),
        CoordinatorState::Silent => page.ink(Ink::Red, "silent"),
        CoordinatorState::Unknown => dash(),
    }
}

pub(super) fn refused(page: &mut Page, refused: &[RefusedPeer]) {
    if refused.is_empty() {
        return;
    }
    page.heading("Not let in");
    let row = |one: &RefusedPeer| {
        [
            one.from.clone(),
            one.why.clone(),
            one.times.to_string(),
            age(one.age_ms),
        ]
    };
    page.table(["from", "why", "times", "last"], refused.iter().map(row));
}

pub(super) fn invitations(page: &mut Page, invitations: &[OpenInvitation]) {
    if invitations.is_empty() {
        return;
    }
    page.heading("Join tokens");
    let row = |one: &OpenInvitation| {
        [
            one.member.to_string(),
            one.by.clone(),
            age(one.expires_in_ms),
        ]
    };
    let rows = invitations.iter().map(row);
    page.table(["for", "made by", "good for"], rows);
}

pub(super) fn revoked(page: &mut Page, revoked: &[Member]) {
    if revoked.is_empty() {
        return;
    }
    page.heading("Shut out");
    for member in revoked {
        page.line(&format!("  {member}"));
    }
}

pub(super) fn seconds(seconds: u64) -> String {
    age(seconds.saturating_mul(1000))
}
