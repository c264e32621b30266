//! Variables for ranks on other hosts: Open MPI passes on only the variables that it is asked to.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;

const MPI_LAUNCHERS: [&str; 3] = ["mpirun", "mpiexec", "orterun"];
/// MCA parameter with names separated by `;`. mpirun refuses to start if it is set together with `-x`.
const ENV_LIST_PARAMETER: &str = "mca_base_env_list";
const ENV_LIST_VARIABLE: &str = "OMPI_MCA_mca_base_env_list";
/// Variables that mean the same on every host. The others name files or the place of this host.
const CLUSTER_WIDE_VARIABLES: [&str; 8] = [
    "NCCL_PROFILER_PLUGIN",
    "NCCL_IB_HCA",
    "NCCL_IB_QPS_PER_CONNECTION",
    "NCCL_ALGO",
    "NCCL_PROTO",
    "REWEAVE_JOB",
    "REWEAVE_HOSTS",
    "MASTER_ADDR",
];

/// Returns the variable that makes this command pass on the given ones.
pub(super) fn variable(command: &[OsString], given: &[&str]) -> Option<(&'static str, String)> {
    carried(command, given, env::var_os(ENV_LIST_VARIABLE).is_some())
}

/// Whether the command passes its variables on to ranks on all hosts, so that they must be equal everywhere.
pub(super) fn reaches_all(command: &[OsString]) -> bool {
    carried(
        command,
        &CLUSTER_WIDE_VARIABLES,
        env::var_os(ENV_LIST_VARIABLE).is_some(),
    )
    .is_some()
}

fn carried(command: &[OsString], given: &[&str], is_set: bool) -> Option<(&'static str, String)> {
    let (program, words) = command.split_first()?;
    let program = Path::new(program).file_name().and_then(OsStr::to_str)?;
    let chooses =
        |word: &OsString| word == "-x" || word.to_string_lossy().contains(ENV_LIST_PARAMETER);
    if is_set || !MPI_LAUNCHERS.contains(&program) || words.iter().any(chooses) {
        return None;
    }
    let names: Vec<_> = CLUSTER_WIDE_VARIABLES
        .into_iter()
        .filter(|name| given.contains(name))
        .collect();
    (!names.is_empty()).then(|| (ENV_LIST_VARIABLE, names.join(";")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mpirun_carries_common_variables_unless_chosen() {
        let carried = |line: &str, is_set| {
            let words: Vec<_> = line.split(' ').map(OsString::from).collect();
            let given = ["REWEAVE_JOB", "REWEAVE_HOSTFILE", "NCCL_PROFILER_PLUGIN"];
            carried(&words, &given, is_set).map(|it| it.1)
        };
        let both = Some("NCCL_PROFILER_PLUGIN;REWEAVE_JOB".to_owned());
        assert_eq!(carried("/usr/bin/mpirun -np 8 train", false), both);
        assert_eq!(carried("mpirun -np 8 train", true), None);
        assert_eq!(carried("mpirun -x NCCL_DEBUG train", false), None);
        assert_eq!(
            carried("mpirun --mca mca_base_env_list A train", false),
            None
        );
        assert_eq!(carried("torchrun train", false), None);
        let nothing: [&str; 0] = [];
        assert_eq!(super::carried(&["mpirun".into()], &nothing, false), None);
    }
}
