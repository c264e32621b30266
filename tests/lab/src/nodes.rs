//! The nodes of a cluster, for all parts of the lab: the process that creates it, and later ones that run something in
//! it.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

use nix::unistd::Pid;
use reweave_common::fabric::{Fabric, Port};
use reweave_common::ids::{NicId, NodeId};

use crate::addressing::{Addressing, end_of, on_link};
use crate::error::LabError;
use crate::node::NodeDoor;
use crate::parallel::apart;
use crate::rails;
use crate::tool_run::run_script;
use crate::tools::{Tool, Tools};
use crate::wiring;

/// Access to the nodes of a running cluster. Threads can share it.
pub(crate) struct Nodes {
    pub(crate) fabric: Fabric,
    pub(crate) addressing: Addressing,
    pub(crate) tools: Tools,
    /// In the order of the fabric's nodes.
    pub(crate) doors: Vec<NodeDoor>,
}

impl Nodes {
    /// Those of the lab this process is in.
    pub(crate) fn visit(fabric: &Fabric, tools: Tools) -> Result<Self, LabError> {
        let doors = fabric.nodes().map(|(_, node)| NodeDoor::open(&node.name));
        Ok(Self {
            fabric: fabric.clone(),
            addressing: Addressing::new(fabric)?,
            tools,
            doors: doors.collect::<Result<_, _>>()?,
        })
    }

    pub(crate) fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// The interface of a port: `eth0` of a host, `swp3` of a switch.
    pub(crate) fn interface(&self, port: Port) -> String {
        wiring::interface(&self.fabric, port)
    }

    /// The address of a node: that of its NIC 0, or a switch's loopback.
    pub(crate) fn address(&self, node: NodeId) -> Ipv4Addr {
        self.addressing.of_node(&self.fabric, node)
    }

    /// The address of a host's NIC.
    pub(crate) fn nic_address(&self, nic: NicId) -> Ipv4Addr {
        let port = rails::port_of(&self.fabric, nic);
        self.addressing.of_nic(&self.fabric, port)
    }

    /// Returns all source addresses of a node.
    pub(crate) fn addresses(&self, node: NodeId) -> Vec<Ipv4Addr> {
        let mut addresses = self.addressing.all_of(&self.fabric, node);
        addresses.extend(self.addressing.loopback_of(&self.fabric, node));
        if self.fabric.node(node).role.forwards() {
            let ports = wiring::ports(&self.fabric, node);
            let on_link = |(port, link)| on_link(link, end_of(&self.fabric, link, port));
            addresses.extend(ports.map(on_link));
        }
        addresses
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

    /// Returns all processes in the node, including those that a user started there.
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
