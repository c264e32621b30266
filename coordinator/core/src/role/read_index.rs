//! `ReadIndex` (Raft, section 6.4): pending requests. A reply is sent only once it is certain that no other
//! coordinator had become leader when the request was made: a majority of coordinators has confirmed the leader since.
//! A command that was proposed after the request, and committed, proves that by itself. Otherwise the other
//! coordinators are asked.

use std::collections::{BTreeMap, VecDeque};

use reweave_common::operator::Response;

#[derive(Debug, Clone, Default)]
pub(super) struct ReadIndex {
    askers: BTreeMap<u64, Asker>,
    /// Replies that may be sent.
    answers: VecDeque<(u64, Response)>,
}

#[derive(Debug, Clone)]
struct Asker {
    /// The number of commands proposed before the request.
    proposed: u64,
    certainty: Certainty,
    answer: Option<Response>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Certainty {
    Open,
    Sought,
    Found,
}

impl ReadIndex {
    pub(super) fn is_empty(&self) -> bool {
        self.askers.is_empty()
    }

    /// `is_sought` if the others are already being asked.
    pub(super) fn push(&mut self, id: u64, proposed: u64, is_sought: bool) {
        let certainty = if is_sought {
            Certainty::Sought
        } else {
            Certainty::Open
        };
        let asker = Asker {
            proposed,
            certainty,
            answer: None,
        };
        self.askers.insert(id, asker);
    }

    /// Takes the reply; `applied` commands are committed. Returns whether the others must be asked now.
    pub(super) fn handle_answer(&mut self, id: u64, answer: Response, applied: u64) -> bool {
        let Some(asker) = self.askers.get_mut(&id) else {
            return false;
        };
        asker.answer = Some(answer);
        if applied > asker.proposed {
            asker.certainty = Certainty::Found;
        }
        let is_open = asker.certainty == Certainty::Open;
        if is_open {
            asker.certainty = Certainty::Sought;
        }
        self.answer_if_certain(id);
        is_open
    }

    pub(super) fn handle_certain(&mut self, id: u64) {
        if let Some(asker) = self.askers.get_mut(&id) {
            asker.certainty = Certainty::Found;
            self.answer_if_certain(id);
        }
    }

    /// Answers all pending requests with the same reply.
    pub(super) fn dismiss(&mut self, id: u64, answer: Response) {
        if self.askers.remove(&id).is_some() {
            self.answers.push_back((id, answer));
        }
    }

    pub(super) fn dismiss_all(&mut self, answer: &Response) {
        for id in std::mem::take(&mut self.askers).into_keys() {
            self.answers.push_back((id, answer.clone()));
        }
    }

    pub(super) fn poll_answer(&mut self) -> Option<(u64, Response)> {
        self.answers.pop_front()
    }

    fn answer_if_certain(&mut self, id: u64) {
        let is_ready =
            |asker: &Asker| asker.certainty == Certainty::Found && asker.answer.is_some();
        if self.askers.get(&id).is_some_and(is_ready)
            && let Some(asker) = self.askers.remove(&id)
            && let Some(answer) = asker.answer
        {
            self.answers.push_back((id, answer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revoked() -> Response {
        Response::ApplyStarted {
            generation: Default::default(),
        }
    }

    /// A request after this many proposals.
    fn asking(proposed: u64, is_sought: bool) -> ReadIndex {
        let mut waiting = ReadIndex::default();
        waiting.push(7, proposed, is_sought);
        waiting
    }

    #[test]
    fn later_applied_proposal_proves_leadership() {
        let mut waiting = asking(3, false);
        assert!(!waiting.handle_answer(7, revoked(), 4));
        assert_eq!(waiting.poll_answer(), Some((7, revoked())));
        assert!(waiting.is_empty());
    }

    /// A command proposed earlier proves nothing: it may have been confirmed before the request.
    #[test]
    fn earlier_proposal_proves_no_leadership() {
        let mut waiting = asking(3, false);
        assert!(waiting.handle_answer(7, revoked(), 3));
        assert_eq!(waiting.poll_answer(), None);
        waiting.handle_certain(7);
        assert_eq!(waiting.poll_answer(), Some((7, revoked())));
    }

    #[test]
    fn certainty_may_precede_answer() {
        let mut waiting = asking(0, true);
        waiting.handle_certain(7);
        assert_eq!(waiting.poll_answer(), None);
        assert!(!waiting.handle_answer(7, revoked(), 0));
        assert_eq!(waiting.poll_answer(), Some((7, revoked())));
        let mut waiting = asking(0, true);
        assert!(!waiting.handle_answer(7, revoked(), 0));
        assert_eq!(waiting.poll_answer(), None);
    }
}
