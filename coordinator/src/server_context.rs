//! The context that all server tasks share, and requests to the core.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use reweave_common::error::error_chain;
use reweave_common::fabric::Fabric;
use reweave_common::ids::{NodeId, OpticalId};
use reweave_common::member::{Member, Role};
use reweave_common::operator::{
    CoordinatorStanding, CoordinatorState, CoordinatorStatus, MemberOrder, Refused, Request,
    Response, Status,
};
use reweave_common::plan::Generation;
use reweave_link::{Identity, LinkError, Session};
use reweave_proto::hello::PROTOCOL_VERSION;
use reweave_replica::{
    self as replica, FolderId, MemberId, Standing, Status as Replicated, Welcome,
};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};

use crate::archive::Archive;
use crate::audit::{self, Audit, Who};
use crate::counters::{Ending, EventCounters};
use crate::decisions::Decisions;
use crate::intake::{Asker, Closed, Event, Intake, SealedResponse};
use crate::local_health::LocalHealth;
use crate::replication::{Cluster, PeerStatus, Replication, SILENCE_TIMEOUT, Task};
use crate::session_limit::SessionLimit;
use crate::sessions::{AgentRates, DenyListUpdates, IdentityLocks, Reason};
use crate::signing::Signing;
use crate::warnings::{apart, warnings};
use crate::webhooks::DeliveryCounters;

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct ServerContext {
    pub(crate) fabric: Arc<Fabric>,
    pub(crate) intake: Intake,
    pub(crate) signing: Signing,
    /// This coordinator's certificate, renewed in time.
    pub(crate) ours: watch::Receiver<Identity>,
    /// The coordinators, and which of them leads.
    pub(crate) cluster: watch::Receiver<Cluster>,
    pub(crate) replication: Replication,
    /// What is known of the others, and what this one suffers from.
    pub(crate) peer_status: PeerStatus,
    pub(crate) local_health: LocalHealth,
    pub(crate) decisions: Decisions,
    /// How plans ended, and what became of news for others.
    pub(crate) endings: EventCounters<Ending>,
    pub(crate) deliveries: Arc<[DeliveryCounters]>,
    /// Of operators and viewers, of members that wait for this one to lead, of agents that wait to begin, and of other
    /// coordinators.
    pub(crate) operator_sessions: SessionLimit<Member>,
    pub(crate) standby_sessions: SessionLimit<Member>,
    pub(crate) starting_sessions: SessionLimit<NodeId>,
    pub(crate) coordinator_sessions: SessionLimit<Member>,
    /// The deny list for members.
    pub(crate) deny_list_updates: watch::Receiver<Arc<DenyListUpdates>>,
    /// The open sessions. They are counted and not limited.
    pub(crate) open_sessions: SessionLimit<Role>,
    /// Which machine speaks for a node, and for an optical switch.
    pub(crate) agent_locks: IdentityLocks<NodeId>,
    pub(crate) driver_locks: IdentityLocks<OpticalId>,
    /// The driver that alone speaks for an optical switch; none does where none is named.
    pub(crate) assigned_driver: Arc<BTreeMap<OpticalId, String>>,
    pub(crate) agent_rates: AgentRates,
    /// The runtime for messages between coordinators, and for nothing else.
    pub(crate) apart: Handle,
    /// What was.
    pub(crate) archive: Archive,
    /// The audit log of requests and their authors.
    pub(crate) audit: Audit,
    pub(crate) pages: Pages,
}

/// Where the page is served.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pages {
    pub(crate) http: Option<SocketAddr>,
    pub(crate) https: Option<SocketAddr>,
}

fn as_it_is(response: Response) -> Response {
    response
}

/// Answers an approval of a plan that is carried out already.
fn has_begun(generation: Generation, response: Response) -> Response {
    match response {
        Response::Refused(Refused::Busy { running }) if running == generation => {
            Response::ApplyStarted { generation }
        }
        other => other,
    }
}

impl ServerContext {
    /// What is answered; who asked for what is written down, also where no client waits for the answer any longer.
    pub(crate) async fn ask(&self, by: Asker, request: Request) -> Result<Response, Closed> {
        let context = self.clone();
        match request {
            Request::Audit { before } => self.audited(by, before).await,
            request if request.decides() => {
                let answering = async move { context.ask_and_note(by, request, as_it_is).await };
                tokio::spawn(answering).await.unwrap_or(Err(Closed))
            }
            request => self.ask_and_note(by, request, as_it_is).await,
        }
    }

    /// The same of an approval that may come twice: of a plan that is applied already, it has begun. What is written
    /// down is what is answered.
    pub(crate) async fn approve(
        &self,
        by: Asker,
        generation: Generation,
        approval: Request,
    ) -> Result<Response, Closed> {
        let context = self.clone();
        let has_begun = move |response| has_begun(generation, response);
        let answering = async move { context.ask_and_note(by, approval, has_begun).await };
        tokio::spawn(answering).await.unwrap_or(Err(Closed))
    }

    async fn ask_and_note(
        &self,
        by: Asker,
        request: Request,
        adjust: impl FnOnce(Response) -> Response,
    ) -> Result<Response, Closed> {
        let (asker, what, decides) = (by.clone(), request.to_string(), request.decides());
        let SealedResponse { response, seal } = self.answered(by, request).await?;
        let response = adjust(response);
        if let Some(outcome) = audit::outcome(decides, &response) {
            let who = self.who(asker).await?;
            let subject = audit::AuditSubject { what, seal };
            self.audit.note(who, subject, outcome).await;
        }
        Ok(response)
    }

    /// The leader knows whose a token is.
    async fn who(&self, asker: Asker) -> Result<Who, Closed> {
        let member = match asker {
            Asker::Member(member) => return Ok(Who::Known(member.to_string())),
            Asker::Visitor(_) => self.answered(asker, Request::WhoAmI).await?.response,
        };
        Ok(match member {
            Response::You(member) => Who::Known(format!("{member}, by a token")),
            _ => Who::Stranger("an unknown member, by a token".to_owned()),
        })
    }

    /// What this coordinator was asked; the others have what they were.
    async fn audited(&self, by: Asker, before: Option<u64>) -> Result<Response, Closed> {
        let request = Request::Audit { before };
        let response = match self.answered(by.clone(), Request::WhoAmI).await?.response {
            Response::You(member) if request.may_be_asked_by(member.role) => {
                Response::Audit(self.audit.page(before))
            }
            Response::You(member) => Response::Refused(Refused::NotAllowed {
                role: member.role.to_string(),
            }),
            other => other,
        };
        if let Some(outcome) = audit::outcome(false, &response) {
            let who = self.who(by).await?;
            self.audit.note(who, request.to_string(), outcome).await;
        }
        Ok(response)
    }

    /// What the core answers, with what only the shell knows.
    async fn answered(&self, by: Asker, request: Request) -> Result<SealedResponse, Closed> {
        let (reply, answer) = oneshot::channel();
        let asked = Event::Asked { by, request, reply };
        self.intake.put(asked).await?;
        let mut answered = answer.await.map_err(|_| Closed)?;
        match &mut answered.response {
            Response::Status(status) => self.complete(status).await?,
            Response::MayVisit { http, https, .. } => {
                (*http, *https) = (self.pages.http, self.pages.https);
            }
            _ => {}
        }
        Ok(answered)
    }

    /// Reports a session that ended by an error of its peer to operators.
    pub(crate) fn note_end(&self, session: &Session, error: &LinkError) {
        if let LinkError::Unreadable(_) = error {
            self.note_put_out(session, Reason::Unreadable, &error_chain(error));
        }
    }

    pub(crate) fn note_put_out(&self, session: &Session, reason: Reason, why: &str) {
        self.intake.note_refused(reason, 1);
        // When the queue is full of other things, the log has to do.
        let _ = self.intake.put_telemetry(Event::TurnedAway {
            from: session.address().ip().to_string(),
            why: format!("{}: {why}", session.peer()),
            times: 1,
        });
    }

    /// Records the folder of a joining coordinator, if this coordinator leads.
    pub(crate) fn settle(&self, name: &str, folder: FolderId) {
        let cluster = self.cluster.borrow();
        let members = cluster.directory.members();
        if let Welcome::Expected(id) = members.welcome(name, folder) {
            self.replication.put(Task::Settle { id, folder });
        }
    }

    /// The state of all coordinators. Only the leader knows the progress of the others.
    pub(crate) async fn coordinators(&self) -> Result<Vec<CoordinatorStatus>, Closed> {
        let status = self.replication.status().await.ok_or(Closed)?;
        Ok(self.described(&status))
    }

    /// What this coordinator knows without asking any other, nor the core.
    pub(crate) async fn standing(&self) -> Result<CoordinatorStanding, Closed> {
        let status = self.replication.status().await.ok_or(Closed)?;
        Ok(CoordinatorStanding {
            number: status.id.0,
            last: status.last,
            committed: status.committed,
            coordinators: self.described(&status),
        })
    }

    /// Changes the coordinators, and returns the members after the change.
    pub(crate) async fn change_members(&self, order: MemberOrder) -> Result<Response, Closed> {
        let (reply, done) = oneshot::channel();
        self.replication.put(Task::Change { order, reply });
        let done = done.await.map_err(|_| Closed)?;
        self.decisions.note();
        Ok(done.map_or_else(Response::Refused, |status| {
            Response::Coordinators(self.described(&status))
        }))
    }

    async fn complete(&self, status: &mut Status) -> Result<(), Closed> {
        status.coordinators = self.coordinators().await?;
        let signs = self.signing.signs();
        let warnings = warnings(&status.coordinators, &status.revoked, signs);
        status.warnings.splice(..0, warnings);
        status.warnings.splice(..0, self.local_health.warnings());
        status.warnings.splice(..0, self.without_room());
        let apart = apart(&status.coordinators, &status.agents);
        status.warnings.extend(apart);
        Ok(())
    }

    /// Other coordinators; the core knows of this one.
    fn without_room(&self) -> Vec<String> {
        let cluster = self.cluster.borrow();
        let members = &cluster.directory.members().of;
        let full = self.peer_status.full();
        let full = full.iter().filter_map(|id| members.get(id));
        full.map(|member| format!("the disk of coordinator {} is full", member.name))
            .collect()
    }

    fn described(&self, status: &Replicated) -> Vec<CoordinatorStatus> {
        let members = status.members.of.iter();
        let each = members.map(|(&id, member)| {
            if id == status.id {
                self.myself(status, member)
            } else {
                self.other(status, id, member)
            }
        });
        let mut all: Vec<_> = each.collect();
        all.sort_by_key(|one| (one.state != CoordinatorState::Leads, one.number));
        all
    }

    fn myself(&self, status: &Replicated, member: &replica::Member) -> CoordinatorStatus {
        let ours = self.ours.borrow();
        let leads = matches!(status.standing, Standing::Leads { .. });
        CoordinatorStatus {
            state: match (leads, status.members.votes(status.id)) {
                (true, _) => CoordinatorState::Leads,
                (false, true) => CoordinatorState::Follows,
                (false, false) => CoordinatorState::Learns,
            },
            term: Some(status.term),
            build: Some(env!("CARGO_PKG_VERSION").to_owned()),
            protocol: Some(PROTOCOL_VERSION.to_string()),
            certificate_left_s: Some(left_s(ours.validity().not_after)),
            signer_left_s: self.signing.validity().map(|it| left_s(it.not_after)),
            ..unseen(status, status.id, member)
        }
    }

    fn other(
        &self,
        status: &Replicated,
        id: MemberId,
        member: &replica::Member,
    ) -> CoordinatorStatus {
        let unseen = unseen(status, id, member);
        let Some(known) = self.peer_status.of(id) else {
            return unseen;
        };
        let silent_for = known.silent_for();
        let state = if silent_for > SILENCE_TIMEOUT {
            CoordinatorState::Silent
        } else if status.leader == Some(id) {
            CoordinatorState::Leads
        } else if unseen.votes {
            CoordinatorState::Follows
        } else {
            CoordinatorState::Learns
        };
        let matched = status.matched.get(&id);
        CoordinatorStatus {
            state,
            term: Some(known.term),
            heard_ms: Some(silent_for.as_millis().try_into().unwrap_or(u64::MAX)),
            behind: matched.map(|matched| status.last.saturating_sub(*matched)),
            build: Some(known.build),
            protocol: Some(known.version.to_string()),
            certificate_left_s: Some(left_s(known.good_until)),
            signer_left_s: known.signs_until.map(left_s),
            // A silent agent may have been restarted, with another clock.
            clock_skew_ms: (silent_for <= SILENCE_TIMEOUT).then_some(known.skew_us / 1000),
            ..unseen
        }
    }
}

/// What is known of a member before it was heard.
fn unseen(status: &Replicated, id: MemberId, member: &replica::Member) -> CoordinatorStatus {
    CoordinatorStatus {
        number: id.0,
        name: member.name.clone(),
        address: member.address,
        state: CoordinatorState::Unseen,
        votes: status.members.votes(id),
        term: None,
        heard_ms: None,
        behind: None,
        build: None,
        protocol: None,
        certificate_left_s: None,
        signer_left_s: None,
        clock_skew_ms: None,
    }
}

fn left_s(until: SystemTime) -> u64 {
    let left = until.duration_since(SystemTime::now());
    left.unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audit_records_approval_outcome() {
        let of = |running| {
            Response::Refused(Refused::Busy {
                running: Generation(running),
            })
        };
        let describe = |running| has_begun(Generation(15), of(running));
        let generation = Generation(15);
        assert_eq!(describe(15), Response::ApplyStarted { generation });
        assert_eq!(audit::outcome(true, &describe(15)), Some(Ok(())));
        assert_eq!(describe(14), of(14));
        assert!(matches!(audit::outcome(true, &describe(14)), Some(Err(_))));
    }
}
