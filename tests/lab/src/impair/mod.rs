//! Impairments of a link in addition to its rate: delay, loss, and loss of carrier.
//!
//! A link with such an impairment in the scenario is built as a *wire*: each of its two ports leads into the *duct*, a
//! separate network namespace with all wires, where the halves are joined. So an impairment is outside of its nodes, as
//! in a real network:
//! - when the halves go down, both ports lose carrier and stay up; addresses and routes remain and
//!   are marked as `linkdown`, and all is as before when the halves come up;
//! - a lost packet was sent, and neither the other node nor its captures see it;
//! - a delay comes after the queue of the port, not within it, so it does not limit the sender.
//!
//! nft joins the halves and drops random packets; netem delays. If the kernel lacks a feature, a relay in user space
//! replaces it. Each lab tries this once, and [`Wires::means`] reports the result.

mod line;
mod plan;
mod relay;
mod script;

use std::collections::BTreeSet;
use std::process::Command;

use reweave_common::fabric::Fabric;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::scenario::Scenario;

use self::plan::{Joint, KernelMeans, Plan};
use self::relay::{Relay, Span};
use crate::error::LabError;
use crate::features::{Feature, Features};
use crate::node::{NETNS_PATH, NodeDoor};
use crate::parallel::apart;
use crate::tool_run::run_script;
use crate::tools::{Tool, Tools};
use crate::wiring::{MTU_BYTES, Sysctl, interface, ports};

/// No node has this name: names of nodes begin with a letter or a digit.
const DUCT_NAMESPACE: &str = ".duct";
/// Minimum capacity of a relayed wire: the burst of a port.
const MIN_CAPACITY_BYTES: u64 = 4 << 20;

/// All wires of a lab.
#[derive(Debug)]
pub(crate) struct Wires {
    plan: Plan,
    /// Absent when there are no wires.
    duct: Option<Duct>,
}

/// The namespace in which the halves of wires are joined.
#[derive(Debug)]
struct Duct {
    door: NodeDoor,
    tools: Tools,
    relay: Option<Relay>,
}

impl Wires {
    /// Chooses the links that become wires, and creates their namespace.
    pub(crate) fn prepare(
        scenario: &Scenario,
        features: &Features,
        tools: &Tools,
    ) -> Result<Self, LabError> {
        let has = |feature| features.has(feature);
        let means = KernelMeans {
            nft: has(Feature::Forward) && has(Feature::RandomDrop),
            netem: has(Feature::Netem),
        };
        let plan = Plan::new(scenario, means);
        if plan.cuts_hosts_off && !has(Feature::InputDrop) {
            return Err(LabError::MissingFeature {
                feature: Feature::InputDrop,
            });
        }
        let duct = (!plan.wires.is_empty()).then(|| Duct::create(tools));
        Ok(Self {
            plan,
            duct: duct.transpose()?,
        })
    }

    /// Returns ip commands, outside the nodes, that create `link` between two ports if it is a wire.
    pub(crate) fn halves(&self, link: LinkId, ports: [&str; 2]) -> Option<String> {
        let duct = format!("{NETNS_PATH}/{DUCT_NAMESPACE}");
        let is_wire = self.plan.wires.contains_key(&link);
        is_wire.then(|| script::halves(link, ports, &duct, MTU_BYTES))
    }

    /// Returns ip commands in `node` for the ports of its wires.
    pub(crate) fn ports_script(&self, fabric: &Fabric, node: NodeId) -> String {
        let is_lossy = |link| self.plan.wires.get(&link).is_some_and(|wire| wire.lossy);
        let lossy = ports(fabric, node).filter(|(_, link)| is_lossy(*link));
        let setting = |(port, _)| script::packet_by_packet(&interface(fabric, port));
        lossy.map(setting).collect()
    }

    /// Joins the halves after they are created.
    pub(crate) fn join(&mut self, fabric: &Fabric, seed: u64) -> Result<(), LabError> {
        let Some(duct) = &mut self.duct else {
            return Ok(());
        };
        let all = self.plan.wires.keys().copied();
        duct.tell(Tool::Ip, &script::carrier(all, true))?;
        duct.tell(Tool::Tc, &delays(&self.plan, fabric))?;
        duct.tell(
            Tool::Nft,
            &script::joints(self.plan.joined_by(Joint::Kernel)),
        )?;
        duct.start_relay(spans(&self.plan, fabric, seed))
    }

    /// Sets the carrier of links: both ends of each lose it, or get it back.
    pub(crate) fn set_carrier(&self, links: &BTreeSet<LinkId>, up: bool) -> Result<(), LabError> {
        let wires = links
            .iter()
            .filter(|link| self.plan.wires.contains_key(link));
        self.tell(Tool::Ip, &script::carrier(wires.copied(), up))
    }

    /// Sets the probability with which each packet on the link is lost, in either direction.
    pub(crate) fn set_loss(&self, link: LinkId, probability: f64) -> Result<(), LabError> {
        match self.relay().and_then(|relay| relay.control(link)) {
            Some(control) => {
                control.set_loss(probability);
                Ok(())
            }
            None => self.tell(Tool::Nft, &script::loss(link, probability)),
        }
    }

    /// Describes the mechanisms of the impairments, one line each.
    pub(crate) fn means(&self) -> Vec<String> {
        let mut means = vec!["rate: tbf".to_owned()];
        let mut say = |count: usize, what: &str| {
            if count > 0 {
                means.push(format!("{what} on {}", counted(count)));
            }
        };
        let plan = &self.plan;
        say(plan.joined_by(Joint::Kernel).count(), "cable: nft forward");
        say(
            plan.joined_by(Joint::Relay).count(),
            "cable: user-space wire",
        );
        say(plan.delayed_by(Joint::Kernel), "delay: netem");
        say(plan.delayed_by(Joint::Relay), "delay: user-space wire");
        say(plan.lossy_by(Joint::Kernel), "loss: nft numgen");
        say(plan.lossy_by(Joint::Relay), "loss: user-space wire");
        if plan.undelayed > 0 {
            means.push(format!(
                "delay: none on {}, whose {:?} is less than a user-space wire can keep",
                counted(plan.undelayed),
                plan.longest_undelayed
            ));
        }
        if plan.cuts_hosts_off {
            means.push("partition: nft input drop".to_owned());
        }
        means
    }

    /// Describes the work of the wires in user space, one line each; empty if the kernel handles all.
    pub(crate) fn account(&self, fabric: &Fabric) -> Vec<String> {
        let relayed = self.plan.joined_by(Joint::Relay);
        let account = |link| {
            let passed = self.relay()?.control(link)?.passed();
            let name = fabric.link_name(link);
            (!passed.is_nothing()).then(|| format!("user-space wire {name}: {passed}"))
        };
        relayed.filter_map(account).collect()
    }

    /// Returns a command that runs a program in the namespace of the wires, if there are any.
    pub(crate) fn command(&self, program: &str) -> Option<Command> {
        Some(self.duct.as_ref()?.door.command(program))
    }

    fn relay(&self) -> Option<&Relay> {
        self.duct.as_ref()?.relay.as_ref()
    }

    fn tell(&self, tool: Tool, script: &str) -> Result<(), LabError> {
        self.duct
            .as_ref()
            .map_or(Ok(()), |duct| duct.tell(tool, script))
    }
}

fn counted(links: usize) -> String {
    let s = if links == 1 { "" } else { "s" };
    format!("{links} link{s}")
}

impl Duct {
    fn create(tools: &Tools) -> Result<Self, LabError> {
        let quiet = Sysctl {
            key: "net/ipv6/conf/default/disable_ipv6",
            value: "1".to_owned(),
            required: false,
        };
        Ok(Self {
            door: apart(|| NodeDoor::create(DUCT_NAMESPACE, &[quiet]))?,
            tools: tools.clone(),
            relay: None,
        })
    }

    /// Runs a script of the tool in the duct, unless it is empty.
    fn tell(&self, tool: Tool, script: &str) -> Result<(), LabError> {
        if !script.is_empty() {
            let command = self.door.net_command(self.tools.path(tool));
            run_script(command, tool, "the place of the wires", script)?;
        }
        Ok(())
    }

    fn start_relay(&mut self, spans: Vec<Span>) -> Result<(), LabError> {
        if spans.is_empty() {
            return Ok(());
        }
        let door = &self.door;
        let start = || {
            door.enter()?;
            Relay::start(spans).map_err(|source| LabError::Relay { source })
        };
        self.relay = Some(apart(start)?);
        Ok(())
    }
}

/// Returns tc commands for the delays that the kernel applies.
fn delays(plan: &Plan, fabric: &Fabric) -> String {
    let by_kernel = plan.joined_by(Joint::Kernel).filter_map(|link| {
        let latency = plan.wires[&link].latency;
        let rate = fabric.link(link).rate;
        (!latency.is_zero()).then(|| script::delay(link, latency, rate))
    });
    by_kernel.collect()
}

/// Returns the wires that the relay serves.
fn spans(plan: &Plan, fabric: &Fabric, seed: u64) -> Vec<Span> {
    let span = |link: LinkId| {
        let latency = plan.wires[&link].latency;
        let capacity = script::bytes_under_way(fabric.link(link).rate, latency);
        Span {
            link,
            ends: [0, 1].map(|end| script::half(link, end)),
            latency,
            capacity_bytes: capacity.max(MIN_CAPACITY_BYTES) as usize,
            seed: seed.wrapping_add(link.index() as u64),
        }
    };
    plan.joined_by(Joint::Relay).map(span).collect()
}
