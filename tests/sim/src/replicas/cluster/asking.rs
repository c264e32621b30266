//! Requests of clients, with retries until an answer arrives.

use std::time::Duration;

use reweave_replica::{NotLeading, ProposalRefused, ReadId, RequestId, Standing};

use super::{Cluster, Event, NETWORK_DELAYS};
use crate::replicas::client::PendingCall;
use crate::replicas::machine::{Answer, Op, Payload};
use crate::replicas::node::{Asker, Running};

/// A client asks again after this long, and another coordinator.
const ANSWER_TIMEOUTS: [Duration; 2] = [Duration::from_millis(150), Duration::from_millis(400)];
/// Delay before a client asks another node than one that does not lead.
const NEXT_NODE_DELAYS: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(30)];
const MAX_GIVEN_UP: u64 = 4;
pub(super) const CLIENT_THINK_TIMES: [Duration; 2] =
    [Duration::from_millis(1), Duration::from_millis(30)];

impl Cluster {
    pub(super) fn think(&mut self, client: usize) {
        if self.is_closing {
            return;
        }
        self.clients[client].think(&mut self.chance, &mut self.history);
        self.ask(client);
    }

    fn ask(&mut self, client: usize) {
        let Some(asked) = self.clients[client].asked else {
            return self.after(CLIENT_THINK_TIMES, Event::Think { client });
        };
        let attempt = self.clients[client].attempt();
        let asker = Asker { client, attempt };
        let node = self.believed[client];
        self.after(NETWORK_DELAYS, Event::Request { node, asker, asked });
        self.after(ANSWER_TIMEOUTS, Event::TimedOut { asker });
    }

    pub(super) fn request(&mut self, node: u64, asker: Asker, asked: PendingCall) {
        let Some(running) = self
            .nodes
            .get_mut(&node)
            .and_then(|node| node.running.as_mut())
        else {
            return;
        };
        let taken = take(running, asker, asked);
        if taken.is_err() {
            let leader = match running.replica().standing() {
                Standing::Follows { leader } => leader.map(|leader| leader.0),
                Standing::Leads { .. } => None,
            };
            self.after(NETWORK_DELAYS, Event::Elsewhere { asker, leader });
        }
        self.carry_out(node);
    }

    pub(super) fn answer(&mut self, asker: Asker, request: RequestId, answer: Answer) {
        let client = &mut self.clients[asker.client];
        let Some(asked) = client.asked else { return };
        let is_read = request.client == 0;
        let fits = if is_read {
            client.attempt == asker.attempt
        } else {
            asked.request == request
        };
        if !fits || !client.hear(asked.request, answer, &mut self.history) {
            return;
        }
        self.after(
            CLIENT_THINK_TIMES,
            Event::Think {
                client: asker.client,
            },
        );
    }

    pub(super) fn elsewhere(&mut self, asker: Asker, leader: Option<u64>) {
        let client = &self.clients[asker.client];
        if client.attempt != asker.attempt || client.asked.is_none() {
            return;
        }
        self.believed[asker.client] = leader.unwrap_or_else(|| self.anybody());
        self.after(NEXT_NODE_DELAYS, Event::Ask { asker });
    }

    pub(super) fn ask_again(&mut self, asker: Asker) {
        let client = &self.clients[asker.client];
        if client.attempt == asker.attempt && client.asked.is_some() {
            self.ask(asker.client);
        }
    }

    pub(super) fn timed_out(&mut self, asker: Asker) {
        let client = &self.clients[asker.client];
        if client.attempt != asker.attempt || client.asked.is_none() {
            return;
        }
        self.believed[asker.client] = self.anybody();
        self.try_again(asker.client);
    }

    /// A few requests are never heard of again: each makes the history harder to judge.
    fn try_again(&mut self, client: usize) {
        let given_up: u64 = self.clients.iter().map(|client| client.gave_up).sum();
        if given_up < MAX_GIVEN_UP {
            self.clients[client].may_give_up(&mut self.chance);
        }
        self.ask(client);
    }
}

/// Handles a request. A read returns the present state, once it is certain that no other coordinator led at that time.
/// All else waits for its log entry. The core also refuses it while nothing may be decided.
fn take(running: &mut Running, asker: Asker, asked: PendingCall) -> Result<(), ProposalRefused> {
    let PendingCall {
        request, key, op, ..
    } = asked;
    if op == Op::Read {
        let read = ReadId(running.next_request());
        running.replica_mut().read(read)?;
        let value = running.machine.get(key);
        running.reads.insert(read, (asker, value));
    } else if !running.may_decide {
        return Err(NotLeading.into());
    } else {
        let payload = Payload::Register { key, op };
        let payload = postcard::to_stdvec(&payload).expect("it can be written");
        running.replica_mut().propose(request, payload)?;
        running.waiting.insert(request, asker);
    }
    Ok(())
}
