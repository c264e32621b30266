//! This agent's certificate: where it lies, how it is had first, and how it is kept good.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use reweave_common::error::told;
use reweave_link::pki::{KeyRequest, PkiError};
use reweave_link::{Channel, Identity, LinkError, Role, Session};
use reweave_proto::message::AgentMessage;
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::error::AgentError;
use crate::shut_out::ShutOut;

/// Certificates go by the time of day, which may be set anew at any time.
const LOOK_EVERY: Duration = Duration::from_mins(1);

pub struct Credentials {
    folder: PathBuf,
    identity: Identity,
    shut_out: ShutOut,
}

impl Credentials {
    /// Of a folder that holds an agent's certificate.
    pub fn load(folder: &Path) -> Result<Self, AgentError> {
        let failed = |source| AgentError::Identity {
            folder: folder.to_owned(),
            source: Box::new(source),
        };
        let identity = Identity::load(folder).map_err(failed)?;
        if identity.member().role() != Role::Agent {
            return Err(AgentError::NotAnAgent {
                folder: folder.to_owned(),
                member: identity.member().to_string(),
            });
        }
        if let Some(problem) = identity.problem(SystemTime::now()) {
            tracing::warn!("no coordinator will accept this agent's certificate: {problem}");
        }
        Ok(Self {
            shut_out: ShutOut::load(folder, &identity)?,
            folder: folder.to_owned(),
            identity,
        })
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Who is shut out, for all certificates that this agent has one after the other.
    pub fn shut_out(&self) -> ShutOut {
        self.shut_out.clone()
    }

    /// Renews the certificate over the session whenever a third of its life is left; the session
    /// goes on. `answers` are the coordinator's. Ends when the session does.
    pub async fn keep_good(
        &mut self,
        session: &Session,
        mut answers: mpsc::Receiver<Option<String>>,
    ) -> LinkError {
        loop {
            if self.identity.validity().renewal() <= SystemTime::now() {
                match self.renew(session, &mut answers).await {
                    Ok(()) => {}
                    Err(Trouble::Line(error)) => return error,
                    Err(Trouble::Refused) => {
                        tracing::warn!("the certificate is not renewed; the coordinator says why");
                    }
                    Err(Trouble::Folder(error)) => {
                        tracing::error!("the certificate is not renewed: {}", told(&error));
                    }
                }
            }
            sleep(LOOK_EVERY).await;
        }
    }

    async fn renew(
        &mut self,
        session: &Session,
        answers: &mut mpsc::Receiver<Option<String>>,
    ) -> Result<(), Trouble> {
        let key = KeyRequest::new(&self.folder).map_err(Trouble::Folder)?;
        let request = key.der().to_vec();
        let renew = AgentMessage::Renew { request };
        let sent = session.send(Channel::Commands, &renew).await;
        sent.map_err(Trouble::Line)?;
        let answer = answers.recv().await.flatten();
        let chain_pem = answer.ok_or(Trouble::Refused)?;
        key.install(&chain_pem).map_err(Trouble::Folder)?;
        let identity = self.identity.reload(&self.folder);
        self.identity = identity.map_err(Trouble::Folder)?;
        tracing::info!("the certificate is renewed");
        Ok(())
    }
}

enum Trouble {
    Line(LinkError),
    Refused,
    Folder(PkiError),
}
