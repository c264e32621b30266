//! The plugin by which NCCL tells the agent of this host what a job's collectives do, where it is installed.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Where the package and the playbooks put it.
const DEFAULT_PLUGIN_PATH: &str = "/usr/lib/reweave/libnccl-profiler-reweave.so";
/// Names another place for it; empty, it is left out.
const PLUGIN_PATH_VARIABLE: &str = "REWEAVE_NCCL_PLUGIN";
/// Read by NCCL.
const NCCL_PLUGIN_VARIABLE: &str = "NCCL_PROFILER_PLUGIN";

/// What to set so that NCCL loads it; nothing where the user has chosen a profiler.
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
