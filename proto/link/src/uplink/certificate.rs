//! A member's certificate: its place, its first issue, and its renewal.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use reweave_common::error::error_chain;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::coordinator_list::CoordinatorList;
use super::{CertificateError, MemberProtocol, Notices};
use crate::join::{JoinError, Token, enter};
use crate::pki::{KeyRequest, MEMBER_CERTIFICATE_FILE, PkiError};
use crate::{Channel, DenyListFile, Identity, LinkError, Role, Session};

/// Certificates expire by the clock, which may be set at any time.
const CHECK_INTERVAL: Duration = Duration::from_mins(1);

pub struct Certificate {
    folder: PathBuf,
    identity: Identity,
    /// The newest certificate, for tasks without their own.
    newest: watch::Sender<Identity>,
    notices: Notices,
}

impl Certificate {
    /// Loads the certificate of this role from a folder.
    pub fn load(folder: &Path, role: Role) -> Result<Self, CertificateError> {
        let failed = |source| CertificateError::Identity {
            folder: folder.to_owned(),
            source: Box::new(source),
        };
        let identity = Identity::load(folder).map_err(failed)?;
        if identity.member().role() != role {
            return Err(CertificateError::OtherRole {
                folder: folder.to_owned(),
                member: identity.member().to_string(),
                needed: role,
            });
        }
        if let Some(problem) = identity.problem(SystemTime::now()) {
            tracing::warn!("no coordinator will accept this certificate: {problem}");
        }
        Ok(Self {
            notices: Notices {
                denied: DenyListFile::load(folder, &identity)?,
                known: CoordinatorList::load(folder),
            },
            folder: folder.to_owned(),
            newest: watch::Sender::new(identity.clone()),
            identity,
        })
    }

    /// Obtains a certificate with a token, unless there is one already: a restarted member has the same command line.
    /// The addresses are those of join listeners.
    pub async fn obtain(
        folder: &Path,
        doors: &[SocketAddr],
        token: &Token,
    ) -> Result<(), JoinError> {
        if folder.join(MEMBER_CERTIFICATE_FILE).exists() {
            tracing::info!("{} has a certificate", folder.display());
            return Ok(());
        }
        let identity = enter(doors, token, folder).await?;
        tracing::info!("this node belongs to the cluster, as {}", identity.member());
        Ok(())
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    pub(super) fn newest(&self) -> watch::Receiver<Identity> {
        self.newest.subscribe()
    }

    /// Returns the notices of coordinators, which are shared by all successive certificates of this member.
    pub(super) fn notices(&self) -> Notices {
        self.notices.clone()
    }

    /// Renews the certificate over the session whenever a third of its life is left; the session continues. `answers`
    /// are the coordinator's. Ends with the session.
    pub(super) async fn keep_good<D: MemberProtocol>(
        &mut self,
        session: &Session,
        mut answers: mpsc::Receiver<Option<String>>,
    ) -> LinkError {
        loop {
            if self.identity.validity().is_due(SystemTime::now()) {
                match self.renew::<D>(session, &mut answers).await {
                    Ok(()) => {}
                    Err(RenewalError::Line(error)) => return error,
                    Err(RenewalError::Refused) => {
                        tracing::warn!(
                            "certificate renewal failed; the log of the coordinator \
                                        has the reason"
                        );
                    }
                    Err(RenewalError::Folder(error)) => {
                        tracing::error!("the certificate is not renewed: {}", error_chain(&error));
                    }
                }
            }
            sleep(CHECK_INTERVAL).await;
        }
    }

    async fn renew<D: MemberProtocol>(
        &mut self,
        session: &Session,
        answers: &mut mpsc::Receiver<Option<String>>,
    ) -> Result<(), RenewalError> {
        let key = KeyRequest::new(&self.folder).map_err(RenewalError::Folder)?;
        let request = key.der().to_vec();
        let sent = session.send(Channel::Commands, &D::renew(request)).await;
        sent.map_err(RenewalError::Line)?;
        let answer = answers.recv().await.flatten();
        let chain_pem = answer.ok_or(RenewalError::Refused)?;
        key.install(&chain_pem).map_err(RenewalError::Folder)?;
        let identity = self.identity.reload(&self.folder);
        self.identity = identity.map_err(RenewalError::Folder)?;
        self.newest.send_replace(self.identity.clone());
        tracing::info!("the certificate is renewed");
        Ok(())
    }
}

enum RenewalError {
    Line(LinkError),
    Refused,
    Folder(PkiError),
}
