//! Pairs of hosts whose paths are slower than those of their peers, measured by packet trains while links are idle.

use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use reweave_common::cause::{Cause, Class, Subject};
use reweave_common::operator::MeasuredPairs;
use reweave_tests::{Leadership, wait_for};

use crate::needs::trial;
use crate::play::{STAGE_NEEDS, causes, must};
use crate::scene::{led, narrow_down};

/// Racks of three hosts; between racks there is as much room as one host fills.
const FABRIC: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 3\n\
    host_gbps = 0.4\nuplink_gbps = 0.4\n";
const SLOW_HOST: &str = "h4";
/// The slow host's share of the others' rate, and the tolerance of a measurement.
const SLOW_SHARE: f64 = 0.6;
const SHARE_TOLERANCE: f64 = 0.05;
/// Packet trains may use a thousandth of each link: a few are sent per second, and a path needs six.
const MEASUREMENT_TIMEOUT: Duration = Duration::from_secs(240);

pub(crate) fn tests() -> Vec<Trial> {
    // Trains need minutes to measure all paths: `make soak` runs this.
    let name = "narrow_host_link_is_named";
    vec![trial(name, STAGE_NEEDS, narrow).with_ignored_flag(true)]
}

fn narrow() {
    let often = Leadership {
        policy: "trains_every_ms = 1000".to_owned(),
        ..Leadership::default()
    };
    let stage = led(FABRIC, "", &often);
    let leaf = "leaf1";
    narrow_down(&stage, [SLOW_HOST, leaf], SLOW_SHARE);
    let began = Instant::now();
    let slow = Subject::Host(SLOW_HOST.to_owned());
    let found = must(wait_for("the host is named", MEASUREMENT_TIMEOUT, || {
        let found = causes(&stage).into_iter();
        let pairs = found.filter(|it| it.class == Class::SlowPair);
        let pairs: Vec<Cause> = pairs.collect();
        // At first only few of its paths are measured.
        Ok(pairs.into_iter().find(|it| it.subject == slow))
    }));
    println!("after {:.0} s: {found}", began.elapsed().as_secs_f64());
    let shown = must(stage.operator().shown(&["pairs"]));
    println!("{shown}");
    let all: MeasuredPairs = must(stage.operator().ask(&["pairs"]));
    for pair in &all.pairs {
        let is_of_it = [&pair.from, &pair.to].iter().any(|end| *end == SLOW_HOST);
        let share = pair.rate_bits_per_s.gbps() / 0.4;
        let usual = if is_of_it { SLOW_SHARE } else { 1.0 };
        assert!((share - usual).abs() <= SHARE_TOLERANCE, "{pair:?}");
        assert_eq!(pair.is_slow, is_of_it, "{pair:?}");
        let racks = [&pair.from, &pair.to].map(|host| host.as_str() >= "h3");
        assert_eq!(pair.in_rack, racks[0] == racks[1], "{pair:?}");
    }
    let first = &all.pairs[0];
    assert!(
        [&first.from, &first.to].iter().any(|end| *end == SLOW_HOST),
        "{shown}"
    );
}
