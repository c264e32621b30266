//! `reweave plan ranks`: assigns hosts to the ranks of a job.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use reweave_common::explicit_paths::ExplicitPaths;
use reweave_common::fabric::{Fabric, Role};
use reweave_common::ids::NodeId;
use reweave_design::placement::{self, Demand, Placed, Request};
use reweave_sim::workload::job::Work;
use reweave_sim::workload::{self, Network, effects};
use serde::Serialize;

use super::measured::Cluster;
use crate::ask::Reach;
use crate::error::CliError;
use crate::job::gate::hostfile;
use crate::page::Page;
use crate::report::Report;
use crate::sim::{MAX_SIMULATION_WORK, input};
use crate::voice::print_note;
use crate::work::Source;
use crate::{Output, print_data, print_report};

/// Maximum number of swaps of two hosts that are tried: some seconds for a thousand hosts.
const MAX_EXCHANGES: usize = 600_000;
/// Maximum ranks of a job that is simulated; larger jobs are judged by the load of their links.
const MAX_SIMULATED_RANKS: usize = 256;
/// Maximum ranks of a job that is simulated under many conditions; larger jobs are simulated once.
const MAX_INTERVAL_RANKS: usize = 32;

#[derive(Debug, Args)]
pub(crate) struct Ranks {
    /// Fabric file [default: the coordinator's fabric, as it is now]
    #[arg(long, value_name = "FABRIC")]
    fabric: Option<PathBuf>,
    /// Job file: a preset, or operators with their profile
    #[arg(long, value_name = "JOB")]
    job: PathBuf,
    /// Number of hosts [default: all]
    #[arg(long, value_name = "N")]
    hosts: Option<usize>,
    /// Table of measured pairs of hosts: from,to,gbps, and rail if hosts have several rails
    #[arg(long, value_name = "PAIRS")]
    pairs: Option<PathBuf>,
    /// Seed; another seed may find another order that is as good
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
}

#[derive(Serialize)]
struct Answer {
    order: Vec<String>,
    /// Iteration time in ms with hosts in the order of their names.
    before_ms: f64,
    after_ms: f64,
    gain_percent: f64,
    /// Gain between the worst case of this order against the best of the other, and the reverse.
    gain_interval_percent: Option<[f64; 2]>,
    #[serde(skip)]
    is_by_name: bool,
    judged_by: &'static str,
    crossing_bytes: [f64; 2],
    /// Whether the search covered all orders, judged by their fullest links.
    proven: bool,
    /// Positions of hosts that share switches: their ranks reduce among themselves first.
    groups: Vec<Vec<usize>>,
    /// Groups from racks upwards: the hosts of a group can reduce among themselves before others join.
    tiers: Vec<Vec<Vec<usize>>>,
    /// Reductions of links and hosts, with reasons.
    remarks: Vec<String>,
}

impl Ranks {
    pub(super) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let planned = self.planned(reach, output);
        planned.map_err(|error| error.on_any(self.fabric.as_deref()))
    }

    fn planned(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let source = Source::read(&self.job)?;
        let ground = self.ground(reach)?;
        ground.remarks.iter().for_each(|remark| print_note(remark));
        let fabric = ground.fabric;
        let hosts = by_name(&fabric);
        let used = self.used(&hosts)?;
        let places = used.len();
        let work = source.work(used.to_vec())?;
        let each = (work.placement.len() / places).max(1);
        let demand = Demand::of(&work.iteration, each);
        let request = Request {
            fabric: &fabric,
            demand: &demand,
            hosts: &hosts,
            pairs: &ground.pairs,
            seed: self.seed,
            work: MAX_EXCHANGES,
        };
        let unfit = || CliError::BadOption {
            option: "--hosts",
            value: places as f64,
        };
        let found = placement::place(&request).ok_or_else(unfit)?;
        let after = source.work(found.order.clone())?;
        let mut answer = Answer::new(&fabric, &found, [&work, &after])?;
        if answer.after_ms > answer.before_ms {
            print_note("the order found is slower in simulation: the order of hosts is unchanged");
            let alone = placement::left_alone(&request).ok_or_else(unfit)?;
            answer = Answer::new(&fabric, &alone, [&work, &work])?;
        }
        answer.remarks = ground.remarks;
        match output {
            Output::Hostfile => print_data(&hostfile(&answer.order, each)),
            _ => print_report(output, &answer),
        }
    }

    /// Returns the first hosts if not all are wanted.
    fn used<'h>(&self, hosts: &'h [NodeId]) -> Result<&'h [NodeId], CliError> {
        let Some(places) = self.hosts else {
            let all = Some(hosts).filter(|all| !all.is_empty());
            let missing = || match &self.fabric {
                Some(file) => CliError::NoHosts.on(file),
                None => CliError::NoHosts,
            };
            return all.ok_or_else(missing);
        };
        let used = hosts.get(..places).filter(|used| !used.is_empty());
        used.ok_or(CliError::BadOption {
            option: "--hosts",
            value: places as f64,
        })
    }

    /// Returns the cluster. Pairs from a file replace those of the coordinator.
    fn ground(&self, reach: &Reach) -> Result<Cluster, CliError> {
        let mut ground = Cluster::of(self.fabric.as_deref(), reach)?;
        if let Some(path) = &self.pairs {
            let name = path.display().to_string();
            let read = placement::read_pairs(&name, &input::text(path)?, &ground.fabric);
            ground.pairs = read.map_err(CliError::Input)?;
        }
        Ok(ground)
    }
}

/// Returns the hosts in the order of their names, without those whose NICs are all for storage or management.
fn by_name(fabric: &Fabric) -> Vec<NodeId> {
    let trains = |host| fabric.nics_of(host).is_empty() || !fabric.training_nics(host).is_empty();
    let hosts = fabric.nodes().filter(|(_, node)| node.role != Role::Switch);
    let hosts = hosts.filter(|&(host, _)| !fabric.has_declared_nics() || trains(host));
    let mut hosts: Vec<_> = hosts.map(|(id, node)| (node.name.clone(), id)).collect();
    hosts.sort();
    hosts.into_iter().map(|(_, id)| id).collect()
}

impl Answer {
    fn new(fabric: &Fabric, placed: &Placed, works: [&Work; 2]) -> Result<Self, CliError> {
        let simulated = works[0].iteration.ranks() <= MAX_SIMULATED_RANKS;
        // The simulation does not include pairs that were measured to be slow.
        let least_ms = [placed.before_s * 1e3, placed.after_s * 1e3];
        let [before_ms, after_ms] = if simulated {
            [
                simulate(fabric, works[0])?.max(least_ms[0]),
                simulate(fabric, works[1])?.max(least_ms[1]),
            ]
        } else {
            least_ms
        };
        let percent = |before: f64, after: f64| 100.0 * (1.0 - after / before);
        let is_by_name = works[0].placement == works[1].placement;
        let gains = if works[0].iteration.ranks() > MAX_INTERVAL_RANKS {
            None
        } else if is_by_name {
            // Every other difference affects both orders alike.
            Some([0.0, 0.0])
        } else {
            let before = interval(fabric, works[0])?.map(|ms| ms.max(least_ms[0]));
            let after = interval(fabric, works[1])?.map(|ms| ms.max(least_ms[1]));
            Some([percent(before[0], after[1]), percent(before[1], after[0])])
        };
        Ok(Self {
            order: placed
                .order
                .iter()
                .map(|&host| fabric.name(host).to_owned())
                .collect(),
            before_ms,
            after_ms,
            gain_percent: percent(before_ms, after_ms),
            gain_interval_percent: gains,
            is_by_name,
            judged_by: if simulated {
                "iteration"
            } else {
                "fullest link"
            },
            crossing_bytes: placed.crossing,
            proven: placed.proven,
            groups: placed.groups.clone(),
            tiers: placement::tiers(fabric, &placed.order),
            remarks: Vec::new(),
        })
    }
}

fn simulate(fabric: &Fabric, work: &Work) -> Result<f64, CliError> {
    let carriage = ExplicitPaths::default();
    let network = Network::new(fabric, &work.placement, &carriage, work.settings.clone());
    let evaluation =
        workload::evaluate(&work.iteration, &network, MAX_SIMULATION_WORK, &mut |_| {
            true
        });
    Ok(evaluation.map_err(CliError::Simulation)?.iteration_ms)
}

fn interval(fabric: &Fabric, work: &Work) -> Result<[f64; 2], CliError> {
    let carriage = ExplicitPaths::default();
    let network = Network::new(fabric, &work.placement, &carriage, work.settings.clone());
    let setting = effects::Setting {
        iteration: &work.iteration,
        network: &network,
    };
    let interval = setting.interval(
        &effects::Effects::default(),
        MAX_SIMULATION_WORK,
        &mut |_| true,
    );
    let interval = interval.map_err(CliError::Simulation)?;
    Ok([interval.low_ms, interval.high_ms])
}

impl Report for Answer {
    fn lay_out(&self, page: &mut Page) {
        let rows = self.order.iter().enumerate();
        page.table(
            ["place", "host"],
            rows.map(|(place, host)| [place.to_string(), host.clone()]),
        );
        let Self {
            before_ms,
            after_ms,
            judged_by,
            ..
        } = self;
        let gain = self.gain_percent;
        page.line(&if self.is_by_name {
            format!(
                "{judged_by}: {before_ms:.3} ms; no tried order is faster than the order by \
                 name"
            )
        } else {
            format!(
                "{judged_by}: {before_ms:.3} ms by name, {after_ms:.3} ms in this order, \
                 {gain:.1} % less"
            )
        });
        if let Some([least, most]) = self.gain_interval_percent.filter(|_| !self.is_by_name) {
            page.line(&format!(
                "between {least:.1} % and {most:.1} % less, for any hash of the switches"
            ));
        }
        let groups = self.groups.len();
        page.line(&match groups {
            1 => "all hosts are on the same switches".to_owned(),
            _ => format!("{groups} groups reduce among themselves first"),
        });
        for tier in self.tiers.iter().skip(1) {
            page.line(&format!("and then {} groups of these", tier.len()));
        }
    }
}
