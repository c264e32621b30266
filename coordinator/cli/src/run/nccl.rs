//! NCCL settings for a command's ranks, if --nccl asks for them. Settings of the user are kept.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::Duration;
use std::{env, fs, thread};

use clap::Args;
use reweave_formats::nccl::{Environment, NcclError, Release};

use super::{carried, runs_as_it_is};
use crate::ask::Reach;
use crate::error::CliError;
use crate::nccl::{Derived, derived};
use crate::voice::print_note;

/// Time limit for simulations: those of large fabrics take seconds.
const SIMULATION_TIMEOUT: Duration = Duration::from_secs(10);
/// NCCL settings for all users of a host.
const NCCL_SYSTEM_CONFIG: &str = "/etc/nccl.conf";

#[derive(Debug, Args)]
pub(super) struct NcclOptions {
    /// Version of NCCL of the ranks: sets NICs, queue pairs, algorithm and protocol from the links of the job's hosts.
    /// Variables that are set already stay unchanged
    #[arg(long, value_name = "2.N", value_parser = release)]
    nccl: Option<Release>,
    /// All-reduce size to optimise for; algorithm and protocol apply to collectives of all sizes
    #[arg(long, value_name = "N", requires = "nccl", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    all_reduce_bytes: Option<u64>,
}

fn release(text: &str) -> Result<Release, NcclError> {
    text.parse()
}

impl NcclOptions {
    /// Returns the settings; none without --nccl, or if the job's hosts are unknown.
    pub(super) fn variables(
        &self,
        reach: &Reach,
        order: Option<(&[String], bool)>,
        slots: Option<u16>,
        command: &[OsString],
        max_wait: Duration,
    ) -> Vec<(&'static str, String)> {
        let (Some(release), Some((hosts, true))) = (self.nccl, order) else {
            return Vec::new();
        };
        let found = self.derived(reach, hosts, slots.unwrap_or(1), max_wait);
        let variables = found.and_then(|mut found| {
            if hosts.len() > 1 && !carried::reaches_all(command) {
                found.forget_common();
            }
            let remarks = std::mem::take(&mut found.remarks);
            remarks
                .iter()
                .for_each(|remark| print_note(&format!("NCCL: {remark}")));
            let mut environment = Environment::default();
            found.complete(&mut environment);
            Ok(environment.variables(release)?)
        });
        let variables = variables.unwrap_or_else(|error| {
            runs_as_it_is(&error.error_chain());
            Vec::new()
        });
        without_set(variables)
    }

    fn derived(
        &self,
        reach: &Reach,
        hosts: &[String],
        ranks: u16,
        max_wait: Duration,
    ) -> Result<Derived, CliError> {
        let bytes = self.all_reduce_bytes;
        let max_wait = bytes.map_or(max_wait, |_| max_wait.max(SIMULATION_TIMEOUT));
        let (reach, hosts) = (reach.leaving_signals(), hosts.to_vec());
        let (found, report) = channel();
        thread::spawn(move || found.send(derived(&reach, &hosts, bytes, ranks)));
        let waited = CliError::NoAnswer { waited: max_wait };
        report.recv_timeout(max_wait).unwrap_or(Err(waited))
    }
}

/// Removes the settings that the user has made, here or in a file that NCCL reads, and prints their names.
fn without_set(variables: Vec<(&'static str, String)>) -> Vec<(&'static str, String)> {
    let files = [Some(PathBuf::from(NCCL_SYSTEM_CONFIG)), own_file()];
    let files: Vec<_> = files.into_iter().flatten().collect();
    let texts: Vec<_> = files
        .iter()
        .map(|it| fs::read_to_string(it).unwrap_or_default())
        .collect();
    let is_left = |(name, _): &(&'static str, String)| {
        let by_file = files.iter().zip(&texts).find(|(_, text)| sets(text, name));
        let by = match (env::var_os(name), by_file) {
            (Some(_), _) => "in the environment".to_owned(),
            (None, Some((file, _))) => format!("in {}", file.display()),
            (None, None) => return true,
        };
        print_note(&format!("NCCL: {name} is already set {by} and stays"));
        false
    };
    variables.into_iter().filter(is_left).collect()
}

/// Returns the user's own NCCL file, searched as NCCL does.
fn own_file() -> Option<PathBuf> {
    let named = env::var_os("NCCL_CONF_FILE").map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".nccl.conf")))
}

fn sets(text: &str, name: &str) -> bool {
    text.lines().any(|line| {
        line.split_once('=')
            .is_some_and(|(it, _)| it.trim() == name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_in_file_set_nothing() {
        let text = "# NCCL_ALGO=tree\nNCCL_PROTO=simple\n";
        assert!(sets(text, "NCCL_PROTO") && !sets(text, "NCCL_ALGO") && !sets(text, "NCCL"));
    }
}
