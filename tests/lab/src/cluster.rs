//! The virtual cluster from inside the lab: bring-up, and access to its nodes.

use std::fs;
use std::io::{self, BufRead, BufReader, Read as _};
use std::net::Ipv4Addr;
use std::ops::Deref;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use nix::mount::{MsFlags, mount};
use reweave_common::fabric::{Fabric, Role};
use reweave_common::ids::{NodeId, OpticalId};
use reweave_common::scenario::Scenario;

use crate::addressing::Addressing;
use crate::error::LabError;
use crate::fabric_file::{self, FABRIC_PATH};
use crate::features::Features;
use crate::frr;
use crate::impair::Wires;
use crate::management::{self, STATION_NAME};
use crate::node::{NETNS_PATH, NodeDoor, UTSNS_PATH};
use crate::nodes::Nodes;
use crate::optics;
use crate::parallel::{apart, in_parallel};
use crate::progress::Progress;
use crate::sharing::Sharing;
use crate::tool_run::run_script;
use crate::tools::{Tool, Tools};
use crate::wiring::{self, Wiring};

/// A running cluster. Threads may share it.
pub(crate) struct Cluster {
    nodes: Nodes,
    features: Features,
    wires: Wires,
    is_managed: bool,
    /// The switches whose routes FRR makes.
    by_frr: Vec<NodeId>,
    /// In the order of the fabric's optical switches.
    opticals: Vec<NodeDoor>,
    /// Their processes, which end with the lab.
    _switches: Vec<Child>,
}

impl Deref for Cluster {
    type Target = Nodes;

    fn deref(&self) -> &Nodes {
        &self.nodes
    }
}

impl Cluster {
    /// Makes all nodes and links of the scenario's fabric. Only inside a sandbox.
    pub(crate) fn bring_up(
        scenario: &Scenario,
        tools: Tools,
        progress: &Progress,
    ) -> Result<Self, LabError> {
        let fabric = scenario.fabric.clone();
        let addressing = Addressing::new(&fabric)?;
        let wiring = Wiring::new(&fabric, &addressing);
        progress.say("kernel features");
        let features = Features::probe(&tools)?;
        make_folders(&hosts_file(scenario, &wiring))?;
        write_fabric(&fabric, &addressing)?;
        let doors = create_nodes(&fabric, scenario.seed, progress)?;
        let opticals = create_opticals(&fabric, scenario.seed)?;
        let mut wires = Wires::prepare(scenario, &features, &tools)?;
        progress.say("links");
        run_script(
            Command::new(tools.path(Tool::Ip)),
            Tool::Ip,
            "the lab",
            &wiring.links_script(|link, ends| wires.halves(link, ends)),
        )?;
        let in_nodes = |what, tool: Tool, script: &(dyn Fn(NodeId) -> String + Sync)| {
            in_parallel(doors.len(), |index| {
                progress.count(what, index, doors.len());
                let node = NodeId::from_index(index);
                let command = doors[index].net_command(tools.path(tool));
                run_script(command, tool, fabric.name(node), &script(node))
            })
        };
        in_nodes("ports", Tool::Ip, &|node| {
            wires.ports_script(&fabric, node) + &wiring.ports_script(node)
        })?;
        wires.join(&fabric, scenario.seed)?;
        let switches = start_opticals(&fabric, &opticals)?;
        // All carriers exist by now. If a carrier came later, the kernel would update routes and queues with a delay,
        // and drop packets until then.
        in_nodes("addresses and routes", Tool::Ip, &|node| {
            if scenario.frr.contains(&node) {
                return wiring.addresses_script(node);
            }
            wiring.node_script(node)
        })?;
        let charges = frr::charges(scenario, &wiring);
        in_nodes("rates", Tool::Tc, &|node| wiring.rates_script(node))?;
        let nodes = Nodes {
            fabric,
            addressing,
            tools,
            doors,
        };
        frr::start(&nodes, &charges, progress)?;
        let cluster = Self {
            nodes,
            features,
            wires,
            is_managed: scenario.management,
            by_frr: scenario.frr.clone(),
            opticals,
            _switches: switches,
        };
        if cluster.is_managed {
            progress.say("management network");
            cluster.join_to_station(scenario.seed)?;
        }
        progress.clear();
        Ok(cluster)
    }

    fn join_to_station(&self, seed: u64) -> Result<(), LabError> {
        let ip = self.tools.path(Tool::Ip);
        let station = management::create_station(&self.fabric, seed)?;
        let links = management::links_script(&self.fabric);
        run_script(Command::new(ip), Tool::Ip, "the lab", &links)?;
        let script = management::station_script(&self.fabric);
        run_script(station.net_command(ip), Tool::Ip, STATION_NAME, &script)?;
        in_parallel(self.doors.len(), |index| {
            let node = NodeId::from_index(index);
            self.batch(node, Tool::Ip, &management::node_script(node))?;
            self.inside(node, || self.doors[index].set(&management::sysctl()))?
        })?;
        for ((id, optical), door) in self.fabric.opticals().zip(&self.opticals) {
            let script = management::node_script(management::of_optical(&self.fabric, id));
            run_script(door.net_command(ip), Tool::Ip, &optical.name, &script)?;
        }
        Ok(())
    }

    /// Returns the address of the station, if there is one.
    pub(crate) fn station_address(&self) -> Option<Ipv4Addr> {
        self.is_managed.then(management::station_address)
    }

    /// Returns the management address of an optical switch, if there is a station.
    pub(crate) fn optical_address(&self, optical: OpticalId) -> Option<Ipv4Addr> {
        let place = management::of_optical(&self.fabric, optical);
        self.is_managed.then(|| management::address(place))
    }

    /// Returns the management address of a node, if there is a station.
    pub(crate) fn management_address(&self, node: NodeId) -> Option<Ipv4Addr> {
        self.is_managed.then(|| management::address(node))
    }

    /// Returns the folder of a node's FRR, if it has one.
    pub(crate) fn frr_folder(&self, node: NodeId) -> Option<PathBuf> {
        let is_there = self.by_frr.contains(&node);
        is_there.then(|| frr::folder(self.fabric.name(node)))
    }

    pub(crate) fn features(&self) -> &Features {
        &self.features
    }

    /// The links to which more can happen than that their rate changes.
    pub(crate) fn wires(&self) -> &Wires {
        &self.wires
    }
}

fn hosts_file(scenario: &Scenario, wiring: &Wiring<'_>) -> String {
    let mut text = wiring.hosts_file();
    if scenario.management {
        text += &management::hosts_file(&scenario.fabric);
    }
    text
}

/// Creates the folder for pinned namespaces, and /etc/hosts with the names of all nodes.
fn make_folders(hosts: &str) -> Result<(), LabError> {
    const HOSTS: &str = "/run/hosts";
    let write = || -> io::Result<()> {
        fs::create_dir(NETNS_PATH)?;
        fs::create_dir(UTSNS_PATH)?;
        fs::write(HOSTS, hosts)
    };
    write().map_err(|source| LabError::State {
        path: PathBuf::from("/run"),
        source,
    })?;
    let (none, bind) = (None::<&str>, MsFlags::MS_BIND);
    mount(Some(HOSTS), "/etc/hosts", none, bind, none).map_err(|source| LabError::Mount {
        what: "/etc/hosts",
        source,
    })
}

/// Writes the fabric file for coordinators inside the lab, where the scenario's own does not say what NICs are called here.
fn write_fabric(fabric: &Fabric, addressing: &Addressing) -> Result<(), LabError> {
    let Some(text) = fabric_file::text(fabric, addressing) else {
        return Ok(());
    };
    fs::write(FABRIC_PATH, text).map_err(|source| LabError::State {
        path: PathBuf::from(FABRIC_PATH),
        source,
    })
}

fn create_nodes(
    fabric: &Fabric,
    seed: u64,
    progress: &Progress,
) -> Result<Vec<NodeDoor>, LabError> {
    in_parallel(fabric.nodes().len(), |index| {
        progress.count("nodes", index, fabric.nodes().len());
        let id = NodeId::from_index(index);
        let node = fabric.node(id);
        let mut sysctls = wiring::sysctls(node.role, seed, id);
        sysctls.extend(Sharing::of(fabric).sysctls());
        NodeDoor::create(&node.name, &sysctls)
    })
}

/// Creates the namespaces of the optical switches.
fn create_opticals(fabric: &Fabric, seed: u64) -> Result<Vec<NodeDoor>, LabError> {
    let beyond = NodeId::from_index(fabric.nodes().len() + 1);
    let settings = wiring::sysctls(Role::Host, seed, beyond);
    let opticals = fabric.opticals();
    opticals
        .map(|(_, optical)| apart(|| NodeDoor::create(&optical.name, &settings)))
        .collect()
}

/// Starts one process of this program per optical switch, and waits until each is ready.
fn start_opticals(fabric: &Fabric, doors: &[NodeDoor]) -> Result<Vec<Child>, LabError> {
    let started = fabric.opticals().zip(doors).map(|((id, optical), door)| {
        let start = || -> io::Result<Child> {
            let mut command = door.command("/proc/self/exe");
            command.args(optics::switch_arguments(fabric, id, optical));
            // A reader that waits until this lab has said all must not wait for the switch.
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn()?;
            let (mut said, mut error) = (String::new(), String::new());
            if let Some(output) = child.stdout.take() {
                BufReader::new(output).read_line(&mut said)?;
            }
            if said.starts_with("listening") {
                return Ok(child);
            }
            if let Some(mut words) = child.stderr.take() {
                words.read_to_string(&mut error)?;
            }
            Err(io::Error::other(error.trim().to_owned()))
        };
        start().map_err(|source| LabError::StartOptical {
            name: optical.name.clone(),
            source,
        })
    });
    started.collect()
}
