//! What can befall a link beyond its rate: it takes time, it loses packets, its cable is pulled.
//!
//! A link to which one of these happens in the course of a scenario is built as a *wire*: each of
//! its two ports leads into the *duct*, a network namespace apart where all wires lie, and there
//! the halves are joined. So what befalls a wire stays out of its nodes' sight, as with a real one:
//! - when the halves go down, both ports lose carrier and stay up; addresses and routes remain and
//!   are marked as `linkdown`, and all is as before when the halves come up;
//! - what is lost was sent and is never seen by the other node, not by its captures either;
//! - a delay comes after the queue of the port, not within it, so it holds back no sender.
//!
//! nft joins the halves and draws the lots; netem delays. What the kernel has not, a relay of our
//! own does. Which it is, is found out by trying, once per lab, and reported by [`Wires::means`].

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

/// No node has this name: theirs begin with a letter or a digit.
const DUCT_NAMESPACE: &str = ".duct";
/// The least a wire of the relay holds: what a port sends in a burst.
const MIN_CAPACITY_BYTES: u64 = 4 << 20;

/// All wires of a lab.
#[derive(Debug)]
pub(crate) struct Wires {
    plan: Plan,
    /// Absent when there are no wires.
    duct: Option<Duct>,
}

/// The place where the halves of wires are joined.
#[derive(Debug)]
struct Duct {
    door: NodeDoor,
    tools: Tools,
    relay: Option<Relay>,
}

impl Wires {
    /// Decides which links are wires, and makes the place for them.
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

    /// For ip, outside the nodes: how to make `link` between two ports, if it is a wire.
    pub(crate) fn halves(&self, link: LinkId, ports: [&str; 2]) -> Option<String> {
        let duct = format!("{NETNS_PATH}/{DUCT_NAMESPACE}");
        let is_wire = self.plan.wires.contains_key(&link);
        is_wire.then(|| script::halves(link, ports, &duct, MTU_BYTES))
    }

    /// For ip, in `node`: what the wires that end there ask of their ports.
    pub(crate) fn ports_script(&self, fabric: &Fabric, node: NodeId) -> String {
        let is_lossy = |link| self.plan.wires.get(&link).is_some_and(|wire| wire.lossy);
        let lossy = ports(fabric, node).filter(|(_, link)| is_lossy(*link));
        let setting = |(port, _)| script::packet_by_packet(&interface(fabric, port));
        lossy.map(setting).collect()
    }

    /// Joins the halves, once they are made.
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

    /// The cables are pulled, or put back: both ends of each lose carrier, or have it again.
    pub(crate) fn set_carrier(&self, links: &BTreeSet<LinkId>, up: bool) -> Result<(), LabError> {
        let wires = links
            .iter()
            .filter(|link| self.plan.wires.contains_key(link));
        self.tell(Tool::Ip, &script::carrier(wires.copied(), up))
    }

    /// From now on each packet on the link is lost with this probability, either way.
    pub(crate) fn set_loss(&self, link: LinkId, probability: f64) -> Result<(), LabError> {
        match self.relay().and_then(|relay| relay.control(link)) {
            Some(control) => {
                control.set_loss(probability);
                Ok(())
            }
            None => self.tell(Tool::Nft, &script::loss(link, probability)),
        }
    }

    /// By what means what befalls the links is brought about; one line for each.
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

    /// How well the user-space wires did, one line for each; nothing where the kernel does it all.
    pub(crate) fn account(&self, fabric: &Fabric) -> Vec<String> {
        let relayed = self.plan.joined_by(Joint::Relay);
        let account = |link| {
            let passed = self.relay()?.control(link)?.passed();
            let name = fabric.link_name(link);
            (!passed.is_nothing()).then(|| format!("user-space wire {name}: {passed}"))
        };
        relayed.filter_map(account).collect()
    }

    /// A program in the place where the wires lie, if there are any.
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

    /// Runs a script of the tool in the duct, if there is anything in it.
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

/// For tc: the delays that are the kernel's to keep.
fn delays(plan: &Plan, fabric: &Fabric) -> String {
    let by_kernel = plan.joined_by(Joint::Kernel).filter_map(|link| {
        let latency = plan.wires[&link].latency;
        let rate = fabric.link(link).rate;
        (!latency.is_zero()).then(|| script::delay(link, latency, rate))
    });
    by_kernel.collect()
}

/// The wires that are the relay's to serve.
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
