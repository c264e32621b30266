//! Sets a DSCP, and a priority if configured, on this host's packets to certain networks: by a table of nftables with
//! Reweave's name.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use super::TransportError;
use crate::traffic::{NftError, nft};

const NFT_TABLE: &str = "reweave_transport";
const MAX_DSCP: u8 = 63;
/// Classes of traffic are eight.
const MAX_PRIORITY: u8 = 7;
const MAX_NETWORKS: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marking {
    dscp: u8,
    priority: Option<u8>,
    /// The networks are in order.
    to: Vec<Network>,
}

#[derive(Debug, Error)]
pub enum NoMarking {
    #[error("a DSCP is 0 to {MAX_DSCP}")]
    Dscp,
    #[error("a priority is 0 to {MAX_PRIORITY}")]
    Priority,
    #[error("name 1 to {MAX_NETWORKS} networks")]
    Networks,
    #[error("{first} and {second} have hosts in common")]
    Overlap { first: Network, second: Network },
}

impl Marking {
    pub fn new(dscp: u8, priority: Option<u8>, mut to: Vec<Network>) -> Result<Self, NoMarking> {
        to.sort_unstable();
        to.dedup();
        let pairs = to.iter().zip(to.iter().skip(1));
        let mut overlapping = pairs.filter(|(first, second)| first.holds(second.address));
        match overlapping.next() {
            _ if dscp > MAX_DSCP => Err(NoMarking::Dscp),
            _ if priority.is_some_and(|it| it > MAX_PRIORITY) => Err(NoMarking::Priority),
            _ if !(1..=MAX_NETWORKS).contains(&to.len()) => Err(NoMarking::Networks),
            Some((&first, &second)) => Err(NoMarking::Overlap { first, second }),
            None => Ok(Self { dscp, priority, to }),
        }
    }
}

impl fmt::Display for Marking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DSCP {}", self.dscp)?;
        if let Some(priority) = self.priority {
            write!(f, " and priority {priority}")?;
        }
        f.write_str(" to")?;
        self.to
            .iter()
            .try_for_each(|network| write!(f, " {network}"))
    }
}

/// Addresses with a common prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Network {
    address: Ipv4Addr,
    length: u8,
}

#[derive(Debug, Error)]
#[error("{text:?} is not a network: write 10.0.0.0/16, with all host bits 0")]
pub struct NoNetwork {
    text: String,
}

impl Network {
    fn new(address: Ipv4Addr, length: u8) -> Option<Self> {
        let network = Self { address, length };
        let is_one = length <= 32 && address.to_bits() & !network.mask() == 0;
        is_one.then_some(network)
    }

    fn parsed(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/').unwrap_or((text, "32"));
        Self::new(address.parse().ok()?, length.parse().ok()?)
    }

    fn mask(self) -> u32 {
        u32::MAX
            .checked_shl(32 - u32::from(self.length))
            .unwrap_or(0)
    }

    fn holds(self, address: Ipv4Addr) -> bool {
        address.to_bits() & self.mask() == self.address.to_bits()
    }
}

impl FromStr for Network {
    type Err = NoNetwork;

    fn from_str(text: &str) -> Result<Self, NoNetwork> {
        Self::parsed(text).ok_or_else(|| NoNetwork {
            text: text.to_owned(),
        })
    }
}

impl TryFrom<String> for Network {
    type Error = NoNetwork;

    fn try_from(text: String) -> Result<Self, NoNetwork> {
        text.parse()
    }
}

impl From<Network> for String {
    fn from(network: Network) -> Self {
        network.to_string()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.length {
            32 => self.address.fmt(f),
            length => write!(f, "{}/{length}", self.address),
        }
    }
}

/// Replaces the table in one step, so that no packet meets half of it.
pub(super) fn hold(marking: Option<&Marking>) -> Result<(), NftError> {
    let rules = marking.map_or_else(String::new, rules);
    // Adding it first makes it there to be deleted.
    let script = format!("table ip {NFT_TABLE}\ndelete table ip {NFT_TABLE}\n{rules}");
    nft(&["-f", "-"], &script).map(drop)
}

fn rules(marking: &Marking) -> String {
    let Marking { dscp, priority, to } = marking;
    let to: Vec<_> = to.iter().map(ToString::to_string).collect();
    let to = to.join(", ");
    let priority = priority.map_or_else(String::new, |it| format!(" meta priority set 0:{it}"));
    format!(
        "table ip {NFT_TABLE} {{\nchain outward {{ type filter hook output priority -150; policy accept;\n\
         ip daddr {{ {to} }} ip dscp set {dscp}{priority}\n}}\n}}\n"
    )
}

/// None where there is no table of ours.
pub(super) fn read() -> Result<Option<Marking>, TransportError> {
    let tables = nft(&["-j", "list", "tables"], "")?;
    if !has_table(&parsed(&tables)?) {
        return Ok(None);
    }
    let listed = nft(&["-j", "-y", "-n", "list", "table", "ip", NFT_TABLE], "")?;
    let marking = marking(&parsed(&listed)?);
    marking.map(Some).ok_or(TransportError::OtherRules)
}

fn parsed(json: &str) -> Result<Value, NftError> {
    serde_json::from_str(json).map_err(|source| NftError::Garbled { source })
}

fn objects<'v>(listed: &'v Value, kind: &'v str) -> impl Iterator<Item = &'v Value> {
    let all = listed["nftables"].as_array().into_iter().flatten();
    all.filter_map(move |object| object.get(kind))
}

fn has_table(listed: &Value) -> bool {
    objects(listed, "table").any(|table| table["family"] == "ip" && table["name"] == NFT_TABLE)
}

fn marking(listed: &Value) -> Option<Marking> {
    let mut rules = objects(listed, "rule");
    let (rule, None) = (rules.next()?, rules.next()) else {
        return None;
    };
    let steps = rule["expr"].as_array()?;
    let (mut dscp, mut priority, mut to) = (None, None, Vec::new());
    for step in steps {
        let mangled = &step["mangle"];
        if step["match"]["left"]["payload"]["field"] == "daddr" {
            to = networks(&step["match"]["right"])?;
        } else if mangled["key"]["payload"]["field"] == "dscp" {
            dscp = mangled["value"].as_u64().and_then(|it| it.try_into().ok());
        } else if mangled["key"]["meta"]["key"] == "priority" {
            priority = Some(class(&mangled["value"])?);
        } else {
            return None;
        }
    }
    Marking::new(dscp?, priority, to).ok()
}

fn class(value: &Value) -> Option<u8> {
    match value.as_u64() {
        Some(number) => number.try_into().ok(),
        None => value.as_str()?.strip_prefix("0:")?.parse().ok(),
    }
}

fn networks(value: &Value) -> Option<Vec<Network>> {
    match &value["set"] {
        Value::Array(all) => all.iter().map(network).collect(),
        _ => network(value).map(|one| vec![one]),
    }
}

fn network(value: &Value) -> Option<Network> {
    if let Some(text) = value.as_str() {
        return text.parse().ok();
    }
    let prefix = &value["prefix"];
    let length = prefix["len"].as_u64()?.try_into().ok()?;
    Network::new(prefix["addr"].as_str()?.parse().ok()?, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(dscp: u8, to: &[&str]) -> Result<Marking, NoMarking> {
        Marking::new(
            dscp,
            Some(3),
            to.iter().map(|it| it.parse().unwrap()).collect(),
        )
    }

    #[test]
    fn marking_networks_are_valid_and_disjoint() {
        assert!("10.0.0.1/24".parse::<Network>().is_err());
        assert!("10.0.0.0/33".parse::<Network>().is_err());
        assert!("0.0.0.0/0".parse::<Network>().is_ok());
        let words = |it: Result<Marking, NoMarking>| it.unwrap_err().to_string();
        assert_eq!(
            words(of(26, &["10.0.0.0/24", "10.0.0.9"])),
            "10.0.0.0/24 and 10.0.0.9 have hosts in common"
        );
        assert_eq!(words(of(64, &["10.0.0.9"])), "a DSCP is 0 to 63");
        assert_eq!(words(of(6, &[])), "name 1 to 256 networks");
        let both = of(26, &["10.1.0.0/16", "10.0.0.0/24"]).unwrap();
        assert_eq!(
            both.to_string(),
            "DSCP 26 and priority 3 to 10.0.0.0/24 10.1.0.0/16"
        );
    }

    /// The output of nft 1.0.6.
    #[test]
    fn foreign_nft_table_is_ignored() {
        let rule = |more: &str| {
            let text = format!(
                r#"{{"nftables": [{{"rule": {{"expr": [{{"match": {{"op": "==", "left": {{"payload": {{"protocol":
                "ip", "field": "daddr"}}}}, "right": {{"set": [{{"prefix": {{"addr": "10.0.0.0", "len": 24}}}},
                "10.9.9.9"]}}}}}}, {{"mangle": {{"key": {{"payload": {{"protocol": "ip", "field": "dscp"}}}},
                "value": 26}}}}, {{"mangle": {{"key": {{"meta": {{"key": "priority"}}}}, "value": "0:3"}}}}{more}]}}}}]}}"#
            );
            serde_json::from_str::<Value>(&text).unwrap()
        };
        assert_eq!(
            marking(&rule("")),
            of(26, &["10.0.0.0/24", "10.9.9.9"]).ok()
        );
        assert_eq!(marking(&rule(r#", {"drop": null}"#)), None);
    }
}
