//! Errors that keep a member from using its certificate.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::Role;
use crate::pki::PkiError;

#[derive(Debug, Error)]
pub enum CertificateError {
    #[error("cannot use the identity in {}", folder.display())]
    Identity {
        folder: PathBuf,
        source: Box<PkiError>,
    },
    #[error(
        "{} holds the certificate of {member}, and this program needs one of role {needed}",
        folder.display()
    )]
    OtherRole {
        folder: PathBuf,
        member: String,
        needed: Role,
    },
    #[error("cannot store the list of revoked members in {}", path.display())]
    ShutOut { path: PathBuf, source: io::Error },
    #[error(
        "{} is damaged: it lists the revoked members. Remove it only if none is revoked, or \
         restore it from a backup", path.display()
    )]
    ShutOutDamaged {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("cannot keep in mind who coordinates, in {}", path.display())]
    Coordinators { path: PathBuf, source: io::Error },
    #[error(
        "{} is damaged: it lists the coordinators. Remove it: a coordinator sends the list again",
        path.display()
    )]
    CoordinatorsDamaged {
        path: PathBuf,
        source: serde_json::Error,
    },
}

impl CertificateError {
    /// Whether the error is about the folder.
    pub fn is_of_the_folder(&self) -> bool {
        matches!(self, Self::Identity { .. } | Self::OtherRole { .. })
    }
}
