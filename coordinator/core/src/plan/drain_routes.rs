//! Routes for links between switches that are drained, or that carry equal paths in proportion to their capacity.
//!
//! A switch that may send over such a link gets its own routes to the hosts that it reaches over others on equally
//! short paths. Packets for its other hosts are routed around the switch.
//!
//! If the fabric's file declares NICs, a table leads to leaves, each of which stands for all NICs that hang on it. A
//! host's choice of its NIC is its own: no table is for a host.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use reweave_common::fabric::{Fabric, Role};
use reweave_common::forwarding::{ForwardingTable, NextHop};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::migration_plan::Tables;
use reweave_common::plan::Plan;
use reweave_common::routes::Routes;
use reweave_repair::paths::drained;

use crate::log::maintenance;
use crate::log::state::State;
use crate::model::world::World;
use crate::plan::capacity_weights::CapacityWeights;
use crate::plan::rewire;

/// Hosts at this switch would reach that one by a longer path, or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Partitioned {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
}

/// The operator's intent for all links. Default: plain ECMP over all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LinkIntent {
    pub(crate) drained: BTreeSet<LinkId>,
    /// Weights equal paths by capacity (UCMP) instead of equally.
    pub(crate) by_worth: bool,
}

impl LinkIntent {
    /// The intent in force, with the devices under maintenance.
    pub(crate) fn in_force(fabric: &Fabric, state: &State) -> Self {
        let tables = &state.in_force().tables;
        let mut hops = of_switches(fabric, tables).flat_map(|table| table.towards.values());
        let is_uneven = |hops: &Vec<NextHop>| hops.iter().any(|it| it.weight != hops[0].weight);
        let mut drained = drained(fabric, tables);
        drained.extend(maintenance::closed(fabric, state));
        Self {
            drained,
            by_worth: hops.any(is_uneven),
        }
    }
}

pub(crate) fn plan(
    world: &World<'_>,
    state: &State,
    wish: &LinkIntent,
) -> Result<Plan, Partitioned> {
    let (fabric, in_force) = (world.fabric(), state.in_force());
    let others = in_force.tables.iter();
    let others = others.filter(|(node, _)| fabric.node(**node).role != Role::Switch);
    let mut tables: Tables = others.map(|(node, it)| (*node, it.clone())).collect();
    let leads_to = DestinationKind::of(fabric, state).destinations(fabric);
    tables.extend(carrying(world, wish, &leads_to)?);
    Ok(Plan {
        pins: in_force.pins.clone(),
        tables,
        circuits: in_force.circuits.clone(),
        ..Plan::empty(state.next_generation(), in_force.generation)
    })
}

/// The same plan for relays, which avoid these links only with routes of their own.
pub(crate) fn plan_with_relays(
    world: &World<'_>,
    state: &State,
    wish: &LinkIntent,
) -> Result<Plan, Partitioned> {
    let mut plan = plan(world, state, wish)?;
    if rewire::concerns(world.fabric(), state, &wish.drained) {
        plan.tables
            .extend(rewire::tables_without(world, state, &wish.drained)?);
    }
    Ok(plan)
}

/// Returns reasons why switches cannot hold these tables with weights.
pub(crate) fn unweighable(world: &World<'_>, tables: &Tables) -> Vec<String> {
    let is_weighted = |table: &ForwardingTable| {
        let mut hops = table.towards.values().flatten();
        hops.any(|hop| hop.weight != 1)
    };
    let lacking = world.unweighable().into_iter();
    let asked = lacking.filter(|(node, _)| tables.get(node).is_some_and(is_weighted));
    asked
        .map(|(node, because)| {
            format!(
                "{} cannot weight routes: {because}",
                world.fabric().name(node)
            )
        })
        .collect()
}

/// The minor version since which tables lead to leaves: builds before it take a switch for no destination.
pub(crate) const LEAVES_SINCE_MINOR: u16 = 2;

/// What the tables of switches lead to. All in force at one time lead to the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DestinationKind {
    /// Hosts, each by one address.
    Endpoints,
    /// Switches with NICs.
    Leaves,
}

impl DestinationKind {
    fn of(fabric: &Fabric, state: &State) -> Self {
        let tables = &state.in_force().tables;
        if of_switches(fabric, tables).next().is_some() {
            return Self::of_tables(fabric, tables);
        }
        if has_leaves(fabric) && state.cluster_version() >= LEAVES_SINCE_MINOR {
            Self::Leaves
        } else {
            Self::Endpoints
        }
    }

    pub(crate) fn of_tables(fabric: &Fabric, tables: &Tables) -> Self {
        let mut keys = of_switches(fabric, tables).flat_map(|table| table.towards.keys());
        if keys.any(|to| fabric.node(*to).role == Role::Switch) {
            Self::Leaves
        } else {
            Self::Endpoints
        }
    }

    fn destinations(self, fabric: &Fabric) -> BTreeSet<NodeId> {
        match self {
            Self::Endpoints => fabric.endpoints().collect(),
            Self::Leaves => fabric.leaf_destinations(),
        }
    }
}

/// Whether tables may lead to leaves. Circuits are moved by tables that lead to endpoints.
fn has_leaves(fabric: &Fabric) -> bool {
    fabric.has_declared_nics() && fabric.fibres().len() == 0
}

/// A host with several addresses of which routes cover some: packets to its other addresses keep their path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SplitHost {
    pub(crate) host: NodeId,
    /// None if no address of the host was chosen.
    pub(crate) routed: Option<Ipv4Addr>,
    pub(crate) others: Vec<Ipv4Addr>,
    pub(crate) remedy: SplitRemedy,
}

/// What an operator can do about a split host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SplitRemedy {
    DeclareNics,
    /// The NICs are declared, and the coordinators of this cluster version know no leaves as destinations.
    RaiseVersion,
    /// Routes by leaf lead to NICs, and the host has an address that is on none of them.
    DropAddress,
}

impl SplitHost {
    pub(crate) fn words(&self, fabric: &Fabric) -> String {
        let host = fabric.name(self.host);
        let others: Vec<_> = self.others.iter().map(ToString::to_string).collect();
        let others = others.join(", ");
        let lead = match self.routed {
            Some(routed) => format!("routes lead to {host} by its address {routed} alone"),
            None if self.remedy == SplitRemedy::DropAddress => {
                format!("routes lead to the NICs of {host} alone")
            }
            None => format!("routes lead to one address of a host, and {host} has several"),
        };
        let remedy = match self.remedy {
            SplitRemedy::DeclareNics => "declare its NICs as [[nic]]".to_owned(),
            SplitRemedy::RaiseVersion => {
                format!("each NIC is led to from cluster version 1.{LEAVES_SINCE_MINOR} on")
            }
            SplitRemedy::DropAddress => "remove its `address` from the fabric file".to_owned(),
        };
        format!("{lead}, and flows to {others} would stay where they are: {remedy}")
    }
}

/// The first host of which these tables would move some rails only. Without declared NICs, an address that belongs to
/// none of a host's NICs, such as a loopback, stands for all of them.
pub(crate) fn split_host(world: &World<'_>, tables: &Tables) -> Option<SplitHost> {
    let fabric = world.fabric();
    let keys = tables.values().flat_map(|table| table.towards.keys());
    let keys: BTreeSet<_> = keys.copied().collect();
    let mut keys = keys.into_iter();
    keys.find_map(|to| match fabric.node(to).role {
        Role::Host => split_by_host(world, to),
        Role::Switch => split_by_leaf(world, to),
        Role::Relay => None,
    })
}

fn split_by_host(world: &World<'_>, host: NodeId) -> Option<SplitHost> {
    let fabric = world.fabric();
    let routed = fabric.address(host);
    let (own, others): (Vec<_>, Vec<_>) = world
        .wiring
        .addresses_of(host)
        .partition(|address| Some(*address) == routed);
    let is_split = match routed {
        Some(_) => !own.is_empty() && !others.is_empty(),
        None => others.len() > 1,
    };
    let remedy = if fabric.has_declared_nics() {
        SplitRemedy::RaiseVersion
    } else {
        SplitRemedy::DeclareNics
    };
    is_split.then_some(SplitHost {
        host,
        routed,
        others,
        remedy,
    })
}

/// A host behind the leaf whose own address belongs to several NICs together, and so to no leaf.
fn split_by_leaf(world: &World<'_>, leaf: NodeId) -> Option<SplitHost> {
    let fabric = world.fabric();
    fabric.nics_behind(leaf).find_map(|nic| {
        let host = nic.host;
        let address = fabric.address(host)?;
        let is_of_nic = world.wiring.nics().contains_key(&address);
        let is_split = !is_of_nic && fabric.nics_of(host).len() > 1;
        is_split.then_some(SplitHost {
            host,
            routed: None,
            others: vec![address],
            remedy: SplitRemedy::DropAddress,
        })
    })
}

/// Those of these links that packets of some host may still use with these tables, now or once links that are down
/// come up.
pub(crate) fn crossed(
    world: &World<'_>,
    state: &State,
    tables: &Tables,
    links: &BTreeSet<LinkId>,
) -> BTreeSet<LinkId> {
    let mut closed: BTreeSet<_> = world.down().difference(links).copied().collect();
    closed.extend(dark(world, state));
    let network = Network::without(world, tables, &closed);
    let mut crossed = BTreeSet::new();
    let ends = network.destinations.iter().copied();
    for to in ends.clone().filter(|to| network.leads_over(links, *to)) {
        let others = ends.clone().filter(|from| *from != to);
        network.walk(others, to, |link| {
            if links.contains(&link) {
                crossed.insert(link);
            }
        });
    }
    crossed
}

fn dark(world: &World<'_>, state: &State) -> BTreeSet<LinkId> {
    let fabric = world.fabric();
    fabric.dark(&state.in_force().circuits_of(fabric))
}

/// The next hops of each node: by tables, otherwise by the network's own routes.
pub(crate) struct Network<'n> {
    fabric: &'n Fabric,
    tables: &'n Tables,
    /// By leaf if the fabric's file declares NICs, unless these tables lead to hosts.
    destinations: BTreeSet<NodeId>,
    own: Routes,
}

impl<'n> Network<'n> {
    /// Returns the network with these tables, and with the links that are down now.
    pub(crate) fn now(world: &'n World<'_>, state: &State, tables: &'n Tables) -> Self {
        let mut closed = world.down();
        closed.extend(dark(world, state));
        Self::without(world, tables, &closed)
    }

    fn without(world: &'n World<'_>, tables: &'n Tables, closed: &BTreeSet<LinkId>) -> Self {
        let fabric = world.fabric();
        let has_tables = of_switches(fabric, tables).next().is_some();
        let kind = if has_leaves(fabric) && !has_tables {
            DestinationKind::Leaves
        } else {
            DestinationKind::of_tables(fabric, tables)
        };
        let destinations = kind.destinations(fabric);
        Self {
            fabric,
            tables,
            own: Routes::to_each(fabric, closed, destinations.iter().copied()),
            destinations,
        }
    }

    /// All links that packets from these nodes may use. Where routes lead to leaves, these are packets from and for any
    /// NIC of a host.
    pub(crate) fn passed(
        &self,
        from: impl IntoIterator<Item = NodeId>,
        to: NodeId,
    ) -> BTreeSet<LinkId> {
        let mut passed = BTreeSet::new();
        let from = from.into_iter().flat_map(|from| self.stood_for(from));
        let from: BTreeSet<_> = from.collect();
        for to in self.stood_for(to) {
            self.walk(from.iter().copied(), to, |link| {
                passed.insert(link);
            });
        }
        passed
    }

    /// The leaves of a host's NICs, if routes lead to these. Otherwise the node itself.
    fn stood_for(&self, node: NodeId) -> Vec<NodeId> {
        let nics = self.fabric.nics_of(node).iter();
        let leaves = nics.filter_map(|&nic| self.fabric.leaf_of(nic));
        let leaves: Vec<_> = leaves.collect();
        if leaves.is_empty() || self.destinations.contains(&node) {
            vec![node]
        } else {
            leaves
        }
    }

    /// Whether packets that reach either end may use any of these links.
    fn leads_over(&self, links: &BTreeSet<LinkId>, to: NodeId) -> bool {
        links.iter().any(|&link| {
            let ends = self.fabric.link(link).ports().map(|port| port.node);
            let mut ends = ends.into_iter().filter(|at| *at != to);
            ends.any(|at| self.hops(at, to).any(|it| it == link))
        })
    }

    fn walk(
        &self,
        from: impl IntoIterator<Item = NodeId>,
        to: NodeId,
        mut pass: impl FnMut(LinkId),
    ) {
        let mut open: Vec<_> = from.into_iter().collect();
        let mut seen = vec![false; self.fabric.nodes().len()];
        open.iter().for_each(|at| seen[at.index()] = true);
        while let Some(at) = open.pop() {
            for link in self.hops(at, to) {
                pass(link);
                let next = self.fabric.link(link).far(at).node;
                if next != to && !std::mem::replace(&mut seen[next.index()], true) {
                    open.push(next);
                }
            }
        }
    }

    fn hops(&self, at: NodeId, to: NodeId) -> impl Iterator<Item = LinkId> {
        let table = self.tables.get(&at);
        let own_hops = table.and_then(|table| table.towards.get(&to));
        let own = match own_hops {
            Some(_) => &[],
            None => self.own.next_hops(at, to),
        };
        let own_hops = own_hops.into_iter().flatten().map(|hop| hop.link);
        own_hops.chain(own.iter().copied())
    }
}

/// The same intent with links down that its routes use: nothing else removes such routes. If no other path is as
/// short, the network's own routes remain.
pub(crate) fn renewed(world: &World<'_>, state: &State) -> Option<Plan> {
    let (fabric, tables) = (world.fabric(), &state.in_force().tables);
    of_switches(fabric, tables).next()?;
    let wish = LinkIntent::in_force(fabric, state);
    let closed = |link: &LinkId| wish.drained.contains(link);
    if wish == LinkIntent::default() || world.down().iter().all(closed) {
        return None;
    }
    let replanned =
        plan(world, state, &wish).or_else(|_| plan(world, state, &LinkIntent::default()));
    replanned
        .ok()
        .filter(|plan| lead_elsewhere(tables, &plan.tables))
}

/// Whether some of the old routes are missing in the new ones.
fn lead_elsewhere(old: &Tables, new: &Tables) -> bool {
    old.values().any(|table| {
        let replanned = new.get(&table.at);
        table.towards.iter().any(|(&to, hops)| {
            let replanned = replanned.map_or(&[][..], |replanned| replanned.next_hops(to));
            let is_gone = |hop: &NextHop| !replanned.iter().any(|it| it.link == hop.link);
            hops.iter().any(is_gone)
        })
    })
}

fn of_switches<'t>(
    fabric: &'t Fabric,
    tables: &'t Tables,
) -> impl Iterator<Item = &'t ForwardingTable> {
    let is_switch = |table: &&ForwardingTable| fabric.node(table.at).role == Role::Switch;
    tables.values().filter(is_switch)
}

/// The tables that switches hold for this intent; everything else is routed as before.
fn carrying(
    world: &World<'_>,
    wish: &LinkIntent,
    leads_to: &BTreeSet<NodeId>,
) -> Result<Tables, Partitioned> {
    if *wish == LinkIntent::default() {
        return Ok(Tables::new());
    }
    let (fabric, down) = (world.fabric(), world.down());
    if let Some(cut_off) = cut_nic(fabric, wish, leads_to) {
        return Err(cut_off);
    }
    let routes = |closed: &BTreeSet<LinkId>| {
        let leads_to = leads_to.iter().copied();
        Routes::to_each(fabric, closed, leads_to)
    };
    let around = routes(&down.union(&wish.drained).copied().collect());
    let may_come_up = down.difference(&wish.drained).copied().collect();
    let weights = || CapacityWeights::new(world, &around, leads_to);
    let ways = RoutesAroundDrain {
        fabric,
        leads_to,
        own: routes(&down),
        soon: routes(&may_come_up),
        worths: wish.by_worth.then(weights),
        around: &around,
    };
    let switches = fabric.nodes().filter(|(_, node)| node.role == Role::Switch);
    let tables = switches.map(|(at, _)| ways.table(at));
    let tables: Vec<_> = tables.collect::<Result<_, _>>()?;
    let needed = tables.into_iter().filter(|table| !table.towards.is_empty());
    Ok(needed.map(|table| (table.at, table)).collect())
}

/// The first NIC whose cable is to carry nothing, if routes lead to its leaf: none leads around its cable.
fn cut_nic(fabric: &Fabric, wish: &LinkIntent, leads_to: &BTreeSet<NodeId>) -> Option<Partitioned> {
    let mut nics = wish.drained.iter().filter_map(|&link| fabric.nic_at(link));
    nics.find_map(|nic| {
        let (leaf, host) = (fabric.leaf_of(nic)?, fabric.nic(nic).host);
        let is_led_to = leads_to.contains(&leaf);
        is_led_to.then_some(Partitioned {
            from: leaf,
            to: host,
        })
    })
}

struct RoutesAroundDrain<'f> {
    fabric: &'f Fabric,
    leads_to: &'f BTreeSet<NodeId>,
    own: Routes,
    /// The network's own routes once drained links that are down come up.
    soon: Routes,
    around: &'f Routes,
    worths: Option<CapacityWeights<'f>>,
}

impl RoutesAroundDrain<'_> {
    fn table(&self, at: NodeId) -> Result<ForwardingTable, Partitioned> {
        let mut table = ForwardingTable {
            at,
            towards: Default::default(),
            raises: Vec::new(),
        };
        for &to in self.leads_to {
            if let Some(hops) = self.other_hops(at, to)? {
                table.towards.insert(to, hops);
            }
        }
        Ok(table)
    }

    /// Returns none if all next hops stay, or no node sends there any longer.
    fn other_hops(&self, at: NodeId, to: NodeId) -> Result<Option<Vec<NextHop>>, Partitioned> {
        let is_as_short = self.around.hops(at, to) == self.own.hops(at, to);
        if !is_as_short && self.has_hosts(at) {
            return Err(Partitioned { from: at, to });
        }
        let links = self.around.next_hops(at, to);
        let hops = match &self.worths {
            Some(worths) => worths.weighed(at, to, links),
            None => evenly(links),
        };
        let by_itself = |own: &Routes| hops == evenly(own.next_hops(at, to));
        let differs = !by_itself(&self.own) || !by_itself(&self.soon);
        let leads_there = is_as_short && !links.is_empty();
        Ok((leads_there && differs).then_some(hops))
    }

    fn has_hosts(&self, at: NodeId) -> bool {
        let mut links = self.fabric.links_of(at).iter();
        links.any(|link| {
            let far = self.fabric.link(*link).far(at).node;
            self.fabric.node(far).role.is_endpoint()
        })
    }
}

fn evenly(links: &[LinkId]) -> Vec<NextHop> {
    let hop = |&link: &LinkId| NextHop { link, weight: 1 };
    links.iter().map(hop).collect()
}
