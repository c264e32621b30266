//! Inputs and effects of the core. Each is one serializable value, so that a recorded run can be replayed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use reweave_common::circuit::{Readback, Switchover};
use reweave_common::ids::{NodeId, OpticalId};
use reweave_common::instruction::{Ack, FastSampling, Install, Instruction, Unconfirmed, Watch};
use reweave_common::member::{Digest, Member};
use reweave_common::moment::Moment;
use reweave_common::operator::{About, Request, Response};
use reweave_common::plan::{Generation, Plan};
use reweave_common::probing::ProbeList;
use reweave_common::sample::Sample;
use serde::{Deserialize, Serialize};

use crate::log::command::{Author, Change, Command};
use crate::log::state::{NoEntry, Pass};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// An agent has a session now. A new session comes after the end of the one before.
    AgentUp {
        node: NodeId,
    },
    AgentDown {
        node: NodeId,
    },
    /// The node is the one in the agent's certificate.
    Sample {
        node: NodeId,
        sample: Sample,
    },
    Ack {
        node: NodeId,
        ack: Ack,
    },
    /// `id` comes back with the reply; `principal` is who the certificate names.
    Operator {
        id: u64,
        principal: Member,
        request: Request,
    },
    /// A request with a token that the cluster has recorded before. `id` comes back with the reply.
    Visitor {
        id: u64,
        token: Digest,
        request: Request,
    },
    /// The driver of this optical switch has a session now.
    DriverUp {
        optical: OpticalId,
    },
    DriverDown {
        optical: OpticalId,
    },
    /// What the driver of an optical switch says came of its instruction.
    Readback {
        optical: OpticalId,
        readback: Readback,
    },
    /// Time has passed. To be handed in about every 100 ms.
    Tick,
    /// What is known of an agent besides what it measures.
    About {
        node: NodeId,
        about: About,
    },
    /// A peer without a certificate has this secret, and this key. `id` comes back.
    Knock {
        id: u64,
        token: Digest,
        key: Digest,
        from: String,
    },
    /// A peer was refused, this number of times since the previous report.
    TurnedAway {
        from: String,
        why: String,
        times: u64,
    },
    /// Whether the log has room for decisions. It has, until it is said.
    Disk {
        is_full: bool,
    },
    /// Every coordinator of the cluster reads entries of this minor version of the protocol.
    MinVersion {
        minor: u16,
    },
    /// All coordinators that were removed, and not added again since, by the log's membership.
    Removed {
        coordinators: BTreeSet<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// To be made durable and then applied. No effect after it is handed out before that.
    Append(Command),
    Send {
        node: NodeId,
        instruction: Instruction,
    },
    /// To the driver of this optical switch.
    Switch {
        optical: OpticalId,
        switchover: Switchover,
    },
    Reply {
        id: u64,
        response: Response,
    },
    /// Whether the joining peer is admitted, as which member, or why not.
    Answer {
        id: u64,
        pass: Result<Pass, NoEntry>,
    },
}

/// What no answer to a person tells, for the audit log: it is agreed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditRecord {
    /// Approved by the policy, or together with what a person asked for.
    CarriedOut {
        generation: Generation,
        by: Author,
        /// Of the plan as it was when it was approved.
        seal: String,
    },
    /// The leader takes it back by itself.
    RolledBack {
        generation: Generation,
        reasons: Vec<String>,
    },
}

/// So much shares an entry at most: answers tell all that a node holds, and other coordinators get an entry in one message.
const MAX_CHANGE_PARTS: usize = 64;
const MAX_CHANGE_BYTES: usize = 4 << 20;

/// Effects to be executed, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outbox {
    effects: VecDeque<Queued>,
    /// An append was handed out, and not applied yet.
    appending: bool,
    /// Plans that are approved by what waits: as they are decided, and then with their seals.
    unsealed: Vec<(Plan, Author)>,
    approvals: Vec<(Generation, AuditRecord)>,
    records: VecDeque<AuditRecord>,
    /// By the request that approves it: the seal of the plan, as it was then.
    seals: BTreeMap<u64, String>,
}

#[derive(Debug, Clone)]
struct Queued {
    effect: Effect,
    /// Of a change, as it stands in the log. No other effect has any.
    encoded_bytes: usize,
}

impl Outbox {
    pub(crate) fn append(&mut self, at: Moment, change: Change) {
        let encoded_bytes = change.encoded_bytes();
        let effect = Effect::Append(Command { at, change });
        self.effects.push_back(Queued {
            effect,
            encoded_bytes,
        });
    }

    /// In one entry with others like it that wait to be handed out.
    pub(crate) fn join(&mut self, at: Moment, change: Change) {
        let more_bytes = change.encoded_bytes();
        match self.latest_beside(&change, more_bytes) {
            Some((command, encoded_bytes)) => {
                command.change.join(change);
                *encoded_bytes += more_bytes;
            }
            None => self.append(at, change),
        }
    }

    /// The latest entry of others like it, if that has room.
    fn latest_beside(
        &mut self,
        change: &Change,
        more_bytes: usize,
    ) -> Option<(&mut Command, &mut usize)> {
        let mut latest_first = self.effects.iter_mut().rev();
        let latest = latest_first.find_map(|queued| match &mut queued.effect {
            Effect::Append(command) if command.change.is_like(change) => {
                Some((command, &mut queued.encoded_bytes))
            }
            _ => None,
        });
        latest.filter(|(command, encoded_bytes)| {
            command.change.parts().len() < MAX_CHANGE_PARTS
                && encoded_bytes.saturating_add(more_bytes) <= MAX_CHANGE_BYTES
        })
    }

    fn push(&mut self, effect: Effect) {
        self.effects.push_back(Queued {
            effect,
            encoded_bytes: 0,
        });
    }

    /// Whether more may [`join`](Self::join) what was decided.
    pub(crate) fn is_shared(&self) -> bool {
        let mut effects = self.effects.iter().map(|queued| &queued.effect);
        effects.any(|effect| matches!(effect, Effect::Append(it) if it.change.is_of_members()))
    }

    fn instruct(&mut self, node: NodeId, instruction: Instruction) {
        self.push(Effect::Send { node, instruction });
    }

    pub(crate) fn install(&mut self, node: NodeId, install: Install) {
        self.instruct(node, Instruction::Install(install));
    }

    pub(crate) fn install_unconfirmed(
        &mut self,
        node: NodeId,
        install: Install,
        timeout: Duration,
    ) {
        let confirm_timeout_ms = timeout.as_millis().try_into().unwrap_or(u32::MAX);
        let unconfirmed = Unconfirmed {
            install,
            confirm_timeout_ms,
        };
        self.instruct(node, Instruction::Unconfirmed(unconfirmed));
    }

    pub(crate) fn switch(&mut self, optical: OpticalId, switchover: Switchover) {
        self.push(Effect::Switch {
            optical,
            switchover,
        });
    }

    pub(crate) fn watch(&mut self, node: NodeId, watch: Watch) {
        self.instruct(node, Instruction::Watch(watch));
    }

    pub(crate) fn look_closely(&mut self, node: NodeId, closely: FastSampling) {
        self.instruct(node, Instruction::Closely(closely));
    }

    pub(crate) fn probe(&mut self, node: NodeId, list: ProbeList) {
        self.instruct(node, Instruction::Probe(list));
    }

    pub(crate) fn reply(&mut self, id: u64, response: Response) {
        self.push(Effect::Reply { id, response });
    }

    pub(crate) fn answer(&mut self, id: u64, pass: Result<Pass, NoEntry>) {
        self.push(Effect::Answer { id, pass });
    }

    /// Whether all that was decided has been applied: nothing is decided before that.
    pub(crate) fn is_settled(&self) -> bool {
        let append = |queued: &Queued| matches!(queued.effect, Effect::Append(_));
        !self.appending && !self.effects.iter().any(append)
    }

    pub(crate) fn handle_applied(&mut self) {
        self.appending = false;
    }

    /// Approved without a person who waits for that answer.
    pub(crate) fn note_approval(&mut self, plan: &Plan, by: Author) {
        self.unsealed.push((plan.clone(), by));
    }

    pub(crate) fn poll_unsealed(&mut self) -> Option<(Plan, Author)> {
        self.unsealed.pop()
    }

    /// Recorded once the approval is applied.
    pub(crate) fn carried_out(&mut self, generation: Generation, by: Author, seal: String) {
        let record = AuditRecord::CarriedOut {
            generation,
            by,
            seal,
        };
        self.approvals.push((generation, record));
    }

    pub(crate) fn handle_approved(&mut self, change: &Change) {
        let approved = self
            .approvals
            .extract_if(.., |(plan, _)| approves(change, *plan));
        self.records.extend(approved.map(|(_, record)| record));
    }

    pub(crate) fn record(&mut self, record: AuditRecord) {
        self.records.push_back(record);
    }

    pub(crate) fn poll_record(&mut self) -> Option<AuditRecord> {
        self.records.pop_front()
    }

    pub(crate) fn seal(&mut self, id: u64, seal: String) {
        self.seals.insert(id, seal);
    }

    pub(crate) fn take_seal(&mut self, id: u64) -> Option<String> {
        self.seals.remove(&id)
    }

    pub(crate) fn poll(&mut self) -> Option<Effect> {
        let Queued { effect, .. } = self.effects.pop_front_if(|_| !self.appending)?;
        self.appending = matches!(effect, Effect::Append(_));
        Some(effect)
    }
}

/// A request without a reply yet.
#[derive(Debug, Clone)]
pub(crate) struct OperatorRequest {
    pub(crate) id: u64,
    pub(crate) principal: Member,
    pub(crate) request: Request,
}

fn approves(change: &Change, plan: Generation) -> bool {
    let mut parts = change.parts().iter();
    parts.any(|it| matches!(it, Change::PlanApproved { generation, .. } if *generation == plan))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4};

    use reweave_common::flow::{FlowKey, Protocol};
    use reweave_common::forwarding_state::ForwardingState;
    use reweave_common::instruction::Token;
    use reweave_common::plan::Generation;
    use reweave_common::sample::PinRule;

    use super::*;

    /// Of the node with this index, in a few bytes more than these.
    fn acked(index: usize, bytes: usize) -> Change {
        let address = Ipv4Addr::new(10, 0, 0, 1);
        let end = SocketAddrV4::new(address, 4791);
        let pin = PinRule {
            flow: FlowKey {
                protocol: Protocol::Udp,
                source: end,
                destination: end,
            },
            interface: "x".repeat(bytes),
            next_hop: address,
        };
        let ack = Ack {
            generation: Generation(1),
            token: Token(1),
            outcome: Ok(ForwardingState::of_pins(vec![pin])),
        };
        let node = NodeId::from_index(index);
        Change::Acked { node, ack }
    }

    /// How many changes each entry holds. Each is applied before the next is handed out.
    fn shares(mut outbox: Outbox) -> Vec<usize> {
        let mut shares = Vec::new();
        while let Some(effect) = outbox.poll() {
            if let Effect::Append(command) = effect {
                shares.push(command.change.parts().len());
                outbox.handle_applied();
            }
        }
        shares
    }

    fn waiting(acks: impl IntoIterator<Item = Change>) -> Outbox {
        let mut outbox = Outbox::default();
        for ack in acks {
            outbox.join(Moment::default(), ack);
        }
        outbox
    }

    /// Of a thousand agents that answer at once, none waits for a thousand entries.
    #[test]
    fn waiting_acks_share_log_entry() {
        let mut outbox = waiting([acked(0, 0)]);
        assert!(matches!(outbox.poll(), Some(Effect::Append(_))));
        for index in [1, 2] {
            outbox.join(Moment::default(), acked(index, 0));
        }
        outbox.handle_applied();
        assert_eq!(shares(outbox), [2]);
    }

    #[test]
    fn full_entry_takes_no_more() {
        let acks = (0..=MAX_CHANGE_PARTS).map(|index| acked(index, 0));
        assert_eq!(shares(waiting(acks)), [MAX_CHANGE_PARTS, 1]);
    }

    /// Other coordinators get an entry in one message, which has a bound of its own.
    #[test]
    fn entries_of_acks_are_short() {
        let acks = (0..7).map(|index| acked(index, MAX_CHANGE_BYTES / 4));
        assert_eq!(shares(waiting(acks)), [3, 3, 1]);
        let acks = (0..2).map(|index| acked(index, MAX_CHANGE_BYTES));
        assert_eq!(shares(waiting(acks)), [1, 1]);
    }

    #[test]
    fn effects_wait_until_append_is_applied() {
        let mut outbox = Outbox::default();
        let generation = Generation(1);
        outbox.watch(NodeId::from_index(0), Watch::default());
        assert!(outbox.is_settled());
        let reasons = Vec::new();
        outbox.append(
            Moment::default(),
            Change::Held {
                generation,
                reasons,
            },
        );
        outbox.reply(7, Response::ApplyStarted { generation });
        assert!(!outbox.is_settled());
        assert!(matches!(outbox.poll(), Some(Effect::Send { .. })));
        assert!(matches!(outbox.poll(), Some(Effect::Append(_))));
        assert!(outbox.poll().is_none() && !outbox.is_settled());
        outbox.handle_applied();
        assert!(matches!(outbox.poll(), Some(Effect::Reply { id: 7, .. })));
        assert!(outbox.is_settled());
    }
}
