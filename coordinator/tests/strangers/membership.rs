//! Joining, renewing and being revoked, as a node lives through it.

use std::time::{Duration, Instant, SystemTime};

use reweave_common::member::{DenyList, Member};
use reweave_common::moment::Moment;
use reweave_common::operator::{AgentState, Request, Response};
use reweave_common::sample::Sample;
use reweave_link::join::{JoinError, enter};
use reweave_link::pki::KeyRequest;
use reweave_link::{Channel, Identity, LinkError, Role, Session, connect_as};
use reweave_proto::hello::{Hello, PROTOCOL_VERSION};
use reweave_proto::message::{AgentMessage, CoordinatorMessage};
use reweave_proto::since_version::came_with;

use super::house::{House, ONE_HOUR, ask, soon, validity};

async fn joined(house: &House, name: &str) -> Identity {
    let token = house.invite(&Member::new(Role::Agent, name)).await;
    let folder = house.path(&format!("joined-{name}"));
    soon(enter(&[house.door], &token, &folder)).await.unwrap()
}

async fn report(session: &Session) {
    let sample = AgentMessage::Sample(Sample {
        taken: Moment::default(),
        readings: vec![],
    });
    soon(session.send(Channel::Telemetry, &sample))
        .await
        .unwrap();
}

fn is_up(status: &reweave_common::operator::Status, node: &str) -> bool {
    let mut agents = status.agents.iter();
    agents.any(|agent| agent.node == node && agent.state == AgentState::Up)
}

#[tokio::test]
async fn node_joins_reports_and_is_revoked() {
    let house = House::new();
    let agent = joined(&house, "h0").await;
    let session = soon(house.connect(&agent)).await.unwrap();
    report(&session).await;
    house
        .status_when("h0 is up", |status| is_up(status, "h0"))
        .await;
    let began = Instant::now();
    let member = Member::new(Role::Agent, "h0");
    let request = Request::Revoke {
        member: member.clone(),
    };
    let revoked = ask(&house.operator().await, &request).await;
    assert_eq!(revoked, Response::Revoked { member });
    let ended = loop {
        match soon(session.receive::<CoordinatorMessage>(Channel::Commands)).await {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    println!("revoked and out after {:?}", began.elapsed());
    assert_eq!(
        ended.to_string(),
        "the other side closed the session: refused"
    );
    let again = soon(house.connect(&agent)).await;
    assert!(
        matches!(again, Err(LinkError::RefusedByPeer { .. })),
        "{again:?}"
    );
    house
        .status_when("the reason is reported", |status| {
            let mut refused = status.refused.iter();
            refused.any(|one| one.why == "agent h0 has been revoked")
        })
        .await;
    let back = joined(&house, "h0").await;
    let session = soon(house.connect(&back)).await.unwrap();
    report(&session).await;
    house
        .status_when("h0 is back", |status| is_up(status, "h0"))
        .await;
}

/// Adds what it hears next of who is revoked.
async fn hear_denied(session: &Session, known: &mut DenyList) {
    loop {
        let heard = soon(session.receive(Channel::Commands)).await;
        match heard.expect("it knows all kinds that it receives") {
            CoordinatorMessage::Denied(list) | CoordinatorMessage::DeniedMore(list) => {
                return known.add(list);
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn older_agent_hears_of_revocations() {
    let house = House::new();
    let agent = joined(&house, "h0").await;
    let earlier = came_with(PROTOCOL_VERSION.minor - 1);
    let hello = Hello {
        version: earlier,
        ..Hello::new(agent.cluster())
    };
    let addresses = [house.address];
    let session = connect_as(&addresses, &agent, Role::Coordinator, hello);
    let session = soon(session).await.unwrap();
    report(&session).await;
    let status = house.status_when("h0 is up", |status| is_up(status, "h0"));
    let agents = status.await.agents;
    let reports = agents.iter().find(|agent| agent.node == "h0").unwrap();
    assert_eq!(reports.protocol, Some(earlier.to_string()));
    let operator = house.operator().await;
    let mut known = DenyList::default();
    for name in ["h1", "h2", "h3"] {
        let member = Member::new(Role::Agent, name);
        let request = Request::Revoke {
            member: member.clone(),
        };
        ask(&operator, &request).await;
        while !known.names(&member) {
            hear_denied(&session, &mut known).await;
        }
    }
}

/// Viewers too, whichever coordinator they ask.
#[tokio::test]
async fn viewer_gets_denied_coordinators() {
    let house = House::new();
    let operator = house.operator().await;
    for (role, name) in [(Role::Agent, "h0"), (Role::Coordinator, "c7")] {
        let member = Member::new(role, name);
        let revoked = ask(&operator, &Request::Revoke { member }).await;
        assert!(matches!(revoked, Response::Revoked { .. }), "{revoked:?}");
    }
    let viewer = house.member(Role::Viewer, "val");
    let session = soon(house.connect(&viewer)).await.unwrap();
    let denied = soon(async {
        loop {
            match ask(&session, &Request::DenyLists).await {
                Response::DenyLists(denied) if denied.revoked.is_empty() => {}
                Response::DenyLists(denied) => return denied,
                other => panic!("no lists: {other:?}"),
            }
        }
    });
    assert!(denied.await.revoked.keys().eq(["c7"]));
}

#[tokio::test]
async fn used_token_stays_used_after_restart() {
    let mut house = House::new();
    let token = house.invite(&Member::new(Role::Agent, "h0")).await;
    soon(enter(&[house.door], &token, &house.path("first")))
        .await
        .unwrap();
    for restarts in [false, true] {
        if restarts {
            house.restart();
        }
        let again = soon(enter(&[house.door], &token, &house.path("second"))).await;
        assert!(matches!(again, Err(JoinError::Refused { .. })), "{again:?}");
        house
            .status_when("the replay is reported", |status| {
                let mut refused = status.refused.iter();
                refused.any(|one| one.why.contains("token for agent h0 has been used already"))
            })
            .await;
    }
    assert!(!house.path("second").exists(), "nothing was written");
}

#[tokio::test]
async fn renewed_certificate_keeps_session() {
    let house = House::new();
    let agent = joined(&house, "h0").await;
    let session = soon(house.connect(&agent)).await.unwrap();
    let folder = house.path("joined-h0");
    let key = KeyRequest::new(&folder).unwrap();
    let renew = AgentMessage::Renew {
        request: key.der().to_vec(),
    };
    soon(session.send(Channel::Commands, &renew)).await.unwrap();
    let chain_pem = loop {
        let message = soon(session.receive(Channel::Commands)).await.unwrap();
        if let CoordinatorMessage::Renewed { chain_pem } = message {
            break chain_pem.unwrap();
        }
    };
    key.install(&chain_pem).unwrap();
    let renewed = agent.reload(&folder).unwrap();
    assert_eq!(renewed.admission(), agent.admission());
    assert_eq!(renewed.member(), agent.member());
    report(&session).await;
    house
        .status_when("h0 is up", |status| is_up(status, "h0"))
        .await;
    soon(house.connect(&renewed)).await.unwrap();
}

#[tokio::test]
async fn invalid_renewal_request_is_not_certified() {
    let house = House::new();
    let agent = joined(&house, "h0").await;
    let session = soon(house.connect(&agent)).await.unwrap();
    let renew = AgentMessage::Renew {
        request: vec![0x30; 700],
    };
    soon(session.send(Channel::Commands, &renew)).await.unwrap();
    loop {
        let message = soon(session.receive(Channel::Commands)).await.unwrap();
        if let CoordinatorMessage::Renewed { chain_pem } = message {
            assert_eq!(chain_pem, None);
            return;
        }
    }
}

#[tokio::test]
async fn coordinator_renews_its_own_certificate() {
    let house = House::led_by(validity(23 * ONE_HOUR, ONE_HOUR));
    let status = house
        .status_when("it is renewed", |status| {
            let left = status.coordinators[0].certificate_left_s;
            left.is_some_and(|left| left > 20 * ONE_HOUR.as_secs())
        })
        .await;
    assert_eq!(status.coordinators[0].name, "c0");
    // What was asked with the old one goes on, and new members see the new one.
    let renewed = Identity::load(&house.path("c0")).unwrap();
    assert_eq!(renewed.problem(SystemTime::now() + 20 * ONE_HOUR), None);
    joined(&house, "h1").await;
}

#[tokio::test]
async fn session_expires_with_unrenewed_certificate() {
    let house = House::new();
    // On a machine that is so busy, one that is shorter expires before it is shown.
    let mut lives_s = [3, 10, 60].into_iter();
    let session = loop {
        let life = Duration::from_secs(lives_s.next().expect("one is shown in time"));
        let agent = house.member_for(Role::Agent, "h0", validity(ONE_HOUR, life));
        if let Ok(session) = soon(house.connect(&agent)).await {
            break session;
        }
    };
    soon(session.closed()).await;
    house
        .status_when("h0 is gone", |status| !is_up(status, "h0"))
        .await;
}

#[tokio::test]
async fn viewers_only_read_and_renew() {
    let house = House::new();
    let viewer = house.member(Role::Viewer, "val");
    let session = soon(house.connect(&viewer)).await.unwrap();
    for request in [
        Request::Status,
        Request::Diagnose,
        Request::History { before: None },
    ] {
        let answer = ask(&session, &request).await;
        assert!(!matches!(answer, Response::Refused(_)), "{answer:?}");
    }
    let member = Member::new(Role::Agent, "h0");
    for request in [Request::Plan, Request::Revoke { member }] {
        let answer = ask(&session, &request).await;
        let Response::Refused(refused) = answer else {
            panic!("{request:?} was done for a viewer: {answer:?}");
        };
        assert!(
            refused.to_string().contains("role viewer is not allowed"),
            "{refused}"
        );
    }
    let key = KeyRequest::new(&house.path("viewer-val")).unwrap();
    let request = Request::Renew {
        request: key.der().to_vec(),
    };
    let answer = ask(&session, &request).await;
    assert!(matches!(answer, Response::Renewed { .. }), "{answer:?}");
}
