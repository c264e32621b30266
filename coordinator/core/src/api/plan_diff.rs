//! The changes of a plan against the state in force, line by line, for review.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::{Crossing, Fabric, Role};
use reweave_common::forwarding::{ForwardingTable, NextHop};
use reweave_common::ids::NodeId;
use reweave_common::operator::{Joint, Line, Pin, Ranks, Tag, What};
use reweave_common::plan::{self, Plan};

use crate::log::state::InForce;
use crate::plan::migration::{crossings, meet};

type Routes = BTreeMap<NodeId, Vec<NextHop>>;

pub(crate) fn changes(fabric: &Fabric, in_force: &InForce, plan: &Plan) -> Vec<Line> {
    let diff = Diff {
        fabric,
        in_force,
        plan,
    };
    let lines = diff.circuits().into_iter();
    let lines = lines.chain(diff.routes()).chain(diff.pins());
    lines.chain(diff.ranks()).collect()
}

struct Diff<'a> {
    fabric: &'a Fabric,
    in_force: &'a InForce,
    plan: &'a Plan,
}

impl Diff<'_> {
    /// Removed circuits come first: a circuit that reuses their ports has to wait for them.
    fn circuits(&self) -> Vec<Line> {
        let before = crossings(&self.in_force.circuits_of(self.fabric));
        let mut after = self.in_force.circuits_of(self.fabric);
        after.extend(self.plan.circuits.clone());
        let after = crossings(&after);
        let gone: Vec<_> = before.difference(&after).copied().collect();
        let gone_lines = gone.iter().map(|old| Line {
            what: What::Disconnect(self.joint(*old)),
            tag: needs_drain(self.is_a_link(*old)),
        });
        let new_lines = after.difference(&before).map(|new| Line {
            what: What::Connect(self.joint(*new)),
            tag: needs_drain(gone.iter().any(|old| meet(old, new))),
        });
        gone_lines.chain(new_lines).collect()
    }

    fn routes(&self) -> Vec<Line> {
        let (before, after) = (&self.in_force.tables, &self.plan.tables);
        let nodes: BTreeSet<_> = before.keys().chain(after.keys()).copied().collect();
        let line = |node| {
            let changed = changed(&routes(before.get(&node)), &routes(after.get(&node)));
            let towards = endpoints(self.fabric, changed).len() as u32;
            let node = self.fabric.name(node).to_owned();
            (towards > 0).then_some(Line {
                what: What::Routes { node, towards },
                tag: Tag::LiveSafe,
            })
        };
        nodes.into_iter().filter_map(line).collect()
    }

    fn pins(&self) -> Vec<Line> {
        let (before, after) = (&self.in_force.pins, &self.plan.pins);
        let named = |pin: &plan::Pin| Pin::named(pin, self.fabric);
        let gone = before.iter().filter(|pin| !after.contains(pin));
        let gone = gone.map(|pin| What::Unpin(named(pin)));
        let new = after.iter().filter(|pin| !before.contains(pin));
        let new = new.map(|pin| What::Pin(named(pin)));
        let tag = Tag::LiveSafe;
        gone.chain(new).map(|what| Line { what, tag }).collect()
    }

    /// A running job keeps its present order.
    fn ranks(&self) -> impl Iterator<Item = Line> {
        self.plan.orders.iter().map(|order| {
            let hosts = order.after.iter();
            let what = What::Ranks(Ranks {
                job: order.job.clone(),
                order: hosts.map(|&it| self.fabric.name(it).to_owned()).collect(),
                ring_bits_per_s: order.ring,
            });
            let tag = Tag::NextRestart;
            Line { what, tag }
        })
    }

    fn joint(&self, Crossing { optical, circuit }: Crossing) -> Joint {
        let fibres = circuit.ports().map(|port| self.fabric.fibre(optical, port));
        let end = |fibre: &reweave_common::fabric::Fibre| {
            format!("{} of {}", fibre.interface, self.fabric.name(fibre.node))
        };
        Joint {
            optical: self.fabric.optical(optical).name.clone(),
            circuit,
            ends: fibres.into_iter().flatten().map(end).collect(),
        }
    }

    /// Whether the circuit makes a link: both ends have a fibre.
    fn is_a_link(&self, Crossing { optical, circuit }: Crossing) -> bool {
        let plugged = |port| self.fabric.fibre(optical, port).is_some();
        circuit.ports().into_iter().all(plugged)
    }
}

fn needs_drain(does: bool) -> Tag {
    if does { Tag::NeedsDrain } else { Tag::LiveSafe }
}

fn routes(table: Option<&ForwardingTable>) -> Routes {
    table.map_or_else(Routes::new, |table| table.towards.clone())
}

/// The destinations to which two tables lead by other hops.
fn changed(before: &Routes, after: &Routes) -> BTreeSet<NodeId> {
    let destinations = before.keys().chain(after.keys()).copied();
    destinations
        .filter(|to| before.get(to) != after.get(to))
        .collect()
}

/// These destinations, and the hosts with NICs at those that are switches.
fn endpoints(fabric: &Fabric, destinations: BTreeSet<NodeId>) -> BTreeSet<NodeId> {
    let is_leaf = |to: &NodeId| fabric.node(*to).role == Role::Switch;
    let (leaves, mut endpoints): (BTreeSet<_>, BTreeSet<_>) =
        destinations.into_iter().partition(is_leaf);
    let nics = leaves.into_iter().flat_map(|leaf| fabric.nics_behind(leaf));
    endpoints.extend(nics.map(|nic| nic.host));
    endpoints
}
