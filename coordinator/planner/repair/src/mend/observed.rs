//! Plausible values of a snapshot.

use reweave_common::fabric::{Fabric, Port};
use reweave_common::ids::LinkId;
use reweave_common::snapshot::{FlowState, Hop, LinkState, Snapshot};
use reweave_common::units::Rate;

use crate::Policy;
use crate::rebalance::worth;

#[derive(Clone, Copy)]
pub(super) struct Observed<'s> {
    pub(super) snapshot: &'s Snapshot,
    pub(super) policy: &'s Policy,
}

impl<'s> Observed<'s> {
    pub(super) fn fabric(&self) -> &'s Fabric {
        &self.snapshot.fabric
    }

    /// Returns the rate of a hop, reduced if it loses packets.
    pub(super) fn nominal(&self, hop: Hop) -> Rate {
        let rate = self.fabric().link(hop.link).rate;
        match self.snapshot.lossy.get(&hop.link) {
            Some(&loss) => worth(rate, loss),
            None => rate,
        }
    }

    /// Returns the load of a hop, if it was measured recently.
    pub(super) fn load(&self, hop: Hop) -> Option<Rate> {
        self.fresh(hop).map(|state| state.rate)
    }

    /// Measured, and up: no flow is sent over a hop without readings.
    pub(super) fn is_usable(&self, hop: Hop) -> bool {
        self.fresh(hop).is_some() && !self.is_closed(hop.link)
    }

    /// Whether the link carries nothing, or should carry nothing.
    pub(super) fn is_closed(&self, link: LinkId) -> bool {
        self.is_down(link) || self.snapshot.drained.contains(&link)
    }

    /// Whether either end says so.
    pub(super) fn is_down(&self, link: LinkId) -> bool {
        let ports = self.fabric().link(link).ports();
        let hops = ports.map(|Port { node: from, .. }| Hop { from, link });
        let mut states = hops.into_iter().filter_map(|hop| self.fresh(hop));
        states.any(|state| !state.up)
    }

    /// Flows whose rate and path are known, in the order of their keys, each with its path.
    pub(super) fn flows(&self) -> Vec<(&'s FlowState, &'s [Hop])> {
        let known = |flow: &'s FlowState| {
            let path = flow.path.as_deref()?;
            let sending = flow.rate.bits_per_s() > 0 && flow.age <= self.policy.most_age;
            let is_known = self.leads_there(flow, path) && self.heeds_pins(flow, path);
            (sending && is_known && self.ends_at_nic(flow, path)).then_some((flow, path))
        };
        let mut flows: Vec<_> = self.snapshot.flows.iter().filter_map(known).collect();
        flows.sort_by_key(|(state, _)| state.flow);
        flows.dedup_by_key(|(state, _)| state.flow);
        flows
    }

    /// Whether the hops join up from the sender to the receiver.
    fn leads_there(&self, flow: &FlowState, path: &[Hop]) -> bool {
        let step =
            |at, hop: &Hop| (hop.from == at).then(|| self.fabric().link(hop.link).far(at).node);
        path.iter().try_fold(flow.from, step) == Some(flow.to)
    }

    /// A path that passes a pin without heeding it was traced before the pin was there.
    fn heeds_pins(&self, flow: &FlowState, path: &[Hop]) -> bool {
        let mut pins = self
            .snapshot
            .pins
            .iter()
            .filter(|pin| pin.flow == flow.flow);
        pins.all(|pin| {
            let mut here = path.iter().filter(|hop| hop.from == pin.at);
            here.all(|hop| hop.link == pin.link)
        })
    }

    /// A path that ends at another NIC was traced before the address was moved, or the fabric is cabled in another way.
    /// While the NIC is unknown, so are the other paths of the flow, unless it is to the host's own address.
    fn ends_at_nic(&self, flow: &FlowState, path: &[Hop]) -> bool {
        let fabric = self.fabric();
        match flow.nic {
            Some(nic) => path.last().is_some_and(|hop| hop.link == nic),
            None => {
                let has_rails = fabric.has_declared_nics() && fabric.nics_of(flow.to).len() > 1;
                !has_rails || fabric.address(flow.to) == Some(*flow.flow.destination.ip())
            }
        }
    }

    fn fresh(&self, hop: Hop) -> Option<&'s LinkState> {
        let state = self.snapshot.links.get(&hop)?;
        (state.age <= self.policy.most_age).then_some(state)
    }
}
