//! The data folder: held by one coordinator at a time, and made for one cluster and one fabric.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use reweave_common::fabric::Fabric;
use reweave_replica::{MemberId, Saved};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::replication::{LogError, Opened, Store};

#[derive(Debug, Error)]
pub(crate) enum DataError {
    #[error("cannot use {} as the data folder", folder.display())]
    Open { folder: PathBuf, source: io::Error },
    #[error("another coordinator uses {}", folder.display())]
    InUse { folder: PathBuf },
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("{} was made for cluster {theirs:?}, and this one is {ours:?}", folder.display())]
    OtherCluster {
        folder: PathBuf,
        theirs: String,
        ours: String,
    },
    #[error(
        "{} was made for another fabric, whose nodes and links its log speaks of: give the fabric \
         it was made for, or a new data folder", folder.display()
    )]
    OtherFabric { folder: PathBuf },
    #[error(
        "{} belongs to member {theirs}, and this one is {ours}: a number goes with one folder for \
         good", folder.display()
    )]
    OtherMember {
        folder: PathBuf,
        theirs: MemberId,
        ours: MemberId,
    },
    #[error("{} was written by another version of this program", folder.display())]
    OtherVersion { folder: PathBuf },
}

impl DataError {
    pub(crate) fn is_bad_input(&self) -> bool {
        match self {
            Self::OtherCluster { .. } | Self::OtherFabric { .. } | Self::OtherMember { .. } => true,
            Self::Log(error) => error.is_bad_input(),
            Self::Open { .. } | Self::InUse { .. } | Self::OtherVersion { .. } => false,
        }
    }
}

/// What a log belongs to; the first thing in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Belonging {
    pub(crate) cluster: String,
    /// The text of the fabric file. What counts is what it means.
    pub(crate) fabric: String,
}

/// An open data folder, locked for as long as this lives.
#[derive(Debug)]
pub(crate) struct Data {
    pub(crate) opened: Opened,
    /// Held by dropping it last.
    pub(crate) lock: File,
}

impl Data {
    /// `beginning` is what a new folder begins with.
    pub(crate) fn open(
        folder: &Path,
        ours: &Belonging,
        beginning: impl FnOnce(Vec<u8>) -> Saved,
    ) -> Result<Self, DataError> {
        let lock = lock(folder)?;
        // Writing to memory does not fail.
        let head = postcard::to_stdvec(ours).unwrap_or_default();
        let beginning = beginning(head);
        let own = beginning.member;
        let opened = Store::open(&folder.join("log"), || beginning)?;
        check(folder, ours, own, &opened.saved)?;
        Ok(Self { opened, lock })
    }
}

fn check(folder: &Path, ours: &Belonging, own: MemberId, saved: &Saved) -> Result<(), DataError> {
    let folder = folder.to_owned();
    let Ok(theirs) = postcard::from_bytes::<Belonging>(&saved.head) else {
        return Err(DataError::OtherVersion { folder });
    };
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
    if saved.member != own {
        return Err(DataError::OtherMember {
            folder,
            theirs: saved.member,
            ours: own,
        });
    }
    Ok(())
}

fn same_fabric(one: &str, other: &str) -> bool {
    let parse = |text| Fabric::parse("fabric", text).ok();
    one == other || parse(one).is_some_and(|fabric| Some(fabric) == parse(other))
}

fn lock(folder: &Path) -> Result<File, DataError> {
    let failed = |source| DataError::Open {
        folder: folder.to_owned(),
        source,
    };
    fs::create_dir_all(folder).map_err(failed)?;
    let lock = File::create(folder.join("lock")).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(DataError::InUse {
            folder: folder.to_owned(),
        }),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(folder: &Path, ours: &Belonging) -> Result<Data, DataError> {
        open_as(1, folder, ours)
    }

    fn open_as(id: u64, folder: &Path, ours: &Belonging) -> Result<Data, DataError> {
        Data::open(folder, ours, |head| Saved::joining(MemberId(id), head))
    }

    fn belonging(cluster: &str, hosts: u32) -> Belonging {
        Belonging {
            cluster: cluster.to_owned(),
            fabric: format!("kind = \"ideal\"\nhosts = {hosts}\nnic_gbps = 1\n"),
        }
    }

    #[test]
    fn two_coordinators_never_share_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let _first = open(folder.path(), &belonging("a", 2)).unwrap();
        let second = open(folder.path(), &belonging("a", 2));
        assert!(matches!(second, Err(DataError::InUse { .. })), "{second:?}");
    }

    #[test]
    fn a_log_speaks_of_one_cluster_and_one_fabric() {
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

    #[test]
    fn a_folder_goes_with_one_member_for_good() {
        let folder = tempfile::tempdir().unwrap();
        drop(open_as(1, folder.path(), &belonging("a", 2)).unwrap());
        let other = open_as(4, folder.path(), &belonging("a", 2)).unwrap_err();
        assert!(other.is_bad_input(), "{other}");
        assert!(other.to_string().contains("belongs to member 1"), "{other}");
    }
}
