//! `reweave export`: the fabric, as those write it who place jobs on it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use reweave_common::fabric::Fabric;
use reweave_common::tree::Group;
use reweave_formats::kubernetes::{kueue, labels};
use reweave_formats::slurm::{Plugin, Release};

use crate::error::CliError;
use crate::say;
use crate::sim::input;

/// The fabric, as a scheduler reads it, so that it places jobs where the network is near
#[derive(Debug, Args)]
pub(crate) struct Export {
    #[arg(value_enum)]
    format: Format,
    /// The fabric: nodes, roles and links
    #[arg(long, value_name = "FABRIC")]
    fabric: PathBuf,
    /// Which Slurm will read it; what that would not understand is refused
    #[arg(long, value_name = "YY.MM", default_value = "25.05")]
    slurm: String,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// topology.conf for topology/tree
    SlurmTree,
    /// topology.conf for topology/block
    SlurmBlock,
    /// topology.yaml
    SlurmYaml,
    /// Labels of nodes, for kubectl apply --server-side
    Kubernetes,
    /// A Topology of Kueue over these labels
    Kueue,
}

impl Export {
    pub(crate) fn run(&self) -> Result<ExitCode, CliError> {
        let fabric = input::fabric(&self.fabric)?;
        let tree = Group::of(&fabric).map_err(CliError::from);
        let text = tree.and_then(|tree| self.emitted(&fabric, &tree));
        say(&text.map_err(|error| error.on(&self.fabric))?)
    }

    fn emitted(&self, fabric: &Fabric, tree: &Group) -> Result<String, CliError> {
        let slurm = |plugin: Plugin| {
            let release: Release = self.slurm.parse()?;
            Ok(plugin.emit(fabric, tree, release)?)
        };
        match self.format {
            Format::SlurmTree => slurm(Plugin::Tree),
            Format::SlurmBlock => slurm(Plugin::Block),
            Format::SlurmYaml => slurm(Plugin::Yaml),
            Format::Kubernetes => Ok(labels(fabric, tree)?),
            Format::Kueue => Ok(kueue(tree)?),
        }
    }
}
