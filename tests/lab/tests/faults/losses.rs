//! Packets that are lost on purpose.

use libtest_mimic::Trial;

use crate::play::{Counters, Play, address, break_program, iperf};
use crate::support::trial;
use crate::{IPERF3_NEEDS, PING_NEEDS};

/// Deviations beyond this occur once in ten million samples, so that chance alone does not fail these tests; with three
/// times the packets this is as strict as 99.9 % with 20 000.
const MAX_DEVIATIONS: f64 = 5.33;
const PACKET_COUNT: u32 = 60_000;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("link_loses_configured_share", PING_NEEDS, || {
            loses_as_many_packets_as_it_should(&Play::begin(&lossy(0, 5.0)), "loss: nft");
        }),
        trial("delayed_link_loses_configured_share", PING_NEEDS, || {
            let play = Play::begin(&lossy(200, 5.0));
            let by_kernel = play.kernel_has("netem");
            let means = if by_kernel {
                "loss: nft"
            } else {
                "loss: user-space wire"
            };
            loses_as_many_packets_as_it_should(&play, means);
        }),
        trial(
            "without_nft_link_loses_configured_share",
            PING_NEEDS,
            || {
                let play = Play::begin_with(&lossy(0, 5.0), |up, home| {
                    break_program(up.arg("--stepped"), home, "nft");
                });
                loses_as_many_packets_as_it_should(&play, "loss: user-space wire");
            },
        ),
        trial("no_packets_are_lost_together", IPERF3_NEEDS, || {
            no_packets_are_lost_together(0);
        }),
        trial(
            "delayed_packets_are_lost_independently",
            IPERF3_NEEDS,
            || {
                no_packets_are_lost_together(200);
            },
        ),
        trial(
            "total_loss_stops_and_ends",
            PING_NEEDS,
            total_loss_stops_and_ends,
        ),
    ]
}

/// Two hosts and a link that loses packets from the first step on.
fn lossy(latency_us: u32, percent: f64) -> String {
    format!(
        "name = 'play'\n[fabric]\nkind = 'graph'\n\
         node = [{{ name = 'a', role = 'host' }}, {{ name = 'b', role = 'host' }}]\n\
         link = [{{ a = 'a', b = 'b', gbps = 0.4, latency_us = {latency_us} }}]\n\
         [[fault]]\nkind = 'link-loss'\nat_s = 0.5\npercent = {percent}\n\
         link = ['a', 'b']\n"
    )
}

/// Requests there and answers back, each counted where it leaves and where it arrives.
fn loses_as_many_packets_as_it_should(play: &Play, means: &str) {
    let lab = &play.lab;
    assert!(
        play.means().iter().any(|said| said.starts_with(means)),
        "{:?}",
        play.means()
    );
    assert_eq!(play.step(), ["a-b loses 5 % of all packets"]);
    let before = ["a", "b"].map(|node| Counters::of(lab, node, "eth0"));
    // Enough requests in flight that lost ones delay no others.
    lab.exec(
        "a",
        &[
            "ping",
            "-f",
            "-q",
            "-s16",
            "-l20",
            "-c",
            &PACKET_COUNT.to_string(),
            &address(lab, "b"),
        ],
    );
    let after = ["a", "b"].map(|node| Counters::of(lab, node, "eth0"));
    let [a, b] = [0, 1].map(|at| after[at].since(before[at]));
    assert!(a.sent >= f64::from(PACKET_COUNT), "{a:?}");
    assert_is_fair(a.sent - b.received, a.sent, 0.05);
    assert_is_fair(b.sent - a.received, b.sent, 0.05);
}

/// TCP hands the kernel pieces of many packets; each packet of them must have its own fate.
fn no_packets_are_lost_together(latency_us: u32) {
    let play = Play::begin(&lossy(latency_us, 1.0));
    let lab = &play.lab;
    assert_eq!(play.step(), ["a-b loses 1 % of all packets"]);
    let before = ["a", "b"].map(|node| Counters::of(lab, node, "eth0"));
    iperf(lab, "a", "b", &["-t", "3", "-P", "4"]);
    let after = ["a", "b"].map(|node| Counters::of(lab, node, "eth0"));
    let [a, b] = [0, 1].map(|at| after[at].since(before[at]));
    let size = b.bytes_received / b.received;
    assert!(size < 9014.0, "{size} bytes are more than one packet has");
    assert!(
        size > 4000.0,
        "{size} bytes are none of the packets that were to be sent"
    );
    assert_is_fair(a.sent - b.received, a.sent, 0.01);
}

fn total_loss_stops_and_ends() {
    let scenario = lossy(0, 100.0) + "for_s = 5\n";
    let play = Play::begin(&scenario);
    assert_eq!(play.step(), ["a-b loses 100 % of all packets"]);
    let nothing = play
        .lab
        .exec("a", &["ping", "-q", "-c5", "-i0.02", "-W0.1", "b"]);
    assert!(nothing.stdout.contains(" 0 received"), "{nothing:?}");
    assert_eq!(play.step(), ["a-b loses 0 % of all packets"]);
    let all = play
        .lab
        .output("a", &["ping", "-q", "-c1000", "-i0.001", "b"]);
    assert!(all.contains(" 1000 received"), "{all}");
}

fn assert_is_fair(lost: f64, sent: f64, probability: f64) {
    let deviation = (probability * (1.0 - probability) / sent).sqrt();
    let off = (lost / sent - probability).abs();
    println!(
        "{lost} of {sent} packets were lost: {:.3} %",
        100.0 * lost / sent
    );
    assert!(
        off < MAX_DEVIATIONS * deviation,
        "{lost} of {sent} packets were lost"
    );
}
