//! `reweave hosts | links | paths`: one part of the status, all of it, and in the order in which
//! people look.

use std::cmp::Reverse;
use std::process::ExitCode;

use clap::Args;
use reweave_common::operator::{AgentStatus, FlowStatus, Hop, LinkStatus, Status};
use serde::Serialize;

use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::names::Names;
use crate::{Output, print, show, trouble};

/// List agents, those in trouble first
///
/// Agents with the state that each reports, those in trouble first
#[derive(Debug, Args)]
pub(crate) struct Hosts {
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
}

#[derive(Serialize)]
struct LinksAnswer<'s> {
    links: Vec<&'s LinkStatus>,
}

#[derive(Serialize)]
struct PathsAnswer<'s> {
    paths: Vec<&'s FlowStatus>,
}

impl Hosts {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let status = self.only.look(reach)?;
        let agents = status.agents.iter();
        let mut hosts: Vec<_> = agents.filter(|it| self.only.has([&it.node])).collect();
        hosts.sort_by_key(|agent| !agent.is_in_trouble());
        let answer = HostsAnswer { hosts };
        print(output, &answer, |page| {
            show::hosts::table(page, &answer.hosts);
        })
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
        let answer = LinksAnswer { links };
        print(output, &answer, |page| {
            show::links::table(page, &answer.links, &findings);
        })
    }
}

impl Paths {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let status = self.only.look(reach)?;
        let flows = status.flows.iter();
        let mut paths: Vec<_> = flows.filter(|flow| self.only.has(passed(flow))).collect();
        paths.sort_by_key(|flow| Reverse(flow.rate_bits_per_s));
        let answer = PathsAnswer { paths };
        print(output, &answer, |page| {
            show::flows::paths(page, &answer.paths, &Names::of(&status));
        })
    }
}

/// All nodes that a flow comes by, as far as its way is known.
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

    /// A name that no node has is a mistake, and not an empty table.
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
