//! A test cluster: an authority in a temporary folder, and members as needed.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::timeout;

use crate::pki::{AUTHORITY_CERTIFICATE_FILE, Authority, Validity};
use crate::{Identity, LinkError, Listener, Role, Session, connect};

pub(super) const ANY_ROLE: &[Role] = &Role::ALL;
const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Far more than any step needs; only a hanging test reaches it.
const TEST_TIMEOUT: Duration = Duration::from_mins(3);

/// Awaits something that must happen.
pub(super) async fn soon<T>(future: impl Future<Output = T>) -> T {
    let done = timeout(TEST_TIMEOUT, future).await;
    done.expect("it happens within minutes")
}

pub(super) struct Cluster {
    home: TempDir,
    pub(super) authority: Authority,
}

impl Cluster {
    pub(super) fn new(name: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let authority = Authority::create(&home.path().join("authority"), name).unwrap();
        Self { home, authority }
    }

    pub(super) fn dir(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(super) fn member(&self, role: Role, name: &str) -> Identity {
        self.member_for(role, name, Validity::day())
    }

    pub(super) fn member_for(&self, role: Role, name: &str, validity: Validity) -> Identity {
        let dir = self.dir(name);
        self.authority.issue(role, name, validity, &dir).unwrap();
        Identity::load(&dir).unwrap()
    }

    pub(super) fn coordinator(&self) -> Identity {
        self.member(Role::Coordinator, "c0")
    }

    pub(super) fn agent(&self) -> Identity {
        self.member(Role::Agent, "h0")
    }

    /// A member of `other` that trusts this cluster's authority.
    pub(super) fn infiltrator(&self, other: &Self, role: Role, name: &str) -> Identity {
        self.infiltrator_for(other, role, name, Validity::day())
    }

    pub(super) fn infiltrator_for(
        &self,
        other: &Self,
        role: Role,
        name: &str,
        validity: Validity,
    ) -> Identity {
        other.member_for(role, name, validity);
        let dir = other.dir(name);
        let ours = self.dir("authority").join(AUTHORITY_CERTIFICATE_FILE);
        fs::copy(ours, dir.join(AUTHORITY_CERTIFICATE_FILE)).unwrap();
        Identity::load(&dir).unwrap()
    }
}

pub(super) fn listen(ours: &Identity) -> (Listener, SocketAddr) {
    let listener = Listener::bind(ANY_PORT, ours, ANY_ROLE).unwrap();
    let address = listener.address().unwrap();
    (listener, address)
}

/// Both sides' results of one attempt, the accepting side first. An attempt that timed out because the machine was
/// stalled is repeated.
pub(super) async fn meet(
    listener: &mut Listener,
    ours: &Identity,
) -> (Result<Session, LinkError>, Result<Session, LinkError>) {
    let address = [listener.address().unwrap()];
    let is_late =
        |it: &Result<_, LinkError>| matches!(it, Err(LinkError::HandshakeTimedOut { .. }));
    soon(async {
        loop {
            let connecting = connect(&address, ours, Role::Coordinator);
            let (accepted, connected) = tokio::join!(listener.accept(), connecting);
            let accepted = accepted.unwrap();
            if !is_late(&accepted) && !is_late(&connected) {
                return (accepted, connected);
            }
        }
    })
    .await
}

/// Both ends of a session, the coordinator's first.
pub(super) async fn session(listener: &mut Listener, ours: &Identity) -> (Session, Session) {
    let (accepted, connected) = meet(listener, ours).await;
    (accepted.unwrap(), connected.unwrap())
}

/// A session of a coordinator and an agent. Their files are removed first, so that a slow disk does not matter.
pub(super) async fn pair() -> (Session, Session) {
    let (coordinator, agent) = {
        let cluster = Cluster::new("lab");
        (cluster.coordinator(), cluster.agent())
    };
    let (mut listener, _) = listen(&coordinator);
    session(&mut listener, &agent).await
}
