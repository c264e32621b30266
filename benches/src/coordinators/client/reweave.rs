//! A client that revokes a certificate which does not exist: a log entry without further effect.

use std::net::SocketAddr;
use std::path::Path;

use reweave_common::member::{Member, Role};
use reweave_common::operator::{Refused, Request, Response};
use reweave_link::{Channel, Identity, Role as PeerRole, Session, connect};

use super::asking::Answer;

pub(super) struct Factory(Identity);

pub(super) struct Line(Session);

impl Factory {
    pub(super) fn new(home: &Path) -> Self {
        let identity = Identity::load(&home.join("certificates/operator"));
        Self(identity.expect("an operator"))
    }

    pub(super) async fn connect(&self, to: SocketAddr) -> Option<Line> {
        let session = connect(&[to], &self.0, PeerRole::Coordinator).await;
        session.ok().map(Line)
    }
}

impl Line {
    pub(super) async fn decide(&mut self) -> Answer {
        let member = Member {
            role: Role::Viewer,
            name: "bench".to_owned(),
        };
        let request = Request::Revoke { member };
        if self.0.send(Channel::Commands, &request).await.is_err() {
            return Answer::Broken;
        }
        match self.0.receive(Channel::Commands).await {
            Ok(Response::Revoked { .. }) => Answer::Decided,
            Ok(Response::Refused(Refused::NotLeading { leader })) => Answer::Elsewhere(leader),
            _ => Answer::Broken,
        }
    }
}
