//! What the state has since version 1.2. In a snapshot it follows the bytes of version 1.1, once the cluster version is
//! high enough.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::circuit::CircuitSet;
use reweave_common::ids::OpticalId;
use serde::{Deserialize, Serialize};

use super::{Signed, State};
use crate::log::policy_settings;

/// The minor version since which the state has a tail.
pub(crate) const TAIL_SINCE_MINOR: u16 = 2;
/// Many times the keys of any build.
const MAX_SETTINGS: usize = 256;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateTail {
    pub policy: LoggedPolicy,
    /// By optical switch that holds other circuits than it was last ordered to: those that were in force before; none
    /// if they are those of the fabric's file.
    pub ordered: BTreeMap<OpticalId, Option<CircuitSet>>,
}

/// The settings of the policy that operators have set while the coordinators ran.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedPolicy {
    /// The number of changes.
    pub revision: u64,
    /// By key. All others are as in the leader's file.
    pub settings: BTreeMap<String, LoggedSetting>,
    /// The last change.
    pub changed: Option<PolicyChange>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedSetting {
    /// A TOML value.
    pub value: String,
    pub set: Signed,
}

/// A change of the policy, which may have removed settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyChange {
    pub keys: BTreeSet<String>,
    pub set: Signed,
}

impl LoggedPolicy {
    pub(crate) fn value(&self, key: &str) -> Option<&String> {
        self.settings.get(key).map(|setting| &setting.value)
    }

    /// The values by key.
    pub(crate) fn values(&self) -> BTreeMap<&str, &str> {
        let settings = self.settings.iter();
        let values = settings.map(|(key, setting)| (key.as_str(), setting.value.as_str()));
        values.collect()
    }

    /// Sets these settings, and removes those without a value.
    pub(crate) fn set(&mut self, settings: BTreeMap<String, Option<String>>, set: Signed) {
        let keys = settings.keys().cloned().collect();
        for (key, value) in settings {
            match value {
                Some(value) => {
                    let set = set.clone();
                    self.settings.insert(key, LoggedSetting { value, set });
                }
                None => {
                    self.settings.remove(&key);
                }
            }
        }
        self.revision = self.revision.saturating_add(1);
        self.changed = Some(PolicyChange { keys, set });
    }
}

impl State {
    /// Lowers the cluster version. The earlier release has no tail. Settings of the policy in it are not dropped, since
    /// that would change what the leader does: an operator returns them to the values of the file first.
    pub(super) fn lower_with_tail(&mut self, minor: u16, by: Signed) {
        if self.settings_unknown_to(minor).next().is_some() {
            return;
        }
        self.lower_version(minor, by);
        if self.cluster_version < TAIL_SINCE_MINOR {
            self.tail = StateTail::default();
        }
    }

    /// The keys of the policy's settings that a state of this version cannot hold.
    pub(crate) fn settings_unknown_to(&self, minor: u16) -> impl Iterator<Item = &str> {
        let keys = self.policy().settings.keys().map(String::as_str);
        keys.filter(move |_| minor < TAIL_SINCE_MINOR)
    }

    /// What follows the bytes of version 1.1.
    pub fn tail(&self) -> &StateTail {
        &self.tail
    }

    /// The same state with this tail.
    #[must_use]
    pub fn with_tail(self, tail: StateTail) -> Self {
        Self { tail, ..self }
    }

    /// The settings of the policy that operators have set.
    pub fn policy(&self) -> &LoggedPolicy {
        &self.tail.policy
    }

    /// Changes the policy. Its values were judged before the entry was written; each coordinator holds a key or value that
    /// it cannot read, without effect. Steps of plans under way were checked and are timed by some settings, which
    /// therefore stay.
    pub(super) fn set_policy(&mut self, settings: BTreeMap<String, Option<String>>, set: Signed) {
        let count = self.policy().settings.len() + settings.len();
        let is_possible = self.cluster_version >= TAIL_SINCE_MINOR
            && !settings.is_empty()
            && count <= MAX_SETTINGS;
        let is_locked = |key: &String| policy_settings::is_locked(key);
        let is_in_use = self.under_way().next().is_some() && settings.keys().any(is_locked);
        let mut wanted = settings.iter();
        let fits = wanted.all(|(key, value)| policy_settings::may_hold(key, value.as_deref()));
        if is_possible && !is_in_use && fits {
            self.tail.policy.set(settings, set);
        }
    }
}
