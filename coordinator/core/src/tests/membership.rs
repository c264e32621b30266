//! Admission with tokens, over restarts and revocations.

use std::collections::BTreeSet;
use std::slice;
use std::time::Duration;

use reweave_common::member::{Admission, Digest, Member, Role};
use reweave_common::moment::Moment;
use reweave_common::operator::{About, Mode, Refused, Request, Response};
use reweave_common::time_span::TimeSpan;

use super::cluster::Cluster;
use super::network::Network;
use super::scene::status;
use crate::log::command::{Author, Change};
use crate::log::state::{MAX_REVOKED_MEMBERS, MAX_TOKENS};
use crate::{
    ClusterRole, Effect, Input, LATEST_MINOR, NoEntry, Pass, Policy, REVOCATION_DELAY, State,
};

const TOKEN_DIGEST: Digest = Digest([7; 32]);
const KEY_DIGEST: Digest = Digest([1; 32]);
const OTHER_KEY_DIGEST: Digest = Digest([2; 32]);
const ONE_MINUTE: Duration = Duration::from_mins(1);

fn h0() -> Member {
    Member::new(Role::Agent, "h0")
}

fn invitation(member: Member, lasting: Duration) -> Request {
    Request::Invite {
        member,
        token: TOKEN_DIGEST,
        lasting: lasting.into(),
    }
}

fn invited() -> Cluster {
    let mut cluster = Cluster::new(Mode::Manual);
    let answer = cluster.ask(invitation(h0(), 10 * ONE_MINUTE));
    assert!(matches!(answer, Response::Invited { .. }), "{answer:?}");
    cluster
}

fn knock(cluster: &mut Cluster, key: Digest) -> Result<Pass, NoEntry> {
    knock_with(cluster, TOKEN_DIGEST, key)
}

fn knock_with(cluster: &mut Cluster, token: Digest, key: Digest) -> Result<Pass, NoEntry> {
    let id = cluster.effects.len() as u64;
    cluster.handle(Input::Knock {
        id,
        token,
        key,
        from: "10.0.0.9:1".to_owned(),
    });
    match cluster.effects.last() {
        Some(Effect::Answer { id: to, pass }) if *to == id => pass.clone(),
        other => panic!("no answer: {other:?}"),
    }
}

fn refused(response: Response) -> Refused {
    match response {
        Response::Refused(refused) => refused,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn join_token_admits_one_key_once() {
    let mut cluster = invited();
    let pass = knock(&mut cluster, KEY_DIGEST).unwrap();
    assert_eq!(pass.member, h0());
    assert_eq!(pass.admission, Admission(cluster.now().as_micros()));
    let used = knock(&mut cluster, OTHER_KEY_DIGEST).unwrap_err();
    assert!(
        used.to_string().contains("used already, from 10.0.0.9:1"),
        "{used}"
    );
    assert_eq!(status(&mut cluster).refused[0].why, used.to_string());
}

/// The reply may be lost, and the certificate is useless to others.
#[test]
fn same_key_gets_same_pass() {
    let mut cluster = invited();
    let pass = knock(&mut cluster, KEY_DIGEST).unwrap();
    let entries = cluster.log.len();
    assert_eq!(knock(&mut cluster, KEY_DIGEST).unwrap(), pass);
    assert_eq!(cluster.log.len(), entries);
}

/// A member that joined before gets its reply again, and a new one may retry.
#[test]
fn full_disk_stops_admission_keeps_token() {
    let mut cluster = invited();
    let entries = cluster.log.len();
    cluster.handle(Input::Disk { is_full: true });
    assert_eq!(knock(&mut cluster, KEY_DIGEST), Err(NoEntry::DiskFull));
    assert_eq!(cluster.log.len(), entries);
    cluster.handle(Input::Disk { is_full: false });
    let pass = knock(&mut cluster, KEY_DIGEST).unwrap();
    cluster.handle(Input::Disk { is_full: true });
    assert_eq!(knock(&mut cluster, KEY_DIGEST), Ok(pass));
}

#[test]
fn used_token_stays_used_after_restart() {
    let mut cluster = invited();
    cluster.restart();
    knock(&mut cluster, KEY_DIGEST).unwrap();
    cluster.restart();
    let used = knock(&mut cluster, OTHER_KEY_DIGEST);
    assert!(matches!(used, Err(NoEntry::Used { .. })), "{used:?}");
}

/// Killed when the entry is in the log and no reply was sent.
#[test]
fn admission_survives_coordinator_crash() {
    let mut cluster = invited();
    cluster.dies_at = vec![cluster.log.len() + 1];
    cluster.handle(Input::Knock {
        id: 1,
        token: TOKEN_DIGEST,
        key: KEY_DIGEST,
        from: "10.0.0.9:1".to_owned(),
    });
    assert_eq!(cluster.restarts, 1);
    assert!(matches!(
        knock(&mut cluster, OTHER_KEY_DIGEST),
        Err(NoEntry::Used { .. })
    ));
    assert!(knock(&mut cluster, KEY_DIGEST).is_ok());
}

#[test]
fn join_token_expires() {
    let mut cluster = Cluster::new(Mode::Manual);
    cluster.ask(invitation(h0(), Duration::from_secs(1)));
    assert_eq!(status(&mut cluster).invitations.len(), 1);
    cluster.run_for(Duration::from_secs(2));
    let expired = knock(&mut cluster, KEY_DIGEST);
    assert!(
        matches!(expired, Err(NoEntry::Expired { .. })),
        "{expired:?}"
    );
    assert!(status(&mut cluster).invitations.is_empty());
}

#[test]
fn expired_used_token_is_not_renewed() {
    let mut cluster = invited();
    assert!(knock(&mut cluster, KEY_DIGEST).is_ok());
    cluster.run_for(11 * ONE_MINUTE);
    cluster.tell(invitation(h0(), 10 * ONE_MINUTE));
    assert_eq!(
        knock(&mut cluster, OTHER_KEY_DIGEST),
        Err(NoEntry::UnknownToken)
    );
}

#[test]
fn unknown_token_admits_nothing() {
    let mut cluster = Cluster::new(Mode::Manual);
    assert_eq!(knock(&mut cluster, KEY_DIGEST), Err(NoEntry::UnknownToken));
    assert!(
        cluster.log.is_empty(),
        "strangers write nothing into the log"
    );
}

#[test]
fn tokens_are_limited_to_fabric_nodes() {
    let mut cluster = Cluster::new(Mode::Manual);
    let mut ask = |member: Member, lasting| refused(cluster.ask(invitation(member, lasting)));
    let stranger = ask(Member::new(Role::Agent, "h99"), ONE_MINUTE);
    assert_eq!(stranger.to_string(), "the fabric has no node named \"h99\"");
    let odd = ask(Member::new(Role::Operator, "../ann"), ONE_MINUTE);
    assert!(matches!(odd, Refused::NoSuchMember { .. }), "{odd:?}");
    let long = ask(h0(), 16 * ONE_MINUTE);
    assert_eq!(long.to_string(), "a token is valid for 15 minutes at most");
}

#[test]
fn revocation_denies_past_admissions_voids_tokens() {
    let mut cluster = invited();
    let first = knock(&mut cluster, KEY_DIGEST).unwrap();
    let revoked = cluster.ask(Request::Revoke { member: h0() });
    assert_eq!(revoked, Response::Revoked { member: h0() });
    let denies = |cluster: &Cluster, admission| {
        let membership = cluster.core.state().membership();
        membership.denied().denies(&h0(), admission)
    };
    assert!(denies(&cluster, first.admission) && denies(&cluster, Admission::default()));
    assert_eq!(knock(&mut cluster, KEY_DIGEST), Err(NoEntry::UnknownToken));
    assert_eq!(status(&mut cluster).revoked, [h0()]);
    let token = Digest([8; 32]);
    cluster.ask(Request::Invite {
        member: h0(),
        token,
        lasting: ONE_MINUTE.into(),
    });
    let second = knock_with(&mut cluster, token, OTHER_KEY_DIGEST).unwrap();
    assert!(!denies(&cluster, second.admission) && denies(&cluster, first.admission));
    cluster.restart();
    assert!(!denies(&cluster, second.admission) && denies(&cluster, first.admission));
}

/// A changed fabric needs a new folder, whose log starts at one.
#[test]
fn new_log_denies_earlier_admissions() {
    let mut earlier = invited();
    for number in 0..20 {
        let member = Member::new(Role::Viewer, &format!("v{number}"));
        earlier.ask(Request::Revoke { member });
    }
    let pass = knock(&mut earlier, KEY_DIGEST).unwrap();
    let mut other_cluster = Cluster::new(Mode::Manual);
    other_cluster.run_for(Duration::from_secs(1));
    other_cluster.ask(Request::Revoke { member: h0() });
    let denied = other_cluster.core.state().membership().denied();
    assert!(denied.denies(&h0(), pass.admission), "{denied:?}");
}

/// It could return with them.
#[test]
fn tokens_of_revoked_operator_are_void() {
    let mut cluster = invited();
    cluster.append(Change::Revoked {
        member: Member::new(Role::Operator, "ada"),
        by: Author::Operator("bob".to_owned()),
    });
    assert_eq!(knock(&mut cluster, KEY_DIGEST), Err(NoEntry::UnknownToken));
}

#[test]
fn every_request_checks_role() {
    let mut cluster = invited();
    let requests = [
        (Request::Status, true),
        (Request::Diagnose, true),
        (Request::History { before: None }, true),
        (Request::Plan, false),
        (
            Request::Apply {
                generation: cluster.core.state().next_generation(),
            },
            false,
        ),
        (invitation(h0(), ONE_MINUTE), false),
        (Request::Revoke { member: h0() }, false),
    ];
    let entries = cluster.log.len();
    for (request, viewer_may) in requests {
        for role in [Role::Viewer, Role::Agent, Role::Driver, Role::Coordinator] {
            cluster.handle(Input::Operator {
                id: 1,
                principal: Member::new(role, "x"),
                request: request.clone(),
            });
            let Some(Effect::Reply { response, .. }) = cluster.effects.last() else {
                panic!("no answer");
            };
            let report = matches!(response, Response::Refused(Refused::NotAllowed { .. }));
            assert_eq!(
                report,
                role != Role::Viewer || !viewer_may,
                "{role} {request:?}"
            );
        }
    }
    assert_eq!(cluster.log.len(), entries);
}

#[test]
fn warnings_list_worst_first() {
    let mut cluster = Cluster::new(Mode::Manual);
    cluster.run_for(Duration::from_secs(1));
    assert_eq!(status(&mut cluster).warnings, [""; 0]);
    let nodes: Vec<_> = cluster.connected.iter().copied().collect();
    let about = |build: &str, good_for, skew_us| About {
        build: build.to_owned(),
        protocol: "1.2".to_owned(),
        good_for,
        skew_us,
    };
    let day = Duration::from_hours(24);
    let values = [
        about("1.0.0", day.into(), Some(-700_000)),
        about("1.1.0", TimeSpan::from_secs(3600), Some(100)),
    ];
    for (node, about) in nodes.iter().zip(values) {
        cluster.handle(Input::About { node: *node, about });
    }
    for times in [1, 2] {
        cluster.handle(Input::TurnedAway {
            from: "10.9.9.9".to_owned(),
            why: "it showed no certificate".to_owned(),
            times,
        });
    }
    cluster.disconnect(nodes[2]);
    let status = status(&mut cluster);
    let [h0, h1, h2] = [0, 1, 2].map(|index| status.agents[index].node.clone());
    assert_eq!(
        status.warnings,
        [
            format!("agents disconnected: {h2}"),
            format!("agents with a certificate about to expire: {h1}"),
            format!("agents with a clock offset above 0.5 s: {h0}"),
            "peers refused 3 times lately, last 10.9.9.9: it showed no certificate".to_owned(),
            "agents run different builds: 1.0.0, 1.1.0".to_owned(),
        ]
    );
    assert_eq!(status.agents[0].clock_skew_ms, Some(-700));
}

/// A client with many addresses does not fill the memory.
#[test]
fn only_latest_refusals_are_kept() {
    let mut cluster = Cluster::new(Mode::Manual);
    for number in 0..1000 {
        cluster.handle(Input::TurnedAway {
            from: format!("10.0.{}.{}", number / 256, number % 256),
            why: "x".repeat(100_000),
            times: 1,
        });
    }
    let refused = status(&mut cluster).refused;
    assert_eq!(
        (refused.len(), refused[0].from.as_str()),
        (64, "10.0.3.231")
    );
    assert!(refused.iter().all(|one| one.why.len() <= 300));
}

/// Requests that wait while an entry is written share the next one, and are answered when it is applied; a status
/// request waits for it too.
#[test]
fn waiting_operators_share_log_entry() {
    let mut cluster = Cluster::new(Mode::Manual);
    let core = &mut cluster.core;
    let ask = |id, request| Input::Operator {
        id,
        principal: Member::new(Role::Operator, "op"),
        request,
    };
    let now = Moment::from_micros(1);
    for id in 0..3 {
        let member = Member::new(Role::Viewer, &format!("v{id}"));
        core.handle(now, ask(id, Request::Revoke { member }));
    }
    core.handle(now, ask(3, invitation(h0(), 10 * ONE_MINUTE)));
    core.handle(now, ask(4, Request::Status));
    let Some(Effect::Append(command)) = core.poll_effect() else {
        panic!("nothing was decided");
    };
    assert_eq!(command.change.parts().len(), 4);
    assert_eq!(core.poll_effect(), None);
    core.apply(command);
    let answers = std::iter::from_fn(|| core.poll_effect());
    let answers: Vec<_> = answers
        .map(|effect| match effect {
            Effect::Reply { id, .. } => id,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(answers, [0, 1, 2, 3, 4]);
    let membership = core.state().membership();
    assert_eq!(membership.denied().len(), 3);
    assert_eq!(membership.open(now).count(), 1);
}

/// A faulty script does not fill the memory of all members.
#[test]
fn open_tokens_are_limited() {
    let mut cluster = Cluster::new(Mode::Manual);
    let expires = cluster.now() + 10 * ONE_MINUTE;
    let tokens = (0..MAX_TOKENS as u64).map(|number| {
        let mut token = Digest([0; 32]);
        token.0[..8].copy_from_slice(&number.to_le_bytes());
        let by = Author::Policy;
        Change::Invited {
            token,
            member: h0(),
            expires,
            by,
        }
    });
    cluster.append(Change::Together(tokens.collect()));
    let most = MAX_TOKENS;
    let one_more = invitation(h0(), ONE_MINUTE);
    assert_eq!(
        refused(cluster.ask(one_more.clone())),
        Refused::TooManyTokens { most }
    );
    cluster.run_for(10 * ONE_MINUTE);
    let answer = cluster.ask(one_more);
    assert!(matches!(answer, Response::Invited { .. }), "{answer:?}");
}

#[test]
fn revoked_members_limited_repeat_allowed() {
    let mut cluster = Cluster::new(Mode::Manual);
    let viewer = |number: usize| Member::new(Role::Viewer, &format!("v{number}"));
    let revoked = (0..MAX_REVOKED_MEMBERS).map(|number| Change::Revoked {
        member: viewer(number),
        by: Author::Policy,
    });
    cluster.append(Change::Together(revoked.collect()));
    let most = MAX_REVOKED_MEMBERS;
    let member = viewer(most);
    assert_eq!(
        refused(cluster.ask(Request::Revoke { member })),
        Refused::TooManyRevoked { most }
    );
    let member = viewer(7);
    let again = cluster.ask(Request::Revoke {
        member: member.clone(),
    });
    assert_eq!(again, Response::Revoked { member });
}

fn c3() -> Member {
    Member::new(Role::Coordinator, "c3")
}

fn removed(names: &[&str]) -> Input {
    let coordinators = names.iter().map(|name| (*name).to_owned());
    Input::Removed {
        coordinators: coordinators.collect(),
    }
}

/// Whether c3's own certificate of this admission is denied, and whether its signer's certificates are.
fn denies_c3(cluster: &Cluster, admission: u64) -> [bool; 2] {
    let lists = cluster.core.state().membership().deny_lists();
    [lists.removed, lists.revoked].map(|list| list.denies(&c3(), Admission(admission)))
}

/// Its signer's certificates stay valid, and a later token admits it again.
#[test]
fn removed_coordinator_is_denied_at_once() {
    let mut cluster = Cluster::new(Mode::Manual);
    cluster.handle(removed(&["c3"]));
    let now = cluster.now().as_micros();
    assert_eq!(
        denies_c3(&cluster, 0),
        [true, false],
        "what was made by hand"
    );
    assert_eq!(denies_c3(&cluster, now), [true, false]);
    assert_eq!(denies_c3(&cluster, now + 1), [false, false]);
    cluster.restart();
    let written = cluster.log.len();
    cluster.handle(removed(&["c3"]));
    assert_eq!(cluster.log.len(), written, "each new leader hears of it");
    cluster.handle(removed(&["c4"]));
    assert_eq!(denies_c3(&cluster, 0), [false, false], "it was added again");
    cluster.handle(removed(&["c3", "c4"]));
    assert_eq!(denies_c3(&cluster, now), [true, false]);
}

/// Members can order the lists by their dates, even if the clock stands still.
#[test]
fn deny_lists_are_dated_by_log() {
    let mut cluster = Cluster::new(Mode::Manual);
    let inputs = [removed(&[]), removed(&["c3"]), removed(&[])];
    let [first, gone, back] = inputs.map(|input| {
        cluster.handle(input);
        cluster.core.state().membership().deny_lists().as_of
    });
    assert!(Admission::default() < first, "an earlier log had one");
    assert!(first < gone && gone < back);
}

/// Restarts and new leaders do not restart the delay.
#[test]
fn removed_coordinator_is_revoked_once() {
    let mut cluster = Cluster::new(Mode::Manual);
    cluster.handle(removed(&["c3"]));
    cluster.stall(REVOCATION_DELAY - ONE_MINUTE);
    cluster.restart();
    cluster.handle(removed(&["c3"]));
    cluster.handle(Input::Tick);
    assert!(
        status(&mut cluster).revoked.is_empty(),
        "agents renew still"
    );
    cluster.stall(ONE_MINUTE);
    cluster.handle(Input::Tick);
    assert_eq!(status(&mut cluster).revoked, slice::from_ref(&c3()));
    let written = cluster.log.len();
    cluster.stall(REVOCATION_DELAY);
    cluster.restart();
    cluster.handle(removed(&["c3"]));
    assert_eq!(cluster.log.len(), written);
    // A token has admitted it since, and it was removed once more.
    let again = cluster.now().as_micros();
    cluster.handle(removed(&[]));
    cluster.handle(removed(&["c3"]));
    assert_eq!(denies_c3(&cluster, again), [true, false]);
    cluster.stall(REVOCATION_DELAY + ONE_MINUTE);
    cluster.handle(Input::Tick);
    assert_eq!(denies_c3(&cluster, again), [true, true]);
}

/// The coordinator may have been added again.
#[test]
fn new_leader_hears_before_it_revokes() {
    let mut cluster = Cluster::new(Mode::Manual);
    cluster.handle(removed(&["c3"]));
    cluster.stall(REVOCATION_DELAY);
    cluster.restart();
    cluster.handle(Input::Tick);
    assert_eq!(denies_c3(&cluster, 0), [true, false]);
    cluster.handle(removed(&["c3"]));
    assert_eq!(denies_c3(&cluster, 0), [true, true]);
}

fn set_version(cluster: &mut Cluster, to: u16) {
    let minor = Some(to);
    let response = cluster.ask(Request::ClusterVersion { minor });
    assert!(
        matches!(response, Response::ClusterVersion { minor, .. } if minor == to),
        "{response:?}"
    );
}

/// Coordinators of 1.0 could not lift its removal. Removals are recorded again once no coordinator runs it any more.
#[test]
fn lowered_version_lifts_unknown_removals() {
    let mut cluster = Cluster::new(Mode::Manual);
    cluster.founded = 1;
    cluster.restart();
    cluster.handle(removed(&["c3"]));
    set_version(&mut cluster, 0);
    cluster.handle(removed(&[]));
    cluster.stall(REVOCATION_DELAY + ONE_MINUTE);
    cluster.handle(Input::Tick);
    assert_eq!(denies_c3(&cluster, 0), [false, false]);
    cluster.handle(removed(&["c3"]));
    assert_eq!(denies_c3(&cluster, 0), [false, false]);
    cluster.handle(Input::MinVersion { minor: 1 });
    set_version(&mut cluster, 1);
    cluster.handle(Input::Tick);
    assert_eq!(denies_c3(&cluster, 0), [true, false]);
}

/// A removed coordinator whose holder is not trusted stays out during a downgrade.
#[test]
fn lowered_version_keeps_known_removals() {
    let mut cluster = Cluster::new(Mode::Manual);
    cluster.handle(removed(&["c3"]));
    set_version(&mut cluster, LATEST_MINOR - 1);
    assert_eq!(denies_c3(&cluster, 0), [true, false]);
    cluster.stall(REVOCATION_DELAY + ONE_MINUTE);
    cluster.handle(Input::Tick);
    assert_eq!(denies_c3(&cluster, 0), [true, true]);
}

/// Coordinators of the previous release would stop at the entry.
#[test]
fn removal_waits_for_cluster_version() {
    let mut cluster = Cluster::new(Mode::Manual);
    cluster.founded = 0;
    cluster.restart();
    cluster.handle(removed(&["c3"]));
    assert!(cluster.log.is_empty(), "{:?}", cluster.log);
    cluster.handle(Input::MinVersion { minor: 1 });
    assert_eq!(denies_c3(&cluster, 0), [true, false]);
}

/// Ticks ask ten times a second.
#[test]
fn removals_are_reported_when_they_change() {
    let (none, c3) = (BTreeSet::new(), BTreeSet::from(["c3".to_owned()]));
    let fabric = Network::new(2, 3).fabric;
    let state = State::founded(LATEST_MINOR);
    let mut role = ClusterRole::new(Policy::default(), fabric, state, LATEST_MINOR);
    assert_eq!(role.handle_removed(&c3), None, "it follows");
    role.handle_elected(1, [], []);
    assert_eq!(role.handle_removed(&none), Some(removed(&[])));
    assert_eq!(role.handle_removed(&none), None);
    assert_eq!(role.handle_removed(&c3), Some(removed(&["c3"])));
    assert_eq!(role.handle_removed(&c3), None);
    // Before it was decided.
    assert_eq!(role.handle_removed(&none), Some(removed(&[])));
    role.handle_elected(2, [], []);
    assert_eq!(role.handle_removed(&none), Some(removed(&[])), "once more");
    assert_eq!(role.handle_removed(&c3), Some(removed(&["c3"])));
}

/// Checks the limits of visits, because each visit is a log entry.
#[test]
fn visits_have_bounded_time_and_count() {
    let mut cluster = Cluster::new(Mode::Manual);
    let mut visit = |number: u8, lasting| {
        let token = Digest([number; 32]);
        cluster.ask(Request::Visit { token, lasting })
    };
    let none = refused(visit(0, TimeSpan::ZERO));
    assert!(matches!(none, Refused::NoVisit { .. }), "{none:?}");
    for number in 0..64 {
        let answer = visit(number, ONE_MINUTE.into());
        assert!(matches!(answer, Response::MayVisit { .. }), "{answer:?}");
    }
    let more = refused(visit(64, ONE_MINUTE.into()));
    assert_eq!(more, Refused::TooManyVisitors { most: 64 });
}

#[test]
fn operator_cannot_revoke_itself() {
    let mut cluster = Cluster::new(Mode::Manual);
    let member = Member::new(Role::Operator, "ada");
    let answer = refused(cluster.ask(Request::Revoke { member }));
    assert_eq!(answer, Refused::Oneself);
    let other = Member::new(Role::Operator, "bob");
    let answer = cluster.ask(Request::Revoke {
        member: other.clone(),
    });
    assert_eq!(answer, Response::Revoked { member: other });
}
