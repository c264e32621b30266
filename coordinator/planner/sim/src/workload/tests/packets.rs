//! Intervals compared with a packet simulation: a network of queues without shares, whose switches have a hash of their
//! own.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::*;
use crate::workload::effects::{Effects, Interval, Setting};

const HOSTS: usize = 8;
const HOSTS_PER_LEAF: usize = 4;
const SPINES: usize = 4;
/// A packet of 9000 bytes on a link of 8 Gb/s.
const PACKET_TIME_NS: u64 = 9_000;
const PACKET_PAYLOAD_BYTES: u64 = 8_936;
const LEAF_SPINE: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 4\nhosts_per_leaf = 4\n\
                      host_gbps = 8\nuplink_gbps = 8";

#[derive(Debug, Clone, Copy)]
struct Message {
    from: usize,
    to: usize,
    packets: u64,
    spine: usize,
}

/// A queue before each link, named by where it leads from and to: hosts, then leaves, then spines.
type Link = (usize, usize);

impl Message {
    fn links(&self) -> Vec<Link> {
        let [here, there] = [self.from, self.to].map(|host| HOSTS + host / HOSTS_PER_LEAF);
        let spine = HOSTS + 2 + self.spine;
        if here == there {
            vec![(self.from, here), (here, self.to)]
        } else {
            vec![
                (self.from, here),
                (here, spine),
                (spine, there),
                (there, self.to),
            ]
        }
    }
}

/// When the last packet has arrived. Hosts send a packet of each of their messages in turn; every
/// link takes the packets as they come.
fn packets_ms(messages: &[Message]) -> f64 {
    let ways: Vec<_> = messages.iter().map(Message::links).collect();
    let mut arriving = BinaryHeap::new();
    let mut order = 0u64;
    let most = messages.iter().map(|it| it.packets).max().unwrap_or(0);
    for turn in 0..most {
        for (nth, _) in messages
            .iter()
            .enumerate()
            .filter(|(_, it)| turn < it.packets)
        {
            arriving.push(Reverse((0u64, order, nth, 0usize)));
            order += 1;
        }
    }
    let (mut free, mut end) = (BTreeMap::<Link, u64>::new(), 0);
    while let Some(Reverse((now, _, nth, hop))) = arriving.pop() {
        let Some(link) = ways[nth].get(hop) else {
            end = end.max(now);
            continue;
        };
        let free = free.entry(*link).or_default();
        *free = now.max(*free) + PACKET_TIME_NS;
        arriving.push(Reverse((*free, order, nth, hop + 1)));
        order += 1;
    }
    end as f64 / 1e6
}

/// Marsaglia's xorshift: which cases are tried depends on its sequence.
struct Xorshift64(u64);

impl Xorshift64 {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % most
    }
}

/// Each host sends once or twice to a host at the other leaf: ports have about equal loads, and the spine of each
/// message decides.
fn messages(seed: u64) -> Vec<Message> {
    let mut rng = Xorshift64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut messages = Vec::new();
    for _ in 0..=rng.below(2) {
        let turns = [rng.below(HOSTS_PER_LEAF), rng.below(HOSTS_PER_LEAF)];
        for from in 0..HOSTS {
            let leaf = from / HOSTS_PER_LEAF;
            let place = (from + turns[leaf]) % HOSTS_PER_LEAF;
            messages.push(Message {
                from,
                to: (1 - leaf) * HOSTS_PER_LEAF + place,
                packets: 100 + rng.below(400) as u64,
                spine: rng.below(SPINES),
            });
        }
    }
    messages
}

fn interval(messages: &[Message], effects: &Effects) -> Interval {
    let mut sketch = Sketch::of(HOSTS);
    for message in messages {
        let ends = [message.from, message.to];
        sketch.transfer(ends, message.packets * PACKET_PAYLOAD_BYTES, &[]);
    }
    let (iteration, fabric) = (sketch.done(), fabric(LEAF_SPINE));
    let (placement, carriage) = (hosts(&fabric), ExplicitPaths::default());
    let network = Network::new(&fabric, &placement, &carriage, Settings::default());
    let setting = Setting {
        iteration: &iteration,
        network: &network,
    };
    setting
        .interval(effects, MAX_SIMULATION_WORK, &mut |_| true)
        .unwrap()
}

const RANDOM_CASES: u64 = 60;
/// Eight hashes are tried, so that one case in nine may meet a worse one, were it for collisions
/// alone.
const MIN_CASES_INSIDE: usize = 54;
/// Filling and draining queues takes the time of a few packets, which shares leave out.
const INTERVAL_TOLERANCE: f64 = 0.01;

fn covered(effects: &Effects) -> Vec<f64> {
    let case = |seed| {
        let messages = messages(seed);
        let (interval, ms) = (interval(&messages, effects), packets_ms(&messages));
        let inside = interval.low_ms * (1.0 - INTERVAL_TOLERANCE)
            ..=interval.high_ms * (1.0 + INTERVAL_TOLERANCE);
        let width = interval.high_ms / interval.low_ms;
        inside.contains(&ms).then_some(width)
    };
    (0..RANDOM_CASES).filter_map(case).collect()
}

#[test]
fn packet_simulation_lies_inside_interval() {
    let mut widths = covered(&Effects::default());
    assert!(
        widths.len() >= MIN_CASES_INSIDE,
        "{} of {RANDOM_CASES}",
        widths.len()
    );
    widths.sort_by(f64::total_cmp);
    let median = widths[widths.len() / 2];
    assert!(median < 3.0, "an interval this wide says little: {median}");
}

#[test]
fn interval_needs_collision_effects() {
    let none = covered(&Effects::NONE).len();
    let evenly = Effects {
        seeds: 0,
        ..Effects::default()
    };
    let evenly = covered(&evenly).len();
    let all = covered(&Effects::default()).len();
    assert!(none < evenly && evenly < all, "{none}, {evenly}, {all}");
}

#[test]
fn packet_time_matches_link_rate() {
    let alone = Message {
        from: 0,
        to: 7,
        packets: 1000,
        spine: 0,
    };
    near(packets_ms(&[alone]), (1000.0 + 3.0) * 9.0 / 1e3);
    let other = Message { from: 1, ..alone };
    near(packets_ms(&[alone, other]), (2000.0 + 3.0) * 9.0 / 1e3);
}
