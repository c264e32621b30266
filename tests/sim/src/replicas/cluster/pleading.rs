//! Requests of operators and of new members, with retries.

use std::time::Duration;

use reweave_common::member::{Member, Role};
use reweave_common::operator::Request;
use reweave_core::Input;

use super::leading::{NOT_LEADING, seek};
use super::{Cluster, Event, NETWORK_DELAYS};
use crate::replicas::node::Plea;
use crate::replicas::people::{Matter, Word};

pub(super) const OPERATOR_THINK_TIMES: [Duration; 2] =
    [Duration::from_millis(20), Duration::from_millis(200)];
/// They ask again after this long, and another coordinator.
const ANSWER_TIMEOUTS: [Duration; 2] = [Duration::from_millis(60), Duration::from_millis(250)];

impl Cluster {
    pub(super) fn muse(&mut self, person: usize) {
        if self.is_closing || !self.is_deciding {
            return self.after(OPERATOR_THINK_TIMES, Event::Muse { person });
        }
        self.people[person].think(&mut self.chance, &mut self.gossip);
        self.look_around(person);
        self.beg(person);
    }

    /// Chooses any coordinator that leads or believes that it does.
    fn look_around(&mut self, person: usize) {
        self.people[person].believed = match self.leaders() {
            none if none.is_empty() => self.anybody(),
            leaders => *self.chance.one_of(&leaders),
        };
    }

    /// Sends the request to the presumed leader.
    fn beg(&mut self, person: usize) {
        let Some(matter) = self.people[person].attempt() else {
            return self.after(OPERATOR_THINK_TIMES, Event::Muse { person });
        };
        let attempt = self.people[person].attempt;
        let plea = Box::new(Plea {
            person,
            attempt,
            matter,
            promised: self.agreed.promised(),
        });
        let node = self.people[person].believed;
        self.after(NETWORK_DELAYS, Event::Plea { node, plea });
        self.after(ANSWER_TIMEOUTS, Event::Waited { person, attempt });
    }

    pub(super) fn plead(&mut self, node: u64, plea: Plea) {
        let now = self.now();
        let Some(running) = self.alive(node) else {
            return;
        };
        let id = running.next_request();
        let input = match &plea.matter {
            Matter::Knock([token, key]) => Input::Knock {
                id,
                token: *token,
                key: *key,
                from: "somewhere".to_owned(),
            },
            Matter::Ask(request) => {
                let is_sought = !request.decides();
                if !running.office.handle_asker(id, is_sought) {
                    let word = Word::Response(Box::new(NOT_LEADING));
                    return self.tell(&plea, word);
                }
                if is_sought {
                    seek(running, id);
                }
                asked(id, request.clone())
            }
        };
        running.people.insert(id, plea);
        let at = running.clock(now);
        running.office.handle(at, input);
        self.drive(node);
        self.carry_out(node);
    }

    pub(super) fn handle_answer(&mut self, person: usize, attempt: u64, word: &Word) {
        let is_elsewhere = matches!(word, Word::Response(it) if **it == NOT_LEADING);
        let one = &mut self.people[person];
        if is_elsewhere {
            return;
        }
        if one.hear(attempt, word, &mut self.chance, &mut self.gossip) {
            self.after(OPERATOR_THINK_TIMES, Event::Muse { person });
        }
    }

    pub(super) fn waited(&mut self, person: usize, attempt: u64) {
        if self.people[person].attempt == attempt && self.people[person].matter.is_some() {
            self.look_around(person);
            self.beg(person);
        }
    }
}

fn asked(id: u64, request: Request) -> Input {
    let principal = Member::new(Role::Operator, "ada");
    Input::Operator {
        id,
        principal,
        request,
    }
}
