//! `reweave export`: the fabric in the formats of schedulers, and settings for NCCL.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use reweave_common::fabric::Fabric;
use reweave_common::ids::LinkId;
use reweave_common::tree::Group;
use reweave_formats::kubernetes::{kueue, labels};
use reweave_formats::nccl::{self, Environment};
use reweave_formats::nccl_topo::{Net, TopoError, corrected, nics};
use reweave_formats::slurm::{Plugin, Release};

use crate::ask::Reach;
use crate::error::CliError;
use crate::job::{Hostlist, hostlist};
use crate::nccl::derived;
use crate::print_data;
use crate::sim::input;
use crate::voice::print_note;

/// Write the fabric for schedulers and for NCCL
///
/// Write the fabric for schedulers, so that jobs are placed on nearby hosts, and settings for NCCL
#[derive(Debug, Subcommand)]
pub(crate) enum Export {
    /// topology.conf for topology/tree
    SlurmTree(ForSlurm),
    /// topology.conf for topology/block
    SlurmBlock(ForSlurm),
    /// topology.yaml
    SlurmYaml(ForSlurm),
    /// Node labels for kubectl apply --server-side
    Kubernetes(OfFabric),
    Kueue(ForKueue),
    /// Environment variables for jobs, or for /etc/nccl.conf
    Nccl(ForNccl),
    NcclTopo(ForTopo),
}

#[derive(Debug, Args)]
pub(crate) struct OfFabric {
    /// Fabric file: nodes, roles and links
    #[arg(long, value_name = "FABRIC")]
    fabric: PathBuf,
}

/// A Topology of Kueue over these labels
#[derive(Debug, Args)]
pub(crate) struct ForKueue {
    #[command(flatten)]
    of: OfFabric,
    /// Version of Kueue, which decides the API version; unsupported input is refused
    #[arg(long, value_name = "0.N", default_value = "0.15")]
    kueue: String,
}

#[derive(Debug, Args)]
pub(crate) struct ForSlurm {
    #[command(flatten)]
    of: OfFabric,
    /// Version of Slurm; unsupported input is refused
    #[arg(long, value_name = "YY.MM", default_value = "25.05")]
    slurm: String,
}

#[derive(Debug, Args)]
pub(crate) struct ForNccl {
    /// Version of NCCL; settings that it would ignore silently are refused
    #[arg(long, value_name = "2.N", default_value = "2.28")]
    nccl: String,
    /// Hosts of the job in rank order, as a Slurm hostlist. NICs and queue pairs that are not given are derived from
    /// the links that the coordinator knows
    #[arg(long, value_name = "LIST", value_parser = hostlist)]
    hosts: Option<Hostlist>,
    /// All-reduce size to optimise for; algorithm and protocol apply to collectives of all sizes
    #[arg(long, value_name = "N", requires = "hosts", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    all_reduce_bytes: Option<u64>,
    /// Ranks per host
    #[arg(long, value_name = "N", default_value_t = 1, requires = "all_reduce_bytes", value_parser = clap::value_parser!(u16).range(1..))]
    ranks_per_host: u16,
    /// NICs to use, such as mlx5_0 or mlx5_0:1; matched exactly, not by prefix [NCCL_IB_HCA]
    #[arg(long, value_name = "NIC", value_delimiter = ',')]
    hca: Vec<String>,
    /// Queue pairs per connection: each has its own source port, and so may take its own path
    /// [NCCL_IB_QPS_PER_CONNECTION]
    #[arg(long, value_name = "N")]
    queue_pairs: Option<u32>,
    /// Traffic class of RoCE packets; `reweave-agent transport` sets the one of sockets [NCCL_IB_TC]
    #[arg(long, value_name = "N")]
    dscp: Option<u8>,
    /// ring, tree, collnetdirect, collnetchain, nvls, nvlstree, pat [NCCL_ALGO]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    algorithm: Vec<String>,
    /// ll, ll128, simple [NCCL_PROTO]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    protocol: Vec<String>,
    /// Path of Reweave's plugin on the hosts [NCCL_PROFILER_PLUGIN]
    #[arg(long, value_name = "PATH")]
    profiler: Option<String>,
}

/// NCCL topology file of a host, with the speeds of the links of its NICs, for NCCL_TOPO_FILE
#[derive(Debug, Args)]
pub(crate) struct ForTopo {
    #[command(flatten)]
    of: OfFabric,
    /// Host of the topology file
    #[arg(long, value_name = "HOST")]
    host: String,
    /// File that NCCL wrote there with NCCL_TOPO_DUMP_FILE; - is standard input
    #[arg(long, value_name = "XML")]
    dump: PathBuf,
    /// Link of a NIC, as in mlx5_0=h0-leaf0; required if the host has several links. May be repeated
    #[arg(long, value_name = "NIC=LINK")]
    nic: Vec<String>,
    /// Version of NCCL; input that it would misread is refused
    #[arg(long, value_name = "2.N", default_value = "2.28")]
    nccl: String,
}

impl Export {
    pub(crate) fn run(&self, reach: &Reach) -> Result<ExitCode, CliError> {
        let text = match self {
            Self::SlurmTree(asked) => asked.emitted(Plugin::Tree),
            Self::SlurmBlock(asked) => asked.emitted(Plugin::Block),
            Self::SlurmYaml(asked) => asked.emitted(Plugin::Yaml),
            Self::Kubernetes(asked) => asked.emitted(|fabric, tree| Ok(labels(fabric, tree)?)),
            Self::Kueue(asked) => asked.emitted(),
            Self::Nccl(asked) => asked.emitted(reach),
            Self::NcclTopo(asked) => asked.emitted(),
        };
        print_data(&text?)
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

impl ForKueue {
    fn emitted(&self) -> Result<String, CliError> {
        self.of
            .emitted(|_, tree| Ok(kueue(tree, self.kueue.parse()?)?))
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
    /// Options win over derived values.
    fn emitted(&self, reach: &Reach) -> Result<String, CliError> {
        let release: nccl::Release = self.nccl.parse()?;
        let mut environment = self.named();
        if let Some(Hostlist(hosts)) = &self.hosts {
            let found = derived(reach, hosts, self.all_reduce_bytes, self.ranks_per_host)?;
            found.remarks.iter().for_each(|remark| print_note(remark));
            found.complete(&mut environment);
        }
        Ok(environment.emit(release)?)
    }

    fn named(&self) -> Environment {
        Environment {
            devices: self.hca.clone(),
            queue_pairs: self.queue_pairs,
            dscp: self.dscp,
            algorithms: self.algorithm.clone(),
            protocols: self.protocol.clone(),
            profiler: self.profiler.clone(),
        }
    }
}

impl ForTopo {
    fn emitted(&self) -> Result<String, CliError> {
        let release: nccl::Release = self.nccl.parse()?;
        let fabric = input::fabric(&self.of.fabric)?;
        let dump = input::text(&self.dump)?;
        let nets = self.nets(&fabric, &dump);
        let nets = nets.map_err(|error| error.on(&self.of.fabric))?;
        corrected(&dump, &nets, release).map_err(|source| self.misread(source))
    }

    /// Returns the NICs with their links: all at the host's only link, or each at the link that an option names.
    fn nets(&self, fabric: &Fabric, dump: &str) -> Result<Vec<Net>, CliError> {
        let unknown = || CliError::NoHost {
            name: self.host.clone(),
        };
        let host = fabric.find(&self.host).ok_or_else(unknown)?;
        let links = fabric.links_of(host);
        let rate = |link: LinkId| fabric.link(link).rate;
        if let (true, &[link]) = (self.nic.is_empty(), links) {
            let all = nics(dump).map_err(|source| self.misread(source))?;
            let all = all.into_iter();
            let rate = rate(link);
            return Ok(all.map(|name| Net { name, rate }).collect());
        }
        let at = |text: &String| {
            let (name, link) = text.split_once('=').unwrap_or((text, ""));
            let link = fabric.find_link(link).filter(|link| links.contains(link));
            link.map(|link| Net {
                name: name.to_owned(),
                rate: rate(link),
            })
        };
        let nets: Option<Vec<_>> = self.nic.iter().map(at).collect();
        nets.filter(|nets| !nets.is_empty())
            .ok_or_else(|| CliError::NoLinkOfNic {
                host: self.host.clone(),
                links: links.iter().map(|&link| fabric.link_name(link)).collect(),
            })
    }

    fn misread(&self, source: TopoError) -> CliError {
        CliError::Topo {
            dump: self.dump.clone(),
            source,
        }
    }
}
