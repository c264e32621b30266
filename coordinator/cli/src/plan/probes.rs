//! `reweave plan probes`: chooses probe flows and their ports.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use reweave_common::fabric::Fabric;
use reweave_repair::paths::Atlas;
use reweave_repair::paths::ecmp::Ecmp;
use reweave_repair::probes::{self, Cover, ProbeFlow, Untraced};
use serde::Serialize;

use super::balance::{Policy, table};
use crate::error::CliError;
use crate::page::{Page, first_of};
use crate::report::Report;
use crate::sim::costs::Hashing;
use crate::sim::input;
use crate::voice::print_note;
use crate::{Output, print_report};

/// Maximum number of probe flows over each link; more is taken for a typing error.
const MAX_FLOWS_PER_LINK: f64 = 1000.0;

#[derive(Debug, Args)]
pub(crate) struct Probes {
    /// Fabric whose links are probed
    #[arg(long, value_name = "FABRIC")]
    fabric: PathBuf,
    #[command(flatten)]
    hashing: Hashing,
    /// Switches run Linux and hash by this net.ipv4.fib_multipath_hash_policy (3: with fib_multipath_hash_fields 0x37),
    /// keyed by --seed as net.ipv4.fib_multipath_hash_seed; each host of the fabric then needs its address
    #[arg(long, value_name = "POLICY", conflicts_with = "hash")]
    linux: Option<Policy>,
    /// Table of probes and answers with their paths, if the hash of the switches is unknown:
    /// src,dst,bytes,path,sport,dport. A few of the probes to port 7333 are chosen
    #[arg(long, value_name = "PROBES", conflicts_with_all = ["hash", "linux", "seed"])]
    probed: Option<PathBuf>,
    /// Probes per second across each direction of each link
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    rate: f64,
    /// Probes per second of each flow
    #[arg(long, value_name = "N", default_value_t = 2.5)]
    flow_rate: f64,
}

#[derive(Serialize)]
struct Answer {
    flows: usize,
    /// Lower bound on the number of flows.
    least_flows: usize,
    uncovered: Vec<String>,
    lists: BTreeMap<String, Vec<Flow>>,
    /// Probes of the table that cannot be used, with reasons.
    left_out: Vec<LeftOut>,
    doubts: Vec<String>,
}

#[derive(Serialize)]
struct LeftOut {
    from: String,
    #[serde(flatten)]
    flow: Flow,
    because: &'static str,
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
        let covered = covered.map_err(|error| error.on(&self.fabric))?;
        covered.doubts.iter().for_each(|doubt| print_note(doubt));
        let answer = Answer::new(&fabric, covered);
        for why in [UNTRACED_FORWARD, UNTRACED_RETURN] {
            answer
                .describe_left_out(why)
                .iter()
                .for_each(|it| print_note(it));
        }
        for hop in &answer.uncovered {
            print_note(&format!("no flow crosses {hop}"));
        }
        let code = print_report(output, &answer)?;
        if answer.uncovered.is_empty() {
            Ok(code)
        } else {
            Ok(ExitCode::FAILURE)
        }
    }

    /// Returns the number of flows that cross each direction of a link.
    fn times(&self) -> Result<u32, CliError> {
        for (option, value) in [("--rate", self.rate), ("--flow-rate", self.flow_rate)] {
            if !(value > 0.0 && value.is_finite()) {
                return Err(CliError::BadOption { option, value });
            }
        }
        let times = (self.rate / self.flow_rate).ceil();
        if times <= MAX_FLOWS_PER_LINK {
            Ok(times as u32)
        } else {
            Err(CliError::TooManyFlows {
                rate: self.rate,
                flow_rate: self.flow_rate,
                most: MAX_FLOWS_PER_LINK,
            })
        }
    }

    fn cover(&self, fabric: &Fabric, times: u32) -> Result<Covered, CliError> {
        if let Some(path) = &self.probed {
            let table = table(path, &mut Atlas::new(fabric), &Ecmp::default())?;
            let (cover, untraced) = probes::cover_by(fabric, &table.flows, times);
            return Ok(Covered {
                cover,
                untraced,
                doubts: table.doubts.iter().map(ToString::to_string).collect(),
            });
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
            None => Ok(Covered {
                cover: probes::cover(fabric, &ecmp, times),
                ..Covered::default()
            }),
        }
    }
}

/// Links covered by the probes, and unused probes of the table.
#[derive(Default)]
struct Covered {
    cover: Cover,
    untraced: BTreeMap<ProbeFlow, Untraced>,
    doubts: Vec<String>,
}

const UNTRACED_FORWARD: &str = "not every link of their paths is known";
const UNTRACED_RETURN: &str = "not every link of their answers' paths is known";
/// Maximum number of unused pairs in text output; JSON names all.
const MAX_NAMED_PAIRS: usize = 8;

impl Flow {
    /// Returns the sender and the flow.
    fn of(fabric: &Fabric, flow: &ProbeFlow) -> (String, Self) {
        let [from, to] = [flow.from, flow.to].map(|node| fabric.name(node).to_owned());
        let source_port = flow.source_port;
        (from, Self { to, source_port })
    }
}

impl LeftOut {
    fn of(fabric: &Fabric, flow: &ProbeFlow, untraced: Untraced) -> Self {
        let (from, flow) = Flow::of(fabric, flow);
        let because = match untraced {
            Untraced::Way => UNTRACED_FORWARD,
            Untraced::WayOfAnswer => UNTRACED_RETURN,
        };
        Self {
            from,
            flow,
            because,
        }
    }
}

impl Answer {
    fn new(fabric: &Fabric, covered: Covered) -> Self {
        let cover = covered.cover;
        let mut lists: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (from, flow) in cover.flows.iter().map(|flow| Flow::of(fabric, flow)) {
            lists.entry(from).or_default().push(flow);
        }
        let left_out = covered.untraced.iter();
        let uncovered = cover.uncovered.iter().map(|hop| {
            let (link, from) = (fabric.link_name(hop.link), fabric.name(hop.from));
            format!("{link} from {from}")
        });
        Self {
            flows: cover.flows.len(),
            least_flows: cover.least,
            uncovered: uncovered.collect(),
            lists,
            left_out: left_out
                .map(|(flow, why)| LeftOut::of(fabric, flow, *why))
                .collect(),
            doubts: covered.doubts,
        }
    }

    /// Describes the probes left out for this reason, or returns nothing if there are none.
    fn describe_left_out(&self, why: &str) -> Option<String> {
        let of = self.left_out.iter().filter(|it| it.because == why);
        let names = of.map(|LeftOut { from, flow, .. }| {
            let Flow { to, source_port } = flow;
            format!("{from} > {to} by port {source_port}")
        });
        let names: Vec<_> = names.collect();
        let count = names.len();
        let first = first_of(&names, MAX_NAMED_PAIRS, ", ");
        match count {
            0 => None,
            1 => Some(format!("1 probe is left out, since {why}: {first}")),
            _ => Some(format!("{count} probes are left out, since {why}: {first}")),
        }
    }
}

impl Report for Answer {
    fn lay_out(&self, page: &mut Page) {
        let rows = self.lists.iter().flat_map(|(from, flows)| {
            flows
                .iter()
                .map(move |flow| [from.clone(), flow.to.clone(), flow.source_port.to_string()])
        });
        page.table(["from", "to", "by port"], rows);
        let (flows, least) = (self.flows, self.least_flows);
        page.line(&format!(
            "{flows} flows of probes; at least {least} are needed"
        ));
    }
}
