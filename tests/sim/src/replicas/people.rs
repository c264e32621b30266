//! Operators who invite, revoke, read and approve, and new members who join. Each sends one request at a time, and
//! repeats it until an answer arrives or its time limit ends.

use std::collections::BTreeMap;
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
/// Share of requests that set a key of the policy, where operators do that.
const POLICY_SHARE: f64 = 0.1;
/// The key that they set: none of these lives is long enough for a packet train.
const POLICY_KEY: &str = "trains_every_ms";

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
    /// Whether operators set the policy.
    pub sets: bool,
    /// Share of requests that lower the cluster version, or are to make that possible.
    pub lowers: f64,
    /// Number of digests and of values of the policy.
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
            return Matter::Ask(lower(chance));
        }
        if self.sets && chance.happens(POLICY_SHARE) {
            return Matter::Ask(self.set_policy());
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

    /// Each value is another one.
    fn set_policy(&mut self) -> Request {
        self.keys += 1;
        policy_set(Some((60_000 + self.keys).to_string()))
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

/// The version stays while the policy has settings that the earlier release does not know.
fn lower(chance: &mut Chance) -> Request {
    if chance.happens(0.5) {
        policy_set(None)
    } else {
        let minor = Some(LATEST_MINOR - 1);
        Request::ClusterVersion { minor }
    }
}

fn policy_set(value: Option<String>) -> Request {
    Request::PolicySet {
        settings: BTreeMap::from([(POLICY_KEY.to_owned(), value)]),
        expected: None,
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
