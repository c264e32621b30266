//! `reweave hosts`, `links` and `paths`: one part of the status each, without a limit on rows. NICs are no part of it.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::Args;
use reweave_common::operator::{AgentStatus, Findings, FlowStatus, Hop, LinkStatus, Status};
use serde::Serialize;

use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::names::Names;
use crate::nics::NicsAnswer;
use crate::page::Page;
use crate::report::Report;
use crate::{Output, nics, print_report, show, trouble};

/// List agents, those in trouble first
///
/// Agents with the state that each reports, those in trouble first
#[derive(Debug, Args)]
pub(crate) struct Hosts {
    /// List the NICs of hosts instead, those that are down first: rail, use, state, address, nearest GPUs
    #[arg(long)]
    nics: bool,
    #[command(flatten)]
    only: Only,
}

/// List links with their load, those in trouble first
///
/// Links with load and free capacity per direction, those in trouble first
#[derive(Debug, Args)]
pub(crate) struct Links {
    #[command(flatten)]
    only: Only,
}

/// List flows with their paths, the fastest first
///
/// Flows with all links of their paths, the fastest first
#[derive(Debug, Args)]
pub(crate) struct Paths {
    #[command(flatten)]
    only: Only,
}

#[derive(Debug, Args)]
struct Only {
    /// Only these hosts and switches
    #[arg(value_name = "NODE")]
    nodes: Vec<String>,
}

#[derive(Serialize)]
struct HostsAnswer<'s> {
    hosts: Vec<&'s AgentStatus>,
    /// Of the whole cluster; empty if only some hosts are listed.
    #[serde(skip)]
    warnings: &'s [String],
}

#[derive(Serialize)]
struct LinksAnswer<'s> {
    links: Vec<&'s LinkStatus>,
    #[serde(skip)]
    findings: &'s Findings,
}

#[derive(Serialize)]
struct PathsAnswer<'s> {
    paths: Vec<&'s FlowStatus>,
    #[serde(skip)]
    names: Names,
}

impl Report for HostsAnswer<'_> {
    fn lay_out(&self, page: &mut Page) {
        show::hosts::table(page, &self.hosts);
        show::warnings(page, self.warnings);
    }

    fn lay_out_wide(&self, page: &mut Page) {
        show::hosts::wide_table(page, &self.hosts);
        show::warnings(page, self.warnings);
    }

    fn names(&self) -> Vec<String> {
        self.hosts.iter().map(|agent| agent.node.clone()).collect()
    }
}

impl Report for LinksAnswer<'_> {
    fn lay_out(&self, page: &mut Page) {
        show::links::table(page, &self.links, self.findings);
    }

    fn lay_out_wide(&self, page: &mut Page) {
        show::links::wide_table(page, &self.links, self.findings);
    }

    /// Returns the name of the link, which is the same in both directions.
    fn names(&self) -> Vec<String> {
        let mut known = BTreeSet::new();
        let names = self.links.iter().map(|link| &link.hop.link);
        names.filter(|name| known.insert(*name)).cloned().collect()
    }
}

impl Report for PathsAnswer<'_> {
    fn lay_out(&self, page: &mut Page) {
        show::flows::paths(page, &self.paths, &self.names);
    }

    fn lay_out_wide(&self, page: &mut Page) {
        show::flows::wide_paths(page, &self.paths, &self.names);
    }

    /// Returns the names of the flow as `reweave trace` accepts them.
    fn names(&self) -> Vec<String> {
        self.paths.iter().map(|it| it.flow.to_string()).collect()
    }
}

impl Hosts {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let mut coordinator = Coordinator::reach(reach)?;
        let status = self.only.seen_by(&mut coordinator)?;
        if self.nics {
            let mut nics = nics::ask(&mut coordinator)?;
            nics.retain(|nic| self.only.has([&nic.host]));
            return print_report(output, &NicsAnswer::new(nics));
        }
        let agents = status.agents.iter();
        let mut hosts: Vec<_> = agents.filter(|it| self.only.has([&it.node])).collect();
        hosts.sort_by_key(|agent| !agent.is_in_trouble());
        let warnings = if self.only.nodes.is_empty() {
            &status.warnings[..]
        } else {
            &[][..]
        };
        print_report(output, &HostsAnswer { hosts, warnings })
    }
}

impl Links {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let mut coordinator = Coordinator::reach(reach)?;
        let status = self.only.seen_by(&mut coordinator)?;
        let findings = coordinator.findings()?;
        let of_these = |link: &&LinkStatus| self.only.has([&link.hop.from, &link.hop.to]);
        let mut links: Vec<_> = status.links.iter().filter(of_these).collect();
        links.sort_by_cached_key(|link| trouble::rank(link, &findings));
        let findings = &findings;
        print_report(output, &LinksAnswer { links, findings })
    }
}

impl Paths {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let status = self.only.look(reach)?;
        let flows = status.flows.iter();
        let mut paths: Vec<_> = flows.filter(|flow| self.only.has(passed(flow))).collect();
        paths.sort_by_key(|flow| Reverse(flow.rate_bits_per_s));
        let names = Names::of(&status);
        print_report(output, &PathsAnswer { paths, names })
    }
}

/// Returns all known nodes on the path of a flow.
fn passed(flow: &FlowStatus) -> Vec<&str> {
    let hops = flow.path.iter().flatten();
    let inner = hops.map(|Hop { to, .. }| to.as_str());
    [flow.from.as_str(), &flow.to]
        .into_iter()
        .chain(inner)
        .collect()
}

impl Only {
    fn look(&self, reach: &Reach) -> Result<Status, CliError> {
        self.seen_by(&mut Coordinator::reach(reach)?)
    }

    /// Returns the status, and fails for a name that no node has.
    fn seen_by(&self, coordinator: &mut Coordinator) -> Result<Status, CliError> {
        let status = coordinator.status()?;
        let is_unknown = |node: &&String| !status.agents.iter().any(|agent| agent.node == **node);
        match self.nodes.iter().find(is_unknown) {
            Some(node) => Err(CliError::NoSuchNode { node: node.clone() }),
            None => Ok(status),
        }
    }

    fn has(&self, concerned: impl IntoIterator<Item = impl AsRef<str>>) -> bool {
        let named = |node: &str| self.nodes.iter().any(|it| it == node);
        self.nodes.is_empty() || concerned.into_iter().any(|node| named(node.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::tests::status;

    #[test]
    fn link_directions_share_one_name() {
        let status = status();
        let findings = &crate::none_under(status.generation);
        let both = [&status.links[0], &status.links[1], &status.links[0]];
        let links = both.to_vec();
        let names = LinksAnswer { links, findings }.names();
        assert_eq!(names, ["leaf0-spine0", "leaf0-spine1"]);
    }

    #[test]
    fn flow_names_are_full_keys() {
        let status = status();
        let paths = vec![&status.flows[0]];
        let names = Names::of(&status);
        let names = PathsAnswer { paths, names }.names();
        assert_eq!(names, ["tcp 10.0.0.0:49152 > 10.0.0.4:5001"]);
    }
}
