//! Chooses the links that need a wire, and the mechanism that joins the halves of each. Pure functions.

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_common::fabric::Fabric;
use reweave_common::ids::LinkId;
use reweave_common::scenario::{Fault, FaultKind, Scenario};

use crate::wiring::is_cable;

/// A delay shorter than this the user-space wire would miss by more than leaving it out does.
pub(super) const MIN_DELAY: Duration = Duration::from_micros(25);

/// Capabilities of the kernel for wires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KernelMeans {
    /// nft forwards between interfaces, and drops by lot.
    pub(super) nft: bool,
    /// tc delays.
    pub(super) netem: bool,
}

/// Mechanism that joins the two halves of a wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Joint {
    /// nft, and netem where the delay is not zero.
    Kernel,
    /// The relay of the lab.
    Relay,
}

/// A link that is more than a pair of interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wire {
    pub(super) joint: Joint,
    pub(super) latency: Duration,
    pub(super) lossy: bool,
}

/// All wires of a lab, and the impairments that it does not support.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) wires: BTreeMap<LinkId, Wire>,
    /// Links whose delay is too short to be added, and the longest of those delays.
    pub(super) undelayed: usize,
    pub(super) longest_undelayed: Duration,
    pub(super) cuts_hosts_off: bool,
}

/// Impairments of one link in a scenario.
#[derive(Debug, Clone, Copy, Default)]
struct Fate {
    latency: Duration,
    lossy: bool,
    cut: bool,
}

impl Plan {
    pub(super) fn new(scenario: &Scenario, means: KernelMeans) -> Self {
        let is_cut = |fault: &Fault| matches!(fault.kind, FaultKind::Partition { .. });
        let mut plan = Self {
            cuts_hosts_off: scenario.faults.iter().any(is_cut),
            ..Self::default()
        };
        for (link, fate) in fates(scenario) {
            plan.add(link, fate, means);
        }
        plan
    }

    fn add(&mut self, link: LinkId, mut fate: Fate, means: KernelMeans) {
        let in_kernel = means.nft && (means.netem || fate.latency.is_zero());
        if !in_kernel && !fate.latency.is_zero() && fate.latency < MIN_DELAY {
            self.undelayed += 1;
            self.longest_undelayed = self.longest_undelayed.max(fate.latency);
            fate.latency = Duration::ZERO;
            if fate.lossy || fate.cut {
                self.add(link, fate, means);
            }
            return;
        }
        let wire = Wire {
            joint: if in_kernel {
                Joint::Kernel
            } else {
                Joint::Relay
            },
            latency: fate.latency,
            lossy: fate.lossy,
        };
        self.wires.insert(link, wire);
    }

    /// The wires with this joint, in order.
    pub(super) fn joined_by(&self, joint: Joint) -> impl Iterator<Item = LinkId> {
        self.which(move |wire| wire.joint == joint)
    }

    pub(super) fn delayed_by(&self, joint: Joint) -> usize {
        self.which(|wire| wire.joint == joint && !wire.latency.is_zero())
            .count()
    }

    pub(super) fn lossy_by(&self, joint: Joint) -> usize {
        self.which(|wire| wire.joint == joint && wire.lossy).count()
    }

    fn which(&self, which: impl Fn(&Wire) -> bool) -> impl Iterator<Item = LinkId> {
        let wires = self.wires.iter().filter(move |(_, wire)| which(wire));
        wires.map(|(link, _)| *link)
    }
}

/// The links to which something happens.
fn fates(scenario: &Scenario) -> BTreeMap<LinkId, Fate> {
    let mut fates = delays(&scenario.fabric);
    for fault in &scenario.faults {
        if let FaultKind::LinkLoss { link, .. } = fault.kind {
            fates.entry(link).or_default().lossy = true;
        }
        for link in fault.kind.dark_links(&scenario.fabric) {
            fates.entry(link).or_default().cut = true;
        }
    }
    fates
}

fn delays(fabric: &Fabric) -> BTreeMap<LinkId, Fate> {
    let cables = fabric.links().filter(|(id, _)| is_cable(fabric, *id));
    let delayed = cables.filter(|(_, link)| !link.latency.is_zero());
    let fate = |latency| Fate {
        latency,
        ..Fate::default()
    };
    delayed.map(|(id, link)| (id, fate(link.latency))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: KernelMeans = KernelMeans {
        nft: true,
        netem: true,
    };
    const WITHOUT_NETEM: KernelMeans = KernelMeans {
        nft: true,
        netem: false,
    };
    const NO_MEANS: KernelMeans = KernelMeans {
        nft: false,
        netem: false,
    };

    /// A ring of four: links h0-h1, h1-h2, h2-h3, h3-h0.
    fn plan(latency_us: f64, faults: &str, means: KernelMeans) -> Plan {
        let text = format!(
            "name = 'n'\n[fabric]\nkind = 'direct'\nhosts = 4\nlink_gbps = 1\nstrides = [1]\n\
             latency_us = {latency_us}\n{faults}"
        );
        let scenario = Scenario::parse("s.toml", &text, |_| Err(String::new())).unwrap();
        Plan::new(&scenario, means)
    }

    fn fault(text: &str) -> String {
        format!("[[fault]]\nat_s = 1\n{text}\n")
    }

    fn wires(plan: &Plan) -> Vec<(usize, Joint, bool)> {
        let wires = plan.wires.iter();
        wires
            .map(|(link, wire)| (link.index(), wire.joint, wire.lossy))
            .collect()
    }

    #[test]
    fn unimpaired_links_need_no_wire() {
        let rate = fault("kind = 'link-rate'\nlink = ['h0', 'h1']\ngbps = 0.1");
        let stop = fault("kind = 'host-stop'\nhost = 'h0'");
        assert_eq!(plan(0.0, &(rate + &stop), ALL), Plan::default());
    }

    #[test]
    fn cut_or_lossy_links_need_wire() {
        let loss = fault("kind = 'link-loss'\nlink = ['h1', 'h2']\npercent = 1");
        let kill = fault("kind = 'host-kill'\nhost = 'h0'");
        let joined = |joint| vec![(0, joint, false), (1, joint, true), (3, joint, false)];
        assert_eq!(
            wires(&plan(0.0, &(loss.clone() + &kill), WITHOUT_NETEM)),
            joined(Joint::Kernel)
        );
        assert_eq!(
            wires(&plan(0.0, &(loss + &kill), NO_MEANS)),
            joined(Joint::Relay)
        );
    }

    #[test]
    fn kernel_delays_if_possible_else_relay() {
        let cut = fault("kind = 'partition'\na = ['h0']\nb = ['h1']");
        assert!(plan(0.0, &cut, NO_MEANS).cuts_hosts_off);
        assert_eq!(plan(100.0, "", ALL).delayed_by(Joint::Kernel), 4);
        assert_eq!(plan(100.0, "", WITHOUT_NETEM).delayed_by(Joint::Relay), 4);
        assert_eq!(plan(5.0, "", ALL).delayed_by(Joint::Kernel), 4);
    }

    #[test]
    fn too_short_delay_is_reported() {
        let cut = fault("kind = 'link-down'\nlink = ['h0', 'h1']");
        let plan = plan(5.0, &cut, WITHOUT_NETEM);
        assert_eq!(wires(&plan), [(0, Joint::Kernel, false)]);
        assert_eq!(plan.undelayed, 4);
        assert_eq!(plan.longest_undelayed, Duration::from_micros(5));
    }
}
