//! Reads and changes the pins in a kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::route::RouteMessage;
use netlink_packet_route::rule::RuleMessage;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::errno::Errno;
use reweave_agent_core::reconcile::{RuleOp, reconcile};
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::sample::PinRule;
use thiserror::Error;

use super::messages::{self, NextHop, PIN_TABLES, ROUTES_TABLE};
use super::retry::{AtKernel, again};
use super::{Link, NetlinkError, RouteSocket, unless};

#[derive(Debug, Error)]
pub enum PinError {
    #[error("cannot read the pins")]
    Read(#[from] NetlinkError),
    #[error("{flow} is pinned twice")]
    PinnedTwice { flow: FlowKey },
    #[error("no interface {name}")]
    NoSuchInterface { name: String },
    #[error("interface {name} is down")]
    InterfaceDown { name: String },
    #[error("all private routing tables are in use")]
    NoFreeTable,
    #[error("next hop {} over {}", pin.next_hop, pin.interface)]
    AddRoute {
        pin: Box<PinRule>,
        source: NetlinkError,
    },
    #[error("pin of {flow}")]
    AddRule { flow: FlowKey, source: NetlinkError },
    #[error("cannot remove obsolete entries")]
    Remove { source: NetlinkError },
}

impl AtKernel for PinError {
    fn at_kernel(&self) -> Option<&NetlinkError> {
        match self {
            Self::Read(source)
            | Self::AddRoute { source, .. }
            | Self::AddRule { source, .. }
            | Self::Remove { source } => Some(source),
            _ => None,
        }
    }
}

/// Everything that a kernel holds under Reweave's protocol number.
#[derive(Debug, Default)]
pub struct KernelState {
    /// Rules whose table has a route.
    pins: BTreeMap<PinRule, RuleMessage>,
    /// Rules that are no pins, or whose table has no route.
    strays: Vec<RuleMessage>,
    /// The table of each next hop.
    tables: BTreeMap<NextHop, u32>,
    routes: Vec<RouteMessage>,
}

impl KernelState {
    pub fn pins(&self) -> Vec<PinRule> {
        self.pins.keys().cloned().collect()
    }

    /// Whether there is nothing but pins, and no unused table.
    pub fn is_tidy(&self) -> bool {
        let pins = self.pins.keys();
        let hops: BTreeSet<_> = pins.map(|pin| (&pin.interface, pin.next_hop)).collect();
        self.strays.is_empty() && hops.len() == self.routes.len()
    }

    /// A route in the table of a stray rule would activate that rule.
    fn taken_tables(&self) -> BTreeSet<u32> {
        let by_routes = self.routes.iter().filter_map(messages::table);
        let by_strays = self.strays.iter().filter_map(messages::table_of);
        by_routes.chain(by_strays).collect()
    }
}

impl RouteSocket {
    pub fn pins(&mut self) -> Result<KernelState, NetlinkError> {
        let links = self.links()?;
        self.held(&links)
    }

    /// Installs exactly these pins under our protocol number. If one fails, those before it may have been changed
    /// already.
    pub fn hold(&mut self, desired: &[PinRule]) -> Result<(), PinError> {
        refuse_twice(desired)?;
        again(|| self.try_to_pin(desired))
    }

    fn try_to_pin(&mut self, desired: &[PinRule]) -> Result<(), PinError> {
        let links = self.links()?;
        let mut held = self.held(&links)?;
        for op in reconcile(desired, &held.pins()) {
            match op {
                RuleOp::Add(pin) => self.add(&pin, &links, &mut held)?,
                RuleOp::Remove(pin) => self.remove_pin(&pin, &held)?,
            }
        }
        for stray in held.strays {
            self.remove(RouteNetlinkMessage::DelRule(stray))?;
        }
        self.remove_idle_routes()
    }

    /// Whether this user may pin: the kernel checks the permission before it looks for the rule to remove.
    pub fn may_pin(&mut self) -> Result<(), NetlinkError> {
        let nobodys = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 9);
        let flow = FlowKey {
            protocol: Protocol::Udp,
            source: nobodys,
            destination: nobodys,
        };
        let rule = RouteNetlinkMessage::DelRule(messages::rule(&flow, *PIN_TABLES.start()));
        unless(self.socket.change("change rules", rule, 0), Errno::ENOENT)
    }

    /// The pins, for a caller that has just listed the interfaces.
    pub(crate) fn held(&mut self, links: &[Link]) -> Result<KernelState, NetlinkError> {
        let routes = self.our_routes()?;
        let private = routes.iter().filter_map(messages::private);
        let next_hops: BTreeMap<u32, NextHop> = private.collect();
        let mut held = KernelState {
            tables: next_hops
                .iter()
                .map(|(table, hop)| (*hop, *table))
                .collect(),
            routes,
            ..KernelState::default()
        };
        for rule in self.our_rules()? {
            match pin(&rule, &next_hops, links) {
                Some(pin) => drop(held.pins.insert(pin, rule)),
                None => held.strays.push(rule),
            }
        }
        Ok(held)
    }

    pub(super) fn all_our_rules(&mut self) -> Result<Vec<RuleMessage>, NetlinkError> {
        let mut request = RuleMessage::default();
        request.header.family = AddressFamily::Inet;
        let request = RouteNetlinkMessage::GetRule(request);
        let listed = self.socket.dump("list its rules", &request)?;
        let rules = listed.into_iter().filter_map(|message| match message {
            RouteNetlinkMessage::NewRule(rule) => Some(rule),
            _ => None,
        });
        Ok(rules.filter(messages::is_our_rule).collect())
    }

    /// Rules of pins, without the one that activates our routes.
    fn our_rules(&mut self) -> Result<Vec<RuleMessage>, NetlinkError> {
        let mut rules = self.all_our_rules()?;
        rules.retain(|rule| !messages::is_routes_rule(rule));
        Ok(rules)
    }

    /// Those of pins.
    fn our_routes(&mut self) -> Result<Vec<RouteMessage>, NetlinkError> {
        let mut routes = self.all_our_routes()?;
        routes.retain(|route| messages::table(route) != Some(ROUTES_TABLE));
        Ok(routes)
    }

    pub(super) fn all_our_routes(&mut self) -> Result<Vec<RouteMessage>, NetlinkError> {
        let request = RouteNetlinkMessage::GetRoute(messages::all_our_routes());
        let listed = self.socket.dump("list its private routes", &request)?;
        let routes = listed.into_iter().filter_map(|message| match message {
            RouteNetlinkMessage::NewRoute(route) => Some(route),
            _ => None,
        });
        Ok(routes.filter(messages::is_ours).collect())
    }

    fn add(
        &mut self,
        pin: &PinRule,
        links: &[Link],
        held: &mut KernelState,
    ) -> Result<(), PinError> {
        let table = self.table_to(pin, links, held)?;
        let request = RouteNetlinkMessage::NewRule(messages::rule(&pin.flow, table));
        let added = self
            .socket
            .change("add a rule", request, NLM_F_CREATE | NLM_F_EXCL);
        unless(added, Errno::EEXIST).map_err(|source| PinError::AddRule {
            flow: pin.flow,
            source,
        })
    }

    /// The table of the pin's next hop: the existing one, or a new one.
    fn table_to(
        &mut self,
        pin: &PinRule,
        links: &[Link],
        held: &mut KernelState,
    ) -> Result<u32, PinError> {
        let next_hop = next_hop(pin, links)?;
        if let Some(table) = held.tables.get(&next_hop) {
            return Ok(*table);
        }
        let taken = held.taken_tables();
        for table in PIN_TABLES.filter(|table| !taken.contains(table)) {
            let route = messages::route(table, next_hop);
            let request = RouteNetlinkMessage::NewRoute(route.clone());
            match self
                .socket
                .change("add a route", request, NLM_F_CREATE | NLM_F_EXCL)
            {
                Ok(()) => {
                    held.routes.push(route);
                    held.tables.insert(next_hop, table);
                    return Ok(table);
                }
                // A foreign route.
                Err(error) if error.errno() == Some(Errno::EEXIST) => {}
                Err(source) => {
                    let pin = Box::new(pin.clone());
                    return Err(PinError::AddRoute { pin, source });
                }
            }
        }
        Err(PinError::NoFreeTable)
    }

    fn remove_pin(&mut self, pin: &PinRule, held: &KernelState) -> Result<(), PinError> {
        let rule = held.pins.get(pin).cloned();
        rule.map_or(Ok(()), |rule| {
            self.remove(RouteNetlinkMessage::DelRule(rule))
        })
    }

    /// Removes the routes of tables without a rule.
    fn remove_idle_routes(&mut self) -> Result<(), PinError> {
        let rules = self.our_rules()?;
        let used: BTreeSet<_> = rules
            .iter()
            .filter_map(messages::pinned)
            .map(|(_, table)| table)
            .collect();
        for route in self.our_routes()? {
            let idle = messages::table(&route).is_none_or(|table| !used.contains(&table));
            if idle {
                self.remove(RouteNetlinkMessage::DelRoute(route))?;
            }
        }
        Ok(())
    }

    /// Something that is already gone counts as removed.
    fn remove(&mut self, request: RouteNetlinkMessage) -> Result<(), PinError> {
        let removed = self.socket.change("remove a rule or route", request, 0);
        let removed = unless(removed, Errno::ENOENT);
        unless(removed, Errno::ESRCH).map_err(|source| PinError::Remove { source })
    }
}

/// A kernel would accept both and follow one.
fn refuse_twice(pins: &[PinRule]) -> Result<(), PinError> {
    let mut seen = BTreeSet::new();
    let twice = pins.iter().find(|pin| !seen.insert(pin.flow));
    twice.map_or(Ok(()), |pin| Err(PinError::PinnedTwice { flow: pin.flow }))
}

/// The pin that a rule and its table make, if the table has a route.
fn pin(rule: &RuleMessage, next_hops: &BTreeMap<u32, NextHop>, links: &[Link]) -> Option<PinRule> {
    let (flow, table) = messages::pinned(rule)?;
    let next_hop = next_hops.get(&table)?;
    let link = links.iter().find(|link| link.index == next_hop.interface)?;
    Some(PinRule {
        flow,
        interface: link.count.interface.clone(),
        next_hop: next_hop.gateway,
    })
}

fn next_hop(pin: &PinRule, links: &[Link]) -> Result<NextHop, PinError> {
    let name = || pin.interface.clone();
    let link = links
        .iter()
        .find(|link| link.count.interface == pin.interface);
    let link = link.ok_or_else(|| PinError::NoSuchInterface { name: name() })?;
    if !link.count.up {
        return Err(PinError::InterfaceDown { name: name() });
    }
    Ok(NextHop {
        interface: link.index,
        gateway: pin.next_hop,
    })
}
