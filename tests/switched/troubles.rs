//! Faults of hosts, links and switches other than loss: each is produced in the kernels, and found by agents' reports
//! alone.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use reweave_common::cause::Class;
use reweave_tests::{Leadership, Loss, Stage, wait_for};
use serde_json::Value;

use crate::needs::trial;
use crate::play::{STAGE_NEEDS, causes, must};
use crate::scene::{address, leaf_spine, led, narrow_down};
use crate::skew::{FAKETIME_NEEDS, at};

/// Agents check a host's settings every 30 s and trace as often. A changed path is accepted when the next trace
/// confirms it. Busy machines get twice that time.
const DIAGNOSIS_TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) fn tests() -> Vec<Trial> {
    let name = "each_trouble_is_named_alone";
    vec![
        trial(name, STAGE_NEEDS, each_is_named_alone),
        trial("traffic_troubles_are_named", STAGE_NEEDS, of_traffic),
        trial(
            "clock_ahead_is_named_alone",
            FAKETIME_NEEDS,
            a_clock_that_is_ahead,
        ),
    ]
}

/// Streams between hosts, which pairs name by their positions.
fn streams(name: &str, hosts: &str, pairs: &str, more: &str) -> String {
    format!(
        "[[job]]\nname = \"{name}\"\npattern = \"streams\"\nhosts = [{hosts}]\npairs = [{pairs}]\n\
         iterations = 1_000_000\n{more}\n"
    )
}

/// A ring of hosts in two racks. Of them, only those that exchange data with the slow host are slowed.
fn ring(slow: &str) -> [String; 2] {
    let hosts = format!(r#""h2", "h3", "{slow}", "h6""#);
    let often = "bytes = 200_000\ncompute_ms = 12\npaths = \"spread\"";
    [
        streams("with-it", &hosts, "[1, 2], [2, 3]", often),
        streams("without-it", &hosts, "[3, 0], [0, 1]", often),
    ]
}

/// The same ring, once alternating between racks and once along them.
fn rings() -> String {
    let ring = |(name, hosts): (&str, &str)| {
        format!(
            "[[job]]\nname = \"{name}\"\npattern = \"ring-allreduce\"\nhosts = [{hosts}]\n\
             bytes = 1_000_000\ncompute_ms = 5\niterations = 1_000_000\npaths = \"spread\"\n"
        )
    };
    let rings = [
        ("across", r#""h0", "h4", "h1", "h5""#),
        ("along", r#""h0", "h1", "h4", "h5""#),
    ];
    rings.map(ring).concat()
}

/// The ring crosses racks twice as often as necessary, and then as seldom as possible.
fn goes_round(stage: &Stage) {
    let across = must(stage.job("across"));
    are_found(stage, &[(Class::RankOrder, "job h0 and 3 others")]);
    must(across.stop());
    are_found(stage, &[]);
    let along = must(stage.job("along"));
    must(wait_for("it is known", DIAGNOSIS_TIMEOUT, || {
        let answer: Value = stage.operator().ask(&["jobs"])?;
        Ok((answer["jobs"][0]["flows"] == 4).then_some(()))
    }));
    are_found(stage, &[]);
    must(along.stop());
}

/// The other hosts do not fill their links either: what a full link slows down says nothing about its hosts.
fn holds_others_back(stage: &Stage, slow: &str) {
    let usual = [("h2", "leaf0"), ("h3", "leaf0"), ("h6", "leaf1")];
    let narrow_all = |of_usual: f64, of_slow: f64| {
        for (host, leaf) in usual {
            narrow_down(stage, [host, leaf], of_usual);
        }
        narrow_down(stage, [slow, "leaf1"], of_slow);
    };
    narrow_all(0.7, 0.2);
    let jobs = ["with-it", "without-it"].map(|name| must(stage.job(name)));
    are_found(stage, &[(Class::Straggler, slow)]);
    for job in jobs {
        must(job.stop());
    }
    narrow_all(1.0, 1.0);
}

/// Hosts form a ring. Uplinks have room for four hosts that send to a fifth, and its own link has not. Four flows past
/// one spine fill its links, and three do not: the fourth is idle most of the time, and is predicted. Between these, a
/// host of a ring is slow both ways.
fn of_traffic() {
    const SLOW_HOST: &str = "h5";
    const FABRIC: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n\
        host_gbps = 0.1\nuplink_gbps = 0.4\n";
    const FREQUENT_JOB: &str = "bytes = 4_000_000\ncompute_ms = 5\n";
    const RARE_JOB: &str = "bytes = 50_000_000\ncompute_ms = 8_000\nvia = \"spine0\"";
    let to_one = r#""h0", "h4", "h5", "h6", "h7""#;
    let others = r#""h0", "h2", "h3", "h5", "h6", "h7""#;
    let jobs = [
        streams(
            "train",
            to_one,
            "[1, 0], [2, 0], [3, 0], [4, 0]",
            &format!("{FREQUENT_JOB}paths = \"spread\""),
        ),
        streams("seldom", r#""h1", "h4""#, "[0, 1]", RARE_JOB),
        streams(
            "others",
            others,
            "[0, 3], [1, 4], [2, 5]",
            &format!("{FREQUENT_JOB}via = \"spine0\""),
        ),
    ];
    let jobs = jobs.concat() + &ring(SLOW_HOST).concat() + &rings();
    let stage = led(FABRIC, &jobs, &Leadership::default());
    goes_round(&stage);
    let [train, seldom] = ["train", "seldom"].map(|name| must(stage.job(name)));
    are_found(&stage, &[(Class::Incast, "h0")]);
    must(train.stop());
    holds_others_back(&stage, SLOW_HOST);
    let others = must(stage.job("others"));
    let full = ["leaf0-spine0 from leaf0", "leaf1-spine0 from spine0"];
    are_found(&stage, &full.map(|link| (Class::Saturation, link)));
    for job in [seldom, others] {
        must(job.stop());
    }
}

/// Four leaves and two spines: with fewer, a spine cannot be distinguished from its links.
fn each_is_named_alone() {
    let mut stage = led(&leaf_spine(4, 2, 2), "", &Leadership::default());
    a_leaf_that_is_cut_off(&stage);
    restart_coordinator(&mut stage);
    hosts_that_are_set_otherwise(&stage);
    restart_coordinator(&mut stage);
    a_link_that_is_too_narrow(&stage);
    restart_coordinator(&mut stage);
    a_way_that_is_longer_there_than_back(&stage);
    // The spine drops these packets from the start: no probe through it is ever traced to its end.
    swallow(&stage, "spine0", ["h6", "h7"]);
    restart_coordinator(&mut stage);
    a_switch_that_loses_at_all_its_ports_beside_bad_links(&stage);
}

/// A restarted coordinator has forgotten earlier readings.
pub(crate) fn restart_coordinator(stage: &mut Stage) {
    must(stage.lead(&Leadership::default()));
    must(stage.wait_until_known());
}

/// Waits until exactly these findings are reported.
#[track_caller]
pub(crate) fn are_found(stage: &Stage, expected: &[(Class, &str)]) {
    are_found_while(stage, expected, || {});
}

/// The same while `meanwhile` is repeated.
#[track_caller]
pub(crate) fn are_found_while(stage: &Stage, expected: &[(Class, &str)], go_on: impl Fn()) {
    let expected: BTreeSet<_> = expected
        .iter()
        .map(|(class, subject)| (*class, (*subject).to_owned()))
        .collect();
    let (began, mut last) = (Instant::now(), Vec::new());
    let found = wait_for("it is found", DIAGNOSIS_TIMEOUT, || {
        go_on();
        last = causes(stage);
        let named = last.iter().map(|it| (it.class, it.subject.to_string()));
        let named: Vec<_> = named.collect();
        let is_it = named.len() == expected.len() && named.iter().all(|it| expected.contains(it));
        Ok(is_it.then_some(()))
    });
    assert!(found.is_ok(), "{expected:?} where there are {last:#?}");
    let took = began.elapsed().as_secs_f64();
    last.iter()
        .for_each(|cause| println!("after {took:.0} s: {cause}"));
}

fn shell(stage: &Stage, node: &str, line: &str) {
    must(stage.output(node, &["sh", "-c", line]));
}

/// Four hosts, each with another fault, all at once.
fn hosts_that_are_set_otherwise(stage: &Stage) {
    shell(stage, "h6", "ip link set eth0 mtu 1500");
    shell(stage, "h2", "sysctl -qw net.ipv4.tcp_ecn=1");
    let output = "type filter hook output priority 0; udp dport 7333";
    let table = format!("table ip mute {{ chain probes {{ {output} drop; }}; }}");
    must(stage.output("h1", &["nft", &table]));
    flap(stage, "leaf1", "h3");
    let found = [
        (Class::MtuMismatch, "h6"),
        (Class::ConfigurationMismatch, "h2"),
        (Class::UnsentProbes, "h1"),
        (Class::NicFlap, "h3-leaf1"),
    ];
    are_found(stage, &found);
    let lacks = must(stage.operator().status()).lacks;
    let mut reports = lacks
        .iter()
        .filter(|it| it.lack.because.contains("never left"));
    assert!(reports.any(|it| it.nodes == ["h1"]), "{lacks:#?}");
    shell(stage, "h6", "ip link set eth0 mtu 9000");
    shell(stage, "h2", "sysctl -qw net.ipv4.tcp_ecn=2");
    must(stage.output("h1", &["nft", "delete", "table", "ip", "mute"]));
}

/// The far end loses its carrier and gets it back; the switch loses its routes over this port and gets them back.
fn flap(stage: &Stage, switch: &str, to: &str) {
    let port = stage.port(switch, to);
    let line = format!(
        "kept=$(mktemp) && ip route save > $kept && ip link set {port} down && \
         ip link set {port} up && ip route restore < $kept && rm $kept"
    );
    shell(stage, switch, &line);
}

/// Both ends of a link between switches have the same small MTU, so that only large probes find it. Another switch
/// drops packets to one leaf.
fn a_link_that_is_too_narrow(stage: &Stage) {
    let ends = [("leaf1", "spine0"), ("spine0", "leaf1")];
    let set = |mtu_bytes: u32| {
        for (node, to) in ends {
            let port = stage.port(node, to);
            shell(stage, node, &format!("ip link set {port} mtu {mtu_bytes}"));
        }
    };
    set(1500);
    let narrow = (Class::MtuMismatch, "leaf1-spine0");
    are_found(stage, &[narrow]);
    swallow(stage, "spine1", ["h6", "h7"]);
    are_found(
        stage,
        &[narrow, (Class::LossyLink, "leaf3-spine1 from spine1")],
    );
    let_pass(stage, "spine1");
    set(9000);
}

/// All links of a leaf drop everything before the distance of its hosts was measured, and no carrier is lost: routes
/// still lead there. The direction in which a probe was lost cannot be known.
fn a_leaf_that_is_cut_off(stage: &Stage) {
    let cables = ["spine0", "spine1"].map(|spine| [["leaf2", spine], [spine, "leaf2"]]);
    let losses = cables.map(|ends| ends.map(|ends| must(Loss::on(stage, ends, 1))));
    let cut = ["leaf2-spine0", "leaf2-spine1"].map(|link| (Class::LossyLink, link));
    are_found(stage, &cut);
    drop(losses);
    are_found(stage, &[]);
}

/// The switch drops packets to these hosts by unreported routes. By now the paths through it are known.
fn swallow(stage: &Stage, switch: &str, hosts: [&str; 2]) {
    for host in hosts {
        let to = address(stage, host, "eth0");
        let route = format!("ip route add blackhole {to} table 98");
        let rule = format!("ip rule add to {to} lookup 98 pref 9");
        shell(stage, switch, &format!("{route} && {rule}"));
    }
}

fn let_pass(stage: &Stage, switch: &str) {
    let rules = "ip rule del pref 9 && ip rule del pref 9";
    shell(
        stage,
        switch,
        &format!("{rules} && ip route flush table 98"),
    );
}

/// Packets from h0 to h4 take a third leaf, from either spine.
fn a_way_that_is_longer_there_than_back(stage: &Stage) {
    let [from, to] = ["h0", "h4"].map(|host| address(stage, host, "eth0"));
    for spine in ["spine0", "spine1"] {
        let [comes_in, goes_out] = ["leaf0", "leaf1"].map(|leaf| stage.port(spine, leaf));
        let gateway = address(stage, "leaf1", &stage.port("leaf1", spine));
        let line = format!(
            "ip route add {to} via {gateway} dev {goes_out} table 99 && \
             ip rule add from {from} to {to} iif {comes_in} lookup 99 pref 10"
        );
        shell(stage, spine, &line);
    }
    are_found(stage, &[(Class::AsymmetricRoute, "h0 and h4")]);
    for spine in ["spine0", "spine1"] {
        shell(
            stage,
            spine,
            "ip rule del pref 10 && ip route flush table 99",
        );
    }
}

/// Reported until the clock is right again.
fn a_clock_that_is_ahead() {
    let mut stage = led(&leaf_spine(2, 1, 2), "", &Leadership::default());
    let ahead = at("+2s");
    let ahead: Vec<_> = ahead.iter().map(String::as_str).collect();
    must(stage.start_agent_under("h1", &ahead));
    are_found(&stage, &[(Class::ClocksApart, "h1")]);
    must(stage.start_agent("h1"));
    are_found(&stage, &[]);
}

/// A switch that loses packets at all its ports is named as a whole, beside a switch that drops packets to one leaf
/// and a lossy cable.
fn a_switch_that_loses_at_all_its_ports_beside_bad_links(stage: &Stage) {
    let dead = (Class::LossyLink, "leaf3-spine0 from spine0");
    are_found(stage, &[dead]);
    let cable = [["leaf1", "spine0"], ["spine0", "leaf1"]];
    let _losses = cable.map(|ends| must(Loss::on(stage, ends, 20)));
    let lossy = (Class::LossyLink, "leaf1-spine0");
    are_found(stage, &[dead, lossy]);
    let forwarded = ["ip", "filter hook forward priority 0;"];
    must(stage.lose("spine1", &forwarded, 20));
    are_found(stage, &[dead, lossy, (Class::FaultySwitch, "spine1")]);
}
