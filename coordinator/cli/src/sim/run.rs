//! One simulated iteration, with an interval for the effects that exact sharing leaves out.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Args;
use reweave_common::explicit_paths::ExplicitPaths;
use reweave_common::fabric::Fabric;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::iteration::Iteration;
use reweave_sim::engine::SimTime;
use reweave_sim::workload::effects::{self, Effects, Interval, Setting};
use reweave_sim::workload::losses::Loss;
use reweave_sim::workload::{self, LaneLoad, Network, Settings};

use super::progress::Progress;
use super::{MAX_SIMULATION_WORK, measured, past, show};
use crate::error::CliError;
use crate::{Output, print_report};

/// Maximum number of seeds; each is a simulation per effect of hashing.
const MAX_SEEDS: i64 = 1 << 16;

/// Effects that exact sharing leaves out, for the interval.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Error of the fluid model")]
pub(super) struct Uncertainty {
    /// Also the error of the fluid model, per effect and per link, and the resulting interval; takes some thirty
    /// simulations
    #[arg(long)]
    interval: bool,
    /// Delay before each step of a collective and each message
    #[arg(long, value_name = "US", requires = "interval", default_value_t = effects::COLD_START_US)]
    cold_start_us: f64,
    /// Slow-down of many-to-many traffic by lanes that wait for others
    #[arg(long, value_name = "FACTOR", requires = "interval", default_value_t = effects::HEAD_OF_LINE_FACTOR)]
    head_of_line: f64,
    /// Number of switch hashes to try; 0 spreads traffic evenly
    #[arg(long, value_name = "N", requires = "interval", default_value_t = effects::HASH_SEEDS,
          value_parser = clap::value_parser!(u32).range(..=MAX_SEEDS))]
    seeds: u32,
    /// Delay that each earlier message to the same port adds
    #[arg(long, value_name = "US", requires = "interval", default_value_t = effects::ROUND_TRIP_US)]
    incast_us: f64,
    /// Data in flight per sender that delays messages on shared links
    #[arg(long, value_name = "US", requires = "interval", default_value_t = effects::ROUND_TRIP_US)]
    uplink_us: f64,
    /// Share of packets that a link loses, as LINK=PART; may be repeated
    #[arg(long, value_name = "LINK=PART", requires = "interval", value_parser = loss)]
    loss: Vec<(String, f64)>,
    /// Loss of links in this span of the history, from its probes and ports: 2026-11-20T14:00:00Z/10m, or 1h/10m for an
    /// hour ago
    #[arg(long, value_name = "FROM/SPAN", requires_all = ["interval", "history"])]
    loss_from: Option<String>,
    /// Location of the history: a folder or s3://bucket/prefix
    #[arg(long, env = "REWEAVE_HISTORY", value_name = "URL")]
    history: Option<String>,
}

fn loss(text: &str) -> Result<(String, f64), String> {
    let (link, part) = text.rsplit_once('=').ok_or("write LINK=PART")?;
    let part = part
        .parse::<f64>()
        .ok()
        .filter(|part| (0.0..1.0).contains(part));
    let part = part.ok_or("the part that is lost lies between 0 and 1")?;
    Ok((link.to_owned(), part))
}

impl Uncertainty {
    /// Returns the loss of links in the history; nothing if no option asks for it.
    fn measured(&self, fabric: &Fabric) -> Result<BTreeMap<LinkId, Loss>, CliError> {
        let (Some(span), Some(history)) = (&self.loss_from, &self.history) else {
            return Ok(BTreeMap::new());
        };
        let window = past::look(history, past::span(span)?, &measured::LOSS_KINDS)?.window;
        Ok(measured::lossy(&window, fabric))
    }

    /// Returns the effects. A loss given by an option wins over a measured one.
    fn effects(
        &self,
        fabric: &Fabric,
        measured: &BTreeMap<LinkId, Loss>,
    ) -> Result<Effects, CliError> {
        let micros = |us, option| {
            let time = SimTime::from_micros(us);
            time.ok_or(CliError::BadOption { option, value: us })
        };
        if !(1.0..=100.0).contains(&self.head_of_line) {
            return Err(CliError::BadOption {
                option: "--head-of-line",
                value: self.head_of_line,
            });
        }
        let lossy = self.loss.iter().map(|(name, part)| {
            let link = fabric.find_link(name);
            let link = link.ok_or_else(|| CliError::NoSuchLink { name: name.clone() })?;
            Ok((link, *part))
        });
        let mut loss: BTreeMap<_, _> = measured.iter().map(|(&it, loss)| (it, loss.part)).collect();
        loss.extend(lossy.collect::<Result<Vec<_>, CliError>>()?);
        Ok(Effects {
            cold_start: micros(self.cold_start_us, "--cold-start-us")?,
            head_of_line: self.head_of_line,
            seeds: self.seeds,
            incast: micros(self.incast_us, "--incast-us")?,
            uplinks: micros(self.uplink_us, "--uplink-us")?,
            only: None,
            loss,
        })
    }
}

/// An iteration, and the fabric that it runs on.
pub(super) struct Scene<'s> {
    pub(super) iteration: &'s Iteration,
    pub(super) fabric: &'s Fabric,
    pub(super) placement: &'s [NodeId],
    pub(super) carriage: &'s ExplicitPaths,
    pub(super) settings: Settings,
}

impl Scene<'_> {
    pub(super) fn simulate(
        self,
        uncertainty: &Uncertainty,
        output: Output,
    ) -> Result<ExitCode, CliError> {
        let measured = uncertainty.measured(self.fabric)?;
        let effects = uncertainty.effects(self.fabric, &measured)?;
        let network = Network::new(self.fabric, self.placement, self.carriage, self.settings);
        let mut progress = Progress::begin("tasks");
        let evaluation =
            workload::evaluate(self.iteration, &network, MAX_SIMULATION_WORK, &mut |at| {
                progress.see(at);
                true
            });
        let wall_ms = progress.end();
        let mut evaluation = evaluation.map_err(CliError::Simulation)?;
        let setting = Setting {
            iteration: self.iteration,
            network: &network,
        };
        let interval = if uncertainty.interval {
            Some(uncertain(&setting, &effects, &mut evaluation.lanes)?)
        } else {
            None
        };
        let lossy = measured::listed(&measured, self.fabric);
        let answer = show::Answer::new(evaluation, interval, lossy, wall_ms);
        print_report(output, &answer)
    }
}

/// Returns the interval of the iteration time, and the possible delay of each link.
fn uncertain(
    setting: &Setting<'_>,
    effects: &Effects,
    lanes: &mut [LaneLoad],
) -> Result<Interval, CliError> {
    let mut progress = Progress::begin("simulations");
    let watch = &mut |at| {
        progress.see(at);
        true
    };
    let interval = setting.interval(effects, MAX_SIMULATION_WORK, watch);
    let interval = interval.and_then(|interval| {
        setting.weigh(lanes, effects, MAX_SIMULATION_WORK, watch)?;
        Ok(interval)
    });
    progress.end();
    interval.map_err(CliError::Simulation)
}
