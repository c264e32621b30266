//! The latest deny list of the cluster. It is stored beside the certificate: a member that has just started must
//! already refuse revoked peers.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use reweave_common::error::error_chain;
use reweave_common::member::{Admission, DenyList, Member};

use super::CertificateError;
use crate::{Identity, Session, durable_files};

const REVOCATIONS_FILE: &str = "shut-out.json";

/// Cheap to clone.
#[derive(Clone)]
pub struct StoredDenyList {
    path: PathBuf,
    identity: Identity,
}

impl StoredDenyList {
    /// Revokes those that were when a member last ran here.
    pub fn load(folder: &Path, identity: &Identity) -> Result<Self, CertificateError> {
        let path = folder.join(REVOCATIONS_FILE);
        match fs::read(&path) {
            Ok(bytes) => {
                let damaged = |source| CertificateError::ShutOutDamaged {
                    path: path.clone(),
                    source,
                };
                identity.deny(decode(&bytes).map_err(damaged)?);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(CertificateError::ShutOut { path, source }),
        }
        let identity = identity.clone();
        Ok(Self { path, identity })
    }

    /// At once, and when a member starts here again.
    pub fn note(&self, list: DenyList) {
        if let Err(error) = self.write(&list) {
            let error = CertificateError::ShutOut {
                path: self.path.clone(),
                source: error,
            };
            tracing::error!(
                "the list of revoked members is lost at the next start: {}",
                error_chain(&error)
            );
        }
        self.identity.deny(list);
    }

    /// The same, of those who are revoked besides.
    pub(super) fn note_more(&self, more: DenyList) {
        let mut list = self.identity.denied().now().clone();
        list.add(more);
        self.note(list);
    }

    /// Whether this peer is among them: its last words may still be on their way.
    pub(super) fn names(&self, peer: &Session) -> bool {
        let denied = self.identity.denied().now();
        peer.credentials().denied_by(&denied).is_some()
    }

    fn write(&self, list: &DenyList) -> io::Result<()> {
        durable_files::replace(&self.path, &encode(list)?)
    }
}

pub(crate) fn encode(list: &DenyList) -> Result<Vec<u8>, serde_json::Error> {
    let each: Vec<(&Member, Admission)> = list.iter().collect();
    serde_json::to_vec_pretty(&each)
}

pub(crate) fn decode(bytes: &[u8]) -> Result<DenyList, serde_json::Error> {
    let each: Vec<(Member, Admission)> = serde_json::from_slice(bytes)?;
    let mut list = DenyList::default();
    for (member, up_to) in each {
        list.deny(member, up_to);
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::{Authority, Validity};
    use crate::{Listener, Role, connect};

    fn list() -> DenyList {
        let mut list = DenyList::default();
        list.deny(Member::new(Role::Coordinator, "c1"), Admission(7));
        list
    }

    /// The agent has ended and started again, and no coordinator has sent it anything yet.
    #[tokio::test]
    async fn revoked_coordinator_stays_denied_after_restart() {
        let scratch = tempfile::tempdir().unwrap();
        let authority = Authority::create(&scratch.path().join("ca"), "lab").unwrap();
        let issue = |role, name: &str| {
            let folder = scratch.path().join(name);
            let day = Validity::day();
            authority.issue(role, name, day, &folder).unwrap();
            (Identity::load(&folder).unwrap(), folder)
        };
        let (agent, folder) = issue(Role::Agent, "h0");
        let (coordinator, _) = issue(Role::Coordinator, "c1");
        let local = "127.0.0.1:0".parse().unwrap();
        let mut listener = Listener::bind(local, &coordinator, &[Role::Agent]).unwrap();
        let address = [listener.address().unwrap()];
        tokio::spawn(async move { while listener.accept().await.is_some() {} });

        let before = StoredDenyList::load(&folder, &agent).unwrap();
        connect(&address, &agent, Role::Coordinator).await.unwrap();
        before.note(list());
        let again = Identity::load(&folder).unwrap();
        StoredDenyList::load(&folder, &again).unwrap();
        let refused = connect(&address, &again, Role::Coordinator)
            .await
            .unwrap_err();
        assert!(refused.fault().contains("revoked"), "{}", refused.fault());
    }

    #[test]
    fn later_revocations_are_added() {
        let scratch = tempfile::tempdir().unwrap();
        let authority = Authority::create(&scratch.path().join("ca"), "lab").unwrap();
        let folder = scratch.path().join("h0");
        authority
            .issue(Role::Agent, "h0", Validity::day(), &folder)
            .unwrap();
        let agent = Identity::load(&folder).unwrap();
        let shut_out = StoredDenyList::load(&folder, &agent).unwrap();
        shut_out.note(list());
        let mut more = DenyList::default();
        more.deny(Member::new(Role::Viewer, "vic"), Admission(9));
        shut_out.note_more(more.clone());
        more.add(list());
        assert_eq!(*agent.denied().now(), more);
        let again = Identity::load(&folder).unwrap();
        StoredDenyList::load(&folder, &again).unwrap();
        assert_eq!(*again.denied().now(), more);
    }

    #[test]
    fn deny_list_roundtrips_damage_is_named() {
        let bytes = encode(&list()).unwrap();
        assert_eq!(decode(&bytes).unwrap(), list());
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_err(), "cut to {length}");
        }
    }
}
