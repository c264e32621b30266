//! The latest deny lists of the cluster. They are stored beside the certificate: a member that has just started must
//! already refuse revoked and removed peers.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use reweave_common::error::error_chain;
use reweave_common::lock::lock;
use reweave_common::member::{Admission, DenyList, Member};
use reweave_proto::message::CoordinatorAddress;

use super::CertificateError;
use crate::{Identity, Session, durable_files};

const REVOCATIONS_FILE: &str = "shut-out.json";
const REMOVALS_FILE: &str = "removed.json";
/// As many as a log of the coordinators holds.
const MAX_REVOKED_MEMBERS: usize = 1 << 16;

/// Cheap to clone.
#[derive(Clone)]
pub struct StoredDenyList {
    folder: PathBuf,
    identity: Identity,
    /// Several sessions may send lists together.
    adding: Arc<Mutex<()>>,
}

impl StoredDenyList {
    /// Revokes those that were when a member last ran here.
    pub fn load(folder: &Path, identity: &Identity) -> Result<Self, CertificateError> {
        identity.deny(read(folder.join(REVOCATIONS_FILE))?);
        identity.deny_removed(read(folder.join(REMOVALS_FILE))?);
        Ok(Self {
            folder: folder.to_owned(),
            identity: identity.clone(),
            adding: Arc::default(),
        })
    }

    /// Refuses these at once, and when a member starts here again. No list lifts a revocation, since a member that is admitted
    /// again has a later admission: a coordinator could lift its own.
    pub fn note(&self, theirs: DenyList) {
        let _alone = lock(&self.adding);
        let held = self.identity.denied().now().revoked.clone();
        let mut list = held.clone();
        list.add(theirs);
        if list == held {
            return;
        }
        if list.len() > MAX_REVOKED_MEMBERS {
            tracing::warn!("more than {MAX_REVOKED_MEMBERS} revoked members are ignored");
            return;
        }
        self.store(REVOCATIONS_FILE, &list);
        self.identity.deny(list);
    }

    /// The same, of coordinators that were removed, and of no others.
    pub(super) fn note_removed(&self, list: DenyList) {
        if self.identity.denied().now().removed == list {
            return;
        }
        self.store(REMOVALS_FILE, &list);
        self.identity.deny_removed(list);
    }

    /// These are coordinators now, as the leader says: others may not know of a removal yet. One that was added again may lead
    /// already, and no other would say that it is back.
    pub(super) fn readmit(&self, seats: &[CoordinatorAddress]) {
        let mut list = self.identity.denied().now().removed.clone();
        list.retain(|member| seats.iter().all(|seat| seat.name != member.name));
        self.note_removed(list);
    }

    /// Whether this peer is among them: its last words may still be on their way.
    pub(super) fn names(&self, peer: &Session) -> bool {
        let denied = self.identity.denied().now();
        peer.credentials().denied_by(&denied).is_some()
    }

    fn store(&self, file: &str, list: &DenyList) {
        let path = self.folder.join(file);
        if let Err(source) = write(&path, list) {
            let error = CertificateError::ShutOut { path, source };
            tracing::error!(
                "the list of revoked members is lost at the next start: {}",
                error_chain(&error)
            );
        }
    }
}

/// Of none where there is no file.
fn read(path: PathBuf) -> Result<DenyList, CertificateError> {
    match fs::read(&path) {
        Ok(bytes) => {
            decode(&bytes).map_err(|source| CertificateError::ShutOutDamaged { path, source })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(DenyList::default()),
        Err(source) => Err(CertificateError::ShutOut { path, source }),
    }
}

fn write(path: &Path, list: &DenyList) -> io::Result<()> {
    durable_files::replace(path, &encode(list)?)
}

pub(crate) fn encode(list: &DenyList) -> Result<Vec<u8>, serde_json::Error> {
    let each: Vec<(&Member, Admission)> = list.iter().collect();
    serde_json::to_vec_pretty(&each)
}

pub(crate) fn decode(bytes: &[u8]) -> Result<DenyList, serde_json::Error> {
    let each: Vec<(Member, Admission)> = serde_json::from_slice(bytes)?;
    Ok(each.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

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

    /// The folder of an agent.
    fn home() -> TempDir {
        let home = tempfile::tempdir().unwrap();
        let authority = Authority::create(&home.path().join("ca"), "lab").unwrap();
        authority
            .issue(Role::Agent, "h0", Validity::day(), home.path())
            .unwrap();
        home
    }

    /// As an agent that starts there.
    fn started(home: &TempDir) -> (Identity, StoredDenyList) {
        let agent = Identity::load(home.path()).unwrap();
        let shut_out = StoredDenyList::load(home.path(), &agent).unwrap();
        (agent, shut_out)
    }

    /// A coordinator that is revoked sends the list without itself.
    #[test]
    fn later_lists_lift_no_revocation() {
        let home = home();
        let (agent, shut_out) = started(&home);
        shut_out.note(list());
        let mut more = DenyList::default();
        more.deny(Member::new(Role::Viewer, "vic"), Admission(9));
        shut_out.note(more.clone());
        shut_out.note(DenyList::default());
        more.add(list());
        assert_eq!(agent.denied().now().revoked, more);
        let (again, _) = started(&home);
        assert_eq!(again.denied().now().revoked, more);
    }

    #[test]
    fn revoked_members_are_bounded() {
        let home = home();
        let (agent, shut_out) = started(&home);
        shut_out.note(list());
        let invented = (0..MAX_REVOKED_MEMBERS).map(|number| {
            let name = format!("h{number}");
            (Member::new(Role::Agent, &name), Admission(9))
        });
        shut_out.note(invented.collect());
        assert_eq!(agent.denied().now().revoked, list());
    }

    #[test]
    fn removed_coordinator_is_denied_until_listed() {
        let home = home();
        let (agent, shut_out) = started(&home);
        shut_out.note_removed(list());
        let seat = |name: &str| CoordinatorAddress {
            name: name.to_owned(),
            address: "10.0.0.1:7332".parse().unwrap(),
        };
        shut_out.readmit(&[seat("c2")]);
        let (again, _) = started(&home);
        for identity in [&agent, &again] {
            assert_eq!(identity.denied().now().removed, list());
            assert!(identity.denied().now().revoked.is_empty());
        }
        shut_out.readmit(&[seat("c2"), seat("c1")]);
        let (again, _) = started(&home);
        for identity in [agent, again] {
            assert!(identity.denied().now().removed.is_empty());
        }
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
