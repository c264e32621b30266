//! What everybody who hears peers needs, and how the core is asked.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use reweave_common::error::told;
use reweave_common::fabric::Fabric;
use reweave_common::member::Member;
use reweave_common::operator::{CoordinatorState, CoordinatorStatus, Request, Response, Status};
use reweave_link::{Identity, LinkError, Session};
use tokio::sync::{oneshot, watch};

use crate::intake::{Closed, Event, Intake};
use crate::replication::{Cluster, Replication};
use crate::sessions::Places;
use crate::signing::Signing;

/// With so little left, a certificate should have been renewed long ago.
const NEARLY_EXPIRED: Duration = Duration::from_hours(4);
/// A signer is made by hand, and people take their time.
const SIGNER_NEARLY_EXPIRED: Duration = Duration::from_hours(30 * 24);

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct House {
    pub(crate) fabric: Arc<Fabric>,
    pub(crate) intake: Intake,
    pub(crate) signing: Signing,
    /// This coordinator's certificate, renewed in time.
    pub(crate) ours: watch::Receiver<Identity>,
    /// Who the coordinators are, and who of them leads.
    pub(crate) cluster: watch::Receiver<Cluster>,
    pub(crate) replication: Replication,
    pub(crate) places: Places,
}

impl House {
    /// What the core answers, with what only the shell knows.
    pub(crate) async fn ask(
        &self,
        principal: Member,
        request: Request,
    ) -> Result<Response, Closed> {
        let (reply, answer) = oneshot::channel();
        let asked = Event::Asked {
            principal,
            request,
            reply,
        };
        self.intake.put(asked).await?;
        let mut response = answer.await.map_err(|_| Closed)?;
        if let Response::Status(status) = &mut response {
            self.complete(status);
        }
        Ok(response)
    }

    /// Operators are told of a session that ended by what its peer said.
    pub(crate) fn note_end(&self, session: &Session, error: &LinkError) {
        if let LinkError::Unreadable(_) = error {
            self.intake.note_refused(1);
            let why = format!("{}: {}", session.peer(), told(error));
            let from = session.address().ip().to_string();
            // When the queue is full of other things, the log has to do.
            let _ = self.intake.put_telemetry(Event::TurnedAway {
                from,
                why,
                times: 1,
            });
        }
    }

    fn complete(&self, status: &mut Status) {
        let myself = self.myself();
        let warnings = warnings(&myself);
        status.warnings.splice(..0, warnings);
        status.coordinators.push(myself);
        let cluster = self.cluster.borrow();
        let peers = cluster.directory.peers();
        status
            .coordinators
            .extend(peers.map(|(_, peer)| other(peer)));
    }

    fn myself(&self) -> CoordinatorStatus {
        let ours = self.ours.borrow();
        CoordinatorStatus {
            name: ours.member().name().to_owned(),
            state: CoordinatorState::Leads,
            term: self.cluster.borrow().term(),
            build: Some(env!("CARGO_PKG_VERSION").to_owned()),
            certificate_left_s: Some(left_s(ours.validity().not_after)),
            signer_left_s: self.signing.validity().map(|it| left_s(it.not_after)),
        }
    }
}

/// What it does, it would have to be asked itself.
fn other(peer: &reweave_replica::Member) -> CoordinatorStatus {
    CoordinatorStatus {
        name: peer.name.clone(),
        state: CoordinatorState::Unknown,
        term: None,
        build: None,
        certificate_left_s: None,
        signer_left_s: None,
    }
}

fn left_s(until: SystemTime) -> u64 {
    let left = until.duration_since(SystemTime::now());
    left.unwrap_or_default().as_secs()
}

fn warnings(coordinator: &CoordinatorStatus) -> Vec<String> {
    let name = &coordinator.name;
    let certificate = coordinator
        .certificate_left_s
        .filter(|left| *left <= NEARLY_EXPIRED.as_secs())
        .map(|_| format!("the certificate of coordinator {name} is about to expire"));
    let signer = match coordinator.signer_left_s {
        None => Some(format!(
            "coordinator {name} has no signer: nobody can join, and certificates are not renewed"
        )),
        Some(left) if left <= SIGNER_NEARLY_EXPIRED.as_secs() => Some(format!(
            "the signer of coordinator {name} expires in {} days; make a new one with `reweave \
             cluster issue --role coordinator`",
            left / 86_400
        )),
        Some(_) => None,
    };
    certificate.into_iter().chain(signer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coordinator(certificate: u64, signer: Option<u64>) -> CoordinatorStatus {
        CoordinatorStatus {
            name: "c0".to_owned(),
            state: CoordinatorState::Leads,
            term: None,
            build: None,
            certificate_left_s: Some(certificate),
            signer_left_s: signer,
        }
    }

    #[test]
    fn certificates_are_warned_of_in_time() {
        let (day, year) = (86_400, 365 * 86_400);
        let said = |certificate, signer| warnings(&coordinator(certificate, signer)).join("; ");
        assert_eq!(said(day, Some(year)), "");
        assert!(said(3600, Some(year)).contains("certificate of coordinator c0 is about"));
        assert!(said(day, Some(5 * day)).contains("signer of coordinator c0 expires in 5 days"));
        assert!(said(day, None).contains("has no signer"));
    }
}
