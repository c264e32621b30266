//! What keeps a member from using its certificate.

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
    #[error("cannot keep in mind who is shut out, in {}", path.display())]
    ShutOut { path: PathBuf, source: io::Error },
    #[error(
        "{} is damaged: it says who is shut out of the cluster. Remove it only where nobody is, or \
         put it back from a copy", path.display()
    )]
    ShutOutDamaged {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("cannot keep in mind who coordinates, in {}", path.display())]
    Coordinators { path: PathBuf, source: io::Error },
    #[error(
        "{} is damaged: it says who coordinates the cluster. Remove it: a coordinator says it again",
        path.display()
    )]
    CoordinatorsDamaged {
        path: PathBuf,
        source: serde_json::Error,
    },
}

impl CertificateError {
    /// Whether another folder was meant.
    pub fn is_of_the_folder(&self) -> bool {
        matches!(self, Self::Identity { .. } | Self::OtherRole { .. })
    }
}
