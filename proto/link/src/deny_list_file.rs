//! The deny lists that a program has learned of, in a file beside its certificate: whichever program starts there next refuses
//! those peers before a coordinator has sent it anything. Agents and drivers get the lists as notices, and operators' commands
//! as an answer.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reweave_common::error::error_chain;
use reweave_common::lock::lock;
use reweave_common::member::{
    Admission, DeniedCoordinators, DenyList, DenyLists, Member, RemovedCoordinators, Role,
};
use reweave_files::{FileSystem, LocalFiles};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::pki::{self, PkiError, files};
use crate::{Identity, LinkError, Session};

const DENIED_FILE: &str = "denied.json";
const FORMAT_VERSION: u32 = 1;
/// In both lists together: as many as a log of the coordinators holds.
const MAX_DENIED_MEMBERS: usize = 1 << 16;
/// Each of those takes up to 160 bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// Lists have times of the leader's clock, and clocks are not that far apart. A list of a later time would stay the latest
/// for good.
const MAX_TIME_AHEAD: Duration = Duration::from_hours(26);

#[derive(Debug, Error)]
pub enum DenyListError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error(
        "{} is damaged: it lists revoked members and removed coordinators. Restore it from a backup. Remove it only if the \
         coordinator that is asked next is trusted: it sends the lists again", path.display()
    )]
    Damaged {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error(
        "{} has format version {version} and this program reads version {}: use the program that wrote it, or remove \
         the file", path.display(), FORMAT_VERSION
    )]
    OtherVersion { path: PathBuf, version: u32 },
    #[error("cannot keep the lists of denied members")]
    Write(#[source] Box<PkiError>),
    #[error("cannot keep the lists of denied members in {}", folder.display())]
    Sync { folder: PathBuf, source: io::Error },
}

/// The content of the file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DenyListRecord {
    version: u32,
    /// Another certificate may have taken the place of the one that this was written for.
    cluster: String,
    authority_sha256: String,
    /// As in [`DenyLists`].
    as_of: Admission,
    revoked: Vec<DeniedMember>,
    removed: Vec<DeniedMember>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct DeniedMember {
    role: Role,
    name: String,
    up_to: Admission,
}

/// Alone in all versions.
#[derive(Deserialize)]
struct RecordVersion {
    version: u32,
}

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct DenyListFile {
    folder: PathBuf,
    identity: Identity,
    /// Several sessions may send lists together.
    learning: Arc<Mutex<()>>,
}

impl DenyListFile {
    /// Denies what programs with the identity of this folder have learned before.
    pub fn load(folder: &Path, identity: &Identity) -> Result<Self, DenyListError> {
        let file = Self {
            folder: folder.to_owned(),
            identity: identity.clone(),
            learning: Arc::default(),
        };
        identity.denied().set_all(file.read()?);
        Ok(file)
    }

    /// Refuses a peer that is denied since its session began.
    pub fn check(&self, peer: &Session) -> Result<(), LinkError> {
        let refusal = peer.credentials().denied_by(&self.identity.denied().now());
        match refusal {
            Some(source) => Err(LinkError::Refused {
                address: peer.address(),
                source,
            }),
            None => Ok(()),
        }
    }

    /// Takes over the answer of a coordinator that is not denied. The answer may deny that coordinator itself. A file that
    /// cannot be written fails no command.
    pub fn note(&self, from: &Session, denied: DeniedCoordinators) -> Result<(), LinkError> {
        self.check(from)?;
        if let Err(error) = self.learn(denied.into()) {
            tracing::debug!("{}", error_chain(&error));
        }
        self.check(from)
    }

    /// Takes over a notice of a coordinator that is not denied: what it has sent before it was may still come.
    pub(crate) fn note_revoked(&self, from: &Session, revoked: DenyList) {
        self.note_notice(from, |lists| lists.revoke(sound(revoked)));
    }

    /// The same, of all coordinators that were removed.
    pub(crate) fn note_removed(&self, from: &Session, removed: RemovedCoordinators) {
        let lists = DenyLists {
            as_of: removed.as_of,
            removed: removed.list.clone(),
            ..DenyLists::default()
        };
        if !is_plausible(&lists, SystemTime::now()) {
            return warn_of_times();
        }
        let removed = RemovedCoordinators {
            as_of: removed.as_of,
            list: sound(removed.list),
        };
        self.note_notice(from, |lists| lists.replace_removed(removed));
    }

    fn note_notice(&self, from: &Session, merge: impl FnOnce(&mut DenyLists)) {
        if self.check(from).is_err() {
            return;
        }
        if let Err(error) = self.change(merge) {
            tracing::error!(
                "denied members are forgotten at the next start: {}",
                error_chain(&error)
            );
        }
    }

    fn learn(&self, theirs: DenyLists) -> Result<(), DenyListError> {
        if !is_plausible(&theirs, SystemTime::now()) {
            warn_of_times();
            return Ok(());
        }
        self.change(|lists| lists.merge(theirs))
    }

    /// Refuses those at once, and when a program starts here again.
    fn change(&self, merge: impl FnOnce(&mut DenyLists)) -> Result<(), DenyListError> {
        let _alone = lock(&self.learning);
        let held = self.identity.denied().now().clone();
        let mut lists = held.clone();
        merge(&mut lists);
        if lists.count() > MAX_DENIED_MEMBERS {
            tracing::warn!("more than {MAX_DENIED_MEMBERS} denied members are ignored");
            return Ok(());
        }
        self.identity.denied().set_all(lists.clone());
        // The same lists of a later time are not worth a write: none between differed, or a removal would have another time.
        if lists.revoked == held.revoked && lists.removed == held.removed {
            return Ok(());
        }
        self.store(lists)
    }

    /// Another program may have written a later list meanwhile.
    fn store(&self, lists: DenyLists) -> Result<(), DenyListError> {
        let written = |error| DenyListError::Write(Box::new(error));
        let _alone = files::lock(&self.folder).map_err(written)?;
        let mut all = self.read()?;
        all.merge(lists);
        if all.count() > MAX_DENIED_MEMBERS {
            return Ok(());
        }
        let mode = if pki::is_shared(&self.folder) {
            files::PUBLIC_MODE
        } else {
            files::PRIVATE_MODE
        };
        let text = encode(&self.record(&all));
        files::replace(&self.path(), &text, mode).map_err(written)?;
        let synced = LocalFiles.sync_folder(&self.folder);
        synced.map_err(|source| DenyListError::Sync {
            folder: self.folder.clone(),
            source,
        })
    }

    /// Empty lists where there is no file, and where it was written for another cluster.
    fn read(&self) -> Result<DenyLists, DenyListError> {
        let path = self.path();
        let bytes = match bounded(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(DenyLists::default());
            }
            Err(source) => return Err(DenyListError::Read { path, source }),
        };
        let record = match decode(&bytes) {
            Ok(Ok(record)) => record,
            Ok(Err(version)) => return Err(DenyListError::OtherVersion { path, version }),
            Err(source) => return Err(DenyListError::Damaged { path, source }),
        };
        let ours = self.record(&DenyLists::default());
        let is_ours =
            (&record.cluster, &record.authority_sha256) == (&ours.cluster, &ours.authority_sha256);
        if !is_ours {
            return Ok(DenyLists::default());
        }
        let mut lists = record.lists();
        // Those of any coordinator take their place: no clock reaches such a time.
        if lists.as_of > latest_plausible(SystemTime::now()) {
            tracing::warn!("{} has times of a clock that was ahead", path.display());
            lists.as_of = Admission::default();
        }
        Ok(lists)
    }

    fn record(&self, lists: &DenyLists) -> DenyListRecord {
        let digest = self.identity.authority_digest().0;
        DenyListRecord {
            version: FORMAT_VERSION,
            cluster: self.identity.cluster().to_string(),
            authority_sha256: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
            as_of: lists.as_of,
            revoked: denied_members(&lists.revoked),
            removed: denied_members(&lists.removed),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.join(DENIED_FILE)
    }
}

impl DenyListRecord {
    fn lists(self) -> DenyLists {
        let list = |members: Vec<DeniedMember>| {
            let each = members.into_iter().map(|denied| {
                let DeniedMember { role, name, up_to } = denied;
                (Member { role, name }, up_to)
            });
            each.collect()
        };
        DenyLists {
            as_of: self.as_of,
            revoked: list(self.revoked),
            removed: list(self.removed),
        }
    }
}

fn denied_members(list: &DenyList) -> Vec<DeniedMember> {
    let each = list.iter().map(|(member, up_to)| DeniedMember {
        role: member.role,
        name: member.name.clone(),
        up_to,
    });
    each.collect()
}

/// Only of names that a certificate may have.
fn sound(mut list: DenyList) -> DenyList {
    list.retain(Member::is_sound);
    list
}

/// Whether the lists may be of a log that has come no further than this clock. In a log, no member is denied up to a later time
/// than the log's own.
fn is_plausible(lists: &DenyLists, now: SystemTime) -> bool {
    let mut denied = lists.revoked.iter().chain(lists.removed.iter());
    lists.as_of <= latest_plausible(now) && denied.all(|(_, up_to)| up_to <= lists.as_of)
}

fn latest_plausible(now: SystemTime) -> Admission {
    let since_epoch = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let latest_us = since_epoch.saturating_add(MAX_TIME_AHEAD).as_micros();
    Admission(u64::try_from(latest_us).unwrap_or(u64::MAX))
}

fn warn_of_times() {
    tracing::warn!("a list of denied members is ignored: its times are wrong");
}

/// A longer one is read as a damaged one.
fn bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub(crate) fn encode(record: &DenyListRecord) -> String {
    serde_json::to_string_pretty(record).expect("names and numbers are JSON")
}

/// The version instead where it is another one.
pub(crate) fn decode(bytes: &[u8]) -> Result<Result<DenyListRecord, u32>, serde_json::Error> {
    let RecordVersion { version } = serde_json::from_slice(bytes)?;
    match version {
        FORMAT_VERSION => serde_json::from_slice(bytes).map(Ok),
        other => Ok(Err(other)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use tempfile::TempDir;

    use super::*;
    use crate::pki::{Authority, Validity};

    /// The folder of an operator of a cluster of this name.
    fn home(cluster: &str) -> TempDir {
        let home = tempfile::tempdir().unwrap();
        let authority = Authority::create(&home.path().join("ca"), cluster).unwrap();
        authority
            .issue(Role::Operator, "ann", Validity::day(), home.path())
            .unwrap();
        home
    }

    /// As a program that starts there.
    fn started(home: &TempDir) -> DenyListFile {
        let identity = Identity::load(home.path()).unwrap();
        DenyListFile::load(home.path(), &identity).unwrap()
    }

    fn held(file: &DenyListFile) -> DenyLists {
        file.identity.denied().now().clone()
    }

    fn removing(as_of: u64, names: &[&str]) -> DenyLists {
        let up_to = Admission(as_of);
        let each = names.iter().map(|name| {
            let member = Member::new(Role::Coordinator, name);
            (member, up_to)
        });
        DenyLists {
            as_of: up_to,
            removed: each.collect(),
            ..DenyLists::default()
        }
    }

    #[test]
    fn learned_removal_lasts_until_lifted() {
        let home = home("lab");
        started(&home).learn(removing(7, &["c1"])).unwrap();
        assert_eq!(held(&started(&home)), removing(7, &["c1"]));
        let about = fs::metadata(home.path().join(DENIED_FILE)).unwrap();
        assert_eq!(about.permissions().mode() & 0o777, 0o600);
        started(&home).learn(removing(9, &[])).unwrap();
        assert_eq!(held(&started(&home)), removing(9, &[]));
    }

    /// Both have read the file before one of them writes it.
    #[test]
    fn concurrent_program_lifts_no_removal() {
        let home = home("lab");
        let [late, early] = [(); 2].map(|()| started(&home));
        late.learn(removing(9, &["c2"])).unwrap();
        early.learn(removing(7, &["c1"])).unwrap();
        assert_eq!(held(&started(&home)), removing(9, &["c2"]));
    }

    /// As in a home that is read-only. Other sessions of this program have the list.
    #[test]
    fn unwritable_file_still_denies() {
        let home = home("lab");
        let file = started(&home);
        fs::remove_dir_all(home.path()).unwrap();
        file.learn(removing(7, &["c1"])).unwrap_err();
        assert_eq!(held(&file), removing(7, &["c1"]));
    }

    #[test]
    fn other_clusters_file_is_ignored() {
        let [lab, prod] = ["lab", "prod"].map(home);
        started(&lab).learn(removing(7, &["c1"])).unwrap();
        let [from, to] = [&lab, &prod].map(|home| home.path().join(DENIED_FILE));
        fs::copy(from, to).unwrap();
        assert_eq!(held(&started(&prod)), DenyLists::default());
        started(&prod).learn(removing(5, &["c2"])).unwrap();
        assert_eq!(held(&started(&prod)), removing(5, &["c2"]));
    }

    #[test]
    fn deny_list_file_is_bounded() {
        let home = home("lab");
        let names: Vec<_> = (0..=MAX_DENIED_MEMBERS)
            .map(|number| format!("c{number:062}"))
            .collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        // Of 2023: it has as many digits as the times of now.
        let latest = 1_700_000_000_000_000;
        started(&home).learn(removing(latest, &names)).unwrap();
        assert_eq!(held(&started(&home)), DenyLists::default());
        let most = removing(latest, &names[1..]);
        started(&home).learn(most.clone()).unwrap();
        assert_eq!(held(&started(&home)), most);
    }

    /// It would lift no removal any longer, and no later list would lift its own.
    #[test]
    fn lists_of_later_times_are_ignored() {
        let home = home("lab");
        started(&home).learn(removing(u64::MAX, &["c1"])).unwrap();
        let mut early = removing(9, &["c1"]);
        early.as_of = Admission(8);
        started(&home).learn(early).unwrap();
        assert_eq!(held(&started(&home)), DenyLists::default());
        started(&home).learn(removing(7, &["c1"])).unwrap();
        assert_eq!(held(&started(&home)), removing(7, &["c1"]));
    }

    /// It denies what it denies until a coordinator sends another list, and keeps none of those out.
    #[test]
    fn poisoned_file_yields_to_lists() {
        let home = home("lab");
        let file = started(&home);
        let text = encode(&file.record(&removing(u64::MAX, &["c1"])));
        fs::write(home.path().join(DENIED_FILE), text).unwrap();
        let poisoned = started(&home);
        assert_eq!(held(&poisoned).removed, removing(u64::MAX, &["c1"]).removed);
        poisoned.learn(removing(7, &["c2"])).unwrap();
        assert_eq!(held(&started(&home)), removing(7, &["c2"]));
    }

    /// Nothing is written in its place.
    #[test]
    fn damaged_deny_list_file_is_named() {
        let home = home("lab");
        let file = started(&home);
        file.learn(removing(7, &["c1"])).unwrap();
        let path = home.path().join(DENIED_FILE);
        let whole = fs::read_to_string(&path).unwrap();
        let identity = Identity::load(home.path()).unwrap();
        let refused = |text: &str| {
            fs::write(&path, text).unwrap();
            DenyListFile::load(home.path(), &identity).unwrap_err()
        };
        for length in 0..whole.len() {
            let error = refused(&whole[..length]).to_string();
            assert!(error.contains("denied.json is damaged"), "{error}");
        }
        let later = whole.replace("\"version\": 1", "\"version\": 2");
        let error = refused(&later);
        assert!(
            matches!(error, DenyListError::OtherVersion { version: 2, .. }),
            "{error}"
        );
        file.learn(removing(9, &["c2"])).unwrap_err();
        assert_eq!(fs::read_to_string(&path).unwrap(), later);
    }

    #[test]
    fn unreadable_deny_list_file_is_named() {
        let home = home("lab");
        let file = started(&home);
        fs::create_dir(home.path().join(DENIED_FILE)).unwrap();
        let error = DenyListFile::load(home.path(), &file.identity).unwrap_err();
        let words = error.to_string();
        let is_named = words.starts_with("cannot read") && words.ends_with(DENIED_FILE);
        assert!(is_named, "{words}");
    }

    #[test]
    fn file_keeps_format_of_its_version() {
        let member = |role, name: &str, up_to| DeniedMember {
            role,
            name: name.to_owned(),
            up_to: Admission(up_to),
        };
        let record = DenyListRecord {
            version: 1,
            cluster: "lab".to_owned(),
            authority_sha256: "00ff".to_owned(),
            as_of: Admission(7),
            revoked: vec![member(Role::Viewer, "vic", 5)],
            removed: vec![member(Role::Coordinator, "c1", 7)],
        };
        let text = r#"{
  "version": 1,
  "cluster": "lab",
  "authority_sha256": "00ff",
  "as_of": 7,
  "revoked": [
    {
      "role": "viewer",
      "name": "vic",
      "up_to": 5
    }
  ],
  "removed": [
    {
      "role": "coordinator",
      "name": "c1",
      "up_to": 7
    }
  ]
}"#;
        assert_eq!(encode(&record), text);
        assert_eq!(decode(text.as_bytes()).unwrap(), Ok(record));
    }
}
