//! Another coordinator says what its replica has to say to ours.

use reweave_common::error::told;
use reweave_link::{Channel, Session};
use reweave_proto::message::PeerPart;

use crate::house::House;
use crate::replication::Joiner;

pub(super) async fn hear(session: Session, house: House) {
    let name = &session.peer().name;
    let heard = tokio::select! {
        heard = hear_on(&session, Channel::Commands, &house) => heard,
        heard = hear_on(&session, Channel::Telemetry, &house) => heard,
        error = session.shut_out() => {
            return tracing::warn!("coordinator {name} is out: {}", told(&error));
        }
    };
    if let Err(why) = heard {
        tracing::warn!("coordinator {name}: {why}");
        session.close(why).await;
    }
}

/// An error when it says what it may not.
async fn hear_on(session: &Session, channel: Channel, house: &House) -> Result<(), &'static str> {
    let mut joiner = Joiner::default();
    while let Ok(part) = session.receive::<PeerPart>(channel).await {
        let message = joiner
            .join(&part)
            .map_err(|_| "it sent what is no message")?;
        let Some(message) = message else { continue };
        let name = &session.peer().name;
        if !house
            .cluster
            .borrow()
            .directory
            .is_named(message.from, name)
        {
            return Err("it speaks for a member of another name");
        }
        house.replication.put_message(message);
    }
    Ok(())
}
