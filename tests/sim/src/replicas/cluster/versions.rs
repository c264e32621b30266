//! Coordinators go back to the release before, one after the other, once an operator has lowered the cluster version.

use std::time::Duration;

use reweave_core::{LATEST_MINOR, Phase};
use reweave_replica::{MemberId, Saved};

use super::Cluster;
use crate::chance::Chance;
use crate::replicas::node::{Node, is_readable};

const PREVIOUS_MINOR: u16 = LATEST_MINOR - 1;
const UPGRADE_DOWNTIME: Duration = Duration::from_millis(20);
/// Share of operator requests that lower the version, or return the policy first.
const DOWNGRADE_SHARE: f64 = 0.1;

impl Cluster {
    /// Creates a cluster of this release whose coordinators restart with the previous one when allowed.
    pub fn downgraded(seed: u64, nodes: u64, clients: usize) -> Self {
        let mut cluster = Self::empty(seed, clients);
        cluster.goes_back = Some(Chance::of(seed ^ 0x0d09_624d));
        (cluster.gossip.steers, cluster.gossip.sets) = (true, true);
        cluster.gossip.lowers = DOWNGRADE_SHARE;
        cluster.found(nodes);
        cluster.begin();
        cluster
    }

    pub fn goes_back(&self) -> bool {
        self.goes_back.is_some()
    }

    /// One of the members that may go back to the earlier release does so after a random delay.
    pub fn go_back_now_and_then(&mut self) {
        if self.goes_back.as_mut().is_some_and(|it| it.happens(0.4)) {
            let mut nodes = self.nodes.iter();
            let found = nodes.find(|(_, node)| may_go_back(node));
            if let Some(id) = found.map(|(&id, _)| id) {
                self.go_back(id);
            }
        }
    }

    /// People want nothing else any longer.
    pub fn insist_on_going_back(&mut self) {
        self.gossip.lowers = 1.0;
    }

    pub fn is_lowered(&self) -> bool {
        self.agreed.state().cluster_version() == PREVIOUS_MINOR
    }

    /// Whether no plan is running, which would prevent a downgrade.
    pub fn is_idle(&self) -> bool {
        let mut rollouts = self.agreed.state().rollouts();
        rollouts.all(|it| it.phase == Phase::Proposed)
    }

    /// Whether all do, or have.
    pub fn may_all_go_back(&self) -> bool {
        let may = |node: &Node| node.reads == PREVIOUS_MINOR || may_go_back(node);
        let of_member = |MemberId(id): &MemberId| self.nodes.get(id).is_some_and(may);
        let members = self.members();
        members.is_some_and(|members| members.of.keys().all(of_member))
    }

    /// The rest of them, at once.
    pub fn go_back_all(&mut self) {
        let later = self.nodes.iter().filter(|(_, node)| may_go_back(node));
        let later: Vec<_> = later.map(|(&id, _)| id).collect();
        later.into_iter().for_each(|id| self.go_back(id));
    }

    /// Whether the release before leads.
    pub fn is_led_by_earlier(&self) -> bool {
        let mut nodes = self.nodes.values();
        nodes.any(|node| node.leads().is_some() && node.reads == PREVIOUS_MINOR)
    }

    /// Starts a node with the previous release, which cannot read the others' decisions.
    pub fn enter_too_early(&mut self, saved: &Saved) {
        self.enter_as(saved, PREVIOUS_MINOR);
        if let Some(node) = self.nodes.get_mut(&saved.member.0) {
            node.is_too_early = true;
        }
    }

    /// The same, with what is on its disk.
    pub fn come_back_too_early(&mut self, id: u64) {
        self.kill(id, UPGRADE_DOWNTIME);
        if let Some(node) = self.nodes.get_mut(&id) {
            (node.reads, node.is_too_early) = (PREVIOUS_MINOR, true);
        }
    }

    /// Restarts a node with this release.
    pub fn come_back_upgraded(&mut self, id: u64) {
        if let Some(node) = self.nodes.get_mut(&id) {
            (node.reads, node.is_too_early) = (LATEST_MINOR, false);
        }
        self.start(id);
    }

    fn go_back(&mut self, id: u64) {
        self.kill(id, UPGRADE_DOWNTIME);
        if let Some(node) = self.nodes.get_mut(&id) {
            node.reads = PREVIOUS_MINOR;
            self.went_back += 1;
        }
    }
}

/// Whether the previous release would start from this disk: its log must begin after the version was lowered. A log
/// without a beginning does not say that.
fn may_go_back(node: &Node) -> bool {
    let runs = node.reads == LATEST_MINOR && node.running.is_some();
    let may_read = |saved: Saved| saved.snapshot.index > 0 && is_readable(&saved, PREVIOUS_MINOR);
    runs && node.saved().is_some_and(may_read)
}
