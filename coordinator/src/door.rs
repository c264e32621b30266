//! Newcomers with a token: the core says whether they may come in, and the signer certifies them.

use reweave_common::error::told;
use reweave_core::NoEntry;
use reweave_link::join::{Applicant, Door};
use tokio::sync::oneshot;
use tokio::time::{Duration, MissedTickBehavior, interval};

use crate::error::CoordinatorError;
use crate::house::House;
use crate::intake::Event;
use crate::sessions::{Reason, Refusals};

const TOLD_EVERY: Duration = Duration::from_secs(1);

/// Hears newcomers for as long as the socket is there.
pub(crate) async fn keep_door(door: &mut Door, house: &House) -> CoordinatorError {
    let mut ours = house.ours.clone();
    let mut refusals = Refusals::default();
    let mut telling = interval(TOLD_EVERY);
    telling.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            accepted = door.accept() => match accepted {
                None => return CoordinatorError::SocketGone,
                Some(Err(error)) => refusals.note(&error),
                Some(Ok(applicant)) => drop(tokio::spawn(answer(applicant, house.clone()))),
            },
            Ok(()) = ours.changed() => {
                if let Err(error) = door.renew(&ours.borrow_and_update()) {
                    tracing::error!("the door has no new certificate: {}", told(&error));
                }
            }
            _ = telling.tick() => refusals.tell(&house.intake),
        }
    }
}

/// The core keeps account of those who are refused.
async fn answer(applicant: Applicant, house: House) {
    let from = applicant.address().ip();
    // Nobody's token is used up for a certificate that cannot be made.
    if !house.signing.can_sign() {
        tracing::warn!("{from} has a token, and this coordinator has no signer");
        return applicant.ask_another().await;
    }
    let (reply, answer) = oneshot::channel();
    let knocked = Event::Knocked {
        token: applicant.token(),
        key: applicant.key(),
        from: from.to_string(),
        reply,
    };
    if house.intake.put(knocked).await.is_err() {
        return;
    }
    let pass = match answer.await {
        Ok(Ok(pass)) => pass,
        // Elsewhere, or later, it is written down.
        Ok(Err(NoEntry::DiskFull)) => return applicant.ask_another().await,
        Ok(Err(why)) => {
            tracing::warn!("not let in: {from}: {why}");
            house.intake.note_refused(Reason::Token, 1);
            return applicant.refuse().await;
        }
        Err(_) => return applicant.ask_another().await,
    };
    let signing = &house.signing;
    match signing.certify(applicant.request(), &pass.member, pass.admission) {
        Ok(chain_pem) => {
            tracing::info!("{} joins, from {from}", pass.member);
            applicant.welcome(&chain_pem).await;
        }
        Err(error) => {
            tracing::error!("{} cannot be certified: {}", pass.member, told(&error));
            applicant.refuse().await;
        }
    }
}
