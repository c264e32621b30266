//! SONiC's static routes, by `CONFIG_DB`: all changes in one transaction, which fails if an entry has changed since
//! it was read.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use reweave_agent_core::switch::sonic::{ConfigRoutes, Edit, Fields, MARK_PATTERN, keys, marked};
use reweave_common::forwarding_state::RouteRule;

use super::redis::{Redis, RedisAddress, Reply};
use super::{RoutePush, Vendor};
use crate::switch::{RedisError, SwitchError};

/// `CONFIG_DB` among the databases of one redis.
const CONFIG_DB: &str = "4";
/// Others may change the same routes just then.
const MAX_TRIES: usize = 3;

pub(super) struct ConfigDb {
    place: RedisAddress,
}

impl ConfigDb {
    pub(super) fn new(place: RedisAddress) -> Self {
        Self { place }
    }

    fn open(&self) -> Result<ConfigDbConnection, RedisError> {
        let mut redis = Redis::open(&self.place)?;
        redis.ask(&["SELECT", CONFIG_DB])?;
        Ok(ConfigDbConnection { redis })
    }
}

impl Vendor for ConfigDb {
    fn name(&self) -> &'static str {
        "SONiC"
    }

    fn remedy(&self) -> &'static str {
        "start the database, and put the agent's user into its group; see docs/switches.md"
    }

    fn configured(&self) -> Result<Vec<RouteRule>, SwitchError> {
        Ok(self.open()?.watched(&[])?.rules())
    }

    fn words_to(&self, desired: &[RouteRule]) -> Result<Vec<String>, SwitchError> {
        let mut line = self.open()?;
        let edits = edits_to(&line.watched(desired)?, desired)?;
        Ok(edits.iter().map(|edit| words(edit).join(" ")).collect())
    }

    fn tell(&self, desired: &[RouteRule]) -> Result<RoutePush, SwitchError> {
        for _ in 0..MAX_TRIES {
            let mut line = self.open()?;
            let held = line.watched(desired)?;
            let edits = edits_to(&held, desired)?;
            if edits.is_empty() || line.carry_out(&edits)? {
                return Ok(RoutePush {
                    before: held.rules(),
                    anything: !edits.is_empty(),
                });
            }
        }
        Err(RedisError::Contested.into())
    }

    fn removes_first(&self) -> bool {
        true
    }

    fn follows_pins(&self) -> bool {
        false
    }
}

fn edits_to(held: &ConfigRoutes, desired: &[RouteRule]) -> Result<Vec<Edit>, SwitchError> {
    let by = || "SONiC".to_owned();
    let edits = held.edits_to(desired);
    edits.map_err(|source| SwitchError::Unfit { by: by(), source })
}

struct ConfigDbConnection {
    redis: Redis,
}

impl ConfigDbConnection {
    /// Ours, and what is where `desired` should be. What is carried out afterwards over the same line fails if
    /// any of it has changed by then.
    fn watched(&mut self, desired: &[RouteRule]) -> Result<ConfigRoutes, RedisError> {
        let ours = self.ours()?.into_iter();
        let desired = desired.iter().map(|rule| rule.destination);
        let hosts: BTreeSet<_> = ours.chain(desired).collect();
        let keys: Vec<_> = hosts.into_iter().flat_map(keys).collect();
        let mut held = ConfigRoutes::default();
        if keys.is_empty() {
            return Ok(held);
        }
        let names: Vec<_> = keys.iter().map(String::as_str).collect();
        self.redis.ask(&[&["WATCH"], &names[..]].concat())?;
        let asked: Vec<_> = names.iter().map(|key| vec!["HGETALL", key]).collect();
        for (key, reply) in keys.iter().zip(self.redis.ask_all(&asked)?) {
            held.handle_entry(key.clone(), fields(reply)?);
        }
        Ok(held)
    }

    fn ours(&mut self) -> Result<Vec<Ipv4Addr>, RedisError> {
        let marks = texts(self.redis.ask(&["KEYS", MARK_PATTERN])?)?;
        Ok(marks.iter().filter_map(|key| marked(key)).collect())
    }

    /// Whether it was: not if anything that was read has changed since.
    fn carry_out(&mut self, edits: &[Edit]) -> Result<bool, RedisError> {
        self.redis.ask(&["MULTI"])?;
        for edit in edits {
            self.redis.ask(&words(edit))?;
        }
        match self.redis.ask(&["EXEC"])? {
            Reply::Nothing => Ok(false),
            Reply::List(replies) => match replies.into_iter().find_map(refusal) {
                Some(words) => Err(RedisError::Refused { words }),
                None => Ok(true),
            },
            _ => Err(RedisError::Garbled),
        }
    }
}

/// A change of some fields at once is one event to its subscribers; fields that others have added stay.
fn words(edit: &Edit) -> Vec<&str> {
    match edit {
        Edit::Set(key, fields) => {
            let pairs = fields
                .iter()
                .flat_map(|(name, value)| [name.as_str(), value]);
            ["HSET", key].into_iter().chain(pairs).collect()
        }
        Edit::Remove(key) => vec!["DEL", key],
    }
}

fn refusal(reply: Reply) -> Option<String> {
    match reply {
        Reply::Refusal(words) => Some(words),
        _ => None,
    }
}

fn texts(reply: Reply) -> Result<Vec<String>, RedisError> {
    let text = |it| match it {
        Reply::Text(text) => Ok(text),
        Reply::Refusal(words) => Err(RedisError::Refused { words }),
        _ => Err(RedisError::Garbled),
    };
    match reply {
        Reply::List(items) => items.into_iter().map(text).collect(),
        Reply::Refusal(words) => Err(RedisError::Refused { words }),
        _ => Err(RedisError::Garbled),
    }
}

/// Names and values take turns.
fn fields(reply: Reply) -> Result<Fields, RedisError> {
    let mut texts = texts(reply)?.into_iter();
    let mut fields = Fields::new();
    while let (Some(name), Some(value)) = (texts.next(), texts.next()) {
        fields.insert(name, value);
    }
    Ok(fields)
}
