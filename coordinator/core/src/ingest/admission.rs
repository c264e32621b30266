//! Admission: joining members with a token, agents with their builds and clocks, and refused peers. Everything that
//! is not in the log belongs to the leader alone, and is bounded.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use reweave_common::ids::NodeId;
use reweave_common::member::Digest;
use reweave_common::moment::Moment;
use reweave_common::operator::About;

use crate::log::command::Change;
use crate::log::effect::Outbox;
use crate::log::state::{AdmissionStatus, Membership, NoEntry};

const MAX_REFUSED: usize = 64;
/// The limit per address, so that one client cannot displace reports about others.
const MAX_REFUSED_PER_ADDRESS: usize = 8;
/// The limit of joining members, each of which waits for a log entry.
const MAX_PENDING: usize = 1024;
const MAX_REASON_CHARS: usize = 300;
/// Agents report their clocks every ten seconds.
const MIN_SKEW_SAMPLES: usize = 3;

#[derive(Debug, Clone, Default)]
pub(crate) struct Admissions {
    waiting: VecDeque<JoinRequest>,
    about: BTreeMap<NodeId, (Moment, About)>,
    /// The clock errors of the last reports, in microseconds.
    skews: BTreeMap<NodeId, VecDeque<i64>>,
    /// Refused peers, the latest last.
    turned_away: VecDeque<RejectedPeer>,
}

#[derive(Debug, Clone)]
pub(crate) struct JoinRequest {
    pub(crate) id: u64,
    pub(crate) token: Digest,
    pub(crate) key: Digest,
    pub(crate) from: String,
    /// The request was written into the log.
    pub(crate) is_written: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RejectedPeer {
    pub(crate) from: String,
    pub(crate) why: String,
    pub(crate) times: u64,
    pub(crate) last: Moment,
}

impl Admissions {
    /// Beyond the limit, requests get no answer, and the peer may retry.
    pub(crate) fn handle_knock(&mut self, knock: JoinRequest) {
        if self.waiting.len() < MAX_PENDING {
            self.waiting.push_back(knock);
        }
    }

    pub(crate) fn handle_about(&mut self, node: NodeId, now: Moment, about: About) {
        if let Some(skew_us) = about.skew_us {
            let recent = self.skews.entry(node).or_default();
            recent.truncate(MIN_SKEW_SAMPLES - 1);
            recent.push_front(skew_us);
        }
        self.about.insert(node, (now, about));
    }

    /// The clock error by the report with the shortest delay. A delayed report makes a clock look behind, never ahead,
    /// so several reports are needed.
    pub(crate) fn skew_us(&self, node: NodeId) -> Option<i64> {
        let recent = self.skews.get(&node)?;
        let most = recent.iter().copied().max()?;
        (most >= 0 || recent.len() == MIN_SKEW_SAMPLES).then_some(most)
    }

    pub(crate) fn handle_disconnected(&mut self, node: NodeId) {
        self.about.remove(&node);
        self.skews.remove(&node);
    }

    pub(crate) fn handle_turned_away(&mut self, now: Moment, from: String, why: &str, times: u64) {
        // A text that a peer may influence is shortened.
        let why: String = why.chars().take(MAX_REASON_CHARS).collect();
        let mut known = self.turned_away.iter();
        let known = known.position(|one| one.from == from && one.why == why);
        let before = known.and_then(|index| self.turned_away.remove(index));
        self.make_room_for(&from);
        self.turned_away.push_back(RejectedPeer {
            from,
            why,
            times: times + before.map_or(0, |before| before.times),
            last: now,
        });
    }

    fn make_room_for(&mut self, from: &str) {
        let all = &mut self.turned_away;
        let its = all.iter().filter(|one| one.from == from).count();
        let oldest = match (its >= MAX_REFUSED_PER_ADDRESS, all.len() >= MAX_REFUSED) {
            (true, _) => all.iter().position(|one| one.from == from),
            (false, true) => Some(0),
            (false, false) => None,
        };
        oldest.and_then(|index| all.remove(index));
    }

    /// Admits members that the log admits, and writes those that present an unused token into the log.
    pub(crate) fn advance(
        &mut self,
        now: Moment,
        membership: &Membership,
        out: &mut Outbox,
        disk_is_full: bool,
    ) {
        while out.is_settled()
            && let Some(knock) = self.waiting.pop_front()
        {
            match membership.standing(knock.token, knock.key, now) {
                AdmissionStatus::Admitted(pass) => out.answer(knock.id, Ok(pass)),
                AdmissionStatus::Closed(why) => {
                    self.handle_turned_away(now, knock.from, &why.to_string(), 1);
                    out.answer(knock.id, Err(why));
                }
                // The log has rejected it.
                AdmissionStatus::Open if knock.is_written => {
                    out.answer(knock.id, Err(NoEntry::UnknownToken));
                }
                AdmissionStatus::Open if disk_is_full => {
                    out.answer(knock.id, Err(NoEntry::DiskFull));
                }
                AdmissionStatus::Open => {
                    let admitted = Change::Admitted {
                        token: knock.token,
                        key: knock.key,
                        from: knock.from.clone(),
                    };
                    out.append(now, admitted);
                    // Once it is in the log, the log decides which member came first.
                    self.waiting.push_front(JoinRequest {
                        is_written: true,
                        ..knock
                    });
                }
            }
        }
    }

    /// Facts about the agent, with their age.
    pub(crate) fn about(&self, node: NodeId, now: Moment) -> Option<(&About, Duration)> {
        let (report, about) = self.about.get(&node)?;
        Some((about, now.since(*report)))
    }

    /// Refused peers, the latest first.
    pub(crate) fn turned_away(&self) -> impl Iterator<Item = &RejectedPeer> {
        self.turned_away.iter().rev()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_list_is_bounded_across_addresses() {
        let mut arrivals = Admissions::default();
        let now = Moment::default();
        arrivals.handle_turned_away(now, "10.0.0.1".to_owned(), "its certificate has expired", 1);
        for way in 0..500 {
            let why = format!("it is of cluster {way}");
            arrivals.handle_turned_away(now, "10.0.0.66".to_owned(), &why, 1);
        }
        let from: Vec<_> = arrivals.turned_away().map(|it| &*it.from).collect();
        assert_eq!(
            from.iter().filter(|it| **it == "10.0.0.66").count(),
            MAX_REFUSED_PER_ADDRESS
        );
        assert!(from.contains(&"10.0.0.1"));
        let latest = arrivals.turned_away().next().unwrap();
        assert_eq!(latest.why, "it is of cluster 499");
        for host in 0..200 {
            arrivals.handle_turned_away(now, format!("10.0.1.{host}"), "no certificate", 1);
        }
        assert_eq!(arrivals.turned_away().count(), MAX_REFUSED);
    }
}
