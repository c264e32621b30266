//! Forwarding tables of hosts, by name.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::forwarding::ForwardingTable;
use reweave_common::ids::{LinkId, NodeId};
use reweave_design::routing::{Entry, Ground, Order, Routes};
use reweave_design::topology::{Pair, Proposal, Wiring};
use serde::{Deserialize, Serialize};

/// By host.
pub(super) type Tables = BTreeMap<String, Table>;

/// Forwarding table of one host.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Table {
    /// Next hops with their weights, by destination.
    pub(super) towards: BTreeMap<String, Vec<(String, u32)>>,
    /// Traffic from the first to the second host moves to the next priority class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    raises: Vec<[String; 2]>,
}

/// Returns the name of a host, such as `h3`.
pub(super) fn name(host: u32) -> String {
    format!("h{host}")
}

/// Returns the tables of `hosts`; `names` are the numbers in host names.
pub(super) fn of(proposal: &Proposal, names: &[u32], hosts: &[u32]) -> Tables {
    let fabric = &proposal.fabric;
    let closed = BTreeSet::new();
    let ground = Ground {
        fabric,
        closed: &closed,
    };
    let order = Order::of(&proposal.design.wiring);
    let nodes = hosts.iter().map(|&host| NodeId::from_index(host as usize));
    let tables = ground.tables(&proposal.routes, Some(&order), nodes);
    let called = |node: NodeId| name(names[node.index()]);
    let table = |(at, table): (&NodeId, &ForwardingTable)| {
        let far = |link: LinkId| called(fabric.link(link).far(*at).node);
        let towards = table.towards.iter().map(|(&to, next)| {
            let next = next.iter().map(|hop| (far(hop.link), hop.weight));
            (called(to), next.collect())
        });
        let raises = table.raises.iter().map(|links| links.map(far));
        let table = Table {
            towards: towards.collect(),
            raises: raises.collect(),
        };
        (called(*at), table)
    };
    tables.iter().map(table).collect()
}

/// Returns the routes of the tables, or the reason why they are impossible.
pub(super) fn routes(tables: &Tables, wiring: &Wiring) -> Result<Routes, String> {
    let hosts = wiring.hosts();
    let number = |name: &str| {
        let number = name.strip_prefix('h').and_then(|it| it.parse::<u32>().ok());
        let known = number.filter(|&it| (it as usize) < hosts);
        known.ok_or_else(|| {
            format!(
                "its tables name {name}, but its hosts are h0 to h{}",
                hosts - 1
            )
        })
    };
    let mut entries = Vec::new();
    for (at, table) in tables {
        for (to, next) in &table.towards {
            let hop = |(end, weight): &(String, u32)| {
                let weight = u8::try_from(*weight);
                let weight =
                    weight.map_err(|_| format!("a weight of {at} is more than {}", u8::MAX))?;
                Ok((number(end)?, weight))
            };
            entries.push(Entry {
                at: number(at)?,
                to: number(to)?,
                next: next.iter().map(hop).collect::<Result<_, String>>()?,
            });
        }
    }
    Ok(Routes::of(wiring, entries))
}

/// Table entries that change, in this order, when a link fails.
#[derive(Debug, Serialize)]
pub(super) struct Backup {
    link: Pair,
    /// Absent if some hosts cannot reach others without the link.
    entries: Option<Vec<Change>>,
}

#[derive(Debug, Serialize)]
struct Change {
    at: String,
    to: String,
    next: Vec<(String, u32)>,
}

impl Backup {
    pub(super) fn of((link, entries): &(Pair, Option<Vec<Entry>>), names: &[u32]) -> Self {
        let called = |host: u32| name(names[host as usize]);
        let change = |entry: &Entry| Change {
            at: called(entry.at),
            to: called(entry.to),
            next: entry
                .next
                .iter()
                .map(|&(end, weight)| (called(end), weight.into()))
                .collect(),
        };
        let entries = entries.as_ref();
        Self {
            link: link.map(|end| names[end as usize]),
            entries: entries.map(|all| all.iter().map(change).collect()),
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.entries.is_some()
    }
}
