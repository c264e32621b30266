//! The session of an operator: one request after the other, each answered before the next is read.

use reweave_common::error::error_chain;
use reweave_common::member::Member;
use reweave_common::operator::{Refused, Request, Response};
use reweave_link::{Channel, LinkError, Session, TokenBucket};
use reweave_proto::since_version::response_for_version;

use super::{Ending, member};
use crate::audit::{self, Who};
use crate::intake::{Asker, Closed};
use crate::replication::Wish;
use crate::server_context::ServerContext;
use crate::session_limit::{Bounds, LimitReached, Permit, SessionLimit};

/// Sessions of people and scripts, of operators and of viewers each, so that viewers keep no operator out. Of a script
/// whose programs are killed, some stay until they have been silent for seconds.
pub(crate) const OPERATOR_SESSIONS: Bounds = Bounds {
    max_per_group: Some(256),
    max_per_key: Some(192),
};

/// Questions are short, and people and scripts ask a few a second.
const RATE_BYTES_PER_S: u32 = 64 << 10;
const BURST_BYTES: u32 = 256 << 10;

/// A slot for one of its sessions, or why there is none.
pub(super) fn take_slot(
    limit: &SessionLimit<Member>,
    member: &Member,
) -> Result<Permit<Member>, String> {
    limit
        .try_acquire(member.clone())
        .map_err(|reached| match reached {
            LimitReached::Group { max } => {
                format!(
                    "{max} sessions of role {} are open, the maximum",
                    member.role
                )
            }
            LimitReached::Key { max } => {
                format!("{max} sessions with its certificate are open, the maximum")
            }
        })
}

/// It keeps its slot until it ends.
pub(super) async fn serve(session: Session, context: ServerContext, _slot: Permit<Member>) {
    let pace = TokenBucket::new(RATE_BYTES_PER_S, BURST_BYTES);
    session.pace(Channel::Commands, pace).await;
    let ending = tokio::select! {
        ending = answer_all(&session, &context) => ending,
        error = session.revoked() => error.into(),
        error = session.expired() => error.into(),
    };
    match ending {
        Ending::Lost(error @ LinkError::Denied(_)) => {
            tracing::warn!(
                "session of {} ended: {}",
                session.peer(),
                error_chain(&error)
            );
        }
        Ending::Lost(error @ LinkError::Unsendable(_)) => {
            tracing::warn!("answer to {}: {}", session.peer(), error_chain(&error));
            session.close("the answer is too long to be sent").await;
        }
        Ending::Lost(error) => context.note_end(&session, &error),
        Ending::Replaced | Ending::Closed => {
            session.close("the coordinator is shutting down").await;
        }
    }
}

async fn answer_all(session: &Session, context: &ServerContext) -> Ending {
    let renewals = member::renewals();
    loop {
        if let Err(ending) = answer_one(session, context, &renewals).await {
            return ending;
        }
    }
}

async fn answer_one(
    session: &Session,
    context: &ServerContext,
    renewals: &TokenBucket,
) -> Result<(), Ending> {
    let response = match session.receive(Channel::Commands).await? {
        Request::Renew { request } => {
            renewals.take_one().await;
            renew(session, context, request).await
        }
        request @ (Request::Coordinators
        | Request::Standing
        | Request::DenyLists
        | Request::ChangeMembers(_)) => {
            let (what, decides) = (request.to_string(), request.decides());
            let response = members(session, context, request).await?;
            if let Some(outcome) = audit::outcome(decides, &response) {
                let who = Who::Known(session.peer().to_string());
                context.audit.note(who, what, outcome).await;
            }
            response
        }
        request => {
            let by = Asker::Member(session.peer().clone());
            context.ask(by, request).await?
        }
    };
    let response = response_for_version(response, session.version());
    Ok(session.send(Channel::Commands, &response).await?)
}

/// The log knows who the coordinators are, and nothing that is decided in it depends on that.
async fn members(
    session: &Session,
    context: &ServerContext,
    request: Request,
) -> Result<Response, Closed> {
    let peer = session.peer();
    if !request.may_be_asked_by(peer.role) {
        let role = peer.role.to_string();
        return Ok(Response::Refused(Refused::NotAllowed { role }));
    }
    if let Request::Standing = request {
        return Ok(Response::Standing(Box::new(context.standing().await?)));
    }
    if let Request::DenyLists = request {
        let denied = context.deny_list_updates.borrow().of_coordinators();
        return Ok(Response::DenyLists(denied));
    }
    let (leads, leader) = {
        let cluster = context.cluster.borrow();
        (cluster.leads(), cluster.leader())
    };
    match request {
        _ if !leads => Ok(Response::Refused(Refused::NotLeading { leader })),
        Request::ChangeMembers(order) => {
            tracing::info!("{peer} changes the coordinators: {order:?}");
            context.change_members(order).await
        }
        _ => Ok(Response::Coordinators(context.coordinators().await?)),
    }
}

/// Renews a certificate for the same member and admission as the one of the session.
async fn renew(session: &Session, context: &ServerContext, request: Vec<u8>) -> Response {
    let credentials = session.credentials();
    let wish = Wish {
        request,
        member: credentials.member.clone(),
        admission: credentials.admission,
    };
    match context.signing.certify(&wish).await {
        Ok(chain_pem) => {
            tracing::info!("the certificate of {} is renewed", session.peer());
            Response::Renewed { chain_pem }
        }
        Err(error) => Response::Refused(Refused::CannotSign {
            why: error_chain(&error),
        }),
    }
}

#[cfg(test)]
mod tests {
    use reweave_common::member::Role;

    use super::*;

    #[test]
    fn session_limits_refuse_only_their_key() {
        let limit = SessionLimit::new(OPERATOR_SESSIONS);
        let take = |member: &Member| take_slot(&limit, member);
        let of_role = OPERATOR_SESSIONS.max_per_group.unwrap();
        let of_member = OPERATOR_SESSIONS.max_per_key.unwrap();
        let viewer = |number: usize| Member::new(Role::Viewer, &format!("v{number}"));
        let mut held: Vec<_> = (0..of_member).map(|_| take(&viewer(0)).unwrap()).collect();
        let refused = take(&viewer(0)).unwrap_err();
        assert!(refused.contains("with its certificate"), "{refused}");
        held.extend((of_member..of_role).map(|it| take(&viewer(it)).unwrap()));
        let refused = take(&viewer(1)).unwrap_err();
        assert!(refused.contains("of role viewer"), "{refused}");
        let operator = take(&Member::new(Role::Operator, "ann"));
        assert!(operator.is_ok(), "a member that may revoke viewers gets in");
        held.pop();
        assert!(take(&viewer(1)).is_ok(), "there is room again");
        held.clear();
        drop(operator);
        assert!(limit.open_by_key().is_empty());
    }
}
