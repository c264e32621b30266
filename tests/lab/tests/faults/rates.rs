//! Links that become slow, and fast again.

use libtest_mimic::Trial;
use serde_json::Value;

use crate::LAB_AND_IPERF;
use crate::play::{Play, iperf};
use crate::support::{Lab, trial};

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial(
        "a_link_runs_at_the_rate_that_holds",
        LAB_AND_IPERF,
        || {
            a_link_runs_at_the_rate_that_holds();
        },
    )]
}

fn a_link_runs_at_the_rate_that_holds() {
    let play = Play::begin(
        "name = 'play'\n[fabric]\nkind = 'graph'\n\
         node = [{ name = 'a', role = 'host' }, { name = 'b', role = 'host' }]\n\
         link = [{ a = 'a', b = 'b', gbps = 0.2 }]\n\
         [[fault]]\nkind = 'link-rate'\nat_s = 8\nfor_s = 16\ngbps = 0.05\nlink = ['a', 'b']\n",
    );
    let lab = &play.lab;
    assert_rate(lab, "a", "b", 200e6);
    let before = queue(lab);
    play.wait_for("a-b runs at 50.0 Mb/s");
    assert_rate(lab, "a", "b", 50e6);
    assert_rate(lab, "b", "a", 50e6);
    play.wait_for("a-b runs at 200.0 Mb/s");
    assert_rate(lab, "a", "b", 200e6);
    let after = queue(lab);
    assert_eq!(after["handle"], before["handle"], "it is the same queue");
    assert!(
        after["bytes"].as_u64() > before["bytes"].as_u64(),
        "{after} {before}"
    );
}

/// What TCP brings across, measured by others: never more, and no less when the machine has time.
fn assert_rate(lab: &Lab, from: &str, to: &str, rate: f64) {
    let shares = (0..3).map(|_| {
        let measured = iperf(lab, from, to, &["-t", "1.5", "-O", "0.3"]);
        let received = measured["end"]["sum_received"]["bits_per_second"].as_f64();
        received.expect("iperf3 measured it") / rate
    });
    let mut shares = shares.inspect(|share| {
        println!("{:.1} % of {:.0} Mb/s", 100.0 * share, rate / 1e6);
        assert!(*share < 1.05, "{share} of {rate}");
    });
    assert!(shares.any(|share| share > 0.95), "{rate} is never reached");
}

fn queue(lab: &Lab) -> Value {
    lab.json("a", &["tc", "-j", "-s", "qdisc", "show", "dev", "eth0"])[0].clone()
}
