//! Effects of replicas: on the disk, on other replicas, on the machine, and on waiting clients.

use std::time::Duration;

use reweave_core::Command;
use reweave_replica::decode_exact;
use reweave_replica::{Applied, Batch, Effect, Kind, MemberId, ReadId, RequestId, Standing};

use super::leading::NOT_LEADING;
use super::{Cluster, Event, NETWORK_DELAYS, RESTART_DELAY};
use crate::replicas::machine::{Answer, Payload};
use crate::replicas::node::{Asker, Running, came_with, came_with_state};

const SNAPSHOT_TIMES: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(20)];

impl Cluster {
    pub(super) fn carry_out(&mut self, id: u64) {
        while let Some(effect) = self.poll(id) {
            // Then nothing follows from it.
            if self.has_lost_power(id) {
                return;
            }
            self.carry_out_one(id, effect);
        }
        if self.has_lost_power(id) {
            return;
        }
        self.look_at(id);
        self.laws.look_at_disks(&self.nodes);
    }

    pub(super) fn look_at(&mut self, id: u64) {
        if let Some(running) = self.nodes.get(&id).and_then(|node| node.running.as_ref()) {
            self.laws.look(id, running);
        }
    }

    fn poll(&mut self, id: u64) -> Option<Effect> {
        self.nodes
            .get_mut(&id)?
            .running
            .as_mut()?
            .durable
            .poll_effect()
    }

    fn carry_out_one(&mut self, id: u64, effect: Effect) {
        match effect {
            Effect::Send(message) => {
                let votes = message.kind == Kind::RequestVoteResponse && !message.reject;
                self.post(message);
                if votes && self.voters_die {
                    self.kill(id, Duration::from_millis(1));
                }
            }
            Effect::Persist(batch) => self.write(id, batch),
            Effect::Compact(whole) => {
                let begun = self.running(id).durable.compact(whole);
                begun.expect("a compaction begins");
            }
            Effect::Apply(applied) => self.apply(id, &applied),
            Effect::Repeated(request) => self.answer_waiting(id, request),
            Effect::Restore { index, state } => self.restore(id, index, &state),
            Effect::TakeSnapshot { index } => self.take_snapshot(id, index),
            Effect::ReadReady(read) => self.read_ready(id, read),
            Effect::ReadLost(read) => self.read_lost(id, read),
            Effect::Stands(standing) => self.stands(id, standing),
            Effect::Membership(members) => {
                // A member that was removed ends.
                if !members.of.is_empty() && !members.of.contains_key(&MemberId(id)) {
                    self.lose(id);
                }
            }
            Effect::PendingMembers(to_come) => {
                self.running(id).pending_members = to_come.into_keys().collect();
            }
            Effect::Unreadable { index } => panic!("{id} cannot read entry {index}"),
        }
    }

    /// Syncing takes a while.
    fn write(&mut self, id: u64, batch: Batch) {
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        assert!(node.writing.is_none(), "one write at a time");
        node.writing = Some(batch);
        let (life, takes) = (node.life, node.sync_takes);
        self.after(takes, Event::Synced { node: id, life });
    }

    pub(super) fn running(&mut self, id: u64) -> &mut Running {
        let node = self.nodes.get_mut(&id).expect("it said something");
        node.running.as_mut().expect("it said something")
    }

    fn apply(&mut self, id: u64, applied: &Applied) {
        let payload = decode_exact(&applied.payload).expect("a replica wrote it");
        let (index, request) = (applied.index, applied.request);
        let decided = match payload {
            Payload::Register { key, op } => {
                self.running(id).machine.apply(request, key, op);
                None
            }
            Payload::Decided(entry) => Some(self.apply_decided(id, index, &entry)),
        };
        if let Some(running) = self.nodes[&id].running.as_ref() {
            self.laws.applied(id, index, running);
            if let Some(command) = &decided {
                self.agreed.applied(index, command, running.office.state());
            }
        }
        self.answer_waiting(id, request);
        self.drive(id);
    }

    fn apply_decided(&mut self, id: u64, index: u64, entry: &[u8]) -> Command {
        let command = Command::decode(index, entry).expect("a replica wrote it");
        let (since, reads) = (came_with(&command.change), self.nodes[&id].reads);
        assert!(since <= reads, "{id} reads 1.{reads}, and not {command:?}");
        let running = self.running(id);
        let lowered = running.decide(command.clone());
        let version = running.office.state().cluster_version();
        assert!(
            lowered.is_ok() && version <= reads,
            "{id} reads 1.{reads}, and is at 1.{version}: {lowered:?}"
        );
        let needs = came_with_state(running.office.state());
        assert!(
            needs <= version,
            "{id} is at 1.{version}, and needs 1.{needs}"
        );
        if let Ok(Some(_)) = lowered {
            running.replica_mut().compact_to(index);
        }
        command
    }

    fn answer_waiting(&mut self, id: u64, request: RequestId) {
        let running = self.running(id);
        let answer = running.machine.answer(request);
        let waiting = running.waiting.remove(&request);
        if let (Some(asker), Some(answer)) = (waiting, answer) {
            if let Some(term) = self.nodes[&id].leads() {
                self.laws.acknowledged(term, request);
            }
            self.send_answer(asker, request, answer);
        }
    }

    fn send_answer(&mut self, asker: Asker, request: RequestId, answer: Answer) {
        let answer = Event::Answer {
            asker,
            request,
            answer,
        };
        self.after(NETWORK_DELAYS, answer);
    }

    /// The product ends where it does not read that.
    fn restore(&mut self, id: u64, index: u64, state: &[u8]) {
        if let Err(refused) = self.running(id).restore(state) {
            let is_too_early = self.nodes[&id].is_too_early;
            assert!(is_too_early, "{id} refuses what it is sent: {refused:?}");
            return self.kill(id, RESTART_DELAY);
        }
        let version = came_with_state(self.running(id).office.state());
        let reads = self.nodes[&id].reads;
        assert!(
            version <= reads,
            "{id} reads 1.{reads}, and is sent a state of 1.{version}"
        );
        if let Some(running) = self.nodes[&id].running.as_ref() {
            self.laws.restored(id, index, running);
        }
    }

    /// Starts a snapshot, which takes a while. More entries are applied meanwhile.
    fn take_snapshot(&mut self, id: u64, index: u64) {
        let state = self.running(id).encode();
        let life = self.nodes[&id].life;
        self.after(
            SNAPSHOT_TIMES,
            Event::Snapshot {
                node: id,
                life,
                index,
                state,
            },
        );
    }

    fn read_ready(&mut self, id: u64, read: ReadId) {
        let running = self.running(id);
        if let Some((asker, value)) = running.reads.remove(&read) {
            let answer = Answer::Value(value);
            // Reads are distinguished by their attempts.
            let request = RequestId {
                client: 0,
                number: asker.attempt,
            };
            self.send_answer(asker, request, answer);
        } else {
            running.office.handle_certain(read.0);
            self.drive(id);
        }
    }

    fn read_lost(&mut self, id: u64, read: ReadId) {
        let running = self.running(id);
        if let Some((asker, _)) = running.reads.remove(&read) {
            let leader = None;
            self.after(NETWORK_DELAYS, Event::Elsewhere { asker, leader });
        } else {
            running.office.handle_uncertain(read.0, NOT_LEADING);
            self.drive(id);
        }
    }

    fn stands(&mut self, id: u64, standing: Standing) {
        let running = self.running(id);
        let waiting = std::mem::take(&mut running.waiting);
        for asker in waiting.into_values() {
            self.after(
                NETWORK_DELAYS,
                Event::Elsewhere {
                    asker,
                    leader: None,
                },
            );
        }
        match standing {
            Standing::Leads { term } => self.lead(id, term),
            Standing::Follows { .. } => self.step_down(id),
        }
    }
}
