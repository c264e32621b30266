//! Who is not let in, and that operators see why.

use std::fs;
use std::time::SystemTime;

use reweave_common::error::error_chain;
use reweave_common::member::Member;
use reweave_common::operator::{MemberOrder, Request, Response, Status};
use reweave_link::pki::{AUTHORITY_CERTIFICATE_FILE, Authority, Validity};
use reweave_link::{Channel, Identity, LinkError, Role, Session};
use reweave_proto::message::PeerPart;
use reweave_proto::since_version::SinceVersion;
use reweave_replica::{FolderId, Kind, MemberId, Message};
use serde::Serialize;

use super::house::{House, ONE_HOUR, ask, soon};

/// Of one coordinator.
const MAX_COORDINATOR_SESSIONS: usize = 8;

/// A member of a cluster of the same name, who believes in ours.
pub(crate) fn infiltrator(house: &House) -> Identity {
    let theirs = Authority::create(&house.path("theirs"), "lab").unwrap();
    let dir = house.path("infiltrator");
    theirs
        .issue(Role::Agent, "h0", Validity::day(), &dir)
        .unwrap();
    let ours = house.path("authority").join(AUTHORITY_CERTIFICATE_FILE);
    fs::copy(ours, dir.join(AUTHORITY_CERTIFICATE_FILE)).unwrap();
    Identity::load(&dir).unwrap()
}

/// In hours from now.
fn from_to(from: i32, to: i32) -> Validity {
    let at = |hours: i32| match hours {
        ..0 => SystemTime::now() - hours.unsigned_abs() * ONE_HOUR,
        _ => SystemTime::now() + hours.unsigned_abs() * ONE_HOUR,
    };
    Validity {
        not_before: at(from),
        not_after: at(to),
    }
}

pub(crate) async fn is_warned_of(house: &House, words: &str) {
    house
        .status_when(words, |status| {
            status.refused.iter().any(|one| one.why.contains(words))
                && status
                    .warnings
                    .iter()
                    .any(|warning| warning.contains("refused"))
        })
        .await;
}

#[tokio::test]
async fn each_refusal_is_reported_to_operators() {
    let house = House::new();
    let member = Member::new(Role::Agent, "h3");
    ask(&house.operator().await, &Request::Revoke { member }).await;
    let visitors = [
        (
            infiltrator(&house),
            "not signed by the authority of this cluster",
        ),
        (
            house.member_for(Role::Agent, "h1", from_to(-3, -1)),
            "its certificate as agent h1 expired",
        ),
        (
            house.member_for(Role::Agent, "h2", from_to(1, 3)),
            "not valid for another",
        ),
        (house.member(Role::Agent, "h3"), "agent h3 has been revoked"),
    ];
    for (visitor, words) in visitors {
        let refused = soon(house.connect(&visitor)).await;
        assert!(
            matches!(refused, Err(LinkError::RefusedByPeer { .. })),
            "{words}: {refused:?}"
        );
        is_warned_of(&house, words).await;
    }
    let unknown_agent = house.member(Role::Agent, "h99");
    // It may be turned away before it has heard that it was let in.
    if let Ok(session) = soon(house.connect(&unknown_agent)).await {
        soon(session.closed()).await;
    }
    is_warned_of(&house, "the fabric has no node named \"h99\"").await;
}

/// What is no message of any version, as it is.
#[derive(Serialize)]
#[serde(transparent)]
struct Plain<'w, T>(&'w T);

impl<T> SinceVersion for Plain<'_, T> {
    fn since(&self) -> u16 {
        0
    }
}

/// Sends what the coordinator does not expect, and is thrown out for it.
async fn thrown_out<T: Serialize>(house: &House, channel: Channel, what: &T) {
    let agent = house.member(Role::Agent, "h0");
    let session = soon(house.connect(&agent)).await.unwrap();
    soon(session.send(channel, &Plain(what))).await.unwrap();
    soon(session.closed()).await;
}

/// As coordinators say it to each other, by the number of its kind.
async fn write_letter<T: Serialize>(session: &Session, kind: u32, content: &T) {
    let part = PeerPart {
        is_last: true,
        bytes: postcard::to_stdvec(&(kind, content)).unwrap(),
    };
    soon(session.send(Channel::Commands, &part)).await.unwrap();
}

/// With a certificate of the cluster, and no place among its coordinators: it wants to be elected in
/// place of the one that leads.
#[tokio::test]
async fn non_member_coordinator_is_refused() {
    let house = House::new();
    let before = house.status_when("it leads", |status| status.coordinators.len() == 1);
    let before = before.await;
    let stranger = house.member(Role::Coordinator, "c9");
    let session = soon(house.connect(&stranger)).await.unwrap();
    let (folder, disk_is_full, time_of_day_us) = (FolderId(9), false, 0_u64);
    write_letter(&session, 1, &(folder, disk_is_full, time_of_day_us)).await;
    let number = MemberId(before.coordinators[0].number);
    let vote = Message {
        log_term: 1_000_000,
        index: 1_000_000,
        ..Message::new(Kind::RequestVote, [number; 2], 1_000_000)
    };
    write_letter(&session, 0, &vote).await;
    let ended = error_chain(&soon(session.closed()).await);
    assert!(
        ended.contains("it has no session here"),
        "the reason is sent: {ended}"
    );
    is_warned_of(
        &house,
        "coordinator c9: it uses a number that is not its own",
    )
    .await;
    let after = ask(&house.operator().await, &Request::Status).await;
    let Response::Status(after) = after else {
        panic!("it leads no more: {after:?}")
    };
    assert_eq!(after.coordinators[0].term, before.coordinators[0].term);
}

async fn change_members(house: &House, order: MemberOrder) {
    let answer = ask(&house.operator().await, &Request::ChangeMembers(order)).await;
    assert!(matches!(answer, Response::Coordinators(_)), "{answer:?}");
}

/// Says which number its log gives it, as a coordinator does that starts.
async fn expect_removal_reason(house: &House, ours: &Identity, number: MemberId) {
    let session = soon(house.connect(ours)).await.unwrap();
    write_letter(&session, 6, &number).await;
    let ended = soon(session.closed()).await;
    assert!(matches!(ended, LinkError::Removed { .. }), "{ended}");
}

/// It was away then. A number stays removed when a member of the same name is added.
#[tokio::test]
async fn removed_coordinator_learns_reason() {
    let house = House::new();
    let c9 = house.member(Role::Coordinator, "c9");
    let add = MemberOrder::Add {
        name: "c9".to_owned(),
        address: "127.0.0.1:9".parse().unwrap(),
    };
    let who = "c9".to_owned();
    change_members(&house, add.clone()).await;
    change_members(&house, MemberOrder::Remove { who }).await;
    expect_removal_reason(&house, &c9, MemberId(2)).await;
    change_members(&house, add).await;
    expect_removal_reason(&house, &c9, MemberId(2)).await;
    is_warned_of(&house, "coordinator c9: it was removed from the cluster").await;
}

/// Each may hold parts of messages, so a coordinator has as many as it needs, and the longest idle one goes.
#[tokio::test]
async fn coordinator_evicts_its_own_session() {
    let house = House::new();
    let stranger = house.member(Role::Coordinator, "c9");
    let first = soon(house.connect(&stranger)).await.unwrap();
    write_letter(&first, 1, &(FolderId(9), false, 0_u64)).await;
    let answer: PeerPart = soon(first.receive(Channel::Commands)).await.unwrap();
    assert!(answer.is_last, "it has its session");
    let mut later = Vec::new();
    for _ in 0..MAX_COORDINATOR_SESSIONS {
        later.push(soon(house.connect(&stranger)).await.unwrap());
    }
    let ended = error_chain(&soon(first.closed()).await);
    assert!(
        ended.contains("session evicted: limit reached"),
        "the reason is sent: {ended}"
    );
}

#[tokio::test]
async fn unreadable_message_ends_only_its_session() {
    let house = House::new();
    let operator = house.operator().await;
    // A request of an operator, on an agent's session.
    thrown_out(&house, Channel::Commands, &Request::Plan).await;
    // Of a later version: a kind that is not known yet.
    thrown_out(&house, Channel::Commands, &200_u32).await;
    // A list that claims to be far longer than its frame.
    let claim = (0_u32, 0_u64, u64::from(u32::MAX), [0_u8; 9]);
    thrown_out(&house, Channel::Telemetry, &claim).await;
    // Half a megabyte that is no beginning of anything.
    thrown_out(&house, Channel::Telemetry, &vec![0_u8; 1 << 19]).await;
    let of_all = |status: &Status| {
        let reports = status.refused.iter();
        let reports = reports.filter(|one| one.why.contains("invalid message"));
        reports.map(|one| one.times).sum::<u64>() == 4
    };
    house
        .status_when("each of the four is reported", of_all)
        .await;
    let answer = ask(&operator, &Request::Status).await;
    assert!(matches!(answer, Response::Status(_)), "{answer:?}");
}
