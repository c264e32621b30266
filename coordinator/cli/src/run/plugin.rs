//! The NCCL profiler plugin, which reports a job's collectives to the agent of this host.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Path at which the package and the playbooks install the plugin.
const DEFAULT_PLUGIN_PATH: &str = "/usr/lib/reweave/libnccl-profiler-reweave.so";
/// Variable with another path; an empty value disables the plugin.
const PLUGIN_PATH_VARIABLE: &str = "REWEAVE_NCCL_PLUGIN";
/// Variable that NCCL reads.
const NCCL_PLUGIN_VARIABLE: &str = "NCCL_PROFILER_PLUGIN";

/// Returns the variable that makes NCCL load the plugin, unless the user has chosen a profiler.
pub(super) fn variable() -> Option<(&'static str, PathBuf)> {
    chosen(
        env::var_os(NCCL_PLUGIN_VARIABLE).as_deref(),
        env::var_os(PLUGIN_PATH_VARIABLE),
    )
}

fn chosen(chosen: Option<&OsStr>, elsewhere: Option<OsString>) -> Option<(&'static str, PathBuf)> {
    let place = elsewhere.map_or_else(|| Path::new(DEFAULT_PLUGIN_PATH).to_owned(), PathBuf::from);
    let is_wanted = chosen.is_none() && place.is_file();
    is_wanted.then_some((NCCL_PLUGIN_VARIABLE, place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_set_if_present_and_unchosen() {
        let scratch = tempfile::tempdir().unwrap();
        let place = scratch.path().join("plugin.so");
        let at = Some(place.clone().into_os_string());
        assert_eq!(chosen(None, at.clone()), None, "it is not installed");
        std::fs::write(&place, "").unwrap();
        assert_eq!(
            chosen(None, at.clone()),
            Some((NCCL_PLUGIN_VARIABLE, place))
        );
        assert_eq!(chosen(Some("none".as_ref()), at), None);
        assert_eq!(chosen(None, Some(OsString::new())), None);
    }
}
