//! `reweave plan probes`: whom to probe by which ports.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use reweave_common::fabric::Fabric;
use reweave_planner::paths::Atlas;
use reweave_planner::probes::{self, Cover};
use reweave_planner::sim::ecmp::Ecmp;
use serde::Serialize;

use super::balance::{Policy, table};
use crate::error::CliError;
use crate::page::{Page, tell};
use crate::sim::costs::Hashing;
use crate::sim::input;
use crate::{Output, print};

#[derive(Debug, Args)]
pub(crate) struct Probes {
    /// The fabric whose links shall be crossed
    #[arg(long, value_name = "FABRIC")]
    fabric: PathBuf,
    #[command(flatten)]
    hashing: Hashing,
    /// Switches run Linux and choose by this net.ipv4.fib_multipath_hash_policy (3: with
    /// fib_multipath_hash_fields 0x37), keyed by --seed as net.ipv4.fib_multipath_hash_seed; each host of the
    /// fabric has its address then
    #[arg(long, value_name = "POLICY", conflicts_with = "hash")]
    linux: Option<Policy>,
    /// A table of probes and of their answers with the ways they took, where the switches' hash is not known:
    /// src,dst,bytes,path,sport,dport. Of those to port 7333 few are chosen
    #[arg(long, value_name = "PROBES", conflicts_with_all = ["hash", "linux", "seed"])]
    probed: Option<PathBuf>,
    /// How many probes a second shall cross each direction of each link
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    rate: f64,
    /// How many probes a second each flow sends
    #[arg(long, value_name = "N", default_value_t = 2.5)]
    flow_rate: f64,
}

#[derive(Serialize)]
struct Answer {
    flows: usize,
    /// No fewer could do it.
    least_flows: usize,
    uncovered: Vec<String>,
    lists: BTreeMap<String, Vec<Flow>>,
    doubts: Vec<String>,
}

#[derive(Serialize)]
struct Flow {
    to: String,
    source_port: u16,
}

impl Probes {
    pub(super) fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        let fabric = input::fabric(&self.fabric)?;
        let covered = self.cover(&fabric, self.times()?);
        let (cover, doubts) = covered.map_err(|error| error.on(&self.fabric))?;
        doubts.iter().for_each(|doubt| tell(doubt));
        let answer = Answer::new(&fabric, &cover, doubts);
        for hop in &answer.uncovered {
            eprintln!("no flow crosses {hop}");
        }
        let code = print(output, &answer, |page| lay_out(page, &answer))?;
        match answer.uncovered.is_empty() {
            true => Ok(code),
            false => Ok(ExitCode::FAILURE),
        }
    }

    /// How many flows shall cross each.
    fn times(&self) -> Result<u32, CliError> {
        if !(self.flow_rate > 0.0 && self.flow_rate.is_finite()) {
            return Err(CliError::BadOption {
                option: "--flow-rate",
                value: self.flow_rate,
            });
        }
        let times = (self.rate / self.flow_rate).ceil();
        if !(1.0..=1000.0).contains(&times) {
            return Err(CliError::BadOption {
                option: "--rate",
                value: self.rate,
            });
        }
        Ok(times as u32)
    }

    /// And what of the table is left out.
    fn cover(&self, fabric: &Fabric, times: u32) -> Result<(Cover, Vec<String>), CliError> {
        if let Some(path) = &self.probed {
            let table = table(path, &mut Atlas::new(fabric), &Ecmp::default())?;
            let doubts = table.doubts.iter().map(ToString::to_string).collect();
            return Ok((probes::cover_by(fabric, &table.flows, times), doubts));
        }
        let ecmp = match self.linux {
            Some(policy) => self.hashing.linux(policy.into())?,
            None => self.hashing.ecmp(),
        };
        let mut hosts = fabric.endpoints();
        let without = hosts.find(|&host| fabric.address(host).is_none());
        match without.filter(|_| self.linux.is_some()) {
            Some(host) => Err(CliError::NoHostAddress {
                host: fabric.name(host).to_owned(),
            }),
            None => Ok((probes::cover(fabric, &ecmp, times), Vec::new())),
        }
    }
}

impl Answer {
    fn new(fabric: &Fabric, cover: &Cover, doubts: Vec<String>) -> Self {
        let mut lists: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for flow in &cover.flows {
            let list = lists.entry(fabric.name(flow.from).to_owned()).or_default();
            list.push(Flow {
                to: fabric.name(flow.to).to_owned(),
                source_port: flow.source_port,
            });
        }
        let uncovered = cover.uncovered.iter().map(|hop| {
            let (link, from) = (fabric.link_name(hop.link), fabric.name(hop.from));
            format!("{link} from {from}")
        });
        Self {
            flows: cover.flows.len(),
            least_flows: cover.least,
            uncovered: uncovered.collect(),
            lists,
            doubts,
        }
    }
}

fn lay_out(page: &mut Page, answer: &Answer) {
    let rows = answer.lists.iter().flat_map(|(from, flows)| {
        let row = move |flow: &Flow| [from.clone(), flow.to.clone(), flow.source_port.to_string()];
        flows.iter().map(row)
    });
    page.table(["from", "to", "by port"], rows);
    let (flows, least) = (answer.flows, answer.least_flows);
    page.line(&format!(
        "{flows} flows of probes; fewer than {least} could not do"
    ));
}
