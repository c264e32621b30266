//! The replicated log: commands, the state that they lead to, effects, and the settings that all rooms share. This
//! room depends on no other one.

pub(crate) mod change_window;
pub(crate) mod codec;
pub(crate) mod command;
pub(crate) mod device;
pub(crate) mod effect;
pub(crate) mod frozen_job;
pub(crate) mod maintenance;
pub(crate) mod migration_steps;
pub(crate) mod millis;
pub(crate) mod policy;
pub(crate) mod policy_settings;
pub(crate) mod rate_summary;
pub(crate) mod reason;
pub(crate) mod reason_list;
pub(crate) mod registered;
pub(crate) mod state;
pub(crate) mod verdict;
