//! The data folder: locked by one coordinator at a time, for one cluster and one fabric.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use reweave_common::fabric::Fabric;
use reweave_link::durable_files::{self, LockedFolderError, replace};
use reweave_replica::decode_exact;
use reweave_replica::{FolderId, LogError, Saved};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::replication::{self, Opened, REMOVED_FILE};

#[derive(Debug, Error)]
pub(crate) enum DataError {
    #[error("cannot keep the coordinator's data")]
    Folder(#[from] LockedFolderError),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("{} is not a folder", path.display())]
    NoFolder { path: PathBuf },
    #[error(
        "{} was made for cluster {theirs:?}, but this one is {ours:?}: use the certificate of \
         that cluster, or a new data folder", folder.display()
    )]
    OtherCluster {
        folder: PathBuf,
        theirs: String,
        ours: String,
    },
    #[error(
        "{} was made for another cluster of the same name: its authority is not that of this certificate. Use the \
         certificate of that cluster, or a new data folder. If the cluster got a new authority, remove {}",
        folder.display(), path.display()
    )]
    OtherAuthority { folder: PathBuf, path: PathBuf },
    #[error(
        "{} was made for another fabric: use the fabric file that it was made for, or a new data \
         folder", folder.display()
    )]
    OtherFabric { folder: PathBuf },
    #[error(
        "{} belongs to coordinator {theirs:?}, but this one is {ours:?}: give {ours:?} its own \
         folder", folder.display()
    )]
    OtherMember {
        folder: PathBuf,
        theirs: String,
        ours: String,
    },
    #[error(
        "{} is of a coordinator that was removed from the cluster, and its number never returns. To bring {name} back, run \
         `reweave cluster member add {name} ADDRESS:PORT` and start it with an empty data folder", folder.display()
    )]
    Removed { folder: PathBuf, name: String },
    #[error("cannot {what} {}", path.display())]
    Name {
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error(
        "{} is damaged: it names a folder that has no log yet. Remove it; the folder then gets a \
         new name", path.display()
    )]
    NoName { path: PathBuf },
    #[error("{} was written by another version of this program: start that version", path.display())]
    OtherVersion {
        path: PathBuf,
        source: postcard::Error,
    },
}

impl DataError {
    pub(crate) fn is_bad_input(&self) -> bool {
        match self {
            Self::OtherCluster { .. }
            | Self::OtherAuthority { .. }
            | Self::OtherFabric { .. }
            | Self::OtherMember { .. }
            | Self::OtherVersion { .. }
            | Self::Removed { .. }
            | Self::NoFolder { .. }
            | Self::NoName { .. } => true,
            Self::Log(error) => error.is_bad_input(),
            Self::Folder(_) | Self::Name { .. } => false,
        }
    }
}

/// The cluster and fabric of a log; its first record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Belonging {
    pub(crate) cluster: String,
    /// The text of the fabric file. What counts is what it means.
    pub(crate) fabric: String,
    /// The coordinator's, as in its certificate.
    pub(crate) name: String,
    /// What the other coordinators know the folder by.
    pub(crate) folder: FolderId,
    /// The SHA-256 of the authority's certificate, in hexadecimal digits. Clusters of one name differ by it. It lies beside the
    /// log and not in it: earlier builds read the first record of a log exactly.
    #[serde(skip)]
    pub(crate) authority: String,
}

impl Belonging {
    pub(crate) fn encode(&self) -> Vec<u8> {
        // Writing to memory does not fail.
        postcard::to_stdvec(self).unwrap_or_default()
    }
}

fn log_in(folder: &Path) -> PathBuf {
    folder.join("log")
}

fn authority_in(folder: &Path) -> PathBuf {
    folder.join("authority")
}

/// A data folder that was examined.
#[derive(Debug)]
pub(crate) struct Looked {
    /// What stands in its log, if there is one.
    pub(crate) saved: Option<Saved>,
    /// A coordinator runs on it.
    pub(crate) is_held: bool,
}

/// Whether a start would take what lies in this folder, if anything does. Changes nothing.
pub(crate) fn look(folder: &Path, ours: &Belonging) -> Result<Looked, DataError> {
    if folder.exists() && !folder.is_dir() {
        let path = folder.to_owned();
        return Err(DataError::NoFolder { path });
    }
    let is_held = durable_files::LockedFolder::look(folder)?;
    let saved = replication::look(&log_in(folder))?;
    if let Some(saved) = &saved {
        check(folder, ours, saved)?;
        knows_authority(folder, ours)?;
        if folder.join(REMOVED_FILE).exists() {
            return Err(DataError::Removed {
                folder: folder.to_owned(),
                name: ours.name.clone(),
            });
        }
    }
    Ok(Looked { saved, is_held })
}

/// A data folder, locked for as long as this lives.
#[derive(Debug)]
pub(crate) struct Folder(durable_files::LockedFolder);

/// An open data folder.
#[derive(Debug)]
pub(crate) struct Data {
    pub(crate) opened: Opened,
    pub(crate) id: FolderId,
    /// Held by dropping it last.
    pub(crate) folder: Folder,
}

impl Folder {
    pub(crate) fn lock(path: &Path) -> Result<Self, DataError> {
        Ok(Self(durable_files::LockedFolder::hold(path)?))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Where one was and is gone, there is nothing to begin with.
    pub(crate) fn has_log(&self) -> Result<bool, DataError> {
        let has_log = self.log().exists();
        if !has_log {
            replication::expect_none(&self.log())?;
        }
        Ok(has_log)
    }

    fn log(&self) -> PathBuf {
        log_in(self.0.path())
    }

    /// What others are to know it by, until that stands in the log. The name is kept as long as
    /// there is no log, and no longer: a log that is gone must not be taken for one that never was.
    pub(crate) fn draw_id(&self) -> Result<FolderId, DataError> {
        let path = self.name();
        match fs::read_to_string(&path) {
            Ok(text) => {
                let id = text
                    .get(..16)
                    .and_then(|id| u64::from_str_radix(id, 16).ok());
                let id = id.filter(|&id| text == in_words(id));
                id.map(FolderId).ok_or(DataError::NoName { path })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let id = rand::random();
                replace(&path, in_words(id).as_bytes()).map_err(failed("write", &path))?;
                Ok(FolderId(id))
            }
            Err(source) => Err(failed("read", &path)(source)),
        }
    }

    fn name(&self) -> PathBuf {
        self.0.path().join("folder")
    }

    fn write_authority(&self, ours: &Belonging) -> Result<(), DataError> {
        let path = authority_in(self.0.path());
        let text = format!("{}\n", ours.authority);
        replace(&path, text.as_bytes()).map_err(failed("write", &path))
    }

    /// `beginning` is what a folder without a log begins with.
    pub(crate) fn open(
        self,
        ours: &Belonging,
        beginning: Option<Saved>,
    ) -> Result<Data, DataError> {
        // What lies beside a log is there before it. Here it is of an earlier log.
        if beginning.is_some() {
            remove(&self.0.path().join(REMOVED_FILE))?;
            self.write_authority(ours)?;
        }
        let opened = replication::open(&self.log(), beginning)?;
        let theirs = check(self.0.path(), ours, &opened.saved)?;
        if !knows_authority(self.0.path(), ours)? {
            self.write_authority(ours)?;
        }
        remove(&self.name())?;
        Ok(Data {
            opened,
            id: theirs.folder,
            folder: self,
        })
    }
}

fn remove(path: &Path) -> Result<(), DataError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Twice, so that a damaged name is not taken for another.
fn in_words(id: u64) -> String {
    format!("{id:016x}\n{id:016x}\n")
}

fn check(folder: &Path, ours: &Belonging, saved: &Saved) -> Result<Belonging, DataError> {
    let theirs = decode_exact::<Belonging>(&saved.head);
    let theirs = theirs.map_err(of_another_version(folder))?;
    let folder = folder.to_owned();
    if theirs.cluster != ours.cluster {
        return Err(DataError::OtherCluster {
            folder,
            theirs: theirs.cluster,
            ours: ours.cluster.clone(),
        });
    }
    if !same_fabric(&theirs.fabric, &ours.fabric) {
        return Err(DataError::OtherFabric { folder });
    }
    if theirs.name != ours.name {
        return Err(DataError::OtherMember {
            folder,
            theirs: theirs.name,
            ours: ours.name.clone(),
        });
    }
    Ok(theirs)
}

/// Whether the folder says to which authority its log belongs. A log of an earlier build does not.
fn knows_authority(folder: &Path, ours: &Belonging) -> Result<bool, DataError> {
    let path = authority_in(folder);
    match fs::read_to_string(&path) {
        Ok(theirs) if theirs.trim_end() == ours.authority => Ok(true),
        Ok(_) => Err(DataError::OtherAuthority {
            folder: folder.to_owned(),
            path,
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(failed("read", &path)(source)),
    }
}

/// Its log can be read, and what stands in it is not known here.
pub(crate) fn of_another_version(folder: &Path) -> impl FnOnce(postcard::Error) -> DataError {
    let path = log_in(folder);
    move |source| DataError::OtherVersion { path, source }
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DataError {
    let path = path.to_owned();
    move |source| DataError::Name { what, path, source }
}

fn same_fabric(one: &str, other: &str) -> bool {
    let parse = |text| Fabric::parse("fabric", text).ok();
    one == other || parse(one).is_some_and(|fabric| Some(fabric) == parse(other))
}

#[cfg(test)]
mod tests {
    use reweave_replica::{MemberId, Members};

    use super::*;

    fn open(folder: &Path, ours: &Belonging) -> Result<Data, DataError> {
        let beginning = Saved::joining(MemberId(1), ours.encode(), Members::default());
        Folder::lock(folder)?.open(ours, Some(beginning))
    }

    fn belonging(cluster: &str, hosts: u32) -> Belonging {
        Belonging {
            cluster: cluster.to_owned(),
            fabric: format!("kind = \"ideal\"\nhosts = {hosts}\nnic_gbps = 1\n"),
            name: "c1".to_owned(),
            folder: FolderId(7),
            authority: "aa".to_owned(),
        }
    }

    #[test]
    fn folder_has_one_coordinator() {
        let folder = tempfile::tempdir().unwrap();
        let _first = open(folder.path(), &belonging("a", 2)).unwrap();
        let second = open(folder.path(), &belonging("a", 2));
        let in_use = matches!(
            second,
            Err(DataError::Folder(LockedFolderError::InUse { .. }))
        );
        assert!(in_use, "{second:?}");
    }

    #[test]
    fn log_belongs_to_cluster_and_fabric() {
        let folder = tempfile::tempdir().unwrap();
        drop(open(folder.path(), &belonging("a", 2)).unwrap());
        let again = |ours: &Belonging| open(folder.path(), ours).map(drop);
        let other = again(&belonging("b", 2)).unwrap_err();
        assert!(other.is_bad_input(), "{other}");
        let other = again(&belonging("a", 3)).unwrap_err();
        assert!(other.to_string().contains("another fabric"), "{other}");
        let mut reworded = belonging("a", 2);
        reworded.fabric.push_str("# the same in other words\n");
        again(&reworded).unwrap();
    }

    /// Another cluster of the same name has another one.
    #[test]
    fn log_belongs_to_one_authority() {
        let scratch = tempfile::tempdir().unwrap();
        let ours = belonging("a", 2);
        let other = Belonging {
            authority: "bb".to_owned(),
            ..ours.clone()
        };
        let again = |ours: &Belonging| {
            let held = Folder::lock(scratch.path()).unwrap();
            held.open(ours, None).map(drop)
        };
        drop(open(scratch.path(), &ours).unwrap());
        for refused in [look(scratch.path(), &other).map(drop), again(&other)] {
            let refused = refused.unwrap_err();
            assert!(refused.is_bad_input(), "{refused}");
            let words = "was made for another cluster of the same name";
            assert!(refused.to_string().contains(words), "{refused}");
        }
        again(&ours).unwrap();
        // Of an earlier build, or by an operator.
        fs::remove_file(authority_in(scratch.path())).unwrap();
        look(scratch.path(), &other).unwrap();
        again(&other).unwrap();
        let refused = look(scratch.path(), &ours).unwrap_err();
        assert!(
            matches!(refused, DataError::OtherAuthority { .. }),
            "{refused}"
        );
    }

    #[test]
    fn log_of_other_version_names_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let head = vec![0xff; 3];
        let beginning = Saved::joining(MemberId(1), head, Members::default());
        let held = Folder::lock(folder.path()).unwrap();
        let error = held
            .open(&belonging("a", 2), Some(beginning))
            .map(drop)
            .unwrap_err();
        assert!(error.is_bad_input(), "{error}");
        let text = format!(
            "{}/log was written by another version of this program: start that version",
            folder.path().display()
        );
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn folder_belongs_to_one_member() {
        let folder = tempfile::tempdir().unwrap();
        drop(open(folder.path(), &belonging("a", 2)).unwrap());
        let other = Belonging {
            name: "c4".to_owned(),
            ..belonging("a", 2)
        };
        let other = open(folder.path(), &other).unwrap_err();
        assert!(other.is_bad_input(), "{other}");
        assert!(other.to_string().contains("coordinator \"c1\""), "{other}");
    }

    #[test]
    fn folder_of_removed_member_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let ours = belonging("a", 2);
        let path = |file: &str| scratch.path().join(file);
        drop(open(scratch.path(), &ours).unwrap());
        look(scratch.path(), &ours).unwrap();
        fs::write(path(REMOVED_FILE), "1\n").unwrap();
        let refused = look(scratch.path(), &ours).unwrap_err();
        assert!(refused.is_bad_input(), "{refused}");
        let remedy = "run `reweave cluster member add c1 ADDRESS:PORT` and start it with an empty";
        assert!(refused.to_string().contains(remedy), "{refused}");
        for file in ["log", "reached"] {
            fs::remove_file(path(file)).unwrap();
        }
        look(scratch.path(), &ours).unwrap();
        drop(open(scratch.path(), &ours).unwrap());
        assert!(!path(REMOVED_FILE).exists(), "it was of another log");
        look(scratch.path(), &ours).unwrap();
    }

    #[test]
    fn folder_id_lasts_while_log_exists() {
        let scratch = tempfile::tempdir().unwrap();
        let draw = || Folder::lock(scratch.path()).unwrap().draw_id().unwrap();
        let first = draw();
        assert_eq!(draw(), first);
        let ours = Belonging {
            folder: first,
            ..belonging("a", 2)
        };
        let opened = open(scratch.path(), &ours).unwrap();
        assert!(opened.folder.has_log().unwrap());
        drop(opened);
        let later = Belonging {
            folder: FolderId(8),
            ..ours
        };
        assert_eq!(open(scratch.path(), &later).unwrap().id, first);
        fs::remove_file(scratch.path().join("log")).unwrap();
        let gone = Folder::lock(scratch.path()).unwrap().has_log().unwrap_err();
        assert!(gone.is_bad_input(), "{gone}");
        assert!(gone.to_string().contains("log is gone, and"), "{gone}");
        fs::remove_file(scratch.path().join("reached")).unwrap();
        assert!(!Folder::lock(scratch.path()).unwrap().has_log().unwrap());
        assert_ne!(draw(), first);
    }

    /// Cut anywhere, or with any bit flipped, it is another name or none; never the same by chance.
    #[test]
    fn damaged_folder_id_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let draw = || Folder::lock(scratch.path()).unwrap().draw_id();
        let first = draw().unwrap();
        let path = scratch.path().join("folder");
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let error = draw().unwrap_err();
            assert!(error.is_bad_input(), "{error}");
            assert!(error.to_string().contains("folder is damaged"), "{error}");
        }
        for at in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            fs::write(&path, &flipped).unwrap();
            assert!(draw().is_err(), "bit {at}");
        }
        fs::write(&path, &whole).unwrap();
        assert_eq!(draw().unwrap(), first);
    }
}
