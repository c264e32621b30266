//! Links that become slow, and fast again.

use libtest_mimic::Trial;
use serde_json::Value;

use crate::IPERF3_NEEDS;
use crate::play::{Play, iperf};
use crate::support::timed::timed_throughput;
use crate::support::{Lab, trial};

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial(
        "timed_link_rate_matches_scenario",
        IPERF3_NEEDS,
        || {
            link_rate_matches_scenario();
        },
    )]
}

fn link_rate_matches_scenario() {
    let play = Play::begin(
        "name = 'play'\n[fabric]\nkind = 'graph'\n\
         node = [{ name = 'a', role = 'host' }, { name = 'b', role = 'host' }]\n\
         link = [{ a = 'a', b = 'b', gbps = 0.2 }]\n\
         [[fault]]\nkind = 'link-rate'\nat_s = 8\nfor_s = 16\ngbps = 0.05\nlink = ['a', 'b']\n",
    );
    let lab = &play.lab;
    assert_rate(lab, "a", "b", 200e6);
    let before = queue(lab);
    assert_eq!(play.step(), ["a-b runs at 50.0 Mb/s"]);
    assert_rate(lab, "a", "b", 50e6);
    assert_rate(lab, "b", "a", 50e6);
    assert_eq!(play.step(), ["a-b runs at 200.0 Mb/s"]);
    assert_rate(lab, "a", "b", 200e6);
    let after = queue(lab);
    assert_eq!(after["handle"], before["handle"], "it is the same queue");
    assert!(
        after["bytes"].as_u64() > before["bytes"].as_u64(),
        "{after} {before}"
    );
}

/// Asserts the TCP rate measured by iperf3: never higher, and not lower unless the machine is stalled.
fn assert_rate(lab: &Lab, from: &str, to: &str, rate: f64) {
    let share = || {
        let measured = iperf(lab, from, to, &["-t", "1.5", "-O", "0.3"]);
        let received = measured["end"]["sum_received"]["bits_per_second"].as_f64();
        let share = received.expect("iperf3 measured it") / rate;
        assert!(share < 1.05, "{share} of {rate}");
        share
    };
    let name = format!("share of {:.0} Mb/s that TCP carries", rate / 1e6);
    timed_throughput(&name, 0.95, share);
}

fn queue(lab: &Lab) -> Value {
    lab.json("a", &["tc", "-j", "-s", "qdisc", "show", "dev", "eth0"])[0].clone()
}
