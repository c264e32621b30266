//! The content of the deny list file.

use reweave_common::member::{DeniedCoordinators, DenyLists};
use serde::{Deserialize, Serialize};

use crate::Identity;

/// The version of the format. Version 1 listed members of all roles.
pub(super) const FORMAT_VERSION: u32 = 2;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DenyListRecord {
    version: u32,
    #[serde(flatten)]
    pub(super) authority: RecordAuthority,
    #[serde(flatten)]
    pub(super) denied: DeniedCoordinators,
}

/// The cluster of the lists. Another certificate may have replaced the one for which they were written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RecordAuthority {
    cluster: String,
    authority_sha256: String,
}

/// The field that every version has.
#[derive(Deserialize)]
struct RecordVersion {
    version: u32,
}

impl DenyListRecord {
    pub(super) fn new(authority: RecordAuthority, lists: &DenyLists) -> Self {
        Self {
            version: FORMAT_VERSION,
            authority,
            denied: lists.of_coordinators(),
        }
    }
}

impl RecordAuthority {
    pub(super) fn of(identity: &Identity) -> Self {
        let digest = identity.authority_digest().0;
        Self {
            cluster: identity.cluster().to_string(),
            authority_sha256: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}

pub(crate) fn encode(record: &DenyListRecord) -> String {
    serde_json::to_string_pretty(record).expect("names and numbers are JSON")
}

/// Decodes the file, or returns its version if that is another one.
pub(crate) fn decode(bytes: &[u8]) -> Result<Result<DenyListRecord, u32>, serde_json::Error> {
    let RecordVersion { version } = serde_json::from_slice(bytes)?;
    match version {
        FORMAT_VERSION => serde_json::from_slice(bytes).map(Ok),
        other => Ok(Err(other)),
    }
}

#[cfg(test)]
mod tests {
    use reweave_common::member::{Admission, Member, Role};

    use super::*;

    #[test]
    fn file_keeps_format_of_its_version() {
        let list = |name, up_to| {
            let member = Member::new(Role::Coordinator, name);
            [(member, Admission(up_to))].into_iter().collect()
        };
        let lists = DenyLists {
            as_of: Admission(7),
            revoked: list("c2", 5),
            removed: list("c1", 7),
        };
        let authority = RecordAuthority {
            cluster: "lab".to_owned(),
            authority_sha256: "00ff".to_owned(),
        };
        let record = DenyListRecord::new(authority, &lists);
        let text = r#"{
  "version": 2,
  "cluster": "lab",
  "authority_sha256": "00ff",
  "as_of": 7,
  "revoked": {
    "c2": 5
  },
  "removed": {
    "c1": 7
  }
}"#;
        assert_eq!(encode(&record), text);
        let read = decode(text.as_bytes()).unwrap().unwrap();
        assert_eq!(read, record);
        assert_eq!(DenyLists::from(read.denied), lists);
    }

    /// Files of other versions may have any other content.
    #[test]
    fn other_version_is_no_damage() {
        assert_eq!(decode(br#"{"version": 1, "revoked": []}"#).unwrap(), Err(1));
        assert!(decode(br#"{"version": 2, "revoked": []}"#).is_err());
    }
}
