//! Observations on a fabric: traffic and link states, as input of a simulation.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use reweave_common::fabric::Fabric;
use reweave_common::flow::FlowKey;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::moment::Moment;
use reweave_common::operator::{Matrix, MatrixCell};
use reweave_common::snapshot::{FlowState, Hop, LinkState};
use reweave_common::traffic::TrafficMatrix;
use reweave_common::units::{Bytes, Rate};

use super::seen::{Figures, FlowSeen, LinkSeen, ProbesSeen, Seen, TrafficSeen, Window};

impl Window {
    /// Returns each measured direction of a link: its mean rate over the whole window, whether it was up at the end,
    /// and the age of the last reading at `now`. Links that the fabric does not have are left out.
    pub fn links_on(&self, fabric: &Fabric, now: Moment) -> BTreeMap<Hop, LinkState> {
        let mut ends: BTreeMap<Hop, Vec<&Seen<LinkSeen>>> = BTreeMap::new();
        for seen in &self.links {
            if let Some(hop) = hop_of(fabric, &seen.what) {
                ends.entry(hop).or_default().push(seen);
            }
        }
        let hops = ends.keys().flat_map(|&hop| [hop, far_end(fabric, hop)]);
        let hops: BTreeSet<_> = hops.collect();
        let state = |hop| Some((hop, link_state(fabric, &ends, hop, now)?));
        hops.into_iter().filter_map(state).collect()
    }

    /// Returns each flow that was sending: mean, minimum and maximum of its rate, and its last path.
    pub fn flows_on(&self, fabric: &Fabric, now: Moment) -> Vec<FlowState> {
        let flows = self.by_flow().into_values();
        flows
            .filter_map(|seen| flow_state(fabric, &seen, now))
            .collect()
    }

    /// Returns the probe results between hosts: the mean of the medians, the maximum of the 99th percentiles, and the
    /// share of lost probes. The history has no bandwidth of paths.
    pub fn matrix_on(&self, fabric: &Fabric) -> Matrix {
        let hosts: Vec<_> = fabric.endpoints().collect();
        let places: BTreeMap<_, u32> = hosts.iter().copied().zip(0..).collect();
        let place = |name: &str| places.get(&fabric.find(name)?).copied();
        let mut pairs: BTreeMap<[u32; 2], Vec<&Seen<ProbesSeen>>> = BTreeMap::new();
        for seen in &self.probes {
            let ends = [Some(&*seen.what.node), seen.what.to_node.as_deref()];
            if let [Some(from), Some(to)] = ends.map(|name| place(name?)) {
                pairs.entry([from, to]).or_default().push(seen);
            }
        }
        let names = hosts.iter().map(|&host| fabric.name(host).to_owned());
        Matrix {
            hosts: names.collect(),
            cells: pairs.iter().map(|(&pair, seen)| cell(pair, seen)).collect(),
        }
    }

    /// Returns the bytes between nodes. Hosts count them by peer. Without such counts, the flows of the host are added
    /// up. If ranks report more, their report counts: a NIC bypasses the kernel. The larger of the two includes the
    /// other.
    pub fn traffic_on(&self, fabric: &Fabric) -> TrafficMatrix {
        let seen = self.by_kernels(fabric);
        let mut traffic = seen.clone();
        for ((from, to), report) in self.by_ranks(fabric) {
            let unseen = report.count().saturating_sub(seen.get(from, to).count());
            traffic.add(from, to, Bytes::new(unseen));
        }
        traffic
    }

    fn by_kernels(&self, fabric: &Fabric) -> TrafficMatrix {
        let mut traffic = TrafficMatrix::default();
        let mut counted = BTreeSet::new();
        for seen in self.by_peer().values() {
            let last = seen
                .iter()
                .rev()
                .find_map(|one| one.what.to_node.as_deref());
            counted.insert(&*seen[0].what.node);
            let counters = seen.iter().map(|one| one.what.sent_bytes);
            add(
                &mut traffic,
                fabric,
                [Some(&seen[0].what.node), last],
                grown(counters),
            );
        }
        for seen in self.by_flow().values() {
            let from = &*seen[0].what.node;
            if !counted.contains(from) {
                let last = seen
                    .iter()
                    .rev()
                    .find_map(|one| one.what.to_node.as_deref());
                let bytes = sent(seen, self.resolution.width());
                add(&mut traffic, fabric, [Some(from), last], bytes);
            }
        }
        traffic
    }

    /// Adds up each window at its mean rate.
    fn by_ranks(&self, fabric: &Fabric) -> BTreeMap<(NodeId, NodeId), Bytes> {
        let mut sums: BTreeMap<_, f64> = BTreeMap::new();
        for Seen { what, .. } in &self.collectives {
            let ends = (fabric.find(&what.node), fabric.find(&what.to_node));
            if let ((Some(from), Some(to)), Some(rate)) = (ends, what.rate_bits_per_s) {
                let bits = rate.mean * self.resolution.width().as_secs_f64();
                *sums.entry((from, to)).or_default() += bits;
            }
        }
        let bytes = |(ends, bits): (_, f64)| (ends, Bytes::new((bits / 8.0) as u64));
        sums.into_iter().map(bytes).collect()
    }

    /// Returns the rows by node and peer, in the order of time.
    fn by_peer(&self) -> BTreeMap<(&str, Ipv4Addr), Vec<&Seen<TrafficSeen>>> {
        let mut peers: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for seen in &self.traffic {
            let pair = (&*seen.what.node, seen.what.peer);
            peers.entry(pair).or_default().push(seen);
        }
        peers
    }

    /// Returns the rows by node and flow, in the order of time.
    fn by_flow(&self) -> BTreeMap<(&str, FlowKey), Vec<&Seen<FlowSeen>>> {
        let mut flows: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for seen in &self.flows {
            let flow = (&*seen.what.node, seen.what.flow);
            flows.entry(flow).or_default().push(seen);
        }
        flows
    }
}

fn cell([from, to]: [u32; 2], seen: &[&Seen<ProbesSeen>]) -> MatrixCell {
    let all = |figures: fn(&ProbesSeen) -> Option<Figures>| {
        let each = seen
            .iter()
            .filter_map(move |one| Some((figures(&one.what)?, one.readings)));
        each.fold((0.0, 0.0), |(sum, count), (figures, readings)| {
            let weight = readings as f64;
            (sum + figures.mean * weight, count + weight)
        })
    };
    let (sent, _) = all(|it| it.sent);
    let (lost, _) = all(|it| it.lost);
    let (medians, count) = all(|it| it.median_ns);
    let slow = seen.iter().filter_map(|one| Some(one.what.p99_ns?.max));
    MatrixCell {
        from,
        to,
        median_us: (count > 0.0).then(|| medians / count / 1e3),
        p99_us: slow.max().map(|ns| ns as f64 / 1e3),
        lost_share: (sent > 0.0).then(|| lost / sent),
        rate_bits_per_s: None,
    }
}

fn hop_of(fabric: &Fabric, seen: &LinkSeen) -> Option<Hop> {
    let from = fabric.find(&seen.node)?;
    hop(fabric, from, seen.link?)
}

fn hop(fabric: &Fabric, from: reweave_common::ids::NodeId, link: u64) -> Option<Hop> {
    let links = fabric.links_of(from).iter();
    let mut link = links.filter(|id| id.index() as u64 == link);
    link.next().map(|&link: &LinkId| Hop { from, link })
}

fn far_end(fabric: &Fabric, hop: Hop) -> Hop {
    let from = fabric.link(hop.link).far(hop.from).node;
    Hop { from, ..hop }
}

/// Returns the state of a link by the bytes that this end sent or, if they are not reported, that the other end
/// received.
fn link_state(
    fabric: &Fabric,
    ends: &BTreeMap<Hop, Vec<&Seen<LinkSeen>>>,
    hop: Hop,
    now: Moment,
) -> Option<LinkState> {
    let side = |end: Hop, rate: fn(&LinkSeen) -> Option<Figures>| {
        let seen = ends.get(&end)?;
        let figures = seen
            .iter()
            .filter_map(|one| Some((rate(&one.what)?, one.readings)));
        Some((seen, mean(figures)?))
    };
    let sent = side(hop, |end| end.send_bits_per_s);
    let received = || side(far_end(fabric, hop), |end| end.receive_bits_per_s);
    let (seen, rate) = sent.or_else(received)?;
    let last = seen.last()?;
    Some(LinkState {
        up: last.what.up.is_some_and(|up| up.min > 0),
        rate,
        age: now.since(last.at),
    })
}

fn mean(figures: impl Iterator<Item = (Figures, u64)>) -> Option<Rate> {
    let (sum, count) = figures.fold((0.0, 0.0), |(sum, count), (figures, readings)| {
        let weight = readings as f64;
        (sum + figures.mean * weight, count + weight)
    });
    (count > 0.0).then(|| Rate::from_bits_per_s((sum / count).round() as u64))
}

fn flow_state(fabric: &Fabric, seen: &[&Seen<FlowSeen>], now: Moment) -> Option<FlowState> {
    let last = seen.last()?;
    let sending = || {
        seen.iter()
            .filter_map(|one| Some((one.what.rate_bits_per_s?, one.readings)))
    };
    let rate = mean(sending())?;
    let least = sending().map(|(figures, _)| figures.min).min()?;
    let most = sending().map(|(figures, _)| figures.max).max()?;
    let to = seen.iter().rev().find_map(|one| one.what.to_node.as_ref());
    let to = fabric.find(to?)?;
    let path = last.what.hops.as_deref().and_then(|hops| way(fabric, hops));
    let address = *last.what.flow.destination.ip();
    Some(FlowState {
        flow: last.what.flow,
        from: fabric.find(&last.what.node)?,
        to,
        nic: nic_link(fabric, to, address, path.as_deref()),
        rate,
        rate_range: [least, most].map(Rate::from_bits_per_s),
        path,
        age: now.since(last.at),
    })
}

/// The link of the NIC with this address of a host: where the flow's path ended, or else by the fabric's file. None if
/// the file declares no NICs, or the address is the host's own.
fn nic_link(
    fabric: &Fabric,
    host: NodeId,
    address: Ipv4Addr,
    path: Option<&[Hop]>,
) -> Option<LinkId> {
    let declared = fabric.nic_with(address).map(|nic| fabric.nic(nic).link);
    let is_of_nic = declared.is_some() || fabric.address(host) != Some(address);
    let ended = path.and_then(<[Hop]>::last).map(|hop| hop.link);
    let is_nic = |link: &LinkId| {
        let mut nics = fabric.nics_of(host).iter();
        nics.any(|&nic| fabric.nic(nic).link == *link)
    };
    let ended = ended.filter(|link| fabric.has_declared_nics() && is_of_nic && is_nic(link));
    ended.or(declared)
}

/// Parses a path of `node/link` per hop. None if the fabric does not have one of them.
fn way(fabric: &Fabric, hops: &str) -> Option<Vec<Hop>> {
    let part = |part: &str| {
        let (node, link) = part.rsplit_once('/')?;
        hop(fabric, fabric.find(node)?, link.parse().ok()?)
    };
    hops.split_whitespace().map(part).collect()
}

/// Returns the bytes of a flow: between windows by its counters. In the first window the counter's start is unknown, so
/// the rate counts.
fn sent(seen: &[&Seen<FlowSeen>], width: Duration) -> Bytes {
    let Some(first) = seen.first() else {
        return Bytes::ZERO;
    };
    let rate = first.what.rate_bits_per_s.map_or(0.0, |rate| rate.mean);
    let guess = (rate * width.as_secs_f64() / 8.0) as u64;
    let counters = seen.iter().map(|one| one.what.sent_bytes);
    Bytes::new(guess.min(first.what.sent_bytes) + grown(counters).count())
}

/// Returns the growth of a counter. A counter that starts again has not grown in that step.
fn grown(counters: impl Iterator<Item = u64> + Clone) -> Bytes {
    let steps = counters.clone().skip(1).zip(counters);
    Bytes::new(
        steps
            .map(|(after, before)| after.saturating_sub(before))
            .sum(),
    )
}

fn add(traffic: &mut TrafficMatrix, fabric: &Fabric, ends: [Option<&str>; 2], bytes: Bytes) {
    if let [Some(from), Some(to)] = ends.map(|name| name.and_then(|name| fabric.find(name))) {
        traffic.add(from, to, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = r#"
        kind = "graph"
        node = [{ name = "h0", role = "host", address = "10.9.0.1" }, { name = "s", role = "switch" }]
    "#;

    /// A host's two links to a switch, and a path that ends over the first.
    fn two_links(links: &str) -> (Fabric, NodeId, [LinkId; 2], [Hop; 1]) {
        let fabric = Fabric::parse("f.toml", &format!("{NODES}{links}")).unwrap();
        let [host, from] = ["h0", "s"].map(|name| fabric.find(name).unwrap());
        let links = [0, 1].map(LinkId::from_index);
        let path = [Hop {
            from,
            link: links[0],
        }];
        (fabric, host, links, path)
    }

    #[test]
    fn flow_is_for_nic_it_reached() {
        let nics = r#"nic = [{ host = "h0", to = "s", gbps = 1 },
                             { host = "h0", to = "s", gbps = 1, address = "10.1.0.1" }]"#;
        let (fabric, host, [first, declared], path) = two_links(nics);
        let of = |address: [u8; 4], path| nic_link(&fabric, host, address.into(), path);
        assert_eq!(of([10, 0, 0, 1], Some(&path[..])), Some(first));
        assert_eq!(of([10, 0, 0, 1], None), None);
        assert_eq!(of([10, 1, 0, 1], Some(&path[..])), Some(first));
        assert_eq!(of([10, 1, 0, 1], None), Some(declared));
        assert_eq!(of([10, 9, 0, 1], Some(&path[..])), None);
    }

    #[test]
    fn undeclared_nics_bind_no_flow() {
        let cables = r#"link = [{ a = "h0", b = "s", gbps = 1, count = 2 }]"#;
        let (fabric, host, _, path) = two_links(cables);
        let address = Ipv4Addr::new(10, 0, 0, 1);
        assert_eq!(nic_link(&fabric, host, address, Some(&path)), None);
    }
}
