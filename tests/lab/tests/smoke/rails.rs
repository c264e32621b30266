//! Rails: each NIC of a host sends and receives for its own address alone.

use std::collections::BTreeMap;

use libtest_mimic::Trial;

use crate::PING_NEEDS;
use crate::support::{Lab, trial};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial(
            "eight_by_eight_rails_come_up",
            PING_NEEDS,
            eight_by_eight_rails_come_up,
        ),
        trial(
            "packets_stay_on_their_rail",
            PING_NEEDS,
            packets_stay_on_their_rail,
        ),
    ]
}

fn eight_by_eight_rails_come_up() {
    let lab = Lab::up("rails-8x8");
    assert_eq!(lab.nodes().len(), 8 + 8 + 4);
    assert_eq!(lab.came_up["links"], 8 * 8 + 8 * 4);
    let known = lab.output("h0", &["cat", "/etc/hosts"]);
    assert!(known.contains("10.7.0.5 h5.7\n"), "{known}");
    let rules = lab.output("h5", &["ip", "rule"]);
    for nic in 0..8 {
        let rule = format!("from 10.{nic}.0.5 lookup 10{nic}");
        assert!(rules.contains(&rule), "{rule}\n{rules}");
    }
    // Every NIC and every switch answers.
    let script = "for name in $(cut -d' ' -f2 /etc/hosts); do ping -qn -c1 -W5 $name >/dev/null || echo $name; done";
    for node in ["h0", "leaf1-3"] {
        let lost = lab.output(node, &["sh", "-c", script]);
        assert_eq!(lost, "", "{node} does not reach these");
    }
    let fabric = lab.output("h0", &["cat", "/run/fabric.toml"]);
    assert_eq!(fabric.matches("[[nic]]").count(), 64);
    assert!(fabric.contains("address = \"10.7.0.5\""), "{fabric}");
    eprintln!("20 nodes up in {} ms", lab.came_up["elapsed_ms"]);
}

fn packets_stay_on_their_rail() {
    let lab = Lab::up("rails-8x8");
    let by_name = ["ping", "-qn", "-c3", "-i0.01", "-W5", "h4.3"];
    assert_eq!(
        passed(&lab, &by_name),
        ["h0 eth3", "h4 eth3", "leaf0-3", "leaf1-3"]
    );
    // NIC 5 shares its leaf with NIC 1.
    let across = [
        "ping", "-qn", "-c3", "-i0.01", "-W5", "-I", "10.5.0.0", "h4.2",
    ];
    assert_eq!(
        passed(&lab, &across),
        ["h0 eth5", "h4 eth2", "leaf0-1", "leaf1-2"]
    );
}

/// Runs a program in h0, and returns the interfaces of h0 and h4 and the leaves that packets have passed meanwhile.
fn passed(lab: &Lab, words: &[&str]) -> Vec<String> {
    let before = counters(lab);
    lab.output("h0", words);
    let after = counters(lab);
    let moved = after
        .into_iter()
        .filter(|(place, count)| before.get(place) != Some(count));
    moved.map(|(place, _)| place).collect()
}

/// Returns the numbers of packets received and sent: of each interface of h0 and h4, and of all interfaces of each leaf.
fn counters(lab: &Lab) -> BTreeMap<String, String> {
    let script = "cd /sys/class/net && for name in *; do \
                  echo $name $(cat $name/statistics/rx_packets $name/statistics/tx_packets); done";
    let of = |node: &str| lab.output(node, &["sh", "-c", script]);
    let mut counters = BTreeMap::new();
    for host in ["h0", "h4"] {
        for line in of(host).lines() {
            let (interface, counts) = line.split_once(' ').expect("two counts follow the name");
            counters.insert(format!("{host} {interface}"), counts.to_owned());
        }
    }
    for pod in 0..2 {
        for nth in 0..4 {
            let leaf = format!("leaf{pod}-{nth}");
            let counts = of(&leaf);
            counters.insert(leaf, counts);
        }
    }
    counters
}
