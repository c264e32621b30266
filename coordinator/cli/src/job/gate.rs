//! `reweave job gate`: checks whether hosts are fit for a job, and orders them.

use std::process::ExitCode;

use clap::Args;
use reweave_common::operator::{Allocation, Request, Response};

use super::{Hostlist, hostlist};
use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::page::Page;
use crate::report::Report;
use crate::{Output, exit, print_data, print_report};

/// Check whether hosts are fit for a job: problems found, and the best rank order
///
/// The ring bandwidth assumes that all shortest paths are used evenly. Exit codes: 0 no problem found, 3 at least one.
#[derive(Debug, Args)]
pub(crate) struct Gate {
    /// Slurm hostlist: node[01-04,07]
    #[arg(long, value_name = "LIST", value_parser = hostlist)]
    hosts: Hostlist,
    /// Ranks per host, in the hostfile
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    slots: u16,
    /// Use the order that this job was first given, if it is registered on these hosts
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// Write one line per rank, as SLURM_HOSTFILE requires, instead of `slots=` for mpirun
    #[arg(long)]
    line_per_rank: bool,
}

impl Gate {
    pub(super) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let allocation = self.ask(&mut Coordinator::reach(reach)?)?;
        match output {
            Output::Hostfile if self.line_per_rank => {
                print_data(&lines(&allocation.order, self.slots.into()))?
            }
            Output::Hostfile => print_data(&hostfile(&allocation.order, self.slots.into()))?,
            _ => print_report(output, &allocation)?,
        };
        Ok(ExitCode::from(exit::number(true, !allocation.is_good)))
    }

    fn ask(&self, coordinator: &mut Coordinator) -> Result<Allocation, CliError> {
        let (hosts, job) = (self.hosts.0.clone(), self.job.clone());
        match coordinator.ask(&Request::Gate { hosts, job })? {
            Response::Allocation(report) => Ok(*report),
            Response::Refused(refused) => Err(CliError::Refused(refused)),
            other => Err(CliError::unexpected(&other)),
        }
    }
}

/// Returns the file for `mpirun --hostfile`, which fills one host after another.
pub(crate) fn hostfile(order: &[String], slots: usize) -> String {
    let line = |host: &String| format!("{host} slots={slots}\n");
    order.iter().map(line).collect()
}

/// Returns the file for `SLURM_HOSTFILE`: one line per rank with its host.
pub(crate) fn lines(order: &[String], slots: usize) -> String {
    let lines = |host: &String| format!("{host}\n").repeat(slots);
    order.iter().map(lines).collect()
}

impl Report for Allocation {
    fn lay_out(&self, page: &mut Page) {
        page.line(&format!("order: {}", self.order.join(", ")));
        let groups: Vec<_> = self.groups.iter().map(|it| it.join(" ")).collect();
        page.line(&format!("behind the same switches: {}", groups.join("; ")));
        if let Some([listed, ordered]) = self.ring_bits_per_s {
            page.line(&format!(
                "rate of a ring: {listed} as listed, {ordered} in this order"
            ));
        }
        if self.is_good {
            page.line("no problem found with these hosts");
        } else {
            page.heading("Problems with these hosts");
        }
        for against in &self.against {
            page.line(&format!("  {against}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use reweave_common::units::Rate;

    use super::*;

    fn texts(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn hostfiles_fit_mpirun_and_slurm() {
        let order = texts(&["h1", "h0"]);
        assert_eq!(hostfile(&order, 8), "h1 slots=8\nh0 slots=8\n");
        assert_eq!(lines(&order, 2), "h1\nh1\nh0\nh0\n");
    }

    #[test]
    fn host_objections_follow_their_order() {
        let gbps = |gbps: u64| Rate::from_bits_per_s(gbps * 1_000_000_000);
        let allocation = Allocation {
            is_good: false,
            against: texts(&["the agent on h1 is silent"]),
            order: texts(&["h0", "h1", "h4"]),
            groups: vec![texts(&["h0", "h1"]), texts(&["h4"])],
            ring_bits_per_s: Some([gbps(1), gbps(2)]),
        };
        let mut page = Page::default();
        allocation.lay_out(&mut page);
        let rows = [
            "order: h0, h1, h4",
            "behind the same switches: h0 h1; h4",
            "rate of a ring: 1.0 Gb/s as listed, 2.0 Gb/s in this order",
            "",
            "Problems with these hosts",
            "  the agent on h1 is silent",
        ];
        assert_eq!(page.text.lines().collect::<Vec<_>>(), rows);
    }
}
