//! Admits new members with a token: the core decides, and the signer certifies them.

use reweave_common::error::error_chain;
use reweave_core::{NoEntry, Pass};
use reweave_link::join::{Applicant, JoinListener};
use tokio::sync::oneshot;
use tokio::time::{Duration, MissedTickBehavior, interval};

use crate::audit::Who;
use crate::error::CoordinatorError;
use crate::intake::Event;
use crate::replication::Wish;
use crate::server_context::ServerContext;
use crate::sessions::{Reason, Refusals};
use crate::signing::{SigningError, Signs};

const REFUSAL_REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Accepts joining peers as long as the socket is open.
pub(crate) async fn serve_joins(
    join_listener: &mut JoinListener,
    context: &ServerContext,
) -> CoordinatorError {
    let mut ours = context.ours.clone();
    let mut refusals = Refusals::default();
    let mut report_interval = interval(REFUSAL_REPORT_INTERVAL);
    report_interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            accepted = join_listener.accept() => match accepted {
                None => return CoordinatorError::SocketGone,
                Some(Err(error)) => refusals.note(&error),
                Some(Ok(applicant)) => drop(tokio::spawn(answer(applicant, context.clone()))),
            },
            Ok(()) = ours.changed() => {
                if let Err(error) = join_listener.renew(&ours.borrow_and_update()) {
                    tracing::error!("the join listener has no new certificate: {}", error_chain(&error));
                }
            }
            _ = report_interval.tick() => refusals.report(&context.intake),
        }
    }
}

/// The core keeps account of those who are refused.
async fn answer(applicant: Applicant, context: ServerContext) {
    let from = applicant.address().ip();
    // No token is used up for a certificate that cannot be made.
    if context.signing.signs() == Signs::NoCoordinator {
        tracing::warn!("{from} has a token, but no signer is reachable");
        return applicant.ask_another().await;
    }
    let (reply, answer) = oneshot::channel();
    let knocked = Event::Knocked {
        token: applicant.token(),
        key: applicant.key(),
        from: from.to_string(),
        reply,
    };
    if context.intake.put(knocked).await.is_err() {
        return;
    }
    let pass = match answer.await {
        Ok(Ok(pass)) => pass,
        // Elsewhere, or later, it is written down.
        Ok(Err(NoEntry::DiskFull)) => return applicant.ask_another().await,
        Ok(Err(why)) => {
            tracing::warn!("peer refused: {from}: {why}");
            context.intake.note_refused(Reason::Token, 1);
            let who = Who::Stranger(format!("joining member at {from}"));
            let refused = Err(why.to_string());
            context.audit.note(who, "join", refused).await;
            return applicant.refuse().await;
        }
        Err(_) => return applicant.ask_another().await,
    };
    certify(applicant, pass, &context).await;
}

/// It may come again with its key where no coordinator signs just now.
async fn certify(applicant: Applicant, pass: Pass, context: &ServerContext) {
    let wish = Wish {
        request: applicant.request().to_vec(),
        member: pass.member,
        admission: pass.admission,
    };
    let member = &wish.member;
    match context.signing.certify(&wish).await {
        Ok(chain_pem) => {
            let from = applicant.address().ip();
            tracing::info!("{member} joins, from {from}");
            let who = Who::Known(format!("joining member at {from}"));
            let joined = format!("join as {member}");
            context.audit.note(who, joined, Ok(())).await;
            applicant.welcome(&chain_pem).await;
        }
        Err(error @ SigningError::NoSigner) => {
            tracing::error!("{member} cannot be certified: {}", error_chain(&error));
            applicant.ask_another().await;
        }
        Err(error) => {
            tracing::error!("{member} cannot be certified: {}", error_chain(&error));
            applicant.refuse().await;
        }
    }
}
