//! Members of a cluster: role, admission and revocation.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::names::is_plain;

/// The longest name of a member.
pub const MAX_MEMBER_NAME_BYTES: usize = 63;

/// Decoders refuse longer deny lists. A log refuses revocations from half of this on, and those under way still count.
const MAX_DENIED_MEMBERS: usize = 1 << 17;

/// The role of a member in a cluster. What each role may do is decided elsewhere.
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

/// A member of a cluster. The name is empty if the role needs none. The name of an agent is that of its node.
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

/// The time at which the bearer of a certificate was admitted to the cluster, in microseconds since 1970. Each admission is
/// later than the one before. So a log that begins again knows that members of an earlier log came before. Renewals keep the
/// admission. A certificate that was signed by hand has none, and counts as the oldest.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Admission(pub u64);

/// Revoked members, each up to an admission. A member that was admitted again later is not revoked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DenyList(#[serde(deserialize_with = "bounded_members")] BTreeMap<Member, Admission>);

impl DenyList {
    pub fn deny(&mut self, member: Member, up_to: Admission) {
        let denied = self.0.entry(member).or_default();
        *denied = up_to.max(*denied);
    }

    pub fn denies(&self, member: &Member, admitted: Admission) -> bool {
        self.0.get(member).is_some_and(|last| admitted <= *last)
    }

    /// Denies all members of another list as well.
    pub fn add(&mut self, more: Self) {
        for (member, up_to) in more.0 {
            self.deny(member, up_to);
        }
    }

    /// The members that were revoked since `earlier`. None if this list admits a member that `earlier` denied.
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

    /// Whether the list has the member, for any admission.
    pub fn names(&self, member: &Member) -> bool {
        self.0.contains_key(member)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Member, Admission)> {
        self.0.iter().map(|(member, last)| (member, *last))
    }

    fn coordinators(&self) -> BTreeMap<String, Admission> {
        let of_role = self.iter().filter(|(it, _)| it.role == Role::Coordinator);
        of_role
            .map(|(member, up_to)| (member.name.clone(), up_to))
            .collect()
    }

    /// Lowers later admissions to this one.
    pub fn limit(&mut self, latest: Admission) {
        for up_to in self.0.values_mut() {
            *up_to = latest.min(*up_to);
        }
    }

    /// Keeps the members for which the condition holds.
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

impl FromIterator<(Member, Admission)> for DenyList {
    fn from_iter<T: IntoIterator<Item = (Member, Admission)>>(each: T) -> Self {
        let mut list = Self::default();
        for (member, up_to) in each {
            list.deny(member, up_to);
        }
        list
    }
}

/// The lists by which certificates are refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DenyLists {
    /// The time of the latest admission, revocation or removal in the log of these lists. Each change of the lists has a later
    /// one.
    pub as_of: Admission,
    /// The certificates of these members are refused, and all certificates that their signers signed.
    pub revoked: DenyList,
    /// Coordinators that were removed. Only their own certificates are refused: the signer of a former leader has signed the
    /// certificates of all agents.
    pub removed: DenyList,
}

impl DenyLists {
    /// The lists for a member that connects to coordinators alone.
    pub fn of_coordinators(&self) -> DeniedCoordinators {
        DeniedCoordinators {
            as_of: self.as_of,
            revoked: self.revoked.coordinators(),
            removed: self.removed.coordinators(),
        }
    }

    /// The removed coordinators, for a member that gets the revoked members in another message.
    pub fn removed_coordinators(&self) -> RemovedCoordinators {
        RemovedCoordinators {
            as_of: self.as_of,
            list: self.removed.clone(),
        }
    }

    /// Adds revocations. No list lifts a revocation: a coordinator could lift its own, and a member that is admitted again has
    /// a later admission. No revocation reaches beyond the clock, or the member could never be admitted again.
    pub fn revoke(&mut self, more: DenyList, clock: ClockBounds) {
        self.revoked.add(more);
        self.revoked.limit(clock.latest);
    }

    /// Takes over a list of removed coordinators. Only a later list lifts a removal: the sender may have applied less of the
    /// log, as a deposed leader has. A date ahead of the clock may be invented to keep out the lists that remove its sender. So
    /// earlier lists remove coordinators as well, until the clock has reached that date.
    pub fn replace_removed(&mut self, theirs: RemovedCoordinators, clock: ClockBounds) {
        let [held, new] = [self.as_of, theirs.as_of].map(|date| clock.credible(date));
        if new > held {
            self.as_of = theirs.as_of;
            self.removed = theirs.list;
        } else if new == held || self.as_of > clock.now {
            self.removed.add(theirs.list);
        }
    }
}

/// The time of the machine that takes over lists, and a bound for the dates in them, which other clocks gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockBounds {
    pub now: Admission,
    /// The latest date that a log may have. No two clocks are further apart.
    pub latest: Admission,
}

impl ClockBounds {
    /// Returns the date, or the oldest one if no log can have it yet. This clock may be behind, so the lists keep their dates.
    fn credible(self, date: Admission) -> Admission {
        if date <= self.latest {
            date
        } else {
            Admission::default()
        }
    }
}

/// All removed coordinators in one state of the log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedCoordinators {
    /// The date, with the meaning of [`DenyLists::as_of`].
    pub as_of: Admission,
    /// Each coordinator is denied up to its removal.
    pub list: DenyList,
}

/// The names of coordinators whose certificates are refused, each up to an admission. The lists are for operators, who connect
/// to coordinators alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeniedCoordinators {
    /// The date, with the meaning of [`DenyLists::as_of`].
    pub as_of: Admission,
    #[serde(deserialize_with = "bounded_names")]
    pub revoked: BTreeMap<String, Admission>,
    #[serde(deserialize_with = "bounded_names")]
    pub removed: BTreeMap<String, Admission>,
}

/// Decodes a deny list within its bounds, for `#[serde(deserialize_with)]`.
fn bounded_members<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<Member, Admission>, D::Error> {
    deserializer.deserialize_map(BoundedList { name: member_name })
}

/// The same, of names alone.
fn bounded_names<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Admission>, D::Error> {
    deserializer.deserialize_map(BoundedList {
        name: String::as_str,
    })
}

fn member_name(member: &Member) -> &str {
    &member.name
}

/// Reads a list up to the first entry that no list of a log has.
struct BoundedList<K> {
    name: fn(&K) -> &str,
}

impl<'de, K: Deserialize<'de> + Ord> Visitor<'de> for BoundedList<K> {
    type Value = BTreeMap<K, Admission>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "up to {MAX_DENIED_MEMBERS} members with names of up to {MAX_MEMBER_NAME_BYTES} characters"
        )
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut list = BTreeMap::new();
        while let Some((key, up_to)) = map.next_entry::<K, Admission>()? {
            if list.len() == MAX_DENIED_MEMBERS {
                return Err(A::Error::invalid_length(list.len() + 1, &self));
            }
            let characters = (self.name)(&key).chars().count();
            if characters > MAX_MEMBER_NAME_BYTES {
                return Err(A::Error::custom("a name is too long"));
            }
            list.insert(key, up_to);
        }
        Ok(list)
    }
}

/// Names that no certificate can have are left out.
impl From<DeniedCoordinators> for DenyLists {
    fn from(denied: DeniedCoordinators) -> Self {
        let list = |names: BTreeMap<String, Admission>| {
            let each = names.into_iter().map(|(name, up_to)| {
                let role = Role::Coordinator;
                (Member { role, name }, up_to)
            });
            each.filter(|(member, _)| member.is_sound()).collect()
        };
        Self {
            as_of: denied.as_of,
            revoked: list(denied.revoked),
            removed: list(denied.removed),
        }
    }
}

/// The SHA-256 of a value that is not shown itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Digest(pub [u8; 32]);

/// Prints the first four bytes, which suffice for people.
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

    /// Lists of this time of the log. The members are denied up to it.
    fn lists(as_of: u64, revoked: &[&str], removed: &[&str]) -> DenyLists {
        let list = |names: &[&str]| {
            let members = names
                .iter()
                .map(|name| Member::new(Role::Coordinator, name));
            members.map(|member| (member, Admission(as_of))).collect()
        };
        DenyLists {
            as_of: Admission(as_of),
            revoked: list(revoked),
            removed: list(removed),
        }
    }

    /// A clock with this time. A log may be up to ten later.
    fn clock(now: u64) -> ClockBounds {
        ClockBounds {
            now: Admission(now),
            latest: Admission(now + 10),
        }
    }

    /// Takes over lists, at a time after all of them.
    fn merge(held: &mut DenyLists, theirs: DenyLists) {
        let removed = theirs.removed_coordinators();
        held.revoke(theirs.revoked, clock(100));
        held.replace_removed(removed, clock(100));
    }

    fn is_removed(held: &DenyLists, name: &str) -> bool {
        held.removed.names(&Member::new(Role::Coordinator, name))
    }

    #[test]
    fn earlier_lists_lift_nothing() {
        let mut held = lists(7, &["c1"], &["c2"]);
        let before = held.clone();
        merge(&mut held, lists(6, &[], &["c3"]));
        assert_eq!(held, before);
        merge(&mut held, lists(6, &["c4"], &[]));
        let c4 = Member::new(Role::Coordinator, "c4");
        assert!(
            held.revoked.denies(&c4, Admission(6)),
            "it was not heard of"
        );
        assert_eq!(held.removed, before.removed);
    }

    #[test]
    fn later_lists_lift_removals_alone() {
        let mut held = lists(7, &["c1"], &["c2"]);
        merge(&mut held, lists(9, &[], &["c3"]));
        let [c1, c2, c3] = ["c1", "c2", "c3"].map(|name| Member::new(Role::Coordinator, name));
        assert!(held.revoked.denies(&c1, Admission(7)));
        assert!(!held.removed.names(&c2) && held.removed.denies(&c3, Admission(9)));
        merge(&mut held, lists(8, &[], &["c2"]));
        assert!(!held.removed.names(&c2), "as one says that is behind");
    }

    /// Another program of this machine may have learned more under that date.
    #[test]
    fn same_date_lifts_no_removal() {
        let mut held = lists(7, &[], &["c1"]);
        merge(&mut held, lists(7, &[], &["c2"]));
        assert!(["c1", "c2"].iter().all(|name| is_removed(&held, name)));
        assert_eq!(held.as_of, Admission(7));
    }

    /// A coordinator invents a date, to stay when it is removed.
    #[test]
    fn date_ahead_blocks_no_removal() {
        let mut held = lists(20, &[], &[]);
        held.replace_removed(lists(12, &[], &["c1"]).removed_coordinators(), clock(12));
        held.replace_removed(lists(13, &[], &[]).removed_coordinators(), clock(13));
        assert!(is_removed(&held, "c1"), "an earlier list lifts none");
        assert_eq!(held.as_of, Admission(20));
        let stale = lists(19, &[], &["c2"]).removed_coordinators();
        held.replace_removed(stale, clock(20));
        assert!(!is_removed(&held, "c2"), "the clock has reached that date");
        held.replace_removed(lists(21, &[], &[]).removed_coordinators(), clock(21));
        assert!(!is_removed(&held, "c1"));
    }

    #[test]
    fn incredible_date_yields_but_stays() {
        let mut held = lists(50, &[], &["c1"]);
        let before = held.clone();
        held.revoke(DenyList::default(), clock(12));
        held.replace_removed(RemovedCoordinators::default(), clock(12));
        held.replace_removed(before.removed_coordinators(), clock(12));
        assert_eq!(held, before, "the clock may be the wrong one");
        held.replace_removed(lists(12, &[], &["c2"]).removed_coordinators(), clock(12));
        assert_eq!(held, lists(12, &[], &["c2"]));
        held.replace_removed(before.removed_coordinators(), clock(12));
        assert_eq!(held.as_of, Admission(12));
    }

    #[test]
    fn revocations_end_at_the_clock() {
        let mut held = DenyLists::default();
        held.revoke(lists(u64::MAX, &["c1"], &[]).revoked, clock(12));
        let c1 = Member::new(Role::Coordinator, "c1");
        assert!(held.revoked.denies(&c1, Admission(22)));
        assert!(
            !held.revoked.denies(&c1, Admission(23)),
            "it is admitted again"
        );
    }

    #[test]
    fn coordinator_lists_hold_sound_coordinators() {
        let mut all = lists(7, &["c1", "../c2"], &["c3"]);
        let h0 = Member::new(Role::Agent, "h0");
        all.revoked.deny(h0, Admission(7));
        let read = DenyLists::from(all.of_coordinators());
        assert_eq!(read, lists(7, &["c1"], &["c3"]));
    }

    fn decoded(names: &[String]) -> Result<DeniedCoordinators, serde_json::Error> {
        let list: BTreeMap<_, _> = names.iter().map(|name| (name, 7)).collect();
        let lists = serde_json::json!({ "as_of": 9, "revoked": {}, "removed": list });
        serde_json::from_value(lists)
    }

    #[test]
    fn oversized_deny_lists_are_refused() {
        let names: Vec<_> = (0..=MAX_DENIED_MEMBERS)
            .map(|it| format!("c{it}"))
            .collect();
        let most = &names[..MAX_DENIED_MEMBERS];
        assert_eq!(decoded(most).unwrap().removed.len(), MAX_DENIED_MEMBERS);
        assert!(decoded(&names).is_err());
        for (length, is_read) in [
            (MAX_MEMBER_NAME_BYTES, true),
            (MAX_MEMBER_NAME_BYTES + 1, false),
        ] {
            let names = ["c".repeat(length)];
            assert_eq!(decoded(&names).is_ok(), is_read, "{length}");
        }
    }

    #[test]
    fn unsafe_member_names_are_unsound() {
        for name in ["", "../h0", "-h0", "h 0", "h/0"] {
            assert!(!Member::new(Role::Agent, name).is_sound(), "{name}");
        }
        assert!(Member::new(Role::Agent, "leaf-0.rack_1").is_sound());
    }
}
