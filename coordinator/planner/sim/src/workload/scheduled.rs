//! Schedules of collectives as flows that wait for one another.

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_common::ids::Rank;

use super::collective::ChainHop;
use super::lowering::{Lowering, SimulationError, Span};
use super::network::Steps;
use super::queues::Queues;
use crate::collectives::{Round, Schedule, Send};
use crate::engine::TaskIndex;

/// The flows of one send, and what is over when all of them are.
struct Sent {
    flows: Vec<TaskIndex>,
    end: TaskIndex,
}

/// Scaling of a schedule to a collective.
#[derive(Clone, Copy)]
struct Manner {
    /// Bytes per byte of the schedule.
    bytes: f64,
    /// Number of consecutive messages that one send stands for.
    messages: u32,
}

impl Lowering<'_> {
    /// One part after the other; each was made for one byte.
    pub(super) fn parts(
        &mut self,
        group: &[Rank],
        parts: &[Schedule],
        bytes: f64,
    ) -> Result<Span, SimulationError> {
        let first = self.pause(Duration::ZERO)?.first;
        let mut gate = first;
        for part in parts {
            let join = self.pause(Duration::ZERO)?.last;
            match part {
                Schedule::Rounds(lanes) => {
                    for lane in lanes {
                        self.lane(group, lane, bytes, [gate, join])?;
                    }
                }
                Schedule::Graph { sends, waits } => {
                    self.graph(group, sends, waits, bytes, [gate, join])?;
                }
            }
            gate = join;
        }
        Ok(Span { first, last: gate })
    }

    /// The sends of a member wait for what it sent and received in its last round.
    fn lane(
        &mut self,
        group: &[Rank],
        rounds: &[Round],
        bytes: f64,
        [gate, join]: [TaskIndex; 2],
    ) -> Result<(), SimulationError> {
        let mut turns = vec![gate; group.len()];
        for round in rounds {
            let times = u32::try_from(round.times).unwrap_or(u32::MAX);
            let (repeats, in_one) = match self.network.settings.steps {
                Steps::Collapsed => (1, times),
                Steps::Each => (times, 1),
            };
            for _ in 0..repeats {
                let manner = Manner {
                    bytes: bytes * f64::from(in_one),
                    messages: in_one,
                };
                self.one_round(group, round, manner, &mut turns)?;
            }
        }
        for turn in turns {
            self.problem.add_wait(turn, join)?;
        }
        Ok(())
    }

    fn one_round(
        &mut self,
        group: &[Rank],
        round: &Round,
        manner: Manner,
        turns: &mut [TaskIndex],
    ) -> Result<(), SimulationError> {
        let mut next = BTreeMap::new();
        let senders = round.sends.iter().map(|send| group[send.from]);
        let mut queues = Queues::new(self.network, senders);
        for send in &round.sends {
            let sent = self.send(group, send, manner, &mut queues)?;
            for &flow in &sent.flows {
                self.problem.add_wait(turns[send.from], flow)?;
            }
            for member in [send.from, send.to] {
                let turn = match next.get(&member) {
                    Some(&turn) => turn,
                    None => self.pause(Duration::ZERO)?.first,
                };
                next.insert(member, turn);
                self.problem.add_wait(sent.end, turn)?;
            }
        }
        for (member, turn) in next {
            turns[member] = turn;
        }
        Ok(())
    }

    fn graph(
        &mut self,
        group: &[Rank],
        sends: &[Send],
        waits: &[[u32; 2]],
        bytes: f64,
        [gate, join]: [TaskIndex; 2],
    ) -> Result<(), SimulationError> {
        let manner = Manner { bytes, messages: 1 };
        let sent = sends.iter().map(|send| {
            // Simultaneous senders are unknown.
            let mut queues = Queues::new(self.network, [group[send.from]]);
            self.send(group, send, manner, &mut queues)
        });
        let sent = sent.collect::<Result<Vec<_>, _>>()?;
        let mut is_first = vec![true; sends.len()];
        let mut is_last = vec![true; sends.len()];
        for [before, after] in waits.iter().map(|pair| pair.map(|send| send as usize)) {
            is_last[before] = false;
            is_first[after] = false;
            for &flow in &sent[after].flows {
                self.problem.add_wait(sent[before].end, flow)?;
            }
        }
        for (nth, sent) in sent.iter().enumerate() {
            for &flow in sent.flows.iter().filter(|_| is_first[nth]) {
                self.problem.add_wait(gate, flow)?;
            }
            if is_last[nth] {
                self.problem.add_wait(sent.end, join)?;
            }
        }
        Ok(())
    }

    fn send(
        &mut self,
        group: &[Rank],
        send: &Send,
        manner: Manner,
        queues: &mut Queues<'_>,
    ) -> Result<Sent, SimulationError> {
        let hop = ChainHop {
            from: group[send.from],
            to: group[send.to],
            along: (!send.along.is_empty()).then_some(&send.along),
            backwards: false,
        };
        let cold_start = self.network.settings.effects.cold_start;
        let (mut flows, before_port) = (Vec::new(), queues.arrive(hop.from, hop.to));
        for way in self.paved(&hop)?.iter() {
            let midway = queues.pass(hop.from, self.problem.path(way.path), way.share);
            let bits = self
                .network
                .links
                .bits(send.bytes * manner.bytes * way.share);
            let messages = way.delay.plus(cold_start).times(manner.messages);
            let delay = messages.plus(before_port).plus(midway);
            let flow = self.problem.add_transfer(way.path, bits, delay)?;
            self.problem.set_weight(flow, send.weight)?;
            flows.push(flow);
        }
        let end = match flows[..] {
            [only] => only,
            _ => {
                let end = self.pause(Duration::ZERO)?.last;
                for &flow in &flows {
                    self.problem.add_wait(flow, end)?;
                }
                end
            }
        };
        Ok(Sent { flows, end })
    }
}
