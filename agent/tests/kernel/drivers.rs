//! What drivers say by us, held against what they say by `ethtool`.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use reweave_agent::counters::all_of_driver;
use reweave_common::units::Rate;
use serde_json::Value;

use crate::fabric::{Fabric, ip_in, tool, within};
use crate::tests;
use crate::traffic::Session;

tests! {
    nics_match_ethtool needs "ethtool",
    driver_counters_match_ethtool needs "ethtool",
}

/// One of each kind that takes no hardware, if this kernel has it.
const LINK_KINDS: [&[&str]; 4] = [
    &["dummy0", "type", "dummy"],
    &["br0", "type", "bridge"],
    &["over0", "link", "eth0", "type", "macvlan"],
    &["tagged0", "link", "eth0", "type", "vlan", "id", "7"],
];

/// How many there are now.
fn furnish() -> usize {
    let mut has = 1;
    for kind in LINK_KINDS {
        let added = within("h0", || {
            let mut ip = Command::new("ip");
            let ip = ip.args(["link", "add", "name"]).args(kind);
            ip.stderr(Stdio::null())
                .status()
                .expect("ip runs")
                .success()
        });
        if added {
            ip_in("h0", &["link", "set", kind[0], "up"]);
            has += 1;
        }
    }
    has
}

/// With a /sys of the host's own.
fn on_h0(words: &[&str]) -> String {
    tool("ip", &[&["netns", "exec", "h0"][..], words].concat())
}

/// What stands behind a word and a colon.
fn said<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(name, _)| name.trim() == word)?;
    Some(value.trim())
}

/// `10000Mb/s`; of what has none, nothing or `Unknown!`.
fn speed(text: &str) -> Option<Rate> {
    let mbps: u64 = said(text, "Speed")?.strip_suffix("Mb/s")?.parse().ok()?;
    Some(Rate::from_bits_per_s(mbps * 1_000_000))
}

fn nics_match_ethtool() {
    let _fabric = Fabric::new();
    let count = furnish();
    let program = env!("CARGO_BIN_EXE_reweave-agent");
    let facts: Value = serde_json::from_str(&on_h0(&[program, "facts", "--output", "json"]))
        .expect("one JSON object");
    let nics = facts["nics"].as_array().expect("a list");
    assert_eq!(nics.len(), count, "{facts}");
    for nic in nics {
        let name = nic["interface"].as_str().expect("a name");
        let (link, driver) = (on_h0(&["ethtool", name]), on_h0(&["ethtool", "-i", name]));
        let theirs = speed(&link).map(Rate::bits_per_s);
        assert_eq!(nic["speed_bits_per_s"].as_u64(), theirs, "{name}: {link}");
        let duplex = said(&link, "Duplex").map(str::to_lowercase);
        let duplex = duplex.filter(|it| !it.starts_with("unknown"));
        assert_eq!(nic["duplex"].as_str(), duplex.as_deref(), "{name}: {link}");
        assert_eq!(nic["driver"].as_str(), said(&driver, "driver"), "{name}");
    }
    let veth = nics.iter().find(|it| it["interface"] == "eth0");
    let has_speed = veth.is_some_and(|it| it["speed_bits_per_s"].is_u64());
    assert!(has_speed, "something was compared: {facts}");
}

fn driver_counters_match_ethtool() {
    let _fabric = Fabric::new();
    Session::new(0, 2).transfer(100_000);
    let ours: BTreeMap<_, _> = within("h0", || all_of_driver("eth0")).into_iter().collect();
    let text = on_h0(&["ethtool", "-S", "eth0"]);
    let lines = text.lines().filter_map(|line| line.split_once(": "));
    let theirs: BTreeMap<_, _> = lines
        .filter_map(|(name, value)| Some((name.trim().to_owned(), value.trim().parse().ok()?)))
        .collect();
    assert_eq!(ours, theirs);
    assert!(ours["peer_ifindex"] > 0, "{ours:?}");
}
