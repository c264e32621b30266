//! Operators who invite, revoke, read and approve, and new members who join. Each sends one request at a time, and
//! repeats it until an answer arrives or its time limit ends.

use std::time::Duration;

use reweave_common::member::{Digest, Member, Role};
use reweave_common::operator::{Request, Response, Steering};
use reweave_common::plan::Generation;
use reweave_core::{LATEST_MINOR, NoEntry, Pass};

use crate::chance::Chance;

const TOKEN_TTL: Duration = Duration::from_mins(10);
/// Number of member names: few, so that members are revoked and invited again.
const NAME_COUNT: usize = 4;
const MAX_ATTEMPTS: u64 = 8;

/// Request of an operator.
#[derive(Debug, Clone)]
pub enum Matter {
    Ask(Request),
    /// A token, and a key.
    Knock([Digest; 2]),
}

/// The answer to an operator.
#[derive(Debug, Clone)]
pub enum Word {
    Response(Box<Response>),
    Entry(Result<Pass, NoEntry>),
}

#[derive(Debug, Clone, Default)]
pub struct Person {
    pub matter: Option<Matter>,
    pub attempt: u64,
    pub believed: u64,
    attempts: u64,
}

/// Information that operators and members share.
#[derive(Debug, Default)]
pub struct Gossip {
    tokens: Vec<Digest>,
    offered: Option<Generation>,
    latest: Option<Generation>,
    /// Whether operators abort running plans.
    pub steers: bool,
    /// Share of requests that lower the cluster version.
    pub lowers: f64,
    keys: u64,
}

impl Gossip {
    fn digest(&mut self) -> Digest {
        self.keys += 1;
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&self.keys.to_be_bytes());
        Digest(digest)
    }

    /// A token is tried by several, each with a key of its own.
    fn matter(&mut self, chance: &mut Chance) -> Matter {
        if self.lowers > 0.0 && chance.happens(self.lowers) {
            let minor = Some(LATEST_MINOR - 1);
            return Matter::Ask(Request::ClusterVersion { minor });
        }
        if self.steers
            && chance.happens(0.5)
            && let Some(generation) = self.latest
        {
            let how = Steering::Abort;
            return Matter::Ask(Request::Steer { generation, how });
        }
        let member = Member::new(Role::Viewer, &format!("v{}", chance.below(NAME_COUNT)));
        match chance.below(10) {
            0 | 1 => Matter::Ask(self.invite(member)),
            2 => Matter::Ask(Request::Revoke { member }),
            3 | 6 => Matter::Ask(Request::WhoAmI),
            4 | 5 => match self.offered.take() {
                Some(generation) => Matter::Ask(Request::Apply { generation }),
                None => Matter::Ask(Request::Plan),
            },
            _ if self.tokens.is_empty() => Matter::Ask(self.invite(member)),
            _ => {
                let latest = self.tokens.iter().rev().take(2).copied();
                let token = *chance.one_of(&latest.collect::<Vec<_>>());
                Matter::Knock([token, self.digest()])
            }
        }
    }

    fn invite(&mut self, member: Member) -> Request {
        let (token, lasting) = (self.digest(), TOKEN_TTL);
        self.tokens.push(token);
        Request::Invite {
            member,
            token,
            lasting: lasting.into(),
        }
    }

    fn hear(&mut self, word: &Word) {
        if let Word::Response(response) = word
            && let Response::Plan {
                plan: Some(plan), ..
            } = response.as_ref()
        {
            self.offered = Some(plan.generation);
            self.latest = self.offered;
        }
    }
}

impl Person {
    pub fn think(&mut self, chance: &mut Chance, gossip: &mut Gossip) {
        self.matter = Some(gossip.matter(chance));
        self.attempts = 0;
    }

    /// One more attempt, unless it has had enough.
    pub fn attempt(&mut self) -> Option<Matter> {
        self.attempt += 1;
        self.attempts += 1;
        if self.attempts > MAX_ATTEMPTS {
            self.matter = None;
        }
        self.matter.clone()
    }

    /// Whether that is what it waited for. A new member may forget its answer, and come again.
    pub fn hear(
        &mut self,
        attempt: u64,
        word: &Word,
        chance: &mut Chance,
        gossip: &mut Gossip,
    ) -> bool {
        if self.attempt != attempt || self.matter.is_none() {
            return false;
        }
        gossip.hear(word);
        if !matches!(word, Word::Entry(Ok(_))) || chance.happens(0.7) {
            self.matter = None;
        }
        true
    }
}
