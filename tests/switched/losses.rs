//! Links and hosts that lose packets, found by probes along known paths.

use std::time::Instant;

use libtest_mimic::Trial;
use reweave_common::cause::{Cause, Class, Subject};
use reweave_tests::{Leadership, Loss, STAGE_TIMEOUT, Stage, wait_for};

use crate::needs::trial;
use crate::play::{STAGE_NEEDS, causes, must};
use crate::scene::{leaf_spine, led};

const MIN_RIGHT: usize = 15;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial(
            "one_percent_loss_is_located",
            STAGE_NEEDS,
            each_link_in_turn,
        ),
        trial("bad_host_is_named_as_host", STAGE_NEEDS, bad_host),
        trial(
            "lossy_ring_cable_is_named_alone",
            STAGE_NEEDS,
            cable_of_a_ring,
        ),
    ]
}

/// Four leaves and two spines have sixteen directed links between them.
fn each_link_in_turn() {
    let mut stage = led(&leaf_spine(4, 2, 2), "", &Leadership::default());
    let mut right = 0;
    for (leaf, spine) in (0..8).map(|it| (it % 4, it / 4)) {
        let ends = [format!("leaf{leaf}"), format!("spine{spine}")];
        for [from, to] in [[&ends[0], &ends[1]], [&ends[1], &ends[0]]] {
            // A restarted coordinator has forgotten earlier losses.
            must(stage.lead(&Leadership::default()));
            must(stage.wait_until_known());
            right += usize::from(is_found(&stage, from, to));
        }
    }
    println!("{right} of 16 were found right");
    assert!(right >= MIN_RIGHT);
}

/// Waits until exactly this link is reported.
fn is_found(stage: &Stage, from: &str, to: &str) -> bool {
    let _loss = must(Loss::on(stage, [from, to], 100));
    let began = Instant::now();
    let found = wait_for("something is found", STAGE_TIMEOUT, || {
        Ok(settled(stage, from, to))
    });
    let took = began.elapsed();
    let (is_right, said) = match &found {
        Ok(all) => (is_right(all, from, to), listed(all)),
        Err(error) => (false, error.to_string()),
    };
    println!("{from} > {to}: after {:.1} s, {said}", took.as_secs_f64());
    is_right
}

/// The findings, once there are any. A finding that names this hop among others may become precise with more probes;
/// any other one is wrong.
fn settled(stage: &Stage, from: &str, to: &str) -> Option<Vec<Cause>> {
    let all = causes(stage);
    let is_open = |subject: &Subject| {
        let mut each = subject.each().into_iter();
        matches!(subject, Subject::Ambiguous(_)) && each.any(|it| is_hop(&it, from, to))
    };
    let is_settled = |it: &Cause| !is_open(&it.subject);
    all.first().is_some_and(is_settled).then_some(all)
}

fn is_hop(subject: &Subject, from: &str, to: &str) -> bool {
    matches!(subject, Subject::Hop { from: a, to: b, .. } if a == from && b == to)
}

fn is_right(all: &[Cause], from: &str, to: &str) -> bool {
    matches!(all, [it] if it.class == Class::LossyLink && is_hop(&it.subject, from, to))
}

fn listed(all: &[Cause]) -> String {
    let all: Vec<_> = all.iter().map(ToString::to_string).collect();
    all.join("; and ")
}

/// Hosts that are wired to each other in a ring and forward traffic; few enough for a single shortest path to each.
fn cable_of_a_ring() {
    let ring = "kind = \"direct\"\nhosts = 5\nlink_gbps = 0.1\nstrides = [1]\n";
    let stage = led(ring, "", &Leadership::default());
    let [from, to] = ["h1", "h2"];
    let coming = stage.port(to, from);
    let coming = format!("filter hook ingress device {coming} priority 0;");
    must(stage.lose(to, &["netdev", &coming], 10));
    let began = Instant::now();
    let found = must(wait_for("the cable is named", STAGE_TIMEOUT, || {
        let all = settled(&stage, from, to);
        Ok(all.filter(|all| all.iter().any(|it| it.class == Class::LossyLink)))
    }));
    let said = listed(&found);
    println!("after {:.1} s: {said}", began.elapsed().as_secs_f64());
    assert!(is_right(&found, from, to), "{said}");
}

/// A host that loses one packet in ten of all that it sends and receives.
fn bad_host() {
    let stage = led(&leaf_spine(2, 2, 4), "", &Leadership::default());
    // Packets are dropped where they arrive: a node that cannot send a packet knows it, and the loss would not be
    // silent.
    let [from_host, to_host] = [stage.port("leaf1", "h5"), "eth0".to_owned()];
    for (node, port) in [("leaf1", from_host), ("h5", to_host)] {
        let coming = format!("filter hook ingress device {port} priority 0;");
        must(stage.lose(node, &["netdev", &coming], 10));
    }
    let (began, host) = (Instant::now(), Subject::Host("h5".to_owned()));
    let is_host = |it: &Cause| (it.class, &it.subject) == (Class::FaultyHost, &host);
    let is_link = |it: &Cause| matches!(it.subject, Subject::Hop { .. } | Subject::Link { .. });
    let found = must(wait_for("the host is named alone", STAGE_TIMEOUT, || {
        let all = causes(&stage);
        assert!(!all.iter().any(is_link), "{}", listed(&all));
        Ok(matches!(&all[..], [it] if is_host(it)).then_some(all))
    }));
    let took = began.elapsed().as_secs_f64();
    println!("after {took:.1} s: {}", listed(&found));
}
