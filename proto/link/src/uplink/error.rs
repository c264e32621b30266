//! Errors that keep a member from using its certificate.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::pki::PkiError;
use crate::{DenyListError, Role};

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
    #[error(transparent)]
    DenyLists(#[from] DenyListError),
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
