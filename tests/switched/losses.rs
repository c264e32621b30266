//! Links and hosts that lose packets, found by probes of known ways.

use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use reweave_common::cause::{Cause, Class, Subject};
use reweave_tests::{Leadership, Stage, wait_for};

use crate::needs::trial;
use crate::play::{STAGE, must};
use crate::scene::{Loss, causes, leaf_spine, led, lose, port};

/// From the loss on.
const FOUND_WITHIN: Duration = Duration::from_secs(30);
const LEAST_RIGHT: usize = 15;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial(
            "one_percent_of_loss_is_found_on_15_of_16_directed_links_within_30_s",
            STAGE,
            each_link_in_turn,
        ),
        trial("a_bad_host_is_named_as_host", STAGE, bad_host),
    ]
}

/// Four leaves and two spines have sixteen directed links between them.
fn each_link_in_turn() {
    let mut stage = led(&leaf_spine(4, 2, 2), "", &Leadership::default());
    let mut right = 0;
    for (leaf, spine) in (0..8).map(|it| (it % 4, it / 4)) {
        let ends = [format!("leaf{leaf}"), format!("spine{spine}")];
        for [from, to] in [[&ends[0], &ends[1]], [&ends[1], &ends[0]]] {
            // A coordinator that was started anew remembers no loss of before.
            must(stage.lead(&Leadership::default()));
            must(stage.wait_until_known());
            right += usize::from(is_found(&stage, from, to));
        }
    }
    println!("{right} of 16 were found right");
    assert!(right >= LEAST_RIGHT);
}

fn is_found(stage: &Stage, from: &str, to: &str) -> bool {
    let _loss = Loss::on(stage, [from, to], 100);
    let began = Instant::now();
    let named = |subject: &Subject| matches!(subject, Subject::Hop { from: a, to: b, .. } if a == from && b == to);
    // What names it among others may still tell them apart in time; what does not is wrong for good.
    let is_open = |subject: &Subject| {
        matches!(subject, Subject::Ambiguous(_)) && subject.each().iter().any(named)
    };
    let found = wait_for("something is found", FOUND_WITHIN, || {
        let first = causes(stage).into_iter().next();
        Ok(first.filter(|it| !is_open(&it.subject)))
    });
    let took = began.elapsed();
    let is_right = found
        .as_ref()
        .is_ok_and(|it| it.class == Class::LossyLink && named(&it.subject));
    let said = found.map_or_else(|error| error.to_string(), |cause| cause.to_string());
    println!("{from} > {to}: after {:.1} s, {said}", took.as_secs_f64());
    is_right && took <= FOUND_WITHIN
}

/// A host that loses one packet in ten of all that it sends and receives.
fn bad_host() {
    let stage = led(&leaf_spine(2, 2, 4), "", &Leadership::default());
    // Where they come in: who cannot send a packet knows, and asks nobody about it.
    let [from_host, to_host] = [port(&stage, "leaf1", "h5"), "eth0".to_owned()];
    for (node, port) in [("leaf1", from_host), ("h5", to_host)] {
        let coming = format!("filter hook ingress device {port} priority 0;");
        lose(&stage, node, &["netdev", &coming], 10);
    }
    let began = Instant::now();
    // A machine that is busy may be slow as well.
    let host = Subject::Host("h5".to_owned());
    let loses = |cause: &Cause| matches!(cause.class, Class::FaultyHost | Class::LossyLink);
    let found = must(wait_for("the host is named", FOUND_WITHIN, || {
        let first = causes(&stage).into_iter().find(loses);
        let is_link = |it: &Cause| matches!(it.subject, Subject::Hop { .. } | Subject::Link { .. });
        assert!(!first.as_ref().is_some_and(is_link), "{first:?}");
        Ok(first.filter(|it| it.class == Class::FaultyHost && it.subject == host))
    }));
    println!("after {:.1} s: {found}", began.elapsed().as_secs_f64());
}
