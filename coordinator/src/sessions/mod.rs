//! Sessions with agents, operators and other coordinators.

mod agent;
mod agent_rates;
mod coordinator;
mod deny_list_updates;
mod driver;
mod identity_locks;
mod member;
mod operator;
mod refusals;

use reweave_common::ids::NodeId;

use reweave_link::{LinkError, Listener, Role, Session};
use tokio::time::{Duration, MissedTickBehavior, interval};

use crate::error::CoordinatorError;
use crate::intake::{Closed, Origin, SessionId};
use crate::server_context::ServerContext;
pub(crate) use agent::STARTING_SESSIONS;
pub(crate) use agent_rates::AgentRates;
pub(crate) use coordinator::COORDINATOR_SESSIONS;
pub(crate) use deny_list_updates::{DenyListUpdates, publish};
use identity_locks::IdentityLock;
pub(crate) use identity_locks::IdentityLocks;
pub(crate) use member::STANDBY_SESSIONS;
pub(crate) use operator::OPERATOR_SESSIONS;
pub(crate) use refusals::{Reason, Refusals};

/// Whom the listener lets in.
pub(crate) const ADMITTED_ROLES: [Role; 5] = [
    Role::Agent,
    Role::Driver,
    Role::Operator,
    Role::Viewer,
    Role::Coordinator,
];

/// The interval between reports of refused peers.
const REFUSAL_REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Lets peers in for as long as the socket is there, with the newest of our certificates.
pub(crate) async fn welcome(listener: &mut Listener, context: &ServerContext) -> CoordinatorError {
    let mut ours = context.ours.clone();
    let mut cluster = context.cluster.clone();
    cluster.mark_changed();
    let mut last = SessionId(0);
    let mut refusals = Refusals::default();
    let mut report_interval = interval(REFUSAL_REPORT_INTERVAL);
    report_interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                None => return CoordinatorError::SocketGone,
                Some(Err(error)) => refusals.note(&error),
                Some(Ok(session)) => {
                    last = SessionId(last.0 + 1);
                    begin(session, last, context.clone(), &mut refusals);
                }
            },
            Ok(()) = ours.changed() => listener.renew(&ours.borrow_and_update()),
            Ok(()) = cluster.changed() => {
                listener.favour(cluster.borrow_and_update().directory.hosts());
            }
            _ = report_interval.tick() => refusals.report(&context.intake),
        }
    }
}

fn begin(session: Session, id: SessionId, context: ServerContext, refusals: &mut Refusals) {
    let peer = &session.peer().clone();
    match peer.role {
        Role::Agent => match context.fabric.find(&peer.name) {
            Some(node) => {
                let from = Origin { node, session: id };
                lock_and_admit(session, from, context, refusals);
            }
            None => {
                let why = format!("the fabric has no node named {:?}", peer.name);
                turn_away(session, Reason::UnknownNode, why, refusals);
            }
        },
        Role::Operator | Role::Viewer => {
            match operator::take_slot(&context.operator_sessions, peer) {
                Ok(slot) => spawn_counted(
                    &context.clone(),
                    peer.role,
                    operator::serve(session, context, slot),
                ),
                Err(why) => turn_away(session, Reason::Crowded, why, refusals),
            }
        }
        Role::Coordinator => {
            let _apart = context.apart.clone().enter();
            spawn_counted(
                &context.clone(),
                peer.role,
                coordinator::hear(session, context),
            );
        }
        Role::Driver => spawn_counted(
            &context.clone(),
            peer.role,
            driver::serve(session, id, context),
        ),
    }
}

/// Serves a session, which is counted for as long as it lasts.
fn spawn_counted(
    context: &ServerContext,
    role: Role,
    served: impl Future<Output = ()> + Send + 'static,
) {
    let counted = context.open_sessions.count(role);
    tokio::spawn(async move {
        served.await;
        drop(counted);
    });
}

/// Where another leads no lock is taken, and the agent is sent there.
fn lock_and_admit(session: Session, from: Origin, context: ServerContext, refusals: &mut Refusals) {
    let lock = if context.cluster.borrow().leads() {
        agent::take_lock(&session, from, &context).map(Some)
    } else {
        Ok(None)
    };
    match lock {
        Ok(lock) => admit(session, from, context, lock, refusals),
        Err(why) => turn_away(session, Reason::Contested, why, refusals),
    }
}

/// Delays an agent that reconnects too often, and refuses sessions beyond the limit.
fn admit(
    session: Session,
    from: Origin,
    context: ServerContext,
    lock: Option<IdentityLock<NodeId>>,
    refusals: &mut Refusals,
) {
    let rate = context.agent_rates.of(from.node);
    let share = session.pace_packets(rate.packets.clone());
    let Ok(starting) = context.starting_sessions.try_acquire(from.node) else {
        let why = "too many pending sessions of this agent".to_owned();
        return turn_away(session, Reason::Crowded, why, refusals);
    };
    spawn_counted(&context.clone(), Role::Agent, async move {
        tokio::select! {
            () = rate.begin() => {}
            _ = session.closed() => return,
        }
        drop(starting);
        agent::serve(session, from, context, lock).await;
        drop(share);
    });
}

/// A peer with a valid certificate gets the reason.
fn turn_away(session: Session, reason: Reason, why: String, refusals: &mut Refusals) {
    let text = format!("{}: {why}", session.peer());
    refusals.add(session.address(), reason, text);
    drop(tokio::spawn(async move { session.close(&why).await }));
}

/// How a session came to its end.
enum Ending {
    Lost(LinkError),
    /// A newer session of the same agent took its place, or it took no instructions.
    Replaced,
    /// The program ends.
    Closed,
}

impl From<LinkError> for Ending {
    fn from(error: LinkError) -> Self {
        Self::Lost(error)
    }
}

impl From<Closed> for Ending {
    fn from(_: Closed) -> Self {
        Self::Closed
    }
}
