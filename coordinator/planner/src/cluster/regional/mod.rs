//! Circuits for traffic that changes with every iteration, as that of experts does: laid anew in a
//! region of hosts by what the last gates counted, beside a packet network that carries the rest.
//!
//! Time is that of the busiest host: on each pair, circuits carry what they can, and the packet
//! network the rest, from all its pairs at once. [`Advice`] says whether laying them anew pays, by
//! counts of past iterations: each iteration is planned from the one before it, as it would be.

mod gates;

pub use gates::parse;

use serde::Serialize;

use crate::gain::span;
use crate::topology::Pair;

/// What hosts send each other in an iteration, in bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Counts {
    hosts: usize,
    bytes: Vec<f64>,
}

impl Counts {
    pub fn new(hosts: usize) -> Self {
        Self {
            hosts,
            bytes: vec![0.0; hosts * hosts],
        }
    }

    pub fn hosts(&self) -> usize {
        self.hosts
    }

    /// What stays on its host crosses nothing.
    pub fn add(&mut self, from: usize, to: usize, bytes: f64) {
        if from != to {
            self.bytes[from * self.hosts + to] += bytes;
        }
    }

    pub fn between(&self, from: usize, to: usize) -> f64 {
        self.bytes[from * self.hosts + to]
    }

    /// The mean of several.
    pub fn mean(all: &[Self]) -> Self {
        let mut mean = Self::new(all.first().map_or(0, Self::hosts));
        for counts in all {
            for (sum, bytes) in mean.bytes.iter_mut().zip(&counts.bytes) {
                *sum += bytes / all.len() as f64;
            }
        }
        mean
    }
}

/// A region of hosts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Region {
    /// Of each host, for circuits.
    pub ports: usize,
    pub circuit_gbps: f64,
    /// What a host can send and receive over packet switches.
    pub switched_gbps: f64,
}

/// How many circuits join each pair of hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Circuits {
    hosts: usize,
    counts: Vec<u8>,
}

impl Circuits {
    fn new(hosts: usize) -> Self {
        Self {
            hosts,
            counts: vec![0; hosts * hosts],
        }
    }

    /// Pairs may be named several times.
    pub fn of(hosts: usize, pairs: &[[usize; 2]]) -> Self {
        let mut circuits = Self::new(hosts);
        pairs.iter().for_each(|&[a, b]| circuits.change(a, b, 1));
        circuits
    }

    pub fn between(&self, a: usize, b: usize) -> usize {
        usize::from(self.counts[a * self.hosts + b])
    }

    pub fn degree(&self, host: usize) -> usize {
        let own = &self.counts[host * self.hosts..][..self.hosts];
        own.iter().map(|&count| usize::from(count)).sum()
    }

    fn change(&mut self, a: usize, b: usize, by: i8) {
        for place in [a * self.hosts + b, b * self.hosts + a] {
            self.counts[place] = self.counts[place].saturating_add_signed(by);
        }
    }

    /// Each pair once for each of its circuits.
    pub fn pairs(&self) -> Vec<Pair> {
        let pairs = (0..self.hosts).flat_map(|a| (a + 1..self.hosts).map(move |b| [a, b]));
        let each =
            |[a, b]: [usize; 2]| std::iter::repeat_n([a as u32, b as u32], self.between(a, b));
        pairs.flat_map(each).collect()
    }

    /// How many must be moved to get from these to others.
    pub fn moved(&self, other: &Self) -> usize {
        let more = self.counts.iter().zip(&other.counts);
        more.map(|(old, new)| usize::from(new.saturating_sub(*old)))
            .sum::<usize>()
            / 2
    }
}

const GBPS_TO_BYTES_PER_MS: f64 = 1e9 / 8.0 / 1e3;

impl Region {
    /// How long all this takes over these circuits and the packet network.
    pub fn time_ms(&self, counts: &Counts, circuits: &Circuits) -> f64 {
        let hosts = 0..counts.hosts;
        hosts
            .map(|host| self.host_ms(counts, circuits, host))
            .fold(0.0, f64::max)
    }

    /// How long one host sends or receives, whichever is longer.
    fn host_ms(&self, counts: &Counts, circuits: &Circuits, host: usize) -> f64 {
        let others = 0..counts.hosts;
        let lane = |bytes: f64, other| (bytes, circuits.between(host, other) as f64);
        let sent = others.clone().map(|it| lane(counts.between(host, it), it));
        let received = others.map(|it| lane(counts.between(it, host), it));
        self.way_ms(&sent).max(self.way_ms(&received))
    }

    /// The first time at which the packet network has carried all that circuits have not: from the
    /// time on at which a pair's circuits are done, it has nothing left to carry for it. If those
    /// that are at work at some time are taken to be so until the end, the end comes too early; so
    /// it is approached from below, in few steps.
    fn way_ms(&self, lanes: &(impl Iterator<Item = (f64, f64)> + Clone)) -> f64 {
        let [circuit, switched] =
            [self.circuit_gbps, self.switched_gbps].map(|gbps| gbps * GBPS_TO_BYTES_PER_MS);
        let mut time_ms = 0.0;
        loop {
            let (mut bytes, mut rate) = (0.0, switched);
            for (amount, count) in lanes.clone() {
                if amount > count * circuit * time_ms {
                    bytes += amount;
                    rate += count * circuit;
                }
            }
            let end_ms = if bytes > 0.0 { bytes / rate } else { 0.0 };
            if end_ms <= time_ms {
                return time_ms;
            }
            time_ms = end_ms;
        }
    }

    /// Circuits for what was counted: one after the other for the host that takes longest, to where
    /// most of its time goes; then exchanged in twos as long as the longest time shrinks.
    pub fn circuits(&self, counts: &Counts) -> Circuits {
        let mut laying = Laying::new(*self, counts);
        while laying.add_one() {}
        let mut tries = MOST_TRIES;
        while laying.exchange(&mut tries) {}
        laying.circuits
    }
}

/// So many exchanges are tried, as there is no time for more.
const MOST_TRIES: usize = 256;

struct Laying<'l> {
    region: Region,
    counts: &'l Counts,
    circuits: Circuits,
    /// By host.
    times_ms: Vec<f64>,
}

impl<'l> Laying<'l> {
    fn new(region: Region, counts: &'l Counts) -> Self {
        let mut laying = Self {
            region,
            counts,
            circuits: Circuits::new(counts.hosts),
            times_ms: vec![0.0; counts.hosts],
        };
        (0..counts.hosts).for_each(|host| laying.renew(host));
        laying
    }

    fn renew(&mut self, host: usize) {
        self.times_ms[host] = self.region.host_ms(self.counts, &self.circuits, host);
    }

    fn slowest_first(&self) -> Vec<usize> {
        let mut order: Vec<_> = (0..self.counts.hosts).collect();
        order.sort_by(|&a, &b| self.times_ms[b].total_cmp(&self.times_ms[a]));
        order
    }

    fn has_port(&self, host: usize) -> bool {
        self.circuits.degree(host) < self.region.ports
    }

    /// What a pair would still have to do if it had one circuit more.
    fn share(&self, a: usize, b: usize) -> f64 {
        let bytes = self.counts.between(a, b).max(self.counts.between(b, a));
        bytes / (self.circuits.between(a, b) + 1) as f64
    }

    /// To whom a host could have one circuit more, those with most left to do first.
    fn peers(&self, host: usize) -> Vec<usize> {
        let others = (0..self.counts.hosts).filter(|&other| other != host);
        let shares = others.map(|other| (other, self.share(host, other)));
        let mut peers: Vec<_> = shares.filter(|(_, share)| *share > 0.0).collect();
        peers.sort_by(|a, b| b.1.total_cmp(&a.1));
        peers.into_iter().map(|(other, _)| other).collect()
    }

    fn add_one(&mut self) -> bool {
        let joined = self.slowest_first().into_iter().find_map(|host| {
            let mut peers = self.has_port(host).then(|| self.peers(host))?.into_iter();
            Some([host, peers.find(|&peer| self.has_port(peer))?])
        });
        joined.into_iter().for_each(|ends| self.make(&[(ends, 1)]));
        joined.is_some()
    }

    fn longest_ms(&self) -> f64 {
        self.times_ms.iter().copied().fold(0.0, f64::max)
    }

    /// A circuit for the slowest host to one of its peers; each of the two gives up another one for it, and
    /// the ends of those that are free then are joined.
    fn exchange(&mut self, tries: &mut usize) -> bool {
        let Some(&host) = self.slowest_first().first() else {
            return false;
        };
        for peer in self.peers(host).into_iter().take(MOST_PEERS) {
            for given in self.given(host, peer) {
                for taken in self.given(peer, host) {
                    if *tries == 0 {
                        return false;
                    }
                    *tries -= 1;
                    if self.gains(&exchanged([host, peer], [given, taken])) {
                        return true;
                    }
                }
            }
        }
        false
    }

    /// Whose circuit a host may give up for one to a peer; none where it has a port left.
    fn given(&self, host: usize, peer: usize) -> Vec<Option<usize>> {
        if self.has_port(host) {
            return vec![None];
        }
        let own =
            (0..self.counts.hosts).filter(|&it| it != peer && self.circuits.between(host, it) > 0);
        own.map(Some).collect()
    }

    /// Whether these changes make the longest time shorter. If not, all is as it was.
    fn gains(&mut self, changes: &[Change]) -> bool {
        let (before_ms, times_ms) = (self.longest_ms(), self.times_ms.clone());
        self.make(changes);
        if self.longest_ms() < before_ms {
            return true;
        }
        for &([a, b], by) in changes {
            self.circuits.change(a, b, -by);
        }
        self.times_ms = times_ms;
        false
    }

    fn make(&mut self, changes: &[Change]) {
        for &([a, b], by) in changes {
            self.circuits.change(a, b, by);
        }
        let mut ends: Vec<_> = changes.iter().flat_map(|(ends, _)| *ends).collect();
        ends.sort_unstable();
        ends.dedup();
        ends.into_iter().for_each(|host| self.renew(host));
    }
}

/// So many circuits more between two hosts.
type Change = ([usize; 2], i8);

/// One between a host and its peer, for one that each of them gives up.
fn exchanged([host, peer]: [usize; 2], [given, taken]: [Option<usize>; 2]) -> Vec<Change> {
    let mut changes = vec![([host, peer], 1)];
    changes.extend(given.map(|given| ([host, given], -1)));
    changes.extend(taken.map(|taken| ([peer, taken], -1)));
    let freed = given.zip(taken).filter(|(a, b)| a != b);
    changes.extend(freed.map(|(a, b)| ([a, b], 1)));
    changes
}

/// So many peers of the slowest host are looked at for an exchange.
const MOST_PEERS: usize = 4;

/// Whether laying circuits anew in every iteration pays.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// Without any circuits.
    pub switched_ms: f64,
    /// With circuits for what is counted on average, which stay.
    pub static_ms: f64,
    /// With circuits for the iteration before, without the time to lay them.
    pub regional_ms: f64,
    pub reconfigure_ms: f64,
    /// What an iteration gains, and how far that is from certain (twice its standard error).
    pub gain_ms: f64,
    pub uncertain_ms: f64,
    pub pays: bool,
    /// A switch that takes no longer than this would pay; none does where it is not above zero.
    pub pays_below_ms: f64,
    /// How many ports for circuits would do as well without laying anything anew.
    pub ports_instead: Option<usize>,
    pub why: String,
}

impl Region {
    /// By the counts of iterations one after another: `reconfigure_ms` to move circuits, of which so much
    /// is hidden behind computing. Nothing with fewer than three iterations: there is nothing to learn
    /// from.
    pub fn advice(
        &self,
        past: &[Counts],
        time_ms: impl Fn(usize) -> f64,
        hidden_ms: f64,
    ) -> Option<Advice> {
        if past.len() < 3 {
            return None;
        }
        let fixed = self.circuits(&Counts::mean(past));
        let planned: Vec<_> = past.iter().map(|counts| self.circuits(counts)).collect();
        let follow = past[1..].iter().zip(&planned);
        let regional: Vec<_> = follow
            .map(|(counts, circuits)| self.time_ms(counts, circuits))
            .collect();
        let still: Vec<_> = past[1..]
            .iter()
            .map(|counts| self.time_ms(counts, &fixed))
            .collect();
        let moves = planned
            .windows(2)
            .map(|two| (time_ms(two[0].moved(&two[1])) - hidden_ms).max(0.0));
        let reconfigure_ms = mean(&moves.collect::<Vec<_>>());
        let gains: Vec<_> = still
            .iter()
            .zip(&regional)
            .map(|(still, it)| still - it)
            .collect();
        let none = Circuits::new(past[0].hosts);
        let switched = past[1..].iter().map(|counts| self.time_ms(counts, &none));
        let uncertain_ms = 2.0 * standard_error(&gains);
        let regional_ms = mean(&regional);
        let mut advice = Advice {
            switched_ms: mean(&switched.collect::<Vec<_>>()),
            static_ms: mean(&still),
            regional_ms,
            reconfigure_ms,
            gain_ms: mean(&gains) - reconfigure_ms,
            uncertain_ms,
            pays: mean(&gains) - reconfigure_ms > uncertain_ms,
            pays_below_ms: mean(&gains) - uncertain_ms + hidden_ms,
            ports_instead: self.ports_instead(past, regional_ms),
            why: String::new(),
        };
        advice.why = advice.words();
        Some(advice)
    }

    /// How few ports make circuits that stay as fast as those that are laid anew.
    fn ports_instead(&self, past: &[Counts], enough_ms: f64) -> Option<usize> {
        let mean_counts = Counts::mean(past);
        let does = |ports: &usize| {
            let wider = Self {
                ports: *ports,
                ..*self
            };
            let fixed = wider.circuits(&mean_counts);
            let times = past[1..].iter().map(|counts| wider.time_ms(counts, &fixed));
            mean(&times.collect::<Vec<_>>()) <= enough_ms
        };
        (1..=self.ports * MOST_TIMES_WIDER).find(does)
    }
}

/// Nobody buys more than so many times the ports.
const MOST_TIMES_WIDER: usize = 4;

impl Advice {
    fn words(&self) -> String {
        let [still, anew, cost, gain] = [
            self.static_ms,
            self.regional_ms,
            self.reconfigure_ms,
            self.gain_ms,
        ]
        .map(span);
        if self.pays {
            return format!(
                "circuits laid anew for every iteration take {anew} for what they carry and {cost} to lay; \
                 circuits that stay take {still}: {gain} gained"
            );
        }
        let instead = self.ports_instead.map_or(String::new(), |ports| {
            format!("; {ports} ports for circuits that stay would be as fast")
        });
        let below = match self.pays_below_ms > 0.0 {
            true => format!(
                "it would pay with a switch that takes less than {}",
                span(self.pays_below_ms)
            ),
            false => {
                "the gates change too much from one iteration to the next for any switch".to_owned()
            }
        };
        format!(
            "circuits laid anew do not pay: {anew} for what they carry and {cost} to lay, where circuits \
             that stay take {still}; {below}{instead}"
        )
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn standard_error(values: &[f64]) -> f64 {
    let (mean, count) = (mean(values), values.len() as f64);
    let squares: f64 = values
        .iter()
        .map(|value| (value - mean) * (value - mean))
        .sum();
    (squares / (count - 1.0).max(1.0) / count).sqrt()
}
