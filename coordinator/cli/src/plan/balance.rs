//! `reweave plan balance`: chooses flows to move so that links are evenly loaded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use reweave_common::fabric::Fabric;
use reweave_common::ids::{LinkId, NodeId};
use reweave_repair::assign::{Peak, Solution, Work};
use reweave_repair::fim::{self, Group, Headline, LayerSpread};
use reweave_repair::paths::ecmp::Ecmp;
use reweave_repair::paths::linux::HashPolicy;
use reweave_repair::paths::listed::{self, Listed, Table};
use reweave_repair::paths::{Atlas, Learned};
use reweave_repair::rebalance::{By, Move, Options, Rebalanced, rebalance};
use serde::Serialize;

use crate::error::CliError;
use crate::page::Page;
use crate::report::Report;
use crate::sim::costs::Hashing;
use crate::sim::input;
use crate::voice::print_note;
use crate::{Output, print_report};

/// Which flows of a table to move so that no link is fuller than necessary
#[derive(Debug, Args)]
pub(crate) struct Balance {
    /// Fabric file
    #[arg(long, value_name = "FABRIC")]
    fabric: PathBuf,
    /// Flow table: src,dst,bytes[,start_us][,path][,sport,dport,proto][,end_us][,job][,move], where * in a path is a
    /// hop that did not answer, and move is pin, port or never
    #[arg(long, value_name = "FLOWS")]
    flows: PathBuf,
    #[command(flatten)]
    hashing: Hashing,
    /// Switches run Linux and hash by this net.ipv4.fib_multipath_hash_policy (3: with fib_multipath_hash_fields 0x37),
    /// keyed by --seed as net.ipv4.fib_multipath_hash_seed; the table then has the columns src_ip and dst_ip
    #[arg(long, value_name = "POLICY", conflicts_with = "hash")]
    linux: Option<Policy>,
    /// Table of probes with their paths, to choose source ports if the hash of the switches is unknown: the same
    /// columns, with 0 bytes
    #[arg(long, value_name = "PROBES")]
    probed: Option<PathBuf>,
    /// Treat a link that loses this share of packets as slower, as in leaf0-spine1=0.01; may be repeated
    #[arg(long, value_name = "LINK=SHARE")]
    lossy: Vec<String>,
    /// Drained link; may be repeated
    #[arg(long, value_name = "LINK")]
    drain: Vec<String>,
    /// Smallest fall of max/mean that justifies a move
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    least_gain: f64,
    /// Uncertainty of flow sizes; the gain must exceed it
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    uncertainty: f64,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Policy {
    /// Addresses only
    #[value(name = "0")]
    Addresses,
    /// Addresses, protocol and ports
    #[value(name = "1")]
    Ports,
    /// Addresses, protocol and ports, by their fields
    #[value(name = "3")]
    Fields,
}

impl From<Policy> for HashPolicy {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Addresses => Self::Addresses,
            Policy::Ports => Self::Ports,
            Policy::Fields => Self::Fields,
        }
    }
}

#[derive(Serialize)]
struct Answer {
    before: Figures,
    after: Figures,
    /// Group of links with the largest FIM before the moves.
    largest_fim: Option<Equals>,
    pins: Vec<Pin>,
    ports: Vec<Port>,
    weights: Vec<Weight>,
    moves: usize,
    /// Lower bound on the moves of any equally good solution.
    least_moves: usize,
    /// Number of moves that leave the fullest links unchanged and even out others.
    levelling: usize,
    /// Largest max/mean over links, including links to a switch.
    links: Links,
    /// Time that the fullest link needs for its bytes, among the links that movable flows can use.
    fullest_us: Links,
    /// Upper bound on how much fuller than necessary the fullest link is.
    gap_percent: f64,
    proven: bool,
    elephants: usize,
    /// Number of flows that cannot leave a drained link.
    stuck: usize,
    layers: Vec<LayerFigures>,
    jobs: Vec<Job>,
    over_time: Option<OverTime>,
    /// Number of flows without a traced path: the hash predicts their paths.
    predicted: usize,
    doubts: Vec<String>,
}

/// Equivalent links of a switch.
#[derive(Serialize)]
struct Equals {
    at: String,
    links: Vec<String>,
}

/// A figure before and after the moves, and the lower bound for any choice of paths.
#[derive(Serialize)]
struct Links {
    before: f64,
    after: f64,
    bound: f64,
}

impl Links {
    fn of(solution: &Solution, figure: impl Fn(Peak) -> f64) -> Self {
        Self {
            before: figure(solution.before),
            after: figure(solution.after),
            bound: figure(solution.bound),
        }
    }
}

impl Links {
    fn describe(&self) -> String {
        let Self {
            before,
            after,
            bound,
        } = self;
        format!(
            "the fullest link needs {before:.1} us now, {after:.1} us after the moves; lower \
             bound {bound:.1} us"
        )
    }
}

/// Microseconds per byte on a link of 1 bit/s.
const US_PER_BYTE_AT_1_BPS: f64 = 8e6;

/// Figures of the group with the worst FIM, and the largest max/mean of switches with a choice.
#[derive(Serialize)]
struct Figures {
    fim: f64,
    floor: f64,
    max_over_mean: f64,
    weighted_fim: f64,
    mean_fim: f64,
    /// Largest FIM of any group above the floor of that group.
    fim_above_floor: f64,
    /// Largest excess of a group's fullest link over the least that flows of these sizes allow.
    fuller_than_needed_percent: f64,
}

#[derive(Serialize)]
struct LayerFigures {
    layer: String,
    groups: usize,
    fim_before: f64,
    fim_after: Option<f64>,
    max_over_mean_before: f64,
    max_over_mean_after: Option<f64>,
}

#[derive(Serialize)]
struct Job {
    job: String,
    #[serde(flatten)]
    figures: Figures,
}

#[derive(Serialize)]
struct OverTime {
    mean_fim: f64,
    worst_fim: f64,
    worst_since_us: f64,
}

#[derive(Serialize)]
struct Pin {
    flow: usize,
    at: String,
    link: String,
    instead_of: Option<String>,
}

#[derive(Serialize)]
struct Port {
    flow: usize,
    source_port: u16,
}

#[derive(Serialize)]
struct Weight {
    at: String,
    /// Switches whose hosts are the destinations; empty for all destinations.
    towards: Vec<String>,
    link: String,
    weight: u32,
}

impl Balance {
    pub(super) fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        let fabric = input::fabric(&self.fabric)?;
        let mut atlas = Atlas::new(&fabric);
        let ecmp = match self.linux {
            Some(policy) => self.hashing.linux(policy.into())?,
            None => self.hashing.ecmp(),
        };
        let table = table(&self.flows, &mut atlas, &ecmp)?;
        let probed = self.probed.as_deref();
        let probed = probed.map(|path| self::table(path, &mut atlas, &ecmp));
        let probed = probed.transpose()?.unwrap_or_default();
        let options = Options {
            learned: Learned::of(table.flows.iter().chain(&probed.flows)),
            ..self.options(&fabric)?
        };
        let plan = rebalance(&mut atlas, &table.flows, &ecmp, &options);
        let answer = Answer::new(&mut atlas, &table, &plan);
        answer.doubts.iter().for_each(|doubt| print_note(doubt));
        let report = BalanceReport {
            answer,
            table: &table,
            fabric: &fabric,
        };
        print_report(output, &report)
    }

    fn options(&self, fabric: &Fabric) -> Result<Options, CliError> {
        let mut lossy = BTreeMap::new();
        for text in &self.lossy {
            let (name, share) = text.split_once('=').unwrap_or((text, ""));
            let share = share.parse::<f64>();
            let share = share.map_err(|_| CliError::BadLoss { text: text.clone() })?;
            let share = self.share("--lossy", share)?;
            if lossy.insert(link(fabric, name)?, share).is_some() {
                return Err(CliError::LinkTwice {
                    name: name.to_owned(),
                });
            }
        }
        let drained = self.drain.iter().map(|name| link(fabric, name));
        Ok(Options {
            lossy,
            drained: drained.collect::<Result<_, _>>()?,
            least_gain: self.share("--least-gain", self.least_gain)?,
            uncertainty: self.share("--uncertainty", self.uncertainty)?,
            work: Work::at_leisure(),
            ..Options::default()
        })
    }

    fn share(&self, option: &'static str, value: f64) -> Result<f64, CliError> {
        if (0.0..=1.0).contains(&value) {
            Ok(value)
        } else {
            Err(CliError::BadOption { option, value })
        }
    }
}

pub(super) fn table(path: &Path, atlas: &mut Atlas<'_>, ecmp: &Ecmp) -> Result<Table, CliError> {
    let (name, text) = (path.display().to_string(), input::text(path)?);
    listed::parse(&name, &text, atlas, ecmp).map_err(CliError::Input)
}

fn link(fabric: &Fabric, name: &str) -> Result<LinkId, CliError> {
    fabric.find_link(name).ok_or_else(|| CliError::NoSuchLink {
        name: name.to_owned(),
    })
}

impl Answer {
    fn new(atlas: &mut Atlas<'_>, table: &Table, plan: &Rebalanced) -> Self {
        let (fabric, solution) = (atlas.fabric, &plan.solution);
        let ports = plan.moves.iter().filter_map(|made| match made.by {
            By::SourcePort(source_port) => Some(Port {
                flow: made.flow,
                source_port,
            }),
            By::Pins(_) => None,
        });
        let after = plan.after.layers();
        let layers = plan.before.layers().into_iter();
        let jobs = fim::by_job(atlas, &table.flows).into_iter();
        Self {
            before: Figures::of(plan.before.headline()),
            after: Figures::of(plan.after.headline()),
            largest_fim: plan
                .before
                .largest()
                .map(|it| Equals::of(fabric, &it.group)),
            pins: plan
                .moves
                .iter()
                .flat_map(|made| pins(fabric, made))
                .collect(),
            ports: ports.collect(),
            weights: weights(fabric, plan),
            moves: plan.moves.len(),
            least_moves: solution.least_moves,
            levelling: solution.levelling,
            links: Links::of(solution, |peak| peak.over_mean),
            fullest_us: Links::of(solution, |peak| peak.fullest * US_PER_BYTE_AT_1_BPS),
            gap_percent: 100.0 * solution.gap,
            proven: solution.proven,
            elephants: plan.elephants,
            stuck: plan.stuck.len(),
            layers: layers
                .map(|layer| LayerFigures::new(&layer, &after))
                .collect(),
            jobs: jobs
                .map(|(job, headline)| Job {
                    job,
                    figures: Figures::of(Some(headline)),
                })
                .collect(),
            over_time: over_time(atlas, &table.flows),
            predicted: table.flows.iter().filter(|it| !it.traced).count(),
            doubts: doubts(fabric, table, plan),
        }
    }
}

fn doubts(fabric: &Fabric, table: &Table, plan: &Rebalanced) -> Vec<String> {
    let stuck = plan.stuck.iter().map(|&(flow, link)| {
        let link = fabric.link_name(link);
        format!("flow {flow} stays on the drained link {link}: it must not be moved")
    });
    let left_out = table.doubts.iter().map(ToString::to_string);
    left_out.chain(stuck).collect()
}

/// Returns the figures over time, if the table has end times of flows.
fn over_time(atlas: &mut Atlas<'_>, flows: &[Listed]) -> Option<OverTime> {
    flows.iter().find_map(|flow| flow.during_us[1])?;
    let course = fim::over_time(atlas, flows);
    let (worst_since_us, worst) = course.worst()?;
    Some(OverTime {
        mean_fim: course.mean_fim_percent()?,
        worst_fim: worst.fim_percent,
        worst_since_us,
    })
}

fn pins(fabric: &Fabric, made: &Move) -> Vec<Pin> {
    let By::Pins(hops) = &made.by else {
        return Vec::new();
    };
    hops.iter()
        .map(|hop| Pin {
            flow: made.flow,
            at: fabric.name(hop.from).to_owned(),
            link: fabric.link_name(hop.link),
            instead_of: (*hop == made.to).then(|| fabric.link_name(made.from.link)),
        })
        .collect()
}

fn weights(fabric: &Fabric, plan: &Rebalanced) -> Vec<Weight> {
    let name = |node: &NodeId| fabric.name(*node).to_owned();
    let of_switch = plan.weights.iter().flat_map(|it| {
        it.links.iter().map(move |&(link, weight)| Weight {
            at: name(&it.at),
            towards: it.towards.iter().map(name).collect(),
            link: fabric.link_name(link),
            weight,
        })
    });
    of_switch.collect()
}

impl Equals {
    fn of(fabric: &Fabric, group: &Group) -> Self {
        let links = group.links.iter();
        Self {
            at: fabric.name(group.at).to_owned(),
            links: links.map(|link| fabric.link_name(*link)).collect(),
        }
    }

    fn describe(&self) -> String {
        let Self { at, links } = self;
        match links.as_slice() {
            few @ [..] if few.len() <= MAX_NAMED_LINKS => format!("at {at}: {}", few.join(", ")),
            many => format!("at {at}: {} links, {} first", many.len(), many[0]),
        }
    }
}

impl Weight {
    fn describe(&self) -> String {
        let Self {
            at, link, weight, ..
        } = self;
        let towards = match self.towards.as_slice() {
            [] => String::new(),
            few if few.len() <= MAX_NAMED_LINKS => format!(" towards {}", few.join(", ")),
            many => format!(" towards {} switches, {} first", many.len(), many[0]),
        };
        format!("at {at}{towards}: {link} takes {weight} parts")
    }
}

impl Figures {
    /// Returns even figures if no flow has a choice.
    fn of(headline: Option<Headline>) -> Self {
        let headline = headline.unwrap_or(Headline {
            fim_percent: 0.0,
            floor_percent: 0.0,
            weighted_percent: 0.0,
            max_over_mean: 1.0,
            mean_fim_percent: 0.0,
            above_floor_percent: 0.0,
            over_least: 1.0,
        });
        Self {
            fim: headline.fim_percent,
            floor: headline.floor_percent,
            max_over_mean: headline.max_over_mean,
            weighted_fim: headline.weighted_percent,
            mean_fim: headline.mean_fim_percent,
            fim_above_floor: headline.above_floor_percent,
            fuller_than_needed_percent: 100.0 * (headline.over_least - 1.0),
        }
    }
}

impl LayerFigures {
    fn new(before: &LayerSpread, after: &[LayerSpread]) -> Self {
        let same = |it: &&LayerSpread| (it.layer, it.chosen) == (before.layer, before.chosen);
        let after = after.iter().find(same);
        Self {
            layer: format!("tier {} to {}", before.layer.from, before.layer.to),
            groups: before.groups,
            fim_before: before.worst.fim_percent,
            fim_after: after.map(|after| after.worst.fim_percent),
            max_over_mean_before: before.max_over_mean,
            max_over_mean_after: after.map(|after| after.max_over_mean),
        }
    }
}

/// Text output, with flows named by their hosts.
#[derive(Serialize)]
#[serde(transparent)]
struct BalanceReport<'b> {
    answer: Answer,
    #[serde(skip)]
    table: &'b Table,
    #[serde(skip)]
    fabric: &'b Fabric,
}

impl Report for BalanceReport<'_> {
    fn lay_out(&self, page: &mut Page) {
        lay_out(page, &self.answer, self.table, self.fabric);
    }
}

fn lay_out(page: &mut Page, answer: &Answer, table: &Table, fabric: &Fabric) {
    let row = |name: &str, figures: &Figures| {
        [
            name.to_owned(),
            format!("{:.1} %", figures.fim),
            format!("{:.1} %", figures.floor),
            format!("{:.1} %", figures.fim_above_floor),
            format!("{:.2}", figures.max_over_mean),
        ]
    };
    let jobs = answer.jobs.iter().map(|job| row(&job.job, &job.figures));
    let rows = [row("now", &answer.before), row("then", &answer.after)];
    page.table(
        ["", "FIM", "floor", "above floor", "max/mean"],
        rows.into_iter().chain(jobs),
    );
    if let Some(largest) = &answer.largest_fim {
        page.line(&format!("FIM is largest {}", largest.describe()));
    }
    if let Some(course) = &answer.over_time {
        let OverTime {
            mean_fim,
            worst_fim,
            worst_since_us,
        } = course;
        page.line(&format!(
            "over time FIM is {mean_fim:.1} % on average, {worst_fim:.1} % at worst, from \
             {worst_since_us} us"
        ));
    }
    if answer.fullest_us.before > 0.0 {
        page.line(&answer.fullest_us.describe());
    }
    page.line(&verdict(answer));
    if answer.predicted > 0 {
        let predicted = answer.predicted;
        page.line(&match predicted {
            1 => "1 flow was not traced: its path is predicted by the hash".to_owned(),
            _ => {
                format!("{predicted} flows were not traced: their paths are predicted by the hash")
            }
        });
    }
    let name = |flow: usize| {
        let listed = table.flows.iter().find(|it| it.id == flow);
        let ends = listed.map(|it| it.ends.map(|node| fabric.name(node)));
        ends.map_or(String::new(), |[from, to]| format!("{from} > {to}"))
    };
    let pins = answer.pins.iter().map(|pin| {
        let (flow, at, link) = (pin.flow.to_string(), pin.at.clone(), pin.link.clone());
        [flow, name(pin.flow), format!("at {at} to {link}")]
    });
    let ports = answer.ports.iter().map(|port| {
        let (flow, port, ends) = (port.flow.to_string(), port.source_port, name(port.flow));
        [flow, ends, format!("by source port {port}")]
    });
    if answer.moves > 0 {
        page.table(["flow", "", "goes"], pins.chain(ports));
    }
    for weight in &answer.weights {
        page.line(&weight.describe());
    }
}

fn verdict(answer: &Answer) -> String {
    let needed = answer.moves - answer.levelling;
    let Answer {
        least_moves,
        levelling,
        gap_percent,
        stuck,
        ..
    } = answer;
    let verdict = match (needed, answer.proven) {
        (0, _) if *levelling > 0 => return format!("{} {LEVELLING_REASON}", moves(*levelling)),
        (0, _) if *stuck > 0 => "flows on drained links have no other path".to_owned(),
        (0, _) if *gap_percent < MAX_ROUNDING_PERCENT => "no flow needs to move".to_owned(),
        (0, true) => "the possible gain does not justify a move".to_owned(),
        (0, false) => format!("nothing better was found; {}", at_most(*gap_percent)),
        (_, true) => {
            let needed = moves(needed);
            format!("{needed}: {OPTIMAL_REASON}")
        }
        (_, false) => {
            let gap = at_most(*gap_percent);
            let needed = moves(needed);
            format!("{needed}, at least {least_moves} needed; {gap}")
        }
    };
    match levelling {
        0 => verdict,
        more => format!("{verdict}; {more} more {LEVELLING_REASON}"),
    }
}

fn moves(count: usize) -> String {
    match count {
        1 => "1 move".to_owned(),
        _ => format!("{count} moves"),
    }
}

const OPTIMAL_REASON: &str = "no choice of paths lowers the fullest link further or needs fewer \
                              moves";
const LEVELLING_REASON: &str = "reduce sharing, while the fullest link stays as full";
/// Maximum number of links that are all listed; of more, one is named.
const MAX_NAMED_LINKS: usize = 8;
/// Largest difference that rounding can cause.
const MAX_ROUNDING_PERCENT: f64 = 1e-6;

fn at_most(gap_percent: f64) -> String {
    format!("the fullest link is at most {gap_percent:.1} % fuller than it needs to be")
}
