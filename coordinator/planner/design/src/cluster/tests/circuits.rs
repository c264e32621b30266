//! Links on ports: never more than there are, and no layout touches fewer circuits.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use crate::cluster::{Circuit, Laid, Port, Room, Touched, lay};
use crate::topology::{Pair, pair};

/// Returns hosts with ports that are assigned to the switches in turn.
fn ports(hosts: u32, each: u32, switches: u32) -> Room {
    let list = |_| (0..each).map(|port| (port, port % switches)).collect();
    Room {
        ports: (0..hosts).map(|host| (host, list(host))).collect(),
        ..Room::default()
    }
}

/// The same in two blocks, host by host, with this many fibres between each two switches.
fn in_blocks(hosts: u32, each: u32, switches: u32, fibres: u32) -> Room {
    let all = (0..switches).flat_map(|on| (0..fibres).map(move |number| (number, on)));
    Room {
        block: (0..hosts).map(|host| (host, host as usize % 2)).collect(),
        fibres: BTreeMap::from([([0, 1], all.collect())]),
        ..ports(hosts, each, switches)
    }
}

fn pairs(hosts: u32) -> impl Strategy<Value = Vec<Pair>> {
    let one =
        (0..hosts, 0..hosts).prop_filter_map("no loops", |(a, b)| (a != b).then(|| pair(a, b)));
    prop::collection::btree_set(one, 0..8).prop_map(|set| set.into_iter().collect())
}

/// Whether every port is used once at most, on its own switch.
fn is_sound(room: &Room, laid: &Laid) -> bool {
    let ends = laid.circuits.iter().flat_map(|circuit| circuit.ends);
    let ends: Vec<_> = ends.collect();
    let once = ends.iter().collect::<BTreeSet<_>>().len() == ends.len();
    let lies = |circuit: &Circuit| {
        let on = |end: Port| room.ports[&end.host].contains(&(end.number, circuit.switch));
        circuit.ends.into_iter().all(on)
    };
    once && laid.circuits.iter().all(lies) && has_fibres(room, laid)
}

/// A circuit has a fibre where it crosses, and no two have the same one.
fn has_fibres(room: &Room, laid: &Laid) -> bool {
    let block = |host: u32| room.block.get(&host).copied().unwrap_or(0);
    let crosses = |it: &Circuit| block(it.ends[0].host) != block(it.ends[1].host);
    let crossing = laid.circuits.iter().filter(|it| it.fibre.is_some());
    let fibres = crossing.filter_map(|it| Some((it.fibre?, it.switch)));
    let fibres: Vec<_> = fibres.collect();
    let free = |fibre: &(u32, u32)| room.fibres[&[0, 1]].contains(fibre);
    let right = |it: &Circuit| it.fibre.is_some() == crosses(it);
    laid.circuits.iter().all(right)
        && fibres.iter().all(free)
        && fibres.iter().collect::<BTreeSet<_>>().len() == fibres.len()
}

/// A host, or the fibres of two blocks; and a switch.
type Place = (Option<u32>, u32);

/// Returns by brute force the fewest links without a circuit, and then the fewest removed circuits.
fn best(on: &Room, pairs: &[Pair], old: &[Circuit]) -> [usize; 2] {
    let mut room = BTreeMap::<Place, usize>::new();
    let hosts = on.ports.iter().map(|(&host, list)| (Some(host), list));
    let fibres = on.fibres.values().map(|list| (None, list));
    for (place, list) in hosts.chain(fibres) {
        let switches = list.iter().map(|(_, switch)| *switch);
        switches.for_each(|switch| *room.entry((place, switch)).or_default() += 1);
    }
    let stays = |&ends: &Pair| old.iter().find(|it| it.hosts() == ends).map(|it| it.switch);
    let block = |host: u32| on.block.get(&host);
    let needs = |&[a, b]: &Pair| {
        let fibre = (block(a) != block(b)).then_some(None);
        let ends = [Some(a), Some(b)].into_iter();
        ends.chain(fibre).collect::<Vec<_>>()
    };
    let wanted: Vec<_> = pairs.iter().map(|it| (needs(it), stays(it))).collect();
    all_ways(&wanted, &mut room)
}

fn all_ways(
    wanted: &[(Vec<Option<u32>>, Option<u32>)],
    room: &mut BTreeMap<Place, usize>,
) -> [usize; 2] {
    let Some(((needs, own), rest)) = wanted.split_first() else {
        return [0, 0];
    };
    let [unlaid, moved] = all_ways(rest, room);
    let mut best = [unlaid + 1, moved + usize::from(own.is_some())];
    let switches: BTreeSet<_> = room.keys().map(|(_, switch)| *switch).collect();
    for switch in switches {
        let places: Vec<_> = needs.iter().map(|&it| (it, switch)).collect();
        let free = |place: &Place| room.get(place).is_some_and(|&free| free > 0);
        if !places.iter().all(free) {
            continue;
        }
        change(room, &places, |free| free - 1);
        let [unlaid, moved] = all_ways(rest, room);
        change(room, &places, |free| free + 1);
        let moves = own.is_some_and(|own| own != switch);
        best = best.min([unlaid, moved + usize::from(moves)]);
    }
    best
}

fn change(room: &mut BTreeMap<Place, usize>, places: &[Place], by: impl Fn(usize) -> usize) {
    for place in places {
        let free = room.entry(*place).or_default();
        *free = by(*free);
    }
}

#[test]
fn layout_touches_fewest_circuits() {
    let cases = (2..5u32, 1..4u32, 1..4u32, prop::option::of(0..3u32));
    let cases = cases.prop_flat_map(|(hosts, each, switches, fibres)| {
        let switches = switches.min(each);
        let room = match fibres {
            None => ports(hosts, each, switches),
            Some(fibres) => in_blocks(hosts, each, switches, fibres),
        };
        (Just(room), pairs(hosts), pairs(hosts))
    });
    proptest!(|((ports, before, after) in cases)| {
        let old = lay(&ports, &before, &[]);
        prop_assert!(is_sound(&ports, &old));
        prop_assert_eq!(old.unlaid.len(), best(&ports, &before, &[])[0]);
        let new = lay(&ports, &after, &old.circuits);
        prop_assert!(is_sound(&ports, &new));
        prop_assert_eq!(new.unlaid.len() + new.circuits.len(), after.len());
        let there: BTreeSet<_> = after.iter().collect();
        let could_stay = old.circuits.iter().filter(|it| there.contains(&it.hosts())).count();
        let kept = Touched::between(&old.circuits, &new.circuits).kept;
        prop_assert_eq!([new.unlaid.len(), could_stay - kept], best(&ports, &after, &old.circuits));
    });
}

#[test]
fn repeated_demand_keeps_circuits() {
    let ports = ports(6, 4, 2);
    let ring: Vec<_> = (0..6).map(|host| pair(host, (host + 1) % 6)).collect();
    let old = lay(&ports, &ring, &[]);
    assert!(old.unlaid.is_empty());
    let more = [ring, vec![pair(0, 2), pair(1, 4), pair(3, 5)]].concat();
    let touched = Touched::between(&old.circuits, &lay(&ports, &more, &old.circuits).circuits);
    assert_eq!(
        touched,
        Touched {
            torn: 0,
            set: 3,
            kept: 6
        }
    );
}

/// Rings of an even number of hosts on two switches, one port each: neighbours must take turns.
#[test]
fn rings_alternate_switches_on_single_ports() {
    let ports = ports(40, 2, 2);
    let ring: Vec<_> = (0..40)
        .map(|nth| pair(nth * 7 % 40, (nth + 1) * 7 % 40))
        .collect();
    assert!(lay(&ports, &ring, &[]).unlaid.is_empty());
}

#[test]
fn odd_ring_leaves_one_link_out() {
    let ports = ports(5, 2, 2);
    let ring: Vec<_> = (0..5).map(|host| pair(host, (host + 1) % 5)).collect();
    assert_eq!(lay(&ports, &ring, &[]).unlaid.len(), 1);
}

/// Two hosts with no other to talk to use all their ports for each other.
#[test]
fn links_may_have_several_circuits() {
    let ports = ports(2, 4, 4);
    let laid = lay(&ports, &[[0, 1]; 4], &[]);
    let switches: BTreeSet<_> = laid.circuits.iter().map(|it| it.switch).collect();
    assert_eq!((laid.circuits.len(), switches.len()), (4, 4));
}
