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
    /// An agent has connected. A reconnect comes after `AgentDown`.
    AgentUp {
        node: NodeId,
    },
    AgentDown {
        node: NodeId,
    },
    /// `node` is the name in the agent's certificate.
    Sample {
        node: NodeId,
        sample: Sample,
    },
    Ack {
        node: NodeId,
        ack: Ack,
    },
    /// A request of an operator. The reply carries the same `id`; `principal` is the name in the certificate.
    Operator {
        id: u64,
        principal: Member,
        request: Request,
    },
    /// A request with a token that the cluster has recorded. The reply carries the same `id`.
    Visitor {
        id: u64,
        token: Digest,
        request: Request,
    },
    /// The driver of this optical switch has connected.
    DriverUp {
        optical: OpticalId,
    },
    DriverDown {
        optical: OpticalId,
    },
    /// The answer of an optical switch's driver to its last instruction.
    Readback {
        optical: OpticalId,
        readback: Readback,
    },
    /// Time has passed. Expected about every 100 ms.
    Tick,
    /// Facts about an agent besides its measurements.
    About {
        node: NodeId,
        about: About,
    },
    /// A peer without a certificate presents a secret and a key. The reply carries the same `id`.
    Knock {
        id: u64,
        token: Digest,
        key: Digest,
        from: String,
    },
    /// How often a peer was refused since the previous report.
    TurnedAway {
        from: String,
        why: String,
        times: u64,
    },
    /// Whether the log has disk space for decisions. Until this is reported, it has.
    Disk {
        is_full: bool,
    },
    /// Every coordinator reads entries of this minor version of the protocol.
    MinVersion {
        minor: u16,
    },
    /// All coordinators that were removed and not added again, by the log's membership.
    Removed {
        coordinators: BTreeSet<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// A command to be made durable and then applied. Later effects wait for that.
    Append(Command),
    Send {
        node: NodeId,
        instruction: Instruction,
    },
    /// An instruction to the driver of this optical switch.
    Switch {
        optical: OpticalId,
        switchover: Switchover,
    },
    Reply {
        id: u64,
        response: Response,
    },
    /// Whether the joining peer is admitted, and as which member, or why not.
    Answer {
        id: u64,
        pass: Result<Pass, NoEntry>,
    },
}

/// Facts for the audit log that no reply to an operator contains. The log entry is committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditRecord {
    /// A plan was approved by the policy, or together with another request.
    CarriedOut {
        generation: Generation,
        by: Author,
        /// The seal of the plan as it was approved.
        seal: String,
    },
    /// The leader rolled the plan back by itself.
    RolledBack {
        generation: Generation,
        reasons: Vec<String>,
    },
}

/// At most this many changes share an entry: each ack has all that a node holds, and other coordinators get an entry
/// in one message.
const MAX_CHANGE_PARTS: usize = 64;
const MAX_CHANGE_BYTES: usize = 4 << 20;

/// Effects to be executed, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outbox {
    effects: VecDeque<Queued>,
    /// A command was handed out and is not applied yet.
    appending: bool,
    /// Plans that waiting commands approve: as decided, and later with their seals.
    unsealed: Vec<(Plan, Author)>,
    approvals: Vec<(Generation, AuditRecord)>,
    records: VecDeque<AuditRecord>,
    /// The seals of approved plans, by the request that approves them.
    seals: BTreeMap<u64, String>,
}

#[derive(Debug, Clone)]
struct Queued {
    effect: Effect,
    /// The size of the change in the log; other effects have none.
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

    /// Adds the change to a waiting entry of changes like it, if there is one.
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

    /// The latest waiting entry of changes like this one, if it has room.
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

    /// Whether more changes may [`join`](Self::join) a waiting entry.
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

    /// Whether all decisions are applied. Until then, no new one is made.
    pub(crate) fn is_settled(&self) -> bool {
        let append = |queued: &Queued| matches!(queued.effect, Effect::Append(_));
        !self.appending && !self.effects.iter().any(append)
    }

    pub(crate) fn handle_applied(&mut self) {
        self.appending = false;
    }

    /// Records an approval that no operator waits for.
    pub(crate) fn note_approval(&mut self, plan: &Plan, by: Author) {
        self.unsealed.push((plan.clone(), by));
    }

    pub(crate) fn poll_unsealed(&mut self) -> Option<(Plan, Author)> {
        self.unsealed.pop()
    }

    /// The audit record of an approval, once it is applied.
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

/// A request that has no reply yet.
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

    /// An ack of the node with this index, slightly larger than `bytes`.
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

    /// The number of changes in each entry. Each entry is applied before the next is handed out.
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

    /// A thousand simultaneous acks need far fewer than a thousand entries.
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

    /// Other coordinators get an entry in one message, whose size is limited.
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
