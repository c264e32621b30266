//! `reweave export`: the fabric in the formats of schedulers, and settings for NCCL.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use reweave_common::fabric::{Fabric, Nic, NicUse};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::tree::Group;
use reweave_formats::kubernetes::{kueue, labels};
use reweave_formats::nccl::{self, Environment};
use reweave_formats::nccl_topo::{Net, TopoError, corrected, nearest_gpus, nics};
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
    /// Fabric file with the rails of these hosts, which decide whether a ring may change NICs between hosts
    /// [NCCL_CROSS_NIC]
    #[arg(long, value_name = "FABRIC", requires = "hosts")]
    fabric: Option<PathBuf>,
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
    /// Link of a NIC, as in mlx5_0=h0-leaf0; required if the host has several links, unless the fabric file declares
    /// the interface or the GPU of its NICs. May be repeated
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
            let mut found = derived(reach, hosts, self.all_reduce_bytes, self.ranks_per_host)?;
            if let Some(file) = &self.fabric {
                let taken = found.take_rails(&input::fabric(file)?, hosts);
                taken.map_err(|error| error.on(file))?;
            }
            found.remarks.iter().for_each(|remark| print_note(remark));
            found.complete(&mut environment);
        }
        Ok(environment.emit(release)?)
    }

    fn named(&self) -> Environment {
        Environment {
            devices: self.hca.clone(),
            cross_nic: None,
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

    /// Returns the NICs with their links: all at the host's only link, each at the link that an option names, or each
    /// at that of its interface or GPU in the fabric file.
    fn nets(&self, fabric: &Fabric, dump: &str) -> Result<Vec<Net>, CliError> {
        let unknown = || CliError::NoHost {
            name: self.host.clone(),
        };
        let host = fabric.find(&self.host).ok_or_else(unknown)?;
        if !self.nic.is_empty() {
            let named = self.nic.iter();
            return named.map(|text| self.named(fabric, host, text)).collect();
        }
        if let &[link] = fabric.links_of(host) {
            let all = nics(dump).map_err(|source| self.misread(source))?;
            let all = all.into_iter();
            return Ok(all.map(|name| net(fabric, name, link)).collect());
        }
        let declared = declared_nics(fabric, host);
        if declared.is_empty() {
            return Err(self.no_link_of_nic(fabric, host));
        }
        self.matched(fabric, &declared, dump)
    }

    fn named(&self, fabric: &Fabric, host: NodeId, text: &str) -> Result<Net, CliError> {
        let (name, link) = text.split_once('=').unwrap_or((text, ""));
        let link = fabric.find_link(link);
        let link = link.filter(|link| fabric.links_of(host).contains(link));
        let link = link.ok_or_else(|| self.no_link_of_nic(fabric, host))?;
        let purpose = fabric.nic_at(link).map(|nic| fabric.nic(nic).purpose);
        match purpose.filter(|&purpose| purpose != NicUse::Training) {
            Some(purpose) => Err(CliError::NotForTraining {
                nic: text.to_owned(),
                purpose,
            }),
            None => Ok(net(fabric, name.to_owned(), link)),
        }
    }

    fn no_link_of_nic(&self, fabric: &Fabric, host: NodeId) -> CliError {
        let links = fabric.links_of(host).iter();
        CliError::NoLinkOfNic {
            host: self.host.clone(),
            links: links.map(|&link| fabric.link_name(link)).collect(),
        }
    }

    /// Returns the NICs of the dump that are in the file, and prints a line for each. A NIC of the dump that is not is
    /// left as it is, unless the file has one that is not in the dump: they may be the same.
    fn matched(&self, fabric: &Fabric, file: &[&Nic], dump: &str) -> Result<Vec<Net>, CliError> {
        let names = nics(dump).map_err(|source| self.misread(source))?;
        let gpus = nearest_gpus(dump).map_err(|source| self.misread(source))?;
        let mut missing = Vec::new();
        let mut nets: Vec<Net> = Vec::new();
        for nic in file {
            match name_of(nic, file, &names, &gpus) {
                Some(name) => nets.push(net(fabric, name, nic.link)),
                None => missing.push(fabric.link_name(nic.link)),
            }
        }
        let is_left = |name: &&String| nets.iter().all(|net| net.name != **name);
        let left: Vec<_> = names.iter().filter(is_left).collect();
        if let (Some(nic), false) = (left.first(), missing.is_empty()) {
            return Err(CliError::UnknownNic {
                nic: (*nic).clone(),
                host: self.host.clone(),
                links: missing,
            });
        }
        nets.iter().for_each(print_net);
        for name in left {
            print_note(&format!(
                "{name}: not for training; it stays as NCCL found it"
            ));
        }
        Ok(nets)
    }

    fn misread(&self, source: TopoError) -> CliError {
        CliError::Topo {
            dump: self.dump.clone(),
            source,
        }
    }
}

/// Returns the training NICs of which the file gives the interface or the GPU.
fn declared_nics(fabric: &Fabric, host: NodeId) -> Vec<&Nic> {
    let nics = fabric.training_nics(host).into_iter();
    let nics = nics.map(|id| fabric.nic(id));
    nics.filter(|nic| nic.interface.is_some() || nic.gpu.is_some())
        .collect()
}

fn net(fabric: &Fabric, name: String, link: LinkId) -> Net {
    let nic = fabric.nic_at(link).filter(|_| fabric.has_declared_nics());
    let nic = nic.map(|id| fabric.nic(id));
    Net {
        name,
        rate: fabric.link(link).rate,
        rail: nic.map(|nic| nic.rail),
        plane: nic.and_then(|nic| nic.plane),
    }
}

fn print_net(net: &Net) {
    let rail = net
        .rail
        .map_or(String::new(), |rail| format!("rail {rail}, "));
    print_note(&format!("{}: {rail}{}", net.name, net.rate));
}

/// Returns NCCL's name of a NIC: that of its interface, or of the only NIC that is nearest to its GPU.
fn name_of(
    nic: &Nic,
    file: &[&Nic],
    names: &[String],
    gpus: &BTreeMap<String, u16>,
) -> Option<String> {
    let by_interface = names
        .iter()
        .find(|name| nic.interface.as_ref() == Some(*name));
    if let Some(name) = by_interface {
        return Some(name.clone());
    }
    let gpu = nic.gpu?;
    let is_alone = file.iter().filter(|it| it.gpu == Some(gpu)).count() == 1;
    let is_interface = |name: &String| file.iter().any(|it| it.interface.as_ref() == Some(name));
    let near = gpus
        .iter()
        .filter(|(name, near)| **near == gpu && !is_interface(name));
    let mut near = near.map(|(name, _)| name.clone()).filter(|_| is_alone);
    let first = near.next();
    first.filter(|_| near.next().is_none())
}
