//! The denied coordinators that an operator's commands have learned of, in a file beside the operator's certificate: a later
//! command refuses them before it asks anything.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reweave_common::error::error_chain;
use reweave_common::lock::lock;
use reweave_common::member::{Admission, DeniedCoordinators, DenyLists};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::pki::{self, PkiError, files};
use crate::{Identity, LinkError, Session};

const DENIED_FILE: &str = "denied.json";
const FORMAT_VERSION: u32 = 1;
/// In both lists together. A cluster has a few coordinators, and replaces one now and then.
const MAX_DENIED_COORDINATORS: usize = 4096;
/// Each of those takes up to 100 bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Lists have times of the leader's clock, and clocks are not that far apart. A list of a later time would stay the latest
/// for good.
const MAX_TIME_AHEAD: Duration = Duration::from_hours(26);

#[derive(Debug, Error)]
pub enum DenyListError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error(
        "{} is damaged: it lists revoked and removed coordinators. Remove it: the coordinator that is asked next sends \
         the list again", path.display()
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
    #[error("cannot keep the list of denied coordinators")]
    Write(#[source] Box<PkiError>),
}

/// The content of the file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DenyListRecord {
    version: u32,
    /// Another certificate may have taken the place of the one that this was written for.
    cluster: String,
    authority_sha256: String,
    denied: DeniedCoordinators,
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
    /// Several sessions may answer together.
    learning: Arc<Mutex<()>>,
}

impl DenyListFile {
    /// Denies what earlier commands have learned with the identity of this folder.
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

    /// Takes over the answer of a coordinator that is not denied. The answer may deny that coordinator itself.
    pub fn note(&self, from: &Session, denied: DeniedCoordinators) -> Result<(), LinkError> {
        self.check(from)?;
        self.learn(denied.into());
        self.check(from)
    }

    /// A file that cannot be written fails no command.
    fn learn(&self, theirs: DenyLists) {
        if !is_plausible(&theirs, SystemTime::now()) {
            tracing::warn!("a list of denied coordinators is ignored: its times are wrong");
            return;
        }
        let _alone = lock(&self.learning);
        let held = self.identity.denied().now().clone();
        let Some(lists) = merged(held.clone(), theirs) else {
            tracing::warn!("more than {MAX_DENIED_COORDINATORS} denied coordinators are ignored");
            return;
        };
        self.identity.denied().set_all(lists.clone());
        let is_news = lists.revoked != held.revoked || lists.removed != held.removed;
        if is_news && let Err(error) = self.store(lists) {
            tracing::debug!("{}", error_chain(&error));
        }
    }

    /// Another command may have written a later list meanwhile.
    fn store(&self, lists: DenyLists) -> Result<(), DenyListError> {
        let written = |error| DenyListError::Write(Box::new(error));
        let _alone = files::lock(&self.folder).map_err(written)?;
        let Some(lists) = merged(self.read()?, lists) else {
            return Ok(());
        };
        let mode = if pki::is_shared(&self.folder) {
            files::PUBLIC_MODE
        } else {
            files::PRIVATE_MODE
        };
        let text = encode(&self.record(&lists));
        files::replace(&self.path(), &text, mode).map_err(written)
    }

    /// Empty lists where there is no file, where it was written for another cluster, or where this user may not read it.
    fn read(&self) -> Result<DenyLists, DenyListError> {
        let path = self.path();
        let bytes = match bounded(&path) {
            Ok(bytes) => bytes,
            Err(error) if is_absent(error.kind()) => return Ok(DenyLists::default()),
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
        Ok(if is_ours {
            record.denied.into()
        } else {
            DenyLists::default()
        })
    }

    fn record(&self, lists: &DenyLists) -> DenyListRecord {
        let digest = self.identity.authority_digest().0;
        DenyListRecord {
            version: FORMAT_VERSION,
            cluster: self.identity.cluster().to_string(),
            authority_sha256: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
            denied: lists.of_coordinators(),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.join(DENIED_FILE)
    }
}

/// Whether the list may be of a log that has come no further than this clock. In a log, no member is denied up to a later time
/// than the log's own.
fn is_plausible(lists: &DenyLists, now: SystemTime) -> bool {
    let since_epoch = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let latest_us = since_epoch.saturating_add(MAX_TIME_AHEAD).as_micros();
    let latest = Admission(u64::try_from(latest_us).unwrap_or(u64::MAX));
    let mut denied = lists.revoked.iter().chain(lists.removed.iter());
    lists.as_of <= latest && denied.all(|(_, up_to)| up_to <= lists.as_of)
}

/// None where these are too many.
fn merged(mut lists: DenyLists, theirs: DenyLists) -> Option<DenyLists> {
    lists.merge(theirs);
    let count = lists.revoked.len() + lists.removed.len();
    (count <= MAX_DENIED_COORDINATORS).then_some(lists)
}

fn is_absent(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
    )
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

    use reweave_common::member::Member;
    use tempfile::TempDir;

    use super::*;
    use crate::Role;
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

    /// As a command that starts there.
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
        started(&home).learn(removing(7, &["c1"]));
        assert_eq!(held(&started(&home)), removing(7, &["c1"]));
        let about = fs::metadata(home.path().join(DENIED_FILE)).unwrap();
        assert_eq!(about.permissions().mode() & 0o777, 0o600);
        started(&home).learn(removing(9, &[]));
        assert_eq!(held(&started(&home)), removing(9, &[]));
    }

    /// Both have read the file before one of them writes it.
    #[test]
    fn concurrent_command_lifts_no_removal() {
        let home = home("lab");
        let [late, early] = [(); 2].map(|()| started(&home));
        late.learn(removing(9, &["c2"]));
        early.learn(removing(7, &["c1"]));
        assert_eq!(held(&started(&home)), removing(9, &["c2"]));
    }

    /// As in a home that is read-only. Other sessions of this command have the list.
    #[test]
    fn unwritable_file_fails_no_command() {
        let home = home("lab");
        let file = started(&home);
        fs::remove_dir_all(home.path()).unwrap();
        file.learn(removing(7, &["c1"]));
        assert_eq!(held(&file), removing(7, &["c1"]));
    }

    #[test]
    fn other_clusters_file_is_ignored() {
        let [lab, prod] = ["lab", "prod"].map(home);
        started(&lab).learn(removing(7, &["c1"]));
        let [from, to] = [&lab, &prod].map(|home| home.path().join(DENIED_FILE));
        fs::copy(from, to).unwrap();
        assert_eq!(held(&started(&prod)), DenyLists::default());
        started(&prod).learn(removing(5, &["c2"]));
        assert_eq!(held(&started(&prod)), removing(5, &["c2"]));
    }

    #[test]
    fn deny_list_file_is_bounded() {
        let home = home("lab");
        let names: Vec<_> = (0..=MAX_DENIED_COORDINATORS)
            .map(|number| format!("c{number:062}"))
            .collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        // Of 2023: it has as many digits as the times of now.
        let latest = 1_700_000_000_000_000;
        started(&home).learn(removing(latest, &names));
        assert_eq!(held(&started(&home)), DenyLists::default());
        let most = removing(latest, &names[1..]);
        started(&home).learn(most.clone());
        assert_eq!(held(&started(&home)), most);
    }

    /// It would lift no removal any longer, and no later list would lift its own.
    #[test]
    fn lists_of_later_times_are_ignored() {
        let home = home("lab");
        started(&home).learn(removing(u64::MAX, &["c1"]));
        let mut early = removing(9, &["c1"]);
        early.as_of = Admission(8);
        started(&home).learn(early);
        assert_eq!(held(&started(&home)), DenyLists::default());
        started(&home).learn(removing(7, &["c1"]));
        assert_eq!(held(&started(&home)), removing(7, &["c1"]));
    }

    #[test]
    fn damaged_deny_list_file_is_named() {
        let home = home("lab");
        started(&home).learn(removing(7, &["c1"]));
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
    }

    #[test]
    fn file_keeps_format_of_its_version() {
        let record = DenyListRecord {
            version: 1,
            cluster: "lab".to_owned(),
            authority_sha256: "00ff".to_owned(),
            denied: removing(7, &["c1"]).of_coordinators(),
        };
        let text = r#"{
  "version": 1,
  "cluster": "lab",
  "authority_sha256": "00ff",
  "denied": {
    "as_of": 7,
    "revoked": {},
    "removed": {
      "c1": 7
    }
  }
}"#;
        assert_eq!(encode(&record), text);
        assert_eq!(decode(text.as_bytes()).unwrap(), Ok(record));
    }
}
