//! Members of a cluster: role, admission and revocation.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::names::is_plain;

/// The longest name of a member.
pub const MAX_MEMBER_NAME_BYTES: usize = 63;

/// What somebody may be in a cluster. What each may do is decided
/// elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    Coordinator,
    Agent,
    Driver,
    Operator,
    Viewer,
}

impl Role {
    pub const ALL: [Self; 5] = [
        Self::Coordinator,
        Self::Agent,
        Self::Driver,
        Self::Operator,
        Self::Viewer,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Coordinator => "coordinator",
            Self::Agent => "agent",
            Self::Driver => "driver",
            Self::Operator => "operator",
            Self::Viewer => "viewer",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text names no role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownRole(pub String);

impl fmt::Display for UnknownRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let roles = Role::ALL.map(Role::as_str).join(", ");
        write!(f, "{:?} is not a role: use one of {roles}", self.0)
    }
}

impl std::error::Error for UnknownRole {}

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        let role = Self::ALL.into_iter().find(|role| role.as_str() == text);
        role.ok_or_else(|| UnknownRole(text.to_owned()))
    }
}

/// Somebody in a cluster that need not be named. For an agent, the name is that of its node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Member {
    pub role: Role,
    pub name: String,
}

impl Member {
    pub fn new(role: Role, name: &str) -> Self {
        let name = name.to_owned();
        Self { role, name }
    }

    /// Whether a certificate could be made for it.
    pub fn is_sound(&self) -> bool {
        is_plain(&self.name, MAX_MEMBER_NAME_BYTES)
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.role, self.name)
    }
}

/// When a certificate's bearer was let into the cluster, in microseconds since 1970 and each later than
/// the one before: so a log that begins anew says of those whom an earlier one let in that they came
/// before. Renewals keep it. What was signed by hand has none, and counts as oldest.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Admission(pub u64);

/// Revoked members, each up to an admission. A member that was admitted again later is not revoked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DenyList(BTreeMap<Member, Admission>);

impl DenyList {
    pub fn deny(&mut self, member: Member, up_to: Admission) {
        let denied = self.0.entry(member).or_default();
        *denied = up_to.max(*denied);
    }

    pub fn denies(&self, member: &Member, admitted: Admission) -> bool {
        self.0.get(member).is_some_and(|last| admitted <= *last)
    }

    /// All of these are shut out as well.
    pub fn add(&mut self, more: Self) {
        for (member, up_to) in more.0 {
            self.deny(member, up_to);
        }
    }

    /// Who was shut out since there was this one; nothing where somebody is let in again that it denied.
    pub fn beyond(&self, earlier: &Self) -> Option<Self> {
        let holds = |(member, up_to): (&Member, &Admission)| self.0.get(member) >= Some(up_to);
        earlier.0.iter().all(holds).then(|| {
            let is_new =
                |(member, up_to): &(&Member, &Admission)| earlier.0.get(*member) != Some(*up_to);
            let new = self.0.iter().filter(is_new);
            Self(
                new.map(|(member, up_to)| (member.clone(), *up_to))
                    .collect(),
            )
        })
    }

    /// Whether it was ever shut out.
    pub fn names(&self, member: &Member) -> bool {
        self.0.contains_key(member)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Member, Admission)> {
        self.0.iter().map(|(member, last)| (member, *last))
    }

    /// Only of members that this holds of.
    pub fn retain(&mut self, holds: impl Fn(&Member) -> bool) {
        self.0.retain(|member, _| holds(member));
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// By which a certificate is refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DenyLists {
    /// Their certificates are refused, and all that their signers signed.
    pub revoked: DenyList,
    /// Coordinators that were removed. Their own certificates are refused alone: of one that led, its signer has signed those
    /// of all agents.
    pub removed: DenyList,
}

/// A SHA-256, of a value that is not shown itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Digest(pub [u8; 32]);

/// The beginning suffices for people.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..4]
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_roundtrip() {
        for role in Role::ALL {
            assert_eq!(role.as_str().parse(), Ok(role));
        }
        let error = "root".parse::<Role>().unwrap_err().to_string();
        assert!(error.contains("\"root\" is not a role") && error.contains("viewer"));
    }

    #[test]
    fn readmitted_member_is_not_denied() {
        let mut list = DenyList::default();
        let [h0, h1] = ["h0", "h1"].map(|name| Member::new(Role::Agent, name));
        list.deny(h0.clone(), Admission(7));
        list.deny(h0.clone(), Admission(3));
        assert!(list.denies(&h0, Admission(0)) && list.denies(&h0, Admission(7)));
        assert!(!list.denies(&h0, Admission(8)));
        assert!(!list.denies(&h1, Admission(0)));
        let operator = Member::new(Role::Operator, "h0");
        assert!(!list.denies(&operator, Admission(0)));
    }

    #[test]
    fn deny_lists_compute_their_difference() {
        let list = |denied: &[(&str, u64)]| {
            let mut list = DenyList::default();
            for (name, up_to) in denied {
                list.deny(Member::new(Role::Agent, name), Admission(*up_to));
            }
            list
        };
        let (earlier, later) = (
            list(&[("h0", 3), ("h1", 5)]),
            list(&[("h0", 3), ("h1", 7), ("h2", 1)]),
        );
        let more = later.beyond(&earlier).unwrap();
        assert_eq!(more, list(&[("h1", 7), ("h2", 1)]));
        let mut grown = earlier.clone();
        grown.add(more);
        assert_eq!(grown, later);
        assert_eq!(later.beyond(&later), Some(DenyList::default()));
        assert_eq!(earlier.beyond(&later), None);
    }

    #[test]
    fn retained_members_stay_denied() {
        let [c1, c2] = ["c1", "c2"].map(|name| Member::new(Role::Coordinator, name));
        let mut list = DenyList::default();
        list.deny(c1.clone(), Admission(7));
        list.deny(c2.clone(), Admission(7));
        list.retain(|member| member.name != "c1");
        assert!(!list.names(&c1) && list.denies(&c2, Admission(7)));
    }

    #[test]
    fn unsafe_member_names_are_unsound() {
        for name in ["", "../h0", "-h0", "h 0", "h/0"] {
            assert!(!Member::new(Role::Agent, name).is_sound(), "{name}");
        }
        assert!(Member::new(Role::Agent, "leaf-0.rack_1").is_sound());
    }
}
