//! How many people are heard at once.

use reweave_common::error::error_chain;
use reweave_common::operator::{Request, Response};
use reweave_link::{Channel, LinkError, Role, Session};

use super::house::{House, soon};

/// This many sessions with one certificate at a time.
const SESSIONS_PER_MEMBER: usize = 192;
const SESSIONS_FULL_REASON: &str = "192 sessions with its certificate are open, the maximum";

async fn is_answered(session: &Session) -> Result<(), LinkError> {
    session
        .send(Channel::Commands, &Request::Coordinators)
        .await?;
    let answer = session.receive::<Response>(Channel::Commands).await;
    answer.map(drop)
}

#[tokio::test]
async fn surplus_viewer_waits_for_free_slot() {
    let house = House::new();
    let viewer = house.member(Role::Viewer, "ann");
    let come = async || house.connect(&viewer).await.unwrap();
    let mut seated = Vec::new();
    for _ in 0..SESSIONS_PER_MEMBER {
        let session = soon(come()).await;
        soon(is_answered(&session)).await.unwrap();
        seated.push(session);
    }
    // The word may come before it has asked anything.
    let tries = async || is_answered(&house.connect(&viewer).await?).await;
    let refused = soon(tries()).await.unwrap_err();
    let why = error_chain(&refused);
    assert!(why.contains(SESSIONS_FULL_REASON), "{why}");
    let first = seated.swap_remove(0);
    let operator = house.operator().await;
    soon(is_answered(&operator))
        .await
        .expect("others have room");
    first.close("that is all").await;
    let finds_a_seat = async || while tries().await.is_err() {};
    soon(finds_a_seat()).await;
    drop(seated);
    soon(finds_a_seat()).await;
    let warning = "operators learn of the one that found no session";
    house
        .status_when(warning, |status| {
            let mut refused = status.refused.iter();
            refused.any(|one| one.why.contains(SESSIONS_FULL_REASON))
        })
        .await;
}
