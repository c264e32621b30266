//! A collective in full swing, cut over channels that each send by flows of their own.
//!
//! All edges of a ring or a tree move at one pace, as each passes on what the one before hands it.
//! So a ring is one demand that crosses a link as often as its edges do, and those of all channels
//! share links max-min fairly. How long it takes until all edges have begun is not counted.

use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_common::units::Rate;
use reweave_repair::maxmin::{Demand, max_min};
use reweave_repair::paths::ecmp::{Ecmp, Fields};

use super::method::{Chain, Method};
use super::{Algorithm, Collective, CollectiveError};
use crate::engine::network::{Compass, Network, NetworkPath};

/// The port by which RDMA over Ethernet is known.
const ROCE_PORT: u16 = 4791;
const UDP_PROTOCOL: u8 = 17;
/// Maximum number of paths; of more, the first are used for all.
const MAX_PATHS: usize = 1 << 10;
/// Chains that end so near to each other end together.
const MAX_END_RATIO: f64 = 1.01;

/// Sends and their dependencies.
pub(crate) struct Swing<'a> {
    network: &'a Network,
    fabric: &'a Fabric,
    hosts: Vec<NodeId>,
    chains: Vec<Chain>,
}

impl<'a> Swing<'a> {
    pub(crate) fn of(
        collective: &Collective<'a>,
        algorithm: Algorithm,
        network: &'a Network,
        limit: u64,
    ) -> Result<Self, CollectiveError> {
        let method = Method::of(collective, algorithm, limit)?;
        let chains = method.chains().ok_or(CollectiveError::NotDone {
            operation: collective.operation,
            by: algorithm,
        })?;
        Ok(Self {
            network,
            fabric: collective.fabric,
            hosts: collective.hosts()?,
            chains,
        })
    }

    /// The sends that wait for one another, and how many courses of these begin in turn.
    pub(crate) fn steps(&self) -> (usize, usize) {
        let longest = self.chains.iter().max_by_key(|chain| chain.steps);
        longest.map_or((0, 1), |chain| (chain.steps, chain.passes))
    }

    pub(crate) fn in_pieces(&self) -> bool {
        self.chains.iter().all(|chain| chain.in_pieces)
    }

    /// Seconds for all bytes by this many channels, each of which takes `copied` seconds at least. The flows of each
    /// have ports of their own; a host with several links deals its channels out to them.
    pub(crate) fn seconds(
        &self,
        channels: u32,
        copied: f64,
        ecmp: &Ecmp,
    ) -> Result<f64, CollectiveError> {
        let mut compass = Compass::default();
        let mut crossed = Vec::new();
        for channel in 0..channels {
            for (nth, chain) in (0..).zip(&self.chains) {
                let port = channel * self.chains.len() as u32 + nth;
                crossed.push(self.crossed(chain, port, ecmp, &mut compass)?);
            }
        }
        Ok(self.shared(channels, copied, &crossed))
    }

    /// The links of all edges of a chain.
    fn crossed(
        &self,
        chain: &Chain,
        port: u32,
        ecmp: &Ecmp,
        compass: &mut Compass,
    ) -> Result<Vec<usize>, CollectiveError> {
        let mut crossed = Vec::new();
        let mut way = NetworkPath::default();
        for &[from, to] in &chain.edges {
            let [from, to] = [from, to].map(|host| self.hosts[host]);
            let label = ecmp.label(Fields {
                source: from.index() as u32,
                destination: to.index() as u32,
                source_port: port as u16,
                destination_port: ROCE_PORT,
                protocol: UDP_PROTOCOL,
            });
            let towards = compass.towards(self.network, to);
            let choose = |node: usize, choices: usize| {
                if node == from.index() {
                    port as usize % choices.max(1)
                } else {
                    ecmp.choose(node as u32, label, choices)
                }
            };
            if !self.network.find_chosen(from, &towards, choose, &mut way) {
                let [from, to] = [from, to].map(|host| self.fabric.name(host).to_owned());
                return Err(CollectiveError::NoWay { from, to });
            }
            crossed.extend(way.links.iter().map(|&link| link as usize));
        }
        Ok(crossed)
    }

    /// Returns the end of the last chain; chains that end earlier leave their part of the links to the others.
    fn shared(&self, channels: u32, copied: f64, crossed: &[Vec<usize>]) -> f64 {
        let bits = |nth: usize| {
            let chain = &self.chains[nth % self.chains.len()];
            self.network.bits(chain.bytes) / f64::from(channels)
        };
        let mut left: Vec<_> = (0..crossed.len()).map(|nth| (nth, bits(nth))).collect();
        let mut seconds = 0.0;
        while !left.is_empty() {
            let demands: Vec<_> = left
                .iter()
                .map(|&(nth, _)| Demand {
                    hops: &crossed[nth],
                    most: (copied > 0.0)
                        .then(|| Rate::from_bits_per_s((bits(nth) / copied) as u64)),
                })
                .collect();
            let shares = max_min(self.network.capacities(), &demands);
            let rates = shares
                .iter()
                .map(|share| share.rate.bits_per_s().max(1) as f64);
            let ends = left
                .iter()
                .zip(rates)
                .map(|((_, bits), rate)| (bits / rate, rate));
            let ends: Vec<_> = ends.collect();
            let first = ends.iter().map(|it| it.0).fold(f64::INFINITY, f64::min);
            let last = ends
                .iter()
                .map(|it| it.0)
                .filter(|end| *end <= first * MAX_END_RATIO);
            let passed = last.fold(first, f64::max);
            seconds += passed;
            let still = left.iter().zip(&ends).filter(|(_, (end, _))| *end > passed);
            left = still
                .map(|((nth, bits), (_, rate))| (*nth, bits - passed * rate))
                .collect();
        }
        seconds
    }

    /// Returns the seconds if every pair spreads its traffic evenly over all paths.
    pub(crate) fn even_seconds(&self) -> f64 {
        let capacities = self.network.capacities();
        let mut bits = vec![0.0; capacities.len()];
        let mut compass = Compass::default();
        for chain in &self.chains {
            for &[from, to] in &chain.edges {
                let towards = compass.towards(self.network, self.hosts[to]);
                for part in self.network.ways(self.hosts[from], &towards, MAX_PATHS) {
                    for link in part.way.links {
                        bits[link as usize] += self.network.bits(chain.bytes) * part.share;
                    }
                }
            }
        }
        let seconds = bits.iter().zip(capacities);
        let seconds = seconds.map(|(bits, rate)| bits / rate.bits_per_s().max(1) as f64);
        seconds.fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use reweave_common::iteration::Operation;

    use super::*;
    use crate::collectives::{self, Schedule, Send, patterns};
    use crate::engine::network::Costs;

    const HOSTS: usize = 16;
    const LANE_BYTES: f64 = 1e8;

    fn fabric(spines: usize, uplink_gbps: usize) -> Fabric {
        let text = format!(
            "kind = \"leaf-spine\"\nleaves = 4\nspines = {spines}\nhosts_per_leaf = 4\n\
             host_gbps = 100\nuplink_gbps = {uplink_gbps}"
        );
        Fabric::parse("fabric.toml", &text).unwrap()
    }

    fn collective(fabric: &Fabric, operation: Operation) -> Collective<'_> {
        Collective {
            fabric,
            members: None,
            operation,
            bytes: LANE_BYTES,
        }
    }

    fn seconds(fabric: &Fabric, algorithm: Algorithm, channels: u32, seed: u64) -> f64 {
        let network = Network::of(fabric, Costs::default());
        let collective = collective(fabric, Operation::AllReduce);
        let swing = Swing::of(&collective, algorithm, &network, u64::MAX).unwrap();
        swing.seconds(channels, 0.0, &Ecmp::Mixed { seed }).unwrap()
    }

    /// Simulates each channel as a ring of its own over the same paths, send by send.
    fn played(fabric: &Fabric, channels: u32, seed: u64) -> f64 {
        let network = Network::of(fabric, Costs::default());
        let (collective, ecmp) = (
            collective(fabric, Operation::AllReduce),
            Ecmp::Mixed { seed },
        );
        let swing = Swing::of(&collective, Algorithm::Ring, &network, u64::MAX).unwrap();
        let members: Vec<_> = (0..HOSTS).collect();
        let steps = patterns::ring_steps(Operation::AllReduce, HOSTS);
        let lane = |channel: u32| {
            let mut lane = patterns::ring(&members, LANE_BYTES / f64::from(channels), steps);
            for send in &mut lane[0].sends {
                send.along = along(&swing, send, channel, &ecmp);
            }
            lane
        };
        let lanes = Schedule::Rounds((0..channels).map(lane).collect());
        let played = collectives::play(&collective, &lanes, &network, &ecmp, u64::MAX, &mut |_| {
            true
        });
        played.unwrap().time.seconds()
    }

    fn along(swing: &Swing<'_>, send: &Send, channel: u32, ecmp: &Ecmp) -> Vec<NodeId> {
        let chain = Chain {
            edges: vec![[send.from, send.to]],
            ..swing.chains[0].clone()
        };
        let crossed = swing.crossed(&chain, channel, ecmp, &mut Compass::default());
        let from = swing.hosts[send.from];
        let nodes = crossed.unwrap().into_iter().scan(from, |at, link| {
            let (_, cable) = swing.fabric.links().nth(link / 2)?;
            *at = cable.far(*at).node;
            Some(*at)
        });
        [from].into_iter().chain(nodes).collect()
    }

    /// Whichever channels collide.
    #[test]
    fn ring_time_matches_simulation() {
        for (spines, uplink) in [(8, 25), (4, 40), (2, 100)] {
            let fabric = fabric(spines, uplink);
            for channels in [1, 2, 4] {
                for seed in 0..4 {
                    let found = seconds(&fabric, Algorithm::Ring, channels, seed);
                    let played = played(&fabric, channels, seed);
                    let off = found / played - 1.0;
                    assert!(
                        off.abs() < 1e-6,
                        "{spines} {channels} {seed}: {found} {played}"
                    );
                }
            }
        }
    }
}
