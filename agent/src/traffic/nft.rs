//! Counters of nftables, if no program may be loaded into the kernel: sets to which each new pair of hosts and each
//! new flow is added automatically.
//!
//! The table has Reweave's name. It is made again at start and removed at the end.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::Command;
use std::time::Duration;

use reweave_agent_core::traffic::{Direction, FlowCount, PairCount, TrafficCounts};
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::traffic::Volume;
use reweave_common::units::Bytes;
use serde_json::Value;
use thiserror::Error;

use crate::program::{self, Ended, NoAnswer};

const NFT_TABLE: &str = "reweave_traffic";
/// Counted from the IP header on; on the wire there is a frame around each.
const ETHERNET_HEADER_BYTES: u64 = 14;
/// It answers within milliseconds; later it counts as gone.
const NFT_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Debug, Error)]
pub enum NftError {
    #[error("cannot start nft; install nftables")]
    Start { source: io::Error },
    #[error("nft did not answer within {} s", patience.as_secs())]
    Hangs { patience: Duration },
    #[error("nft refused: {words}")]
    Refused { words: String },
    #[error("cannot parse the output of nft")]
    Garbled { source: serde_json::Error },
}

pub(super) struct NftCounter(());

/// Whether this user may use nftables here. It asks for the same right to list tables as to make them.
pub fn may_use_nft() -> Result<(), NftError> {
    nft(&["list", "tables"], "").map(drop)
}

impl NftCounter {
    pub(super) fn install() -> Result<Self, NftError> {
        nft(&["-f", "-"], &script())?;
        Ok(Self(()))
    }

    pub(super) fn read(&mut self) -> Result<TrafficCounts, NftError> {
        let listed = nft(&["-j", "list", "table", "ip", NFT_TABLE], "")?;
        counted(&listed)
    }
}

impl Drop for NftCounter {
    fn drop(&mut self) {
        // An error means that it was removed before.
        let _ = nft(&["delete", "table", "ip", NFT_TABLE], "");
    }
}

/// Adding it first makes it there to be deleted.
fn script() -> String {
    let (pair, flow) = (
        "ip saddr . ip daddr",
        "ip saddr . ip daddr . ip protocol . th sport . th dport",
    );
    let set = |name: &str, of: &str| {
        format!("set {name} {{ typeof {of}; flags dynamic; size 16384; counter; }}\n",)
    };
    let chain = |name: &str, hook: &str, way: &str| {
        format!(
            "chain {name} {{ type filter hook {hook} priority {priority}; policy accept;\n\
             add @pairs_{way} {{ {pair} }}\n\
             meta l4proto {{ tcp, udp }} add @flows_{way} {{ {flow} }}\n}}\n",
            priority = if way == "sent" { 300 } else { -350 },
        )
    };
    let sets: String = ["sent", "received"]
        .iter()
        .flat_map(|way| {
            [
                set(&format!("pairs_{way}"), pair),
                set(&format!("flows_{way}"), flow),
            ]
        })
        .collect();
    let chains =
        chain("outward", "postrouting", "sent") + &chain("inward", "prerouting", "received");
    format!(
        "table ip {NFT_TABLE}\ndelete table ip {NFT_TABLE}\ntable ip {NFT_TABLE} {{\n{sets}{chains}}}\n"
    )
}

pub(crate) fn nft(arguments: &[&str], script: &str) -> Result<String, NftError> {
    let mut nft = Command::new("nft");
    let Ended {
        status,
        printed,
        said,
    } = match program::ask(nft.args(arguments), script.to_owned(), NFT_TIMEOUT) {
        Ok(ended) => ended,
        Err(NoAnswer::Hangs) => {
            return Err(NftError::Hangs {
                patience: NFT_TIMEOUT,
            });
        }
        Err(NoAnswer::Start(source)) => return Err(NftError::Start { source }),
    };
    if status.success() {
        return Ok(printed);
    }
    let first = said.lines().next().unwrap_or("no reason given");
    Err(NftError::Refused {
        words: first.to_owned(),
    })
}

/// See `decoders`.
pub(crate) fn read_list(json: &str) {
    let _ = counted(json);
}

/// Reads the elements of all sets; those of another form are none of ours.
fn counted(json: &str) -> Result<TrafficCounts, NftError> {
    let listed: Value =
        serde_json::from_str(json).map_err(|source| NftError::Garbled { source })?;
    let mut counted = TrafficCounts::default();
    for set in array(&listed["nftables"]).iter().map(|it| &it["set"]) {
        let direction = match set["name"].as_str() {
            Some("pairs_sent" | "flows_sent") => Direction::Sent,
            Some("pairs_received" | "flows_received") => Direction::Received,
            _ => continue,
        };
        for element in array(&set["elem"]).iter().map(|it| &it["elem"]) {
            let (parts, volume) = (
                array(&element["val"]["concat"]),
                volume(&element["counter"]),
            );
            match (pair(parts, direction), flow(parts), volume) {
                (Some(pair), _, Some(volume)) => counted.pairs.push(PairCount { volume, ..pair }),
                (_, Some(flow), Some(volume)) => counted.flows.push(FlowCount {
                    flow,
                    direction,
                    volume,
                    busy: None,
                }),
                _ => {}
            }
        }
    }
    Ok(counted)
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn volume(counter: &Value) -> Option<Volume> {
    let packets = counter["packets"].as_u64()?;
    let bytes = counter["bytes"].as_u64()?;
    Some(Volume {
        bytes: Bytes::new(bytes.saturating_add(packets.saturating_mul(ETHERNET_HEADER_BYTES))),
        packets: Some(packets),
    })
}

fn address(value: &Value) -> Option<Ipv4Addr> {
    value.as_str()?.parse().ok()
}

fn pair(parts: &[Value], direction: Direction) -> Option<PairCount> {
    let [source, destination] = parts else {
        return None;
    };
    Some(PairCount {
        source: address(source)?,
        destination: address(destination)?,
        direction,
        volume: Volume::default(),
    })
}

fn flow(parts: &[Value]) -> Option<FlowKey> {
    let [source, destination, protocol, sport, dport] = parts else {
        return None;
    };
    let end = |host: &Value, port: &Value| {
        Some(SocketAddrV4::new(
            address(host)?,
            u16::try_from(port.as_u64()?).ok()?,
        ))
    };
    Some(FlowKey {
        protocol: match (protocol.as_str(), protocol.as_u64()) {
            (Some("tcp"), _) | (_, Some(6)) => Protocol::Tcp,
            (Some("udp"), _) | (_, Some(17)) => Protocol::Udp,
            _ => return None,
        },
        source: end(source, sport)?,
        destination: end(destination, dport)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED_JSON: &str = r#"{"nftables": [{"metainfo": {"version": "1.0.6"}},
      {"set": {"family": "ip", "name": "pairs_sent", "table": "reweave_traffic", "elem": [
        {"elem": {"val": {"concat": ["10.0.0.1", "10.0.0.2"]}, "counter": {"packets": 6, "bytes": 344}}}]}},
      {"set": {"family": "ip", "name": "flows_received", "table": "reweave_traffic", "elem": [
        {"elem": {"val": {"concat": ["10.0.0.2", "10.0.0.1", "udp", 35360, 4791]},
                  "counter": {"packets": 1, "bytes": 30}}},
        {"elem": {"val": {"concat": ["10.0.0.2", "10.0.0.1", "icmp", 1, 2]},
                  "counter": {"packets": 1, "bytes": 30}}}]}},
      {"set": {"name": "foreign_set", "elem": [1]}}]}"#;

    #[test]
    fn nft_counts_pairs_and_flows() {
        let counted = counted(LISTED_JSON).expect("JSON");
        let [pair] = &counted.pairs[..] else {
            panic!("there is one pair: {counted:?}");
        };
        assert_eq!(pair.volume.bytes.count(), 344 + 6 * 14);
        assert_eq!(pair.direction, Direction::Sent);
        let [flow] = &counted.flows[..] else {
            panic!("there is one flow: {counted:?}");
        };
        let named = flow.flow.to_string();
        assert_eq!(named, "udp 10.0.0.2:35360 > 10.0.0.1:4791");
        assert_eq!((flow.direction, flow.busy), (Direction::Received, None));
    }

    #[test]
    fn damaged_text_is_safe() {
        for end in 0..LISTED_JSON.len() {
            let _ = counted(&LISTED_JSON[..end]);
        }
        for at in 0..LISTED_JSON.len() {
            for byte in *b"0[{\"]}n-" {
                let mut damaged = LISTED_JSON.as_bytes().to_vec();
                damaged[at] = byte;
                let _ = counted(&String::from_utf8_lossy(&damaged));
            }
        }
    }
}
