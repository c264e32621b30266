//! The virtual cluster as those inside the lab hold it: bring-up, and the ways into its nodes.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::mount::{MsFlags, mount};
use nix::unistd::Pid;
use reweave_common::fabric::{Fabric, Port};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::scenario::Scenario;

use crate::addressing::{Addressing, end_of, on_link};
use crate::error::LabError;
use crate::features::Features;
use crate::impair::Wires;
use crate::node::{NET_FOLDER, NodeDoor, UTS_FOLDER};
use crate::parallel::{apart, in_parallel};
use crate::progress::Progress;
use crate::sharing::Sharing;
use crate::tool_run::run_script;
use crate::tools::{Tool, Tools};
use crate::wiring::{self, Wiring};

/// A running cluster. Threads may share it.
pub(crate) struct Cluster {
    fabric: Fabric,
    addressing: Addressing,
    tools: Tools,
    features: Features,
    /// In the order of the fabric's nodes.
    doors: Vec<NodeDoor>,
    wires: Wires,
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
        make_folders(&wiring)?;
        let doors = create_nodes(&fabric, scenario.seed, progress)?;
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
        // Only now, when all carriers are there: of a carrier that comes later, routes and queues
        // learn when the kernel finds time to tell them, and pass nothing until then.
        in_nodes("addresses and routes", Tool::Ip, &|node| {
            wiring.node_script(node)
        })?;
        in_nodes("rates", Tool::Tc, &|node| wiring.rates_script(node))?;
        progress.clear();
        Ok(Self {
            fabric,
            addressing,
            tools,
            features,
            doors,
            wires,
        })
    }

    pub(crate) fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    pub(crate) fn features(&self) -> &Features {
        &self.features
    }

    /// The links to which more can happen than that their rate changes.
    pub(crate) fn wires(&self) -> &Wires {
        &self.wires
    }

    /// The interface of a port: `eth0` of a host, `swp3` of a switch.
    pub(crate) fn interface(&self, port: Port) -> String {
        wiring::interface(&self.fabric, port)
    }

    /// The address of a node: that of its NIC 0, or a switch's loopback.
    pub(crate) fn address(&self, node: NodeId) -> Ipv4Addr {
        self.addressing.of_node(&self.fabric, node)
    }

    /// All addresses from which a node may send.
    pub(crate) fn addresses(&self, node: NodeId) -> Vec<Ipv4Addr> {
        let mut addresses = self.addressing.all_of(&self.fabric, node);
        if self.fabric.node(node).role.forwards() {
            let ports = wiring::ports(&self.fabric, node);
            let on_link = |(port, link)| on_link(link, end_of(&self.fabric, link, port));
            addresses.extend(ports.map(on_link));
        }
        addresses
    }

    /// The address by which the other end of `link` reaches `at`.
    pub(crate) fn gateway(&self, link: LinkId, at: Port) -> Ipv4Addr {
        self.addressing.gateway(&self.fabric, link, at)
    }

    /// A program that will run inside the node.
    pub(crate) fn command(&self, node: NodeId, program: &str) -> Command {
        self.door(node).command(program)
    }

    /// Runs a script of `tool` in the node and returns what the tool says.
    pub(crate) fn batch(&self, node: NodeId, tool: Tool, script: &str) -> Result<String, LabError> {
        let command = self.door(node).net_command(self.tools.path(tool));
        run_script(command, tool, self.fabric.name(node), script)
    }

    /// Runs `work` on a thread inside the node's network, to open sockets there.
    pub(crate) fn inside<T: Send>(
        &self,
        node: NodeId,
        work: impl FnOnce() -> T + Send,
    ) -> Result<T, LabError> {
        let door = self.door(node);
        let on_thread = || {
            door.enter()?;
            Ok(work())
        };
        apart(on_thread)
    }

    /// All processes that live in the node, also those a person started there.
    pub(crate) fn processes(&self, node: NodeId) -> Result<Vec<Pid>, LabError> {
        let net = self
            .door(node)
            .net_link()
            .map_err(|source| LabError::EnterNode {
                node: self.fabric.name(node).to_owned(),
                source,
            })?;
        let entries = fs::read_dir("/proc").map_err(|source| LabError::ListProcesses { source })?;
        let lives_there =
            |folder: &Path| fs::read_link(folder.join("ns/net")).is_ok_and(|n| n == net);
        let found = entries.flatten().filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            lives_there(&entry.path()).then_some(Pid::from_raw(pid))
        });
        Ok(found.collect())
    }

    fn door(&self, node: NodeId) -> &NodeDoor {
        &self.doors[node.index()]
    }
}

/// Where namespaces are pinned, and /etc/hosts with the names of all nodes.
fn make_folders(wiring: &Wiring<'_>) -> Result<(), LabError> {
    const HOSTS: &str = "/run/hosts";
    let write = || -> io::Result<()> {
        fs::create_dir(NET_FOLDER)?;
        fs::create_dir(UTS_FOLDER)?;
        fs::write(HOSTS, wiring.hosts_file())
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
