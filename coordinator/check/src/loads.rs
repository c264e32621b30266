//! Loads against rates: does a plan put flows where there is no room for them?
//!
//! A measured rate is what a flow got. On a full link that is less than it would take, and how much it takes elsewhere is not
//! known before it is there. So measured rates cannot tell which of two plans is better, and this judge does not try. It
//! refuses clear harm alone:
//!
//! A plan that pins flows is unsound where one direction of a link would carry more than its rate by a tenth
//! ([`MIN_OVERLOAD`]), and more of its rate than any direction carries before the plan. What would be there counts as it was
//! measured, without the flows that come and make room elsewhere.
//!
//! A flow makes room where it leaves a direction that may be full ([`MIN_FULL`]) to another flow of at least half its rate:
//! flows that share a full queue stay within a factor of two. It makes room as well where a flow that makes room takes its
//! place. All that such a flow takes on its new way it frees for others on its old one, so that by measured rates nothing is
//! lost; whether it was worth it is measured after the plan. Three flows on one link and one on another are a case of this:
//! to move one of the three is right, though the other link then adds up to a third more than its rate.
//!
//! A flow counts where its rate and all of its way are known. Any other load counts as nothing, but that what counters show
//! and no known flow accounts for may be what a flow makes room for.
//!
//! Not judged are
//! - plans that pin no further flow, or roll a change back: pins that are lifted lead nowhere or serve no more, and an operator
//!   who takes a change back wants what was there before;
//! - tables and circuits, and so the steps of a migration plan. Of several next hops a switch picks one by a hash that
//!   is not known here. And a drain, of a link that is about to fail or is worked on, has to be possible in a network
//!   that has no room as well.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::ids::{LinkId, NodeId};
use reweave_common::plan::{Pin, Plan};
use reweave_common::snapshot::{FlowState, Hop};
use reweave_common::units::Rate;

use crate::claims::DestinationForwarding;
use crate::columns::TablesByDestination;
use crate::mesh::Open;
use crate::pins::{FlowPins, by_flow};
use crate::{Network, Overload, Unsound};

/// Of a link's rate. Means of some readings are off by a few percent, and counts of payload leave headers out.
const MIN_OVERLOAD: f64 = 1.1;
/// Of a link's rate: with so much on it at times, it may be what holds its flows back.
const MIN_FULL: f64 = 0.75;

/// Every direction of a link that the plan would overload. `after` has the tables and circuits of the plan.
pub(crate) fn overloads([network, after]: [&Network<'_>; 2], plan: &Plan) -> Vec<Unsound> {
    if network.flows.is_empty() || !spreads_flows(network, plan) {
        return Vec::new();
    }
    let known = known_flows(network);
    let moved = moved_flows([network, after], plan, &known);
    let loads = LoadsByHop::of(network, &known, &moved);
    let make_room = loads.which_make_room(&moved);
    let fullest = loads.fullest();
    let mut found = Vec::new();
    for (hop, coming) in coming(&moved, &make_room) {
        let (staying, rate) = (loads.staying(hop), loads.rate(hop));
        let share = staying.saturating_add(coming.without_room) as f64 / rate;
        if share > MIN_OVERLOAD && share > fullest {
            found.push(Unsound::Overload(Overload {
                from: network.fabric.name(hop.from).to_owned(),
                link: network.fabric.link_name(hop.link),
                load: Rate::from_bits_per_s(staying.saturating_add(coming.in_all)),
                rate: network.fabric.link(hop.link).rate,
            }));
        }
    }
    found
}

/// Whether it sets new pins, and rolls no change back.
fn spreads_flows(network: &Network<'_>, plan: &Plan) -> bool {
    let in_force: BTreeSet<_> = network.pins.iter().collect();
    let is_new = |pin: &Pin| !in_force.contains(pin);
    plan.takes_back.is_none() && plan.pins.iter().any(is_new)
}

/// A flow of which the rate and the whole way are known.
#[derive(Debug, Clone, Copy)]
struct KnownFlow<'a> {
    state: &'a FlowState,
    path: &'a [Hop],
}

impl KnownFlow<'_> {
    fn bits_per_s(&self) -> u64 {
        self.state.rate.bits_per_s()
    }
}

fn known_flows<'a>(network: &Network<'a>) -> Vec<KnownFlow<'a>> {
    let pins = by_flow([network.pins, &[]]);
    let known = |state: &'a FlowState| {
        let path = state.path.as_deref()?;
        let heeds = |pins: &FlowPins| heeds_pins(path, &pins.in_force);
        let is_current = pins.get(&state.flow).is_none_or(heeds);
        (is_current && leads_there(network, state, path)).then_some(KnownFlow { state, path })
    };
    network.flows.iter().filter_map(known).collect()
}

/// A way that passes a pin without heeding it was traced before the pin was there.
fn heeds_pins(path: &[Hop], pins: &[Pin]) -> bool {
    let is_heeded = |hop: &Hop| link_at(pins, hop.from).is_none_or(|link| link == hop.link);
    path.iter().all(is_heeded)
}

fn link_at(pins: &[Pin], at: NodeId) -> Option<LinkId> {
    let pin = pins.iter().find(|pin| pin.at == at);
    pin.map(|pin| pin.link)
}

fn leads_there(network: &Network<'_>, state: &FlowState, path: &[Hop]) -> bool {
    let step = |at: NodeId, hop: &Hop| {
        let is_next = hop.from == at && network.is_at(at, hop.link);
        is_next.then(|| network.fabric.link(hop.link).far(at).node)
    };
    !path.is_empty() && path.iter().try_fold(state.from, step) == Some(state.to)
}

/// A flow that goes another way by the plan.
struct MovedFlow<'a> {
    flow: KnownFlow<'a>,
    /// As far as it is certain.
    new_path: Vec<Hop>,
}

impl MovedFlow<'_> {
    fn left(&self) -> impl Iterator<Item = Hop> {
        let is_left = move |hop: &&Hop| !self.new_path.contains(hop);
        self.flow.path.iter().filter(is_left).copied()
    }

    fn taken(&self) -> impl Iterator<Item = Hop> {
        let is_taken = move |hop: &&Hop| !self.flow.path.contains(hop);
        self.new_path.iter().filter(is_taken).copied()
    }
}

/// In the order of their destinations: the routes to one are there for all of its flows.
fn moved_flows<'a>(
    [network, after]: [&Network<'_>; 2],
    plan: &Plan,
    known: &[KnownFlow<'a>],
) -> Vec<MovedFlow<'a>> {
    let pins = by_flow([network.pins, plan.pins.as_slice()]);
    let mut by_destination: BTreeMap<NodeId, Vec<(KnownFlow<'a>, &FlowPins)>> = BTreeMap::new();
    for flow in known {
        if let Some(pins) = pins.get(&flow.state.flow) {
            let address = *flow.state.flow.destination.ip();
            let to = network.leads_to(address, flow.state.to);
            let of_destination = by_destination.entry(to).or_default();
            of_destination.push((*flow, pins));
        }
    }
    let sides = [network, after];
    let open = sides.map(Open::of);
    let tables = sides.map(|side| TablesByDestination::of(side.tables, network.fabric));
    let mut moved = Vec::new();
    for (destination, flows) in by_destination {
        let ways = [0, 1].map(|side| {
            DestinationForwarding::new(sides[side], &open[side], &tables[side], destination)
        });
        for (flow, pins) in flows {
            let new_path = path_after(network, &ways, flow, pins);
            if new_path != flow.path {
                moved.push(MovedFlow { flow, new_path });
            }
        }
    }
    moved
}

/// By its pins; where it has none, as it was measured to go as long as the next hops stay the same, or over the only next
/// hop. It ends before a choice that a hash makes.
fn path_after(
    network: &Network<'_>,
    [before, after]: &[DestinationForwarding<'_>; 2],
    flow: KnownFlow<'_>,
    pins: &FlowPins,
) -> Vec<Hop> {
    let fabric = network.fabric;
    let (mut path, mut at) = (Vec::new(), flow.state.from);
    let mut is_as_measured = true;
    while at != flow.state.to && path.len() < fabric.nodes().len() {
        let measured = flow.path.get(path.len()).map(|hop| hop.link);
        let has_same_choice =
            link_at(&pins.in_force, at).is_none() && before.next(at).eq(after.next(at));
        let is_hashed_as_before = is_as_measured && has_same_choice;
        let link = link_at(&pins.planned, at)
            .or(measured.filter(|_| is_hashed_as_before))
            .or_else(|| only_next_link(after, at))
            .or_else(|| arrival(network, flow, at));
        let Some(link) = link else {
            break;
        };
        let hop = Hop { from: at, link };
        is_as_measured &= flow.path.get(path.len()) == Some(&hop);
        path.push(hop);
        at = fabric.link(link).far(at).node;
    }
    path
}

/// The link of the NIC that the flow is for, at the switch on which it hangs.
fn arrival(network: &Network<'_>, flow: KnownFlow<'_>, at: NodeId) -> Option<LinkId> {
    let nic = network.nic_link(*flow.state.flow.destination.ip());
    nic.filter(|&link| network.leaf_at(link) == Some(at))
}

fn only_next_link(ways: &DestinationForwarding<'_>, at: NodeId) -> Option<LinkId> {
    let mut next = ways.next(at);
    let (link, _) = next.next()?;
    next.next().is_none().then_some(link)
}

/// What known flows bring to a direction of a link, in bits per second.
#[derive(Debug, Clone, Copy, Default)]
struct HopLoad {
    before: u64,
    /// The most that it may have been lately.
    before_at_times: u64,
    staying: u64,
    largest_staying: u64,
}

/// What comes to a direction of a link by the plan, in bits per second.
#[derive(Debug, Clone, Copy, Default)]
struct ComingLoad {
    in_all: u64,
    /// Of flows that make no room elsewhere.
    without_room: u64,
}

struct LoadsByHop<'a> {
    network: &'a Network<'a>,
    by_hop: BTreeMap<Hop, HopLoad>,
}

impl<'a> LoadsByHop<'a> {
    fn of(network: &'a Network<'a>, known: &[KnownFlow<'_>], moved: &[MovedFlow<'_>]) -> Self {
        let left: BTreeMap<_, BTreeSet<Hop>> = moved
            .iter()
            .map(|it| (it.flow.state.flow, it.left().collect()))
            .collect();
        let mut by_hop: BTreeMap<Hop, HopLoad> = BTreeMap::new();
        for flow in known {
            let (rate, [_, most]) = (flow.bits_per_s(), flow.state.rate_range);
            let left = left.get(&flow.state.flow);
            for hop in flow.path {
                let load = by_hop.entry(*hop).or_default();
                load.before = load.before.saturating_add(rate);
                load.before_at_times = load.before_at_times.saturating_add(most.bits_per_s());
                if left.is_none_or(|left| !left.contains(hop)) {
                    load.staying = load.staying.saturating_add(rate);
                    load.largest_staying = load.largest_staying.max(rate);
                }
            }
        }
        Self { network, by_hop }
    }

    fn load(&self, hop: Hop) -> HopLoad {
        self.by_hop.get(&hop).copied().unwrap_or_default()
    }

    fn staying(&self, hop: Hop) -> u64 {
        self.load(hop).staying
    }

    fn rate(&self, hop: Hop) -> f64 {
        self.network.fabric.link(hop.link).rate.bits_per_s() as f64
    }

    /// What the counters of its ends show.
    fn counted(&self, hop: Hop) -> u64 {
        let state = self.network.link_loads.get(&hop);
        state.map_or(0, |state| state.rate.bits_per_s())
    }

    /// The largest share of its rate that any direction of a link carries before the plan.
    fn fullest(&self) -> f64 {
        let shares = self.by_hop.iter();
        let shares = shares.map(|(hop, load)| load.before as f64 / self.rate(*hop));
        shares.fold(0.0, f64::max)
    }

    /// For each of these flows.
    fn which_make_room(&self, moved: &[MovedFlow<'_>]) -> Vec<bool> {
        let frees =
            |it: &MovedFlow<'_>| it.left().any(|hop| self.is_freed_for_others(hop, it.flow));
        let mut make_room: Vec<bool> = moved.iter().map(frees).collect();
        loop {
            let all = moved.iter().zip(&make_room);
            let making = all.filter(|(_, makes_room)| **makes_room);
            let taken: BTreeSet<Hop> = making.flat_map(|(it, _)| it.taken()).collect();
            let is_followed = |it: &MovedFlow<'_>| it.left().any(|hop| taken.contains(&hop));
            let mut has_changed = false;
            for (it, makes_room) in moved.iter().zip(&mut make_room) {
                if !*makes_room && is_followed(it) {
                    (*makes_room, has_changed) = (true, true);
                }
            }
            if !has_changed {
                return make_room;
            }
        }
    }

    /// Whether this flow was in the way of others there.
    fn is_freed_for_others(&self, hop: Hop, flow: KnownFlow<'_>) -> bool {
        let (load, counted) = (self.load(hop), self.counted(hop));
        let most = load.before_at_times.max(counted) as f64;
        let unknown = counted.saturating_sub(load.before);
        let half = flow.bits_per_s() / 2;
        most >= MIN_FULL * self.rate(hop) && load.largest_staying.max(unknown) >= half.max(1)
    }
}

fn coming(moved: &[MovedFlow<'_>], make_room: &[bool]) -> BTreeMap<Hop, ComingLoad> {
    let mut coming: BTreeMap<Hop, ComingLoad> = BTreeMap::new();
    for (it, makes_room) in moved.iter().zip(make_room) {
        let rate = it.flow.bits_per_s();
        for hop in it.taken() {
            let coming = coming.entry(hop).or_default();
            coming.in_all = coming.in_all.saturating_add(rate);
            if !makes_room {
                coming.without_room = coming.without_room.saturating_add(rate);
            }
        }
    }
    coming
}
