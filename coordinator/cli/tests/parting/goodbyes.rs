//! What the coordinator hears when a program that asked it ends, in good order or not.

use std::process::{Command, Stdio};
use std::time::Duration;

use reweave_common::operator::{Refused, Request, Response};
use reweave_link::{Channel, LinkError, Session};
use tokio::time::timeout;

use crate::scene::{Program, Scene, request};

/// Far more than it takes.
const TEST_TIMEOUT: Duration = Duration::from_mins(2);

/// A session that was only left is taken for dead once it has been silent for a while.
async fn expect_word(session: &Session) {
    let end = session.closed().await;
    assert!(matches!(end, LinkError::ClosedByPeer { .. }), "{end}");
}

#[tokio::test]
async fn failed_command_sends_goodbye() {
    let mut scene = Scene::new();
    let (mut child, session) = scene.asked(&["status"]).await;
    let refused = Response::Refused(Refused::NoPlan);
    session.send(Channel::Commands, &refused).await.unwrap();
    expect_word(&session).await;
    assert_eq!(child.exit_code(), Some(1));
}

#[tokio::test]
async fn terminated_command_sends_goodbye() {
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let mut scene = Scene::new();
        let (mut child, session) = scene.asked(&["watch"]).await;
        let id = child.0.id().to_string();
        let killed = Command::new("kill").args(["-s", signal, &id]).status();
        assert!(killed.unwrap().success());
        expect_word(&session).await;
        assert_eq!(child.exit_code(), Some(code));
    }
}

/// As `nohup` starts it.
#[tokio::test]
async fn ignored_signal_stays_ignored() {
    let mut scene = Scene::new();
    let child = Command::new("sh")
        .args(["-c", "trap '' HUP; exec \"$@\"", "sh"])
        .args([env!("CARGO_BIN_EXE_reweave"), "--coordinator"])
        .arg(scene.address.to_string())
        .arg("--identity")
        .arg(scene.identity())
        .arg("status")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut child = Program(child.unwrap());
    let session = scene.listener.accept().await.unwrap().unwrap();
    request(&session).await.unwrap();
    let id = child.0.id().to_string();
    let hung_up = Command::new("kill").args(["-s", "HUP", &id]).status();
    assert!(hung_up.unwrap().success());
    let refused = Response::Refused(Refused::NoPlan);
    session.send(Channel::Commands, &refused).await.unwrap();
    expect_word(&session).await;
    assert_eq!(child.exit_code(), Some(1), "it lived to hear the answer");
}

/// No coordinator comes to lead, and no answer comes from one that is asked again.
#[tokio::test]
async fn leaderless_status_asks_every_coordinator() {
    let mut scene = Scene::new();
    let (mut child, session) = scene.asked(&["status"]).await;
    let not_leading = Response::Refused(Refused::NotLeading { leader: None });
    session.send(Channel::Commands, &not_leading).await.unwrap();
    let mut unanswered = Vec::new();
    let asked = timeout(TEST_TIMEOUT, async {
        loop {
            let session = scene.listener.accept().await.unwrap().unwrap();
            match request(&session).await.unwrap() {
                Request::Standing => return session,
                _ => unanswered.push(session),
            }
        }
    });
    let asked = asked.await.expect("it asks");
    let standing = Response::Refused(Refused::NoPlan);
    asked.send(Channel::Commands, &standing).await.unwrap();
    expect_word(&asked).await;
    assert_eq!(child.exit_code(), Some(1));
}

#[tokio::test]
async fn redirected_command_leaves_first_coordinator() {
    let mut scene = Scene::new();
    let (child, session) = scene.asked(&["status"]).await;
    let leader = Some(scene.address);
    let elsewhere = Response::Refused(Refused::NotLeading { leader });
    session.send(Channel::Commands, &elsewhere).await.unwrap();
    expect_word(&session).await;
    let again = scene.listener.accept().await.unwrap().unwrap();
    drop((child, again));
}
