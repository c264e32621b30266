//! The ways a flow could take instead of its own, and the pins that lead it there.

use reweave_common::fabric::{Fabric, Role};
use reweave_common::ids::NodeId;
use reweave_common::plan::{Move, Pin};
use reweave_common::routes::Routes;
use reweave_common::snapshot::{FlowState, Hop};

/// As many equal paths as a fat tree of switches with 32 ports has. Of more, the first are weighed.
const MOST_WAYS: usize = 256;

/// A path of a flow from end to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) hops: Vec<Hop>,
    /// Where it parts from the present path: its first hops up to here are the same.
    pub(crate) shared: usize,
    /// What holds the flow on it from there on.
    pub(crate) pins: Vec<Pin>,
}

impl Way {
    /// The one the flow takes now.
    pub(crate) fn present(hops: &[Hop]) -> Self {
        Self {
            hops: hops.to_vec(),
            shared: hops.len(),
            pins: Vec::new(),
        }
    }

    /// Leaving `present` for this way; nothing when they are the same.
    pub(crate) fn as_move(&self, flow: &FlowState, present: &Self) -> Option<Move> {
        let (&from, &to) = (present.hops.get(self.shared)?, self.hops.get(self.shared)?);
        Some(Move {
            flow: flow.flow,
            from,
            to,
        })
    }

    /// The hops that the present path does not have.
    pub(crate) fn new_hops<'a>(&'a self, present: &'a [Hop]) -> impl Iterator<Item = Hop> + 'a {
        let hops = self.hops.iter().copied();
        hops.filter(|hop| !present.contains(hop))
    }
}

/// The other shortest ways of a flow that switches can be told to take.
pub(crate) fn alternatives(
    fabric: &Fabric,
    routes: &Routes,
    flow: &FlowState,
    present: &[Hop],
) -> Vec<Way> {
    let mut walk = Walk {
        fabric,
        routes,
        to: flow.to,
        hops: Vec::new(),
        found: Vec::new(),
    };
    walk.on_from(flow.from);
    let others = walk.found.into_iter().filter(|hops| hops != present);
    let pinned = others.filter_map(|hops| pinned(fabric, routes, flow, present, hops));
    pinned.collect()
}

/// A way with its pins: one where it parts, and one wherever hashing would have a choice after
/// that. None when one of these places is no switch.
fn pinned(
    fabric: &Fabric,
    routes: &Routes,
    flow: &FlowState,
    present: &[Hop],
    hops: Vec<Hop>,
) -> Option<Way> {
    let both = hops.iter().zip(present);
    let shared = both.take_while(|(new, old)| new == old).count();
    let parts = hops.iter().enumerate().skip(shared);
    let needs_pin = |&(place, hop): &(usize, &Hop)| {
        place == shared || routes.next_hops(hop.from, flow.to).len() > 1
    };
    let pin = |(_, hop): (usize, &Hop)| {
        let is_switch = fabric.node(hop.from).role == Role::Switch;
        is_switch.then_some(Pin {
            flow: flow.flow,
            at: hop.from,
            link: hop.link,
        })
    };
    let pins = parts.filter(needs_pin).map(pin).collect::<Option<_>>()?;
    Some(Way { hops, shared, pins })
}

/// All shortest paths, in the order of their links.
struct Walk<'a> {
    fabric: &'a Fabric,
    routes: &'a Routes,
    to: NodeId,
    hops: Vec<Hop>,
    found: Vec<Vec<Hop>>,
}

impl Walk<'_> {
    fn on_from(&mut self, at: NodeId) {
        if at == self.to {
            self.found.push(self.hops.clone());
            return;
        }
        for &link in self.routes.next_hops(at, self.to) {
            if self.found.len() == MOST_WAYS {
                return;
            }
            self.hops.push(Hop { from: at, link });
            self.on_from(self.fabric.link(link).far(at).node);
            self.hops.pop();
        }
    }
}
