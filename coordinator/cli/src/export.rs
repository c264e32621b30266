//! `reweave export`: the fabric, as those write it who place jobs on it, and what the jobs' library is told.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use reweave_common::fabric::Fabric;
use reweave_common::tree::Group;
use reweave_formats::kubernetes::{kueue, labels};
use reweave_formats::nccl::{self, Environment};
use reweave_formats::slurm::{Plugin, Release};

use crate::error::CliError;
use crate::say;
use crate::sim::input;

/// The fabric, as a scheduler reads it, so that it places jobs where the network is near; and what NCCL is told
#[derive(Debug, Subcommand)]
pub(crate) enum Export {
    /// topology.conf for topology/tree
    SlurmTree(ForSlurm),
    /// topology.conf for topology/block
    SlurmBlock(ForSlurm),
    /// topology.yaml
    SlurmYaml(ForSlurm),
    /// Labels of nodes, for kubectl apply --server-side
    Kubernetes(OfFabric),
    /// A Topology of Kueue over these labels
    Kueue(OfFabric),
    /// Variables for the environment of jobs, or for /etc/nccl.conf
    Nccl(ForNccl),
}

#[derive(Debug, Args)]
pub(crate) struct OfFabric {
    /// The fabric: nodes, roles and links
    #[arg(long, value_name = "FABRIC")]
    fabric: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ForSlurm {
    #[command(flatten)]
    of: OfFabric,
    /// Which Slurm will read it; what that would not understand is refused
    #[arg(long, value_name = "YY.MM", default_value = "25.05")]
    slurm: String,
}

#[derive(Debug, Args)]
pub(crate) struct ForNccl {
    /// Which NCCL will read it; what that would pass over without a word is refused
    #[arg(long, value_name = "2.N", default_value = "2.28")]
    nccl: String,
    /// The NICs to use, such as mlx5_0 or mlx5_0:1; none that only begins so [NCCL_IB_HCA]
    #[arg(long, value_name = "NIC", value_delimiter = ',')]
    hca: Vec<String>,
    /// Queue pairs of each connection: each has a source port, and so may have a way, of its own
    /// [NCCL_IB_QPS_PER_CONNECTION]
    #[arg(long, value_name = "N")]
    queue_pairs: Option<u32>,
    /// What packets of RoCE bear, as those of sockets do by `reweave-agent transport` [NCCL_IB_TC]
    #[arg(long, value_name = "N")]
    dscp: Option<u8>,
    /// ring, tree, collnetdirect, collnetchain, nvls, nvlstree, pat [NCCL_ALGO]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    algorithm: Vec<String>,
    /// ll, ll128, simple [NCCL_PROTO]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    protocol: Vec<String>,
    /// Where Reweave's plugin lies on the hosts [NCCL_PROFILER_PLUGIN]
    #[arg(long, value_name = "PATH")]
    profiler: Option<String>,
}

impl Export {
    pub(crate) fn run(&self) -> Result<ExitCode, CliError> {
        let text = match self {
            Self::SlurmTree(asked) => asked.emitted(Plugin::Tree),
            Self::SlurmBlock(asked) => asked.emitted(Plugin::Block),
            Self::SlurmYaml(asked) => asked.emitted(Plugin::Yaml),
            Self::Kubernetes(asked) => asked.emitted(|fabric, tree| Ok(labels(fabric, tree)?)),
            Self::Kueue(asked) => asked.emitted(|_, tree| Ok(kueue(tree)?)),
            Self::Nccl(asked) => asked.emitted(),
        };
        say(&text?)
    }
}

impl OfFabric {
    fn emitted(
        &self,
        emit: impl Fn(&Fabric, &Group) -> Result<String, CliError>,
    ) -> Result<String, CliError> {
        let fabric = input::fabric(&self.fabric)?;
        let tree = Group::of(&fabric).map_err(CliError::from);
        let text = tree.and_then(|tree| emit(&fabric, &tree));
        text.map_err(|error| error.on(&self.fabric))
    }
}

impl ForSlurm {
    fn emitted(&self, plugin: Plugin) -> Result<String, CliError> {
        self.of.emitted(|fabric, tree| {
            let release: Release = self.slurm.parse()?;
            Ok(plugin.emit(fabric, tree, release)?)
        })
    }
}

impl ForNccl {
    fn emitted(&self) -> Result<String, CliError> {
        let release: nccl::Release = self.nccl.parse()?;
        let environment = Environment {
            devices: self.hca.clone(),
            queue_pairs: self.queue_pairs,
            dscp: self.dscp,
            algorithms: self.algorithm.clone(),
            protocols: self.protocol.clone(),
            profiler: self.profiler.clone(),
        };
        Ok(environment.emit(release)?)
    }
}
