//! Members: the leader, refused members, open tokens, and revoked members.

use reweave_common::member::Member;
use reweave_common::operator::{CoordinatorState, CoordinatorStatus, OpenInvitation, RefusedPeer};

use super::dash;
use super::hosts::skew;
use crate::page::{Ink, Page, age};

pub(super) fn coordinators(page: &mut Page, coordinators: &[CoordinatorStatus]) {
    if coordinators.is_empty() {
        return;
    }
    page.heading("Coordinators");
    let rows: Vec<_> = coordinators
        .iter()
        .map(|one| {
            [
                one.name.clone(),
                state(page, one.state),
                one.term.map_or_else(dash, |term| term.to_string()),
                one.heard_ms.map_or_else(dash, age),
                one.build.clone().unwrap_or_else(dash),
                one.clock_skew_ms.map_or_else(dash, skew),
                one.certificate_left_s.map_or_else(dash, seconds),
                one.signer_left_s.map_or_else(dash, seconds),
            ]
        })
        .collect();
    let headings = [
        "name",
        "state",
        "term",
        "heard",
        "build",
        "clock off",
        "certificate for",
        "signer for",
    ];
    page.table(headings, rows);
}

/// Adds the coordinators as members that can be replaced.
pub(crate) fn members(page: &mut Page, coordinators: &[CoordinatorStatus]) {
    let rows: Vec<_> = coordinators.iter().map(|it| member(page, it)).collect();
    let headings = [
        "number", "name", "address", "state", "votes", "heard", "behind",
    ];
    page.table(headings, rows);
}

fn member(page: &Page, one: &CoordinatorStatus) -> [String; 7] {
    [
        one.number.to_string(),
        one.name.clone(),
        one.address.to_string(),
        state(page, one.state),
        if one.votes { "yes" } else { "no" }.to_owned(),
        one.heard_ms.map_or_else(dash, age),
        one.behind.map_or_else(dash, |behind| behind.to_string()),
    ]
}

/// Same as `members`, with versions and the validity of certificates.
pub(crate) fn wide_members(page: &mut Page, coordinators: &[CoordinatorStatus]) {
    let row = |one: &CoordinatorStatus| {
        let [number, name, address, state, votes, heard, behind] = member(page, one);
        let term = one.term.map_or_else(dash, |term| term.to_string());
        let build = one.build.clone().unwrap_or_else(dash);
        let protocol = one.protocol.clone().unwrap_or_else(dash);
        let certificate = one.certificate_left_s.map_or_else(dash, seconds);
        [
            number,
            name,
            address,
            state,
            votes,
            heard,
            behind,
            term,
            build,
            protocol,
            certificate,
        ]
    };
    let rows: Vec<_> = coordinators.iter().map(row).collect();
    let headings = [
        "number",
        "name",
        "address",
        "state",
        "votes",
        "heard",
        "behind",
        "term",
        "build",
        "protocol",
        "certificate for",
    ];
    page.table(headings, rows);
}

pub(super) fn state(page: &Page, state: CoordinatorState) -> String {
    match state {
        CoordinatorState::Leads => page.ink(Ink::Green, "leads"),
        CoordinatorState::Follows => "follows".to_owned(),
        CoordinatorState::Learns => page.ink(Ink::Yellow, "learns"),
        CoordinatorState::Silent => page.ink(Ink::Red, "silent"),
        CoordinatorState::Unseen => page.ink(Ink::Grey, "unseen"),
    }
}

pub(super) fn refused(page: &mut Page, refused: &[RefusedPeer]) {
    if refused.is_empty() {
        return;
    }
    page.heading("Refused peers");
    let rows = refused.iter().map(|one| {
        [
            one.from.clone(),
            one.why.clone(),
            one.times.to_string(),
            age(one.age_ms),
        ]
    });
    page.table(["from", "why", "times", "last"], rows);
}

pub(super) fn invitations(page: &mut Page, invitations: &[OpenInvitation]) {
    if invitations.is_empty() {
        return;
    }
    page.heading("Join tokens");
    let rows = invitations.iter().map(|one| {
        [
            one.member.to_string(),
            one.by.clone(),
            age(one.expires_in_ms),
        ]
    });
    page.table(["for", "made by", "good for"], rows);
}

pub(super) fn revoked(page: &mut Page, revoked: &[Member]) {
    if revoked.is_empty() {
        return;
    }
    page.heading("Revoked");
    for member in revoked {
        page.line(&format!("  {member}"));
    }
}

pub(super) fn seconds(seconds: u64) -> String {
    age(seconds.saturating_mul(1000))
}
