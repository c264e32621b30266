//! Collectives in rounds.

use reweave_common::iteration::Operation;

use super::schedule::{Round, Send};

/// Returns the number of steps of a ring in which each step moves one share.
pub(super) fn ring_steps(operation: Operation, hosts: usize) -> usize {
    match operation {
        Operation::AllReduce => 2 * (hosts - 1),
        _ => hosts - 1,
    }
}

/// In each step every member passes a share of the bytes to the next.
pub(super) fn ring(members: &[usize], bytes: f64, steps: usize) -> Vec<Round> {
    let share = bytes / members.len() as f64;
    let sends = members.iter().enumerate();
    let sends = sends.map(|(nth, &from)| {
        let next = members[(nth + 1) % members.len()];
        Send::new(from, next, share)
    });
    vec![Round {
        sends: sends.collect(),
        times: steps,
    }]
}

/// Returns the members in the order in which a stride visits them.
pub(super) fn stride_ring(hosts: usize, stride: usize) -> Vec<usize> {
    (0..hosts).map(|nth| nth * stride % hosts).collect()
}

pub(super) fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Reduce-scatter by halves: first with the furthest, of a half of all, then with ever closer ones
/// of ever less. All-gather is the same backwards. What is above a power of two hands its part to
/// one below first, and gets the result back.
pub(super) fn recursive(operation: Operation, hosts: usize, bytes: f64) -> Vec<Round> {
    let core = 1 << hosts.ilog2();
    let extra = hosts - core;
    let share = bytes / hosts as f64;
    let distances = (0..core.ilog2()).map(|nth| 1 << nth);
    let scatter = |distance| {
        exchange(core, distance, |_, to| {
            block(operation, [to, distance], hosts, bytes)
        })
    };
    let gather = |distance| {
        exchange(core, distance, |from, _| {
            block(operation, [from, distance], hosts, bytes)
        })
    };
    // Handing in and giving out whole buffers or only shares.
    let (hand_in, give_out) = match operation {
        Operation::AllGather => (share, bytes),
        Operation::ReduceScatter => (bytes, share),
        _ => (bytes, bytes),
    };
    let hand_in = (0..extra).map(|nth| Send::new(core + nth, nth, hand_in));
    let give_out = (0..extra).map(|nth| Send::new(nth, core + nth, give_out));
    let mut rounds = vec![once(hand_in.collect())];
    if operation != Operation::AllGather {
        rounds.extend(distances.clone().rev().map(scatter));
    }
    if operation != Operation::ReduceScatter {
        rounds.extend(distances.map(gather));
    }
    rounds.push(once(give_out.collect()));
    rounds.retain(|round| !round.sends.is_empty());
    rounds
}

/// Returns the bytes that a host of an aligned block holds at the end. In an all-reduce only hosts of the core hold
/// data; otherwise a host also holds the shares of those that it represents.
fn block(operation: Operation, [host, size]: [usize; 2], hosts: usize, bytes: f64) -> f64 {
    let core = 1 << hosts.ilog2();
    let first = host / size * size;
    if operation == Operation::AllReduce {
        return bytes * size as f64 / core as f64;
    }
    let doubled = (hosts - core).clamp(first, first + size) - first;
    bytes * (size + doubled) as f64 / hosts as f64
}

/// All pairs so far apart swap this many bytes.
fn exchange(hosts: usize, distance: usize, bytes: impl Fn(usize, usize) -> f64) -> Round {
    let send = |from| Send::new(from, from ^ distance, bytes(from, from ^ distance));
    once((0..hosts).map(send).collect())
}

fn once(sends: Vec<Send>) -> Round {
    Round { sends, times: 1 }
}

/// Rings inside groups of neighbours, and between those of one place in their groups.
pub(super) fn hierarchical(
    operation: Operation,
    hosts: usize,
    group: usize,
    bytes: f64,
) -> Vec<Round> {
    let inside = rings(hosts, group, bytes, group - 1, |nth, member| {
        nth * group + member
    });
    let groups = hosts / group;
    let steps = ring_steps(operation, groups);
    let share = bytes / group as f64;
    let between = rings(hosts, groups, share, steps, |nth, member| {
        member * group + nth
    });
    let rounds = match operation {
        Operation::AllReduce => vec![inside.clone(), between, inside],
        Operation::ReduceScatter => vec![inside, between],
        _ => vec![between, inside],
    };
    rounds.into_iter().filter(|round| round.times > 0).collect()
}

/// Returns parallel rings of `size`; `place` maps members to ranks.
fn rings(
    hosts: usize,
    size: usize,
    bytes: f64,
    steps: usize,
    place: impl Fn(usize, usize) -> usize,
) -> Round {
    let rings = (0..hosts / size).flat_map(|nth| {
        let members: Vec<_> = (0..size).map(|member| place(nth, member)).collect();
        ring(&members, bytes, steps)
    });
    Round {
        sends: rings.flat_map(|round| round.sends).collect(),
        times: steps,
    }
}

pub(super) fn direct(hosts: usize, bytes: f64) -> Vec<Round> {
    let sends = (1..hosts).flat_map(|shift| shift_by(hosts, shift, bytes));
    vec![once(sends.collect())]
}

/// No host is the target of two at once.
pub(super) fn shifted(hosts: usize, bytes: f64) -> Vec<Round> {
    let round = |shift| once(shift_by(hosts, shift, bytes).collect());
    (1..hosts).map(round).collect()
}

fn shift_by(hosts: usize, shift: usize, bytes: f64) -> impl Iterator<Item = Send> {
    let share = bytes / hosts as f64;
    (0..hosts).map(move |from| Send::new(from, (from + shift) % hosts, share))
}
