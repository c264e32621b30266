//! Cables that are pulled and put back.

use libtest_mimic::Trial;
use serde_json::Value;

use crate::PING_NEEDS;
use crate::play::{Play, address};
use crate::support::{Lab, trial, wait_until};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial(
            "pulled_cable_takes_carrier_keeps_routes",
            PING_NEEDS,
            || {
                pulled_cable_takes_carrier_keeps_routes(0);
            },
        ),
        trial("pulled_cable_with_delay_keeps_routes", PING_NEEDS, || {
            pulled_cable_takes_carrier_keeps_routes(200);
        }),
        trial(
            "traffic_stops_while_cable_is_out",
            PING_NEEDS,
            traffic_stops_while_cable_is_out,
        ),
        trial(
            "flapping_link_falls_once_per_period",
            PING_NEEDS,
            flapping_link_falls_once_per_period,
        ),
    ]
}

fn leaf_spine(latency_us: u32, faults: &str) -> String {
    format!(
        "name = 'play'\n[fabric]\nkind = 'leaf-spine'\nleaves = 2\nspines = 2\nhosts_per_leaf = 2\n\
         host_gbps = 0.4\nuplink_gbps = 0.2\nlatency_us = {latency_us}\n{faults}"
    )
}

fn pulled_cable_takes_carrier_keeps_routes(latency_us: u32) {
    let down = "[[fault]]\nkind = 'link-down'\nat_s = 4\nfor_s = 8\nlink = ['leaf0', 'spine0']";
    let play = Play::begin(&leaf_spine(latency_us, down));
    let lab = &play.lab;
    let before = ["leaf0", "spine0"].map(|node| configuration(lab, node));
    assert_eq!(spines_in_use(lab).len(), 2, "both ways are used");

    assert_eq!(play.step(), ["leaf0-spine0 down"]);
    for (node, port) in [("leaf0", "swp2"), ("spine0", "swp0")] {
        wait_until("the carrier is lost", || !has_carrier(lab, node, port));
        assert!(is_up(lab, node, port), "{node} {port} is still switched on");
    }
    let held = ["leaf0", "spine0"].map(|node| configuration(lab, node));
    assert_eq!(held, before, "addresses and routes stay");
    assert_eq!(
        spines_in_use(lab),
        ["spine1"],
        "the leaf sends to no dead port"
    );

    assert_eq!(play.step(), ["leaf0-spine0 up"]);
    wait_until("the carrier returns", || has_carrier(lab, "leaf0", "swp2"));
    let after = ["leaf0", "spine0"].map(|node| configuration(lab, node));
    assert_eq!(after, before);
    assert_eq!(spines_in_use(lab).len(), 2, "both ways are used again");
    all_answer(lab);
}

fn traffic_stops_while_cable_is_out() {
    let down = "[[fault]]\nkind = 'link-down'\nat_s = 2\nfor_s = 0.5\nlink = ['h1', 'leaf0']";
    let play = Play::begin(&leaf_spine(0, down));
    let lab = &play.lab;
    let to = address(lab, "h1");
    all_answer(lab);
    assert_eq!(play.step(), ["h1-leaf0 down"]);
    let ping = ["ping", "-q", "-c20", "-i0.01", "-W0.2", &to];
    let said = lab.exec("h0", &ping);
    assert!(said.stdout.contains(" 0 received"), "{said:?}");
    assert_eq!(play.step(), ["h1-leaf0 up"]);
    all_answer(lab);
}

fn flapping_link_falls_once_per_period() {
    let flap = "[[fault]]\nkind = 'link-flap'\nat_s = 3\nfor_s = 1.5\nperiod_s = 0.3\n\
                link = ['h1', 'leaf0']";
    let play = Play::begin(&leaf_spine(0, flap));
    let falls = || {
        let count = play
            .lab
            .output("h1", &["cat", "/sys/class/net/eth0/carrier_down_count"]);
        count.trim().parse::<u32>().expect("the kernel counts them")
    };
    let before = falls();
    for fall in 1..=5 {
        assert_eq!(play.step(), ["h1-leaf0 down"]);
        wait_until("the carrier is lost", || {
            !has_carrier(&play.lab, "h1", "eth0")
        });
        assert_eq!(play.step(), ["h1-leaf0 up"]);
        wait_until("the carrier returns", || {
            has_carrier(&play.lab, "h1", "eth0")
        });
        assert_eq!(falls() - before, fall);
    }
    play.expect_timeline_finished();
    all_answer(&play.lab);
}

/// Addresses and routes, without what says that a cable is out.
fn configuration(lab: &Lab, node: &str) -> [String; 2] {
    let routes = lab.output(node, &["ip", "route", "show", "table", "all"]);
    let addresses = lab.json(node, &["ip", "-j", "address"]);
    let addresses = addresses.as_array().expect("ip lists them").iter();
    let of_one = |interface: &Value| interface["addr_info"].to_string();
    [
        routes.replace(" dead", "").replace(" linkdown", ""),
        addresses.map(of_one).collect(),
    ]
}

/// The spines over which leaf0 sends some of many flows from h0 to h2.
fn spines_in_use(lab: &Lab) -> Vec<&'static str> {
    let (from, to) = (address(lab, "h0"), address(lab, "h2"));
    let script = format!(
        "for port in $(seq 2000 2031); do ip route get {to} from {from} iif swp0 ipproto udp \
         sport $port dport 4791; done"
    );
    let chosen = lab.output("leaf0", &["sh", "-c", &script]);
    let spines = [("spine0", "dev swp2"), ("spine1", "dev swp3")];
    let used = spines.into_iter().filter(|(_, port)| chosen.contains(port));
    used.map(|(spine, _)| spine).collect()
}

fn has_carrier(lab: &Lab, node: &str, port: &str) -> bool {
    flags(lab, node, port).contains(&"LOWER_UP".into())
}

fn is_up(lab: &Lab, node: &str, port: &str) -> bool {
    flags(lab, node, port).contains(&"UP".into())
}

fn flags(lab: &Lab, node: &str, port: &str) -> Vec<Value> {
    let shown = lab.json(node, &["ip", "-j", "link", "show", "dev", port]);
    shown[0]["flags"].as_array().cloned().unwrap_or_default()
}

fn all_answer(lab: &Lab) {
    for host in ["h1", "h2", "h3"] {
        lab.output("h0", &["ping", "-q", "-c1", "-W5", &address(lab, host)]);
    }
}
