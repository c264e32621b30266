//! The session of somebody who asks: one request after the other, each answered before the next is
//! read.

use reweave_common::error::told;
use reweave_common::operator::{Refused, Request, Response};
use reweave_link::{Channel, LinkError, Session};

use super::Ending;
use crate::house::House;

/// Questions are short, and people and scripts ask a few a second.
const RATE_BYTES_PER_S: u32 = 64 << 10;
const BURST_BYTES: u32 = 256 << 10;

pub(super) async fn serve(session: Session, house: House) {
    session
        .pace(Channel::Commands, RATE_BYTES_PER_S, BURST_BYTES)
        .await;
    let ending = tokio::select! {
        ending = answer_all(&session, &house) => ending,
        error = session.shut_out() => error.into(),
        error = session.expired() => error.into(),
    };
    match ending {
        Ending::Lost(error @ LinkError::ShutOut(_)) => {
            tracing::warn!("{} is out: {}", session.peer(), told(&error));
        }
        Ending::Lost(error @ LinkError::Unsendable(_)) => {
            tracing::warn!("answer to {}: {}", session.peer(), told(&error));
            session.close("the answer is too long to be sent").await;
        }
        Ending::Lost(error) => house.note_end(&session, &error),
        Ending::Replaced | Ending::Closed => session.close("the coordinator ends").await,
    }
}

async fn answer_all(session: &Session, house: &House) -> Ending {
    loop {
        if let Err(ending) = answer_one(session, house).await {
            return ending;
        }
    }
}

async fn answer_one(session: &Session, house: &House) -> Result<(), Ending> {
    let response = match session.receive(Channel::Commands).await? {
        Request::Renew { request } => renew(session, house, &request),
        request => house.ask(session.peer().clone(), request).await?,
    };
    Ok(session.send(Channel::Commands, &response).await?)
}

/// For the same member and admission as the certificate it came with.
fn renew(session: &Session, house: &House, request: &[u8]) -> Response {
    let credentials = session.credentials();
    let signing = &house.signing;
    match signing.certify(request, &credentials.member, credentials.admission) {
        Ok(chain_pem) => {
            tracing::info!("the certificate of {} is renewed", session.peer());
            Response::Renewed { chain_pem }
        }
        Err(error) => Response::Refused(Refused::CannotSign { why: told(&error) }),
    }
}
