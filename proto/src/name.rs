//! Names of members in certificates: `spiffe://CLUSTER/ROLE/NAME`.

use std::fmt;
use std::str::FromStr;

pub use reweave_common::member::Role;
use reweave_common::member::{MAX_MEMBER_NAME_BYTES, Member, UnknownRole};
use reweave_common::names::is_plain;
use thiserror::Error;

const SPIFFE_SCHEME: &str = "spiffe://";
const SIGNER_SUFFIX: &str = "/signer";

/// The name of a cluster: what its certificates and its members have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterName(String);

impl ClusterName {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As it stands in the certificate of the cluster's authority.
    pub fn uri(&self) -> String {
        format!("{SPIFFE_SCHEME}{self}")
    }

    pub fn from_uri(uri: &str) -> Result<Self, NameError> {
        let rest = uri.strip_prefix(SPIFFE_SCHEME);
        rest.ok_or_else(|| NameError::NotOurs(uri.to_owned()))?
            .parse()
    }
}

impl FromStr for ClusterName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        checked(text).map(Self)
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The full name of one member of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberName {
    cluster: ClusterName,
    role: Role,
    name: String,
}

impl MemberName {
    pub fn new(cluster: ClusterName, role: Role, name: &str) -> Result<Self, NameError> {
        let name = checked(name)?;
        Ok(Self {
            cluster,
            role,
            name,
        })
    }

    pub fn cluster(&self) -> &ClusterName {
        &self.cluster
    }

    pub fn role(&self) -> Role {
        self.role
    }

    /// The name within its role: for an agent, the node of the fabric it runs on.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// As it stands in the certificate that a coordinator signs others with.
    pub fn signer_uri(&self) -> String {
        format!("{self}{SIGNER_SUFFIX}")
    }

    /// The coordinator whose signer this is.
    pub fn from_signer_uri(uri: &str) -> Result<Self, NameError> {
        let member = uri
            .strip_suffix(SIGNER_SUFFIX)
            .map(str::parse)
            .transpose()?;
        let coordinator = member.filter(|member: &Self| member.role == Role::Coordinator);
        coordinator.ok_or_else(|| NameError::NotASigner(uri.to_owned()))
    }

    /// The same within its cluster.
    pub fn member(&self) -> Member {
        Member::new(self.role, &self.name)
    }
}

/// The member's URI.
impl fmt::Display for MemberName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cluster,
            role,
            name,
        } = self;
        write!(f, "{SPIFFE_SCHEME}{cluster}/{role}/{name}")
    }
}

impl FromStr for MemberName {
    type Err = NameError;

    fn from_str(uri: &str) -> Result<Self, NameError> {
        let not_ours = || NameError::NotOurs(uri.to_owned());
        let path = uri.strip_prefix(SPIFFE_SCHEME).ok_or_else(not_ours)?;
        let parts: Vec<_> = path.split('/').collect();
        let [cluster, role, name] = parts[..] else {
            return Err(not_ours());
        };
        Self::new(cluster.parse()?, role.parse()?, name)
    }
}

/// Names end up in paths, URIs and logs, so they hold nothing that means something there.
fn checked(name: &str) -> Result<String, NameError> {
    is_plain(name, MAX_MEMBER_NAME_BYTES)
        .then(|| name.to_owned())
        .ok_or_else(|| NameError::BadName(name.to_owned()))
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NameError {
    #[error(
        "{0:?} is not a valid name: use up to {MAX_MEMBER_NAME_BYTES} letters, digits, '-', '_' \
         and '.', beginning with a letter or digit"
    )]
    BadName(String),
    #[error(transparent)]
    UnknownRole(#[from] UnknownRole),
    #[error("{0:?} is not of the form spiffe://CLUSTER/ROLE/NAME")]
    NotOurs(String),
    #[error("{0:?} is not of the form spiffe://CLUSTER/coordinator/NAME{SIGNER_SUFFIX}")]
    NotASigner(String),
}
