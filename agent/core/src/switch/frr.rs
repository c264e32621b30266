//! Static routes of FRR. The agent's routes have a tag, are in the main table and lead to a single host, each hop
//! with its interface named: FRR 8.4 reads `GATEWAY weight 5` as the interface `weight`, and a hop with an interface
//! cannot be misread so.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use reweave_common::forwarding_state::{RouteHop, RouteRule};

use super::{Unfit, refuse_unfit};

/// Marks a static route as ours.
pub const ROUTE_TAG: u32 = 213_213;
/// What a route has of which nothing is said.
const DEFAULT_DISTANCE: u8 = 1;

/// FRR's configuration for single hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Configured {
    /// Each hop, with the configuration line that makes it.
    ours: BTreeMap<Ipv4Addr, BTreeMap<RouteHop, String>>,
    /// Lines that FRR would merge with ours, tag and all, for they are of the same distance.
    others: BTreeMap<Ipv4Addr, String>,
}

/// One line `ip route`, as far as it matters here.
struct RouteLine {
    destination: Ipv4Addr,
    gateway: Option<Ipv4Addr>,
    interface: Option<String>,
    tag: Option<u32>,
    distance: u8,
    elsewhere: bool,
}

impl Configured {
    /// Parses the output of `show running-config`.
    pub fn read(text: &str) -> Self {
        let mut read = Self::default();
        // What is indented belongs to a VRF.
        for line in text.lines().map(str::trim_end) {
            if let Some(parsed) = RouteLine::read(line) {
                read.take(parsed, line);
            }
        }
        read
    }

    fn take(&mut self, line: RouteLine, as_it_stands: &str) {
        let destination = line.destination;
        let is_ours =
            line.tag == Some(ROUTE_TAG) && line.distance == DEFAULT_DISTANCE && !line.elsewhere;
        match (line.gateway, line.interface) {
            (Some(next_hop), Some(interface)) if is_ours => {
                let hop = RouteHop {
                    interface,
                    next_hop,
                    weight: 1,
                };
                let hops = self.ours.entry(destination).or_default();
                hops.insert(hop, as_it_stands.to_owned());
            }
            _ if line.distance == DEFAULT_DISTANCE && !line.elsewhere => {
                self.others.insert(destination, as_it_stands.to_owned());
            }
            _ => {}
        }
    }

    /// Ours.
    pub fn rules(&self) -> Vec<RouteRule> {
        self.ours
            .iter()
            .map(|(destination, hops)| RouteRule {
                destination: *destination,
                hops: hops.keys().cloned().collect(),
            })
            .collect()
    }

    /// The lines for FRR, in this order, so that ours are these. All that comes is sent before anything goes, so a
    /// route that stays always has its old next hops, its new ones, or both.
    pub fn lines_to(&self, desired: &[RouteRule]) -> Result<Vec<String>, Unfit> {
        refuse_unfit(desired)?;
        let mut surplus = self.ours.clone();
        let mut lines = vec![];
        for RouteRule { destination, hops } in desired {
            if let Some(as_it_stands) = self.others.get(destination) {
                return Err(Unfit::NotOurs {
                    destination: *destination,
                    as_it_stands: as_it_stands.clone(),
                });
            }
            for hop in hops {
                let held = surplus.get_mut(destination).and_then(|it| it.remove(hop));
                if held.is_none() {
                    lines.push(line(*destination, hop));
                }
            }
        }
        let gone = surplus.values().flat_map(BTreeMap::values);
        lines.extend(gone.map(|line| format!("no {line}")));
        Ok(lines)
    }
}

fn line(destination: Ipv4Addr, hop: &RouteHop) -> String {
    let RouteHop {
        interface,
        next_hop,
        ..
    } = hop;
    format!("ip route {destination}/32 {next_hop} {interface} tag {ROUTE_TAG} onlink")
}

impl RouteLine {
    /// None of what is no static route to a single host.
    fn read(line: &str) -> Option<Self> {
        let mut words = line
            .strip_prefix("ip route ")?
            .split_whitespace()
            .peekable();
        let destination = words.next()?.strip_suffix("/32")?.parse().ok()?;
        let first = words.next()?;
        let gateway = first.parse().ok();
        let named = words.next_if(|word| gateway.is_some() && !is_option(word));
        let interface = if gateway.is_some() {
            named
        } else {
            Some(first)
        };
        let mut read = Self {
            destination,
            gateway,
            interface: interface.map(str::to_owned),
            tag: None,
            distance: DEFAULT_DISTANCE,
            elsewhere: false,
        };
        while let Some(word) = words.next() {
            match word {
                "tag" => read.tag = words.next().and_then(|it| it.parse().ok()),
                "table" | "vrf" | "nexthop-vrf" => {
                    read.elsewhere |= word != "nexthop-vrf";
                    words.next();
                }
                "label" | "color" => drop(words.next()),
                other => read.distance = other.parse().unwrap_or(read.distance),
            }
        }
        Some(read)
    }
}

/// Whether it says something of a hop, and names no interface.
fn is_option(word: &str) -> bool {
    const ROUTE_OPTIONS: &[&str] = &[
        "tag",
        "table",
        "vrf",
        "nexthop-vrf",
        "label",
        "color",
        "onlink",
        "bfd",
    ];
    ROUTE_OPTIONS.contains(&word) || word.parse::<u8>().is_ok()
}

/// What is said of the version in what `show version` prints: `FRRouting 8.4.4`.
pub fn version(text: &str) -> Option<&str> {
    let first = text.lines().find(|line| line.starts_with("FRRouting "))?;
    let end = first
        .match_indices(' ')
        .nth(1)
        .map_or(first.len(), |it| it.0);
    first.get(..end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::examples::{hop, host, rule, rules};
    use super::*;

    /// The output of FRR 8.4.4.
    const RUNNING_CONFIG: &str = "Building configuration...\n\nCurrent configuration:\n!\nfrr version 8.4.4\n!\n\
        ip route 10.9.0.1/32 172.16.0.1 up0 tag 213213 onlink\n\
        ip route 10.9.0.1/32 172.16.1.1 up1 tag 213213 onlink\n\
        ip route 10.9.0.2/32 172.16.1.1\n\
        ip route 10.9.0.3/32 172.16.1.1 tag 213213 onlink 20\n\
        ip route 10.9.0.4/32 172.16.1.1 up1 tag 213213 table 7\n\
        ip route 10.9.0.5/32 blackhole\n\
        ip route 10.9.0.7/32 172.16.1.1 weight 5\n\
        ip route 0.0.0.0/0 172.16.1.1\n!\nvrf red\n ip route 10.9.0.6/32 172.16.1.1\nexit-vrf\n!\nend\n";

    #[test]
    fn own_frr_routes_are_recognized() {
        let configured = Configured::read(RUNNING_CONFIG);
        assert_eq!(configured.rules(), [rule(1, &[0, 1])]);
        let others: Vec<_> = configured.others.keys().copied().collect();
        assert_eq!(others, [host(2), host(5)]);
    }

    #[test]
    fn frr_adds_routes_before_removing() {
        let lines = Configured::read(RUNNING_CONFIG).lines_to(&[rule(1, &[1, 2]), rule(9, &[0])]);
        let expected = [
            "ip route 10.9.0.1/32 172.16.2.1 up2 tag 213213 onlink",
            "ip route 10.9.0.9/32 172.16.0.1 up0 tag 213213 onlink",
            "no ip route 10.9.0.1/32 172.16.0.1 up0 tag 213213 onlink",
        ];
        assert_eq!(lines.unwrap(), expected);
    }

    #[test]
    fn frr_keeps_foreign_routes_refuses_conflicts() {
        let configured = Configured::read(RUNNING_CONFIG);
        let refused = |rule: RouteRule| configured.lines_to(&[rule]).unwrap_err().to_string();
        assert_eq!(
            refused(rule(2, &[0])),
            "a foreign route to 10.9.0.2 exists: ip route 10.9.0.2/32 172.16.1.1"
        );
        let mut heavy = rule(1, &[0, 1]);
        heavy.hops[1].weight = 3;
        assert!(refused(heavy).contains("without weights"));
        for strange in ["up0 | include x", "", "up0\nno router bgp", "a,b"] {
            let mut named = rule(1, &[0]);
            named.hops[0].interface = strange.to_owned();
            assert!(
                refused(named).contains("not a valid interface name"),
                "{strange:?}"
            );
        }
        // Our routes take precedence over routes of another distance. FRR 8.4 takes `weight 5` for a distance.
        for last in [3, 4, 7] {
            assert_eq!(configured.lines_to(&[rule(last, &[0])]).unwrap().len(), 3);
        }
    }

    #[test]
    fn frr_version_omits_machine_name() {
        let text = "FRRouting 8.4.4 (vm) on Linux(6.18).\nCopyright 1996-2005 Kunihiro Ishiguro";
        assert_eq!(version(text), Some("FRRouting 8.4.4"));
        assert_eq!(version("FRRouting 10.1"), Some("FRRouting 10.1"));
        assert_eq!(version("Quagga"), None);
    }

    /// FRR's output after these lines.
    fn apply_line(config: &mut Vec<String>, line: &str) {
        match line.strip_prefix("no ") {
            Some(gone) => config.retain(|it| it != gone),
            None => config.push(line.to_owned()),
        }
    }

    proptest! {
        #[test]
        fn each_frr_line_keeps_full_routes(
            before in rules(),
            after in rules(),
        ) {
            let mut config = Configured::default().lines_to(&before).unwrap();
            for line in Configured::read(&config.join("\n")).lines_to(&after).unwrap() {
                apply_line(&mut config, &line);
                let held = Configured::read(&config.join("\n"));
                for old in &before {
                    let Some(new) = after.iter().find(|new| new.destination == old.destination) else {
                        continue;
                    };
                    let ways: Vec<_> = held.ours[&old.destination].keys().collect();
                    let has = |rule: &RouteRule| rule.hops.iter().all(|hop| ways.contains(&hop));
                    prop_assert!(has(old) || has(new), "{old:?} to {new:?}: {ways:?}");
                }
            }
            let held = Configured::read(&config.join("\n"));
            prop_assert_eq!(held.rules(), after.clone());
            prop_assert!(held.lines_to(&after).unwrap().is_empty(), "not idempotent");
        }

        #[test]
        fn arbitrary_text_is_safe(text in "(ip route |10.9.0.1/32|up0|tag|[ \n]|213213|[0-9.]{1,9}){0,20}") {
            let _ = Configured::read(&text).lines_to(&[rule(1, &[0])]);
            let _ = version(&text);
        }
    }

    #[test]
    fn frr_hops_name_their_interface() {
        assert!(line(host(1), &hop(0)).contains(" 172.16.0.1 up0 "));
    }
}
