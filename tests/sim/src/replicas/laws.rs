//! Invariants that hold at every moment, after any fault. Each is checked after every event, on the affected node.

use std::collections::{BTreeMap, BTreeSet};

use reweave_replica::{Entry, MemberId, Replica, RequestId};

use super::machine::{Machine, digest};
use super::node::{Node, Running};

#[derive(Debug, Default)]
pub struct Laws {
    /// Leader of each term.
    elected: BTreeMap<u64, u64>,
    /// Content of each entry by index and term, with the term of the previous entry.
    entries: BTreeMap<(u64, u64), (u64, Option<u64>)>,
    /// State after each entry that was applied anywhere.
    states: BTreeMap<u64, [u64; 2]>,
    /// Last acknowledged request of each client, by term of the leader.
    acknowledged: BTreeMap<u64, BTreeMap<u64, u64>>,
    /// Last checked entry of each node's log.
    looked: BTreeMap<u64, (u64, u64)>,
    /// While most disks are full and all know: the last entry of any log when it had come to that.
    decided_until: Option<u64>,
    /// Number of times that it happened.
    pub undecided: u64,
    /// Nodes whose disks were full at a look.
    found_full: BTreeSet<u64>,
    pub applied: u64,
    pub snapshots_restored: u64,
}

impl Laws {
    /// A node that restarts may have less of the log than it had.
    pub fn started(&mut self, node: u64) {
        self.looked.remove(&node);
    }

    pub fn look(&mut self, node: u64, running: &Running) {
        let replica = running.replica();
        if let Some(term) = replica.elected() {
            let other = *self.elected.entry(term).or_insert(node);
            assert_eq!(other, node, "two were elected in term {term}");
        }
        self.full_disk_takes_nothing(node, running);
        self.logs_match(node, replica);
    }

    /// Checks that a full disk takes nothing from others, except what its reserve allows.
    fn full_disk_takes_nothing(&self, node: u64, running: &Running) {
        let (durable, (last, term)) = (&running.durable, running.replica().last());
        let has_grown = self.looked.get(&node).is_some_and(|looked| last > looked.0);
        let is_own = running.replica().elected() == Some(term);
        let has_room = !durable.disk_is_full() || durable.store().spares_some();
        assert!(
            !has_grown || is_own || has_room,
            "{node} has taken entry {last}, and its disk was full"
        );
    }

    /// Checks that nothing of clients or the core is decided when most disks are full, all coordinators know it, and
    /// nothing is in flight.
    pub fn look_at_disks(&mut self, nodes: &BTreeMap<u64, Node>) {
        let full = nodes.iter().filter(|(_, node)| node.is_full());
        let full: BTreeSet<_> = full.map(|(id, _)| *id).collect();
        let running = || nodes.values().filter_map(|node| node.running.as_ref());
        if full.is_empty() || !running().all(|it| knows_of_most(it, &full)) {
            self.decided_until = None;
        } else if self.decided_until.is_none() && running().all(is_idle) {
            let last = self.entries.last_key_value();
            self.decided_until = last.map(|((index, _), _)| *index);
            self.undecided += 1;
        }
        self.found_full.extend(full);
    }

    pub fn decides_nothing(&self) -> bool {
        self.decided_until.is_some()
    }

    /// Returns the number of full disks at a check, including the node's own.
    pub fn full_disks(&self) -> u64 {
        self.found_full.len() as u64
    }

    /// Logs that have an entry of one index and term are the same up to there: so they are when each
    /// such entry holds the same, and follows one of the same term.
    fn logs_match(&mut self, node: u64, replica: &Replica) {
        let last = replica.last();
        let looked = self.looked.insert(node, last);
        if looked == Some(last) {
            return;
        }
        // A log that was truncated and extended differs at an earlier index.
        let has_grown = looked.filter(|looked| looked.0 < last.0 && looked.1 <= last.1);
        let mut log = replica.log(has_grown.map_or(0, |looked| looked.0.saturating_sub(1)));
        if has_grown.is_some_and(|looked| {
            log.first().map(|first| (first.index, first.term)) != Some(looked)
        }) {
            log = replica.log(0);
        }
        let mut before = None;
        for entry in &log {
            self.entry(node, entry, before);
            before = Some(entry.term);
        }
    }

    fn entry(&mut self, node: u64, entry: &Entry, before: Option<u64>) {
        let place = (entry.index, entry.term);
        let held = digest(&postcard::to_stdvec(entry).expect("it can be written"));
        let known = self.entries.entry(place).or_insert((held, before));
        assert_eq!(known.0, held, "{node} holds another entry at {place:?}");
        match (known.1, before) {
            (Some(known), Some(before)) => {
                assert_eq!(known, before, "{node} holds another entry before {place:?}");
            }
            (None, Some(before)) => known.1 = Some(before),
            _ => {}
        }
    }

    /// The same entries lead to the same state everywhere.
    pub fn applied(&mut self, node: u64, index: u64, running: &Running) {
        self.applied += 1;
        let is_early = self.decided_until.is_none_or(|last| index <= last);
        assert!(
            is_early,
            "{node} applied entry {index} of a client or the core: most disks were full, and all knew"
        );
        let state = running.digest();
        let known = *self.states.entry(index).or_insert(state);
        assert_eq!(
            known, state,
            "{node} is in another state after entry {index}"
        );
    }

    /// A snapshot holds what its entries led to.
    pub fn restored(&mut self, node: u64, index: u64, running: &Running) {
        self.snapshots_restored += 1;
        if let Some((_, &known)) = self.states.range(..=index).next_back() {
            let state = running.digest();
            assert_eq!(
                known, state,
                "{node} restored another state of entry {index}"
            );
        }
    }

    pub fn acknowledged(&mut self, term: u64, request: RequestId) {
        let of_term = self.acknowledged.entry(term).or_default();
        let last = of_term.entry(request.client).or_default();
        *last = request.number.max(*last);
    }

    /// A leader has all that leaders before it acknowledged.
    pub fn leads(&self, node: u64, term: u64, machine: &Machine) {
        let before = self.acknowledged.range(..term);
        for (client, number) in before.flat_map(|(_, of_term)| of_term) {
            let held = machine.last(*client);
            assert!(
                held >= *number,
                "{node} leads without request {number} of client {client}"
            );
        }
    }

    pub fn terms(&self) -> u64 {
        self.elected.len() as u64
    }
}

/// Whether these are most voters, and its core knows that nothing may be decided.
fn knows_of_most(running: &Running, full: &BTreeSet<u64>) -> bool {
    let voters = &running.replica().members().configuration.voters;
    let full = voters.iter().filter(|MemberId(id)| full.contains(id));
    !running.may_decide && 2 * full.count() > voters.len()
}

/// Whether no request is pending.
fn is_idle(running: &Running) -> bool {
    running.waiting.is_empty() && !running.office.is_busy()
}
