//! Minimum, mean and maximum are those of the readings, at every resolution.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::scene::{Disk, chronicle, flowing_from, link, look, second};
use crate::chronicle::{Chronicle, Rules};
use crate::entry::Entry;
use crate::past::{FlowSeen, Seen};
use crate::resolution::Resolution;

type Bucket = (u64, u64, f64, u64, u64);

/// Computes the expected rows in the simplest way.
fn expected(readings: &[(u64, u64)], width: u64) -> Vec<Bucket> {
    let mut buckets: Vec<(u64, Vec<u64>)> = Vec::new();
    for &(at, rate) in readings {
        let start = (super::scene::START_S + at) / width * width - super::scene::START_S;
        match buckets.last_mut() {
            Some((last, rates)) if *last == start => rates.push(rate),
            _ => buckets.push((start, vec![rate])),
        }
    }
    let row = |(at, rates): (u64, Vec<u64>)| {
        let sum: u64 = rates.iter().sum();
        let (least, most) = (rates.iter().min().unwrap(), rates.iter().max().unwrap());
        let mean = sum as f64 / rates.len() as f64;
        (at, *least, mean, *most, rates.len() as u64)
    };
    buckets.into_iter().map(row).collect()
}

fn seen(disk: &Disk, resolution: Resolution) -> Vec<Bucket> {
    let window = look(disk, 0, 100_000, resolution);
    assert_eq!(window.warnings, [""; 0]);
    let rows = window.links.into_iter();
    rows.map(|row| {
        let rate = row.what.send_bits_per_s.unwrap();
        let at = row.at.as_micros() / 1_000_000 - super::scene::START_S;
        (at, rate.min, rate.mean, rate.max, row.readings)
    })
    .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn downsampled_rows_match_readings(steps in vec((0..40_u64, 0..1_000_000_u64), 1..200)) {
        let disk = Disk::default();
        let mut chronicle = chronicle(&disk, 1);
        let mut now = 0;
        let mut readings = Vec::new();
        for (step, rate) in steps {
            now += step;
            chronicle.advance(second(now)).unwrap();
            chronicle.observe(second(now), &link(rate));
            readings.push((now, rate));
        }
        chronicle.close().unwrap();
        for resolution in Resolution::ALL {
            let width = resolution.width().as_secs();
            prop_assert_eq!(seen(&disk, resolution), expected(&readings, width));
        }
    }
}

fn at_second(second: u64) -> u64 {
    super::scene::START_S + second
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Some series are silent for so long that they are forgotten, and others get their numbers.
    #[test]
    fn each_series_has_its_own_rows(steps in vec((0..200_u64, 0..9_u16, 0..1000_u64), 1..100)) {
        let disk = Disk::default();
        let mut chronicle = chronicle(&disk, 1);
        let mut now = 0;
        let mut expected: BTreeMap<(u16, u64), u64> = BTreeMap::new();
        for (step, port, sent) in steps {
            now += step;
            chronicle.advance(second(now)).unwrap();
            chronicle.observe(second(now), &flowing_from(port, sent));
            expected.insert((port, at_second(now)), sent);
        }
        chronicle.close().unwrap();
        let window = look(&disk, 0, 100_000, Resolution::Second);
        let row = |row: &Seen<FlowSeen>| {
            let port = row.what.flow.source.port();
            ((port, row.at.as_micros() / 1_000_000), row.what.sent_bytes)
        };
        let seen: BTreeMap<_, _> = window.flows.iter().map(row).collect();
        prop_assert_eq!(window.flows.len(), expected.len());
        prop_assert_eq!(seen, expected);
    }
}

#[test]
fn backward_clock_is_reported() {
    let disk = Disk::default();
    let mut chronicle = chronicle(&disk, 1);
    for at in [100, 101, 40, 102] {
        chronicle.advance(second(at)).unwrap();
        chronicle.observe(second(at), &link(at));
    }
    chronicle.close().unwrap();
    assert_eq!(chronicle.take_report().late, 1);
    let at: Vec<_> = seen(&disk, Resolution::Second)
        .iter()
        .map(|row| row.0)
        .collect();
    assert_eq!(at, [100, 101, 102]);
}

/// One start with a clock that is far ahead removes nothing. Old files are removed nevertheless.
#[test]
fn far_future_clock_expires_nothing() {
    let disk = Disk::default();
    let write = |run, at| {
        let mut chronicle = chronicle(&disk, run);
        for at in at..at + 400 {
            chronicle.advance(second(at)).unwrap();
            chronicle.observe(second(at), &link(at));
        }
        chronicle.close().unwrap();
    };
    let seconds = |at: u64| look(&disk, at, at + 400, Resolution::Second).links.len();
    write(1, 0);
    let before = seconds(0);
    assert!(before > 100, "{before}");
    write(2, 500 * 86_400);
    assert_eq!(seconds(0), before, "the clock may be wrong");
    write(3, 500 * 86_400 + 1000);
    assert_eq!(seconds(0), 0, "it was written since");
}

#[test]
fn overlapping_runs_are_merged() {
    let disk = Disk::default();
    for (run, rate) in [(1, 10), (2, 30)] {
        let mut chronicle = chronicle(&disk, run);
        chronicle.advance(second(5)).unwrap();
        chronicle.observe(second(5), &link(rate));
        chronicle.close().unwrap();
    }
    assert_eq!(seen(&disk, Resolution::Second), [(5, 10, 20.0, 30, 2)]);
}

#[test]
fn excess_series_are_counted() {
    let disk = Disk::default();
    let rules = Rules {
        most_series: 10,
        ..Rules::default()
    };
    let mut chronicle = Chronicle::on(Box::new(disk.clone()), rules, 1).unwrap();
    chronicle.advance(second(0)).unwrap();
    for subject in 0..25 {
        let entry = Entry::state("h0", "nic", &subject.to_string(), "{}");
        chronicle.observe(second(0), &entry);
    }
    chronicle.close().unwrap();
    assert_eq!(chronicle.take_report().beyond, 15);
    assert_eq!(look(&disk, 0, 10, Resolution::Second).states.len(), 10);
}

#[test]
fn silent_series_makes_room() {
    let rules = Rules {
        most_series: 2,
        ..Rules::default()
    };
    let mut chronicle = Chronicle::on(Box::new(Disk::default()), rules, 1).unwrap();
    let mut lost_at = |seconds: u64, ports: [u16; 2]| {
        chronicle.advance(second(seconds)).unwrap();
        for port in ports {
            chronicle.observe(second(seconds), &flowing_from(port, 0));
        }
        chronicle.take_report().beyond
    };
    assert_eq!(lost_at(0, [1, 2]), 0);
    assert_eq!(lost_at(299, [1, 3]), 1);
    assert_eq!(
        lost_at(300, [1, 3]),
        1,
        "both were heard in these five minutes"
    );
    assert_eq!(lost_at(600, [1, 3]), 0);
}

/// There are more rows than one call writes.
#[test]
fn many_series_are_all_kept() {
    const AGENT_COUNT: usize = 40_000;
    let disk = Disk::default();
    let mut chronicle = chronicle(&disk, 1);
    chronicle.advance(second(0)).unwrap();
    for agent in 0..AGENT_COUNT {
        let entry = Entry::agent(&format!("h{agent}"), true, Some(agent));
        chronicle.observe(second(0), &entry);
    }
    chronicle.close().unwrap();
    assert_eq!(chronicle.take_report().beyond, 0);
    let mut window = look(&disk, 0, 10, Resolution::Second);
    window
        .agents
        .sort_by_key(|agent| agent.what.readings_sent.map(|sent| sent.max));
    assert_eq!(window.agents.len(), AGENT_COUNT);
    for (agent, row) in window.agents.iter().enumerate() {
        assert_eq!(row.what.node, format!("h{agent}"));
        assert_eq!(row.what.readings_sent.unwrap().max, agent as u64);
    }
}
