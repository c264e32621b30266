//! From the routes in a kernel to the desired ones.
//!
//! A route names a group of next hops, and all destinations with the same next hops share a group. So a change that
//! moves all of them, such as a drain, is one change of one group. A destination that keeps a route is never without
//! one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use reweave_common::forwarding_state::{RouteHop, RouteRule};

/// The kernel's number of a group of next hops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupId(pub u32);

/// The routes of a kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteTable {
    pub groups: BTreeMap<GroupId, Vec<RouteHop>>,
    pub routes: BTreeMap<Ipv4Addr, GroupId>,
}

/// One change to the kernel's routes. Only `RemoveRoute` removes a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteOp {
    AddGroup(GroupId, Vec<RouteHop>),
    /// Changes the group, and so moves all destinations that share it at once.
    FlipGroup(GroupId, Vec<RouteHop>),
    /// Adds the route, or puts it in the place of the one that is there.
    SetRoute(Ipv4Addr, GroupId),
    RemoveRoute(Ipv4Addr),
    RemoveGroup(GroupId),
}

impl RouteTable {
    /// The routes as reported, in order.
    pub fn rules(&self) -> Vec<RouteRule> {
        let rules = self.routes.iter().filter_map(|(&destination, group)| {
            let hops = self.groups.get(group)?.clone();
            Some(RouteRule { destination, hops })
        });
        rules.collect()
    }

    /// The changes that make it hold `desired`, to be made in this order. New groups are called
    /// by the names that `free` gives, or there are too few of those.
    pub fn reconcile(
        &self,
        desired: &[RouteRule],
        free: impl IntoIterator<Item = GroupId>,
    ) -> Option<Vec<RouteOp>> {
        let desired: BTreeMap<_, _> = desired
            .iter()
            .map(|rule| (rule.destination, in_order(&rule.hops)))
            .collect();
        let flips = self.flips(&desired);
        let mut after = self.clone();
        after.groups.extend(flips.clone());
        let mut ops: Vec<_> = flips
            .into_iter()
            .map(|(group, hops)| RouteOp::FlipGroup(group, hops))
            .collect();
        ops.extend(after.set_routes(&desired, free)?);
        ops.extend(after.remove_others(&desired));
        Some(ops)
    }

    /// The groups whose destinations all go over to the same other next hops.
    fn flips(
        &self,
        desired: &BTreeMap<Ipv4Addr, Vec<RouteHop>>,
    ) -> BTreeMap<GroupId, Vec<RouteHop>> {
        let mut wanted: BTreeMap<GroupId, BTreeSet<Option<&Vec<RouteHop>>>> = BTreeMap::new();
        for (destination, group) in &self.routes {
            let hops = desired.get(destination);
            wanted.entry(*group).or_default().insert(hops);
        }
        let flips = wanted.into_iter().filter_map(|(group, wanted)| {
            let mut wanted = wanted.into_iter();
            let (Some(Some(hops)), None) = (wanted.next(), wanted.next()) else {
                return None;
            };
            let is_so = self
                .groups
                .get(&group)
                .is_some_and(|held| in_order(held) == *hops);
            (!is_so).then(|| (group, hops.clone()))
        });
        flips.collect()
    }

    /// What is left after the flips, route by route.
    fn set_routes(
        &mut self,
        desired: &BTreeMap<Ipv4Addr, Vec<RouteHop>>,
        free: impl IntoIterator<Item = GroupId>,
    ) -> Option<Vec<RouteOp>> {
        let mut free = free.into_iter();
        let mut by_hops: BTreeMap<Vec<RouteHop>, GroupId> = self
            .groups
            .iter()
            .map(|(group, hops)| (in_order(hops), *group))
            .collect();
        let mut ops = vec![];
        for (&destination, hops) in desired {
            let held = self.routes.get(&destination);
            let held = held.and_then(|group| self.groups.get(group));
            if held.is_some_and(|held| in_order(held) == *hops) {
                continue;
            }
            let group = match by_hops.get(hops) {
                Some(group) => *group,
                None => {
                    let group = free.next()?;
                    ops.push(RouteOp::AddGroup(group, hops.clone()));
                    by_hops.insert(hops.clone(), group);
                    self.groups.insert(group, hops.clone());
                    group
                }
            };
            ops.push(RouteOp::SetRoute(destination, group));
            self.routes.insert(destination, group);
        }
        Some(ops)
    }

    fn remove_others(mut self, desired: &BTreeMap<Ipv4Addr, Vec<RouteHop>>) -> Vec<RouteOp> {
        let held: Vec<_> = self.routes.keys().copied().collect();
        let gone = held.into_iter().filter(|it| !desired.contains_key(it));
        let mut ops: Vec<_> = gone.map(RouteOp::RemoveRoute).collect();
        self.routes.retain(|it, _| desired.contains_key(it));
        let used: BTreeSet<_> = self.routes.values().collect();
        let unused = self.groups.keys().filter(|group| !used.contains(group));
        ops.extend(unused.copied().map(RouteOp::RemoveGroup));
        ops
    }
}

/// Kernels and people list hops as they like.
fn in_order(hops: &[RouteHop]) -> Vec<RouteHop> {
    let mut hops = hops.to_vec();
    hops.sort_unstable();
    hops
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A kernel that refuses what kernels refuse.
    #[derive(Clone)]
    struct Kernel(RouteTable);

    impl Kernel {
        fn carry_out(&mut self, op: &RouteOp) {
            let RouteTable { groups, routes } = &mut self.0;
            match op {
                RouteOp::AddGroup(group, hops) => {
                    assert!(groups.insert(*group, hops.clone()).is_none(), "EEXIST");
                }
                RouteOp::FlipGroup(group, hops) => {
                    assert!(groups.insert(*group, hops.clone()).is_some(), "ENOENT");
                }
                RouteOp::SetRoute(destination, group) => {
                    assert!(groups.contains_key(group), "EINVAL");
                    routes.insert(*destination, *group);
                }
                RouteOp::RemoveRoute(destination) => {
                    assert!(routes.remove(destination).is_some(), "ESRCH");
                }
                RouteOp::RemoveGroup(group) => {
                    assert!(!routes.values().any(|used| used == group), "routes vanish");
                    assert!(groups.remove(group).is_some(), "ENOENT");
                }
            }
        }
    }

    fn hop(number: u8) -> RouteHop {
        RouteHop {
            interface: format!("eth{number}"),
            next_hop: Ipv4Addr::new(10, 0, 1, number),
            weight: 1,
        }
    }

    fn rule(host: u8, hops: &[u8]) -> RouteRule {
        RouteRule {
            destination: Ipv4Addr::new(10, 0, 0, host),
            hops: hops.iter().copied().map(hop).collect(),
        }
    }

    fn free(table: &RouteTable) -> impl Iterator<Item = GroupId> + use<> {
        let taken: BTreeSet<_> = table.groups.keys().copied().collect();
        (0..100)
            .map(GroupId)
            .filter(move |group| !taken.contains(group))
    }

    fn holding(rules: &[RouteRule]) -> Kernel {
        let mut kernel = Kernel(RouteTable::default());
        for op in kernel.0.reconcile(rules, free(&kernel.0)).unwrap() {
            kernel.carry_out(&op);
        }
        kernel
    }

    /// Generates no rule, one path or several for each of a few hosts.
    fn rules() -> impl Strategy<Value = Vec<RouteRule>> {
        let ways = proptest::sample::subsequence(vec![0_u8, 1, 2], 1..=2);
        let choices = proptest::collection::btree_map(1_u8..7, ways, 0..6);
        choices.prop_map(|all| all.iter().map(|(host, ways)| rule(*host, ways)).collect())
    }

    proptest! {
        #[test]
        fn kept_destination_always_has_full_route(
            before in rules(),
            between in rules(),
            after in rules(),
        ) {
            let mut kernel = holding(&before);
            for (old, new) in [(&before, &between), (&between, &after)] {
                let ops = kernel.0.reconcile(new, free(&kernel.0)).unwrap();
                for op in &ops {
                    kernel.carry_out(op);
                    let held = kernel.0.rules();
                    for old in old {
                        let Some(new) = new.iter().find(|new| new.destination == old.destination) else {
                            continue;
                        };
                        let is_there = held.contains(old) || held.contains(new);
                        prop_assert!(is_there, "{old:?} to {new:?}: {held:?}");
                    }
                }
                prop_assert_eq!(&kernel.0.rules(), new);
                let again = kernel.0.reconcile(new, free(&kernel.0)).unwrap();
                prop_assert!(again.is_empty(), "not idempotent: {again:?}");
            }
        }
    }

    #[test]
    fn drain_is_one_group_flip() {
        let all = |hops: &[u8]| (1..60).map(|host| rule(host, hops)).collect::<Vec<_>>();
        let kernel = holding(&all(&[0, 1]));
        let ops = kernel.0.reconcile(&all(&[1]), free(&kernel.0)).unwrap();
        assert_eq!(ops, [RouteOp::FlipGroup(GroupId(0), vec![hop(1)])]);
    }

    #[test]
    fn diverging_destination_gets_own_group() {
        let kernel = holding(&[rule(1, &[0]), rule(2, &[0])]);
        let ops = kernel
            .0
            .reconcile(&[rule(1, &[0]), rule(2, &[1])], free(&kernel.0));
        let expected = [
            RouteOp::AddGroup(GroupId(1), vec![hop(1)]),
            RouteOp::SetRoute(Ipv4Addr::new(10, 0, 0, 2), GroupId(1)),
        ];
        assert_eq!(ops.unwrap(), expected);
    }

    #[test]
    fn exhausted_group_ids_are_reported() {
        let nothing = RouteTable::default();
        assert_eq!(nothing.reconcile(&[rule(1, &[0])], []), None);
    }
}
