//! Who somebody is: the names in certificates, `spiffe://CLUSTER/ROLE/NAME`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

const SCHEME: &str = "spiffe://";
const LONGEST: usize = 63;

/// What somebody may be in a cluster. What each may do is decided elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    Coordinator,
    Agent,
    Operator,
}

impl Role {
    pub const ALL: [Self; 3] = [Self::Coordinator, Self::Agent, Self::Operator];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Coordinator => "coordinator",
            Self::Agent => "agent",
            Self::Operator => "operator",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let role = Self::ALL.into_iter().find(|role| role.as_str() == text);
        role.ok_or_else(|| NameError::UnknownRole(text.to_owned()))
    }
}

/// The name of a cluster: what its certificates and its members have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterName(String);

impl ClusterName {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As it stands in the certificate of the cluster's authority.
    pub fn uri(&self) -> String {
        format!("{SCHEME}{self}")
    }

    pub fn from_uri(uri: &str) -> Result<Self, NameError> {
        let rest = uri.strip_prefix(SCHEME);
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
}

/// The member's URI.
impl fmt::Display for MemberName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cluster,
            role,
            name,
        } = self;
        write!(f, "{SCHEME}{cluster}/{role}/{name}")
    }
}

impl FromStr for MemberName {
    type Err = NameError;

    fn from_str(uri: &str) -> Result<Self, NameError> {
        let not_ours = || NameError::NotOurs(uri.to_owned());
        let path = uri.strip_prefix(SCHEME).ok_or_else(not_ours)?;
        let parts: Vec<_> = path.split('/').collect();
        let [cluster, role, name] = parts[..] else {
            return Err(not_ours());
        };
        Self::new(cluster.parse()?, role.parse()?, name)
    }
}

/// Names end up in paths, URIs and logs, so they hold nothing that means something there.
fn checked(name: &str) -> Result<String, NameError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let begins_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    (begins_well && name.len() <= LONGEST && name.chars().all(plain))
        .then(|| name.to_owned())
        .ok_or_else(|| NameError::BadName(name.to_owned()))
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NameError {
    #[error(
        "{0:?} is no name: use up to {LONGEST} letters, digits, '-', '_' and '.', beginning with a \
         letter or digit"
    )]
    BadName(String),
    #[error("{0:?} is no role of a cluster's member: use coordinator, agent or operator")]
    UnknownRole(String),
    #[error("{0:?} is not of the form spiffe://CLUSTER/ROLE/NAME")]
    NotOurs(String),
}
