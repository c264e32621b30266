//! The policy in force, setting by setting.

use serde::{Deserialize, Serialize};

/// The policy in force, as `reweave policy show` and `GET /policy` return it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PolicyStatus {
    /// Number of changes of the policy while the coordinators ran. A request that names an earlier one is refused.
    pub revision: u64,
    /// All settings, in the order of the sample file.
    pub settings: Vec<PolicySetting>,
}

/// A setting of the policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PolicySetting {
    pub key: String,
    /// Value in force, in TOML: `"auto"` with its quotes, `0.2`, `true`, `["Mon-Fri 02:00-05:00"]`.
    pub value: String,
    pub source: SettingSource,
    /// Last change; only of a value that was set while the coordinators ran.
    pub set: Option<SettingChange>,
    /// A value that an operator has set, by whom, and why it is not in force: it does not fit the leader's file or
    /// release.
    pub unfit: Option<String>,
}

/// Source of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SettingSource {
    /// The value is the default, whether or not the file contains it.
    Default,
    /// The file or the command line of the leader.
    File,
    /// An operator's request. It is in the log, so each leader uses it.
    Set,
}

/// Author and age of a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SettingChange {
    pub by: String,
    pub age_s: u64,
}
