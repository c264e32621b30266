//! Static routes in SONiC's CONFIG_DB. A mark distinguishes each of the agent's routes from other configuration. It
//! is in a separate table, so that saved tables stay valid for SONiC's models.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use reweave_common::forwarding_state::{RouteHop, RouteRule};

use super::{Unfit, refuse_unfit};

/// The hash at a key.
pub type Fields = BTreeMap<String, String>;

const ROUTE_TABLE: &str = "STATIC_ROUTE";
const MARK_TABLE: &str = "REWEAVE_STATIC_ROUTE";
const DEFAULT_VRF: &str = "default";
/// The pattern matches all marks.
pub const MARK_PATTERN: &str = "REWEAVE_STATIC_ROUTE|*";

/// Writes and removals of one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Replaces the entry, so that SONiC sees one change and no removal.
    Set(String, Fields),
    Remove(String),
}

/// The database's entries for single hosts, as far as they were read.
#[derive(Debug, Clone, Default)]
pub struct ConfigRoutes {
    entries: BTreeMap<String, Fields>,
}

/// The keys that decide about a route to this host. Older releases leave the VRF away.
pub fn keys(destination: Ipv4Addr) -> [String; 3] {
    [
        route_key(destination),
        format!("{ROUTE_TABLE}|{destination}/32"),
        mark_key(destination),
    ]
}

/// The host a mark is of.
pub fn marked(key: &str) -> Option<Ipv4Addr> {
    let rest = key.strip_prefix(MARK_TABLE)?.strip_prefix('|')?;
    let prefix = rest.strip_prefix(DEFAULT_VRF)?.strip_prefix('|')?;
    prefix.strip_suffix("/32")?.parse().ok()
}

fn route_key(destination: Ipv4Addr) -> String {
    format!("{ROUTE_TABLE}|{DEFAULT_VRF}|{destination}/32")
}

fn mark_key(destination: Ipv4Addr) -> String {
    format!("{MARK_TABLE}|{DEFAULT_VRF}|{destination}/32")
}

impl ConfigRoutes {
    /// What is at a key; nothing is there if it has no fields.
    pub fn handle_entry(&mut self, key: String, fields: Fields) {
        if !fields.is_empty() {
            self.entries.insert(key, fields);
        }
    }

    /// Other fields may stand there too: they belong to those who added them.
    fn says(&self, key: &str, fields: &Fields) -> bool {
        let entry = self.entries.get(key);
        entry.is_some_and(|it| {
            fields
                .iter()
                .all(|(name, value)| it.get(name) == Some(value))
        })
    }

    fn ours(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.entries.keys().filter_map(|key| marked(key))
    }

    fn is_ours(&self, destination: Ipv4Addr) -> bool {
        self.entries.contains_key(&mark_key(destination))
    }

    /// Ours, where they can be read.
    pub fn rules(&self) -> Vec<RouteRule> {
        let rule = |destination| {
            let fields = self.entries.get(&route_key(destination))?;
            let hops = hops(destination, fields)?;
            Some(RouteRule { destination, hops })
        };
        self.ours().filter_map(rule).collect()
    }

    /// What to change so that ours are these.
    pub fn edits_to(&self, desired: &[RouteRule]) -> Result<Vec<Edit>, Unfit> {
        refuse_unfit(desired)?;
        let mut edits = vec![];
        for rule in desired {
            self.refuse_others(rule.destination)?;
            let route = (route_key(rule.destination), fields(rule));
            let mark = (mark_key(rule.destination), mark());
            let missing = [route, mark].into_iter();
            let missing = missing.filter(|(key, fields)| !self.says(key, fields));
            edits.extend(missing.map(|(key, fields)| Edit::Set(key, fields)));
        }
        let stays = |destination| desired.iter().any(|rule| rule.destination == destination);
        for gone in self.ours().filter(|destination| !stays(*destination)) {
            let keys = [route_key(gone), mark_key(gone)].into_iter();
            let there = keys.filter(|key| self.entries.contains_key(key));
            edits.extend(there.map(Edit::Remove));
        }
        Ok(edits)
    }

    fn refuse_others(&self, destination: Ipv4Addr) -> Result<(), Unfit> {
        let [ours, without_vrf, _] = keys(destination);
        let mut suspects = [(ours, self.is_ours(destination)), (without_vrf, false)].into_iter();
        let other = suspects.find(|(key, is_ours)| !is_ours && self.entries.contains_key(key));
        other.map_or(Ok(()), |(key, _)| {
            Err(Unfit::NotOurs {
                destination,
                as_it_stands: key,
            })
        })
    }
}

/// The placeholder field that SONiC's own tools write where an entry has no fields.
fn mark() -> Fields {
    Fields::from([("NULL".to_owned(), "NULL".to_owned())])
}

fn fields(rule: &RouteRule) -> Fields {
    let each = |value: &dyn Fn(&RouteHop) -> String| {
        let values: Vec<_> = rule.hops.iter().map(value).collect();
        values.join(",")
    };
    let fields = [
        (
            "nexthop",
            each(&|hop| gateway(rule.destination, hop).to_string()),
        ),
        ("ifname", each(&|hop| hop.interface.clone())),
        ("distance", each(&|_| "0".to_owned())),
        ("nexthop-vrf", each(&|_| DEFAULT_VRF.to_owned())),
        ("blackhole", each(&|_| "false".to_owned())),
        // Otherwise SONiC announces the routes to its neighbours by BGP.
        ("advertise", "false".to_owned()),
    ];
    let owned = fields.map(|(name, value)| (name.to_owned(), value));
    owned.into_iter().collect()
}

/// A host at the other end of an interface is reached without one: FRR takes no host for the way to itself, unless the
/// route says that it is on the link, which SONiC has no word for.
fn gateway(destination: Ipv4Addr, hop: &RouteHop) -> Ipv4Addr {
    if hop.next_hop == destination {
        return Ipv4Addr::UNSPECIFIED;
    }
    hop.next_hop
}

fn hops(destination: Ipv4Addr, fields: &Fields) -> Option<Vec<RouteHop>> {
    let (gateways, interfaces) = (fields.get("nexthop")?, fields.get("ifname")?);
    if gateways.split(',').count() != interfaces.split(',').count() {
        return None;
    }
    let pairs = gateways.split(',').zip(interfaces.split(','));
    let hop = |(gateway, interface): (&str, &str)| {
        let gateway: Ipv4Addr = gateway.parse().ok()?;
        let is_there = gateway.is_unspecified();
        Some(RouteHop {
            interface: interface.to_owned(),
            next_hop: if is_there { destination } else { gateway },
            weight: 1,
        })
    };
    pairs.map(hop).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::examples::{host, rule, rules};
    use super::*;

    fn carried_out(held: &ConfigRoutes, edits: Vec<Edit>) -> ConfigRoutes {
        let mut after = held.clone();
        for edit in edits {
            match edit {
                Edit::Set(key, fields) => drop(after.entries.insert(key, fields)),
                Edit::Remove(key) => drop(after.entries.remove(&key)),
            }
        }
        after
    }

    fn holding(rules: &[RouteRule]) -> ConfigRoutes {
        let nothing = ConfigRoutes::default();
        carried_out(&nothing, nothing.edits_to(rules).unwrap())
    }

    #[test]
    fn route_is_written_for_sonic() {
        let edits = ConfigRoutes::default()
            .edits_to(&[rule(1, &[0, 1])])
            .unwrap();
        let [Edit::Set(key, fields), Edit::Set(mark, _)] = &edits[..] else {
            panic!("{edits:?}");
        };
        assert_eq!(key, "STATIC_ROUTE|default|10.9.0.1/32");
        assert_eq!(mark, "REWEAVE_STATIC_ROUTE|default|10.9.0.1/32");
        let shown: Vec<_> = fields
            .iter()
            .map(|(name, it)| format!("{name}={it}"))
            .collect();
        let expected = [
            "advertise=false",
            "blackhole=false,false",
            "distance=0,0",
            "ifname=up0,up1",
            "nexthop=172.16.0.1,172.16.1.1",
            "nexthop-vrf=default,default",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn attached_host_uses_interface_alone() {
        let mut attached = rule(1, &[0]);
        attached.hops[0].next_hop = host(1);
        let held = holding(std::slice::from_ref(&attached));
        assert_eq!(held.entries[&route_key(host(1))]["nexthop"], "0.0.0.0");
        assert_eq!(held.rules(), [attached]);
    }

    #[test]
    fn sonic_keeps_foreign_routes() {
        for key in [
            "STATIC_ROUTE|default|10.9.0.1/32",
            "STATIC_ROUTE|10.9.0.1/32",
        ] {
            let mut held = holding(&[rule(2, &[0])]);
            held.handle_entry(key.to_owned(), fields(&rule(1, &[0])));
            let refused = held.edits_to(&[rule(1, &[0])]).unwrap_err().to_string();
            assert!(refused.ends_with(key), "{refused}");
            let edits = held.edits_to(&[]).unwrap();
            let gone = keys(host(2));
            let expected = [&gone[0], &gone[2]].map(|key| Edit::Remove(key.clone()));
            assert_eq!(edits, expected);
        }
    }

    #[test]
    fn weights_are_refused() {
        let mut heavy = rule(1, &[0, 1]);
        heavy.hops[0].weight = 2;
        let refused = ConfigRoutes::default().edits_to(&[heavy]);
        assert!(matches!(refused, Err(Unfit::Weight { weight: 2, .. })));
    }

    #[test]
    fn foreign_route_change_is_repaired() {
        let mut held = holding(&[rule(1, &[0])]);
        held.handle_entry(route_key(host(1)), fields(&rule(1, &[1])));
        let edits = held.edits_to(&[rule(1, &[0])]).unwrap();
        assert_eq!(
            edits,
            [Edit::Set(route_key(host(1)), fields(&rule(1, &[0])))]
        );
    }

    #[test]
    fn foreign_fields_are_kept() {
        let mut added = fields(&rule(1, &[0]));
        added.insert("bfd".to_owned(), "true".to_owned());
        let mut held = holding(&[rule(1, &[0])]);
        held.handle_entry(route_key(host(1)), added);
        assert_eq!(held.edits_to(&[rule(1, &[0])]), Ok(vec![]));
    }

    proptest! {
        #[test]
        fn one_transaction_replaces_any_routes(before in rules(), after in rules()) {
            let held = holding(&before);
            prop_assert_eq!(held.rules(), before.clone());
            let edits = held.edits_to(&after).unwrap();
            for kept in after.iter().filter(|new| before.iter().any(|old| old.destination == new.destination)) {
                let withdrawn = Edit::Remove(route_key(kept.destination));
                prop_assert!(!edits.contains(&withdrawn));
            }
            let held = carried_out(&held, edits);
            prop_assert_eq!(held.rules(), after.clone());
            prop_assert!(held.edits_to(&after).unwrap().is_empty(), "not idempotent");
        }

        #[test]
        fn arbitrary_entry_is_safe(key in "(STATIC_ROUTE|REWEAVE_STATIC_ROUTE|\\||default|10.9.0.1/32){0,6}", text in ".{0,30}") {
            let mut held = ConfigRoutes::default();
            let fields = ["nexthop", "ifname"].map(|name| (name.to_owned(), text.clone()));
            held.handle_entry(key, fields.into());
            held.handle_entry(mark_key(host(1)), mark());
            let _ = (held.rules(), held.edits_to(&[rule(1, &[0])]));
        }
    }
}
