//! `reweave sim replay`: a task graph on the network that it was made for.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use reweave_common::units::Rate;
use reweave_formats::topoopt::TaskGraph;
use reweave_sim::workload::Settings;

use super::input;
use super::run::{Scene, Uncertainty};
use crate::Output;
use crate::error::CliError;

/// Play a task graph of TopoOpt or FlexFlow on the network that it was made for
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// Task graph file
    graph: PathBuf,
    /// Rate of the port of each server, in Gb/s [default: from the graph]
    #[arg(long, value_name = "G", value_parser = rate)]
    nic_gbps: Option<Rate>,
    /// Rate of each link between directly wired servers
    #[arg(long, value_name = "G", value_parser = rate, conflicts_with = "nic_gbps")]
    link_gbps: Option<Rate>,
    #[command(flatten)]
    uncertainty: Uncertainty,
}

pub(crate) fn rate(text: &str) -> Result<Rate, String> {
    let gbps = text.parse().map_err(|_| "not a number".to_owned())?;
    Rate::from_gbps(gbps).ok_or_else(|| "not a rate a link can have".to_owned())
}

impl Replay {
    pub(crate) fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        let bad_graph = |source| CliError::TaskGraph {
            path: self.graph.clone(),
            source: Box::new(source),
        };
        let graph = TaskGraph::decode(&input::bytes(&self.graph)?).map_err(bad_graph)?;
        let rate = self.nic_gbps.or(self.link_gbps).unwrap_or(graph.link_rate);
        let fabric = graph.fabric(rate).map_err(bad_graph)?;
        let scene = Scene {
            iteration: &graph.iteration,
            fabric: &fabric,
            placement: &graph.placement,
            carriage: &graph.carriage,
            settings: Settings::default(),
        };
        scene.simulate(&self.uncertainty, output)
    }
}
