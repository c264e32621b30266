//! Findings from readings that no lab kernel has: PCIe, optics, PFC, busy hosts.

use std::time::Duration;

use reweave_common::cause::Class;
use reweave_common::hardware::{Fec, Machine, NicReport};
use reweave_common::health::Signal;
use reweave_common::moment::Moment;
use reweave_common::periodicity::{ExchangePattern, IterationPeriod, Periodicity};
use reweave_common::sample::{HostReading, Reading};
use reweave_common::time_span::TimeSpan;
use reweave_common::units::{Bytes, Percent, Rate};

use super::cluster::Cluster;
use super::diagnosis::{causes, cluster, health, hop, only, say};
use super::scene::SETTLE_TIME;

const TWO_REPORT_INTERVALS: Duration = Duration::from_millis(200);

fn nics(of_h6: &NicReport, of_others: &NicReport) -> Cluster {
    let mut cluster = cluster();
    for host in 0..8 {
        let nic = match host {
            6 => of_h6.clone(),
            _ => of_others.clone(),
        };
        let nic = NicReport {
            interface: "eth0".to_owned(),
            ..nic
        };
        let reading = Reading::Host(HostReading::Nic(Box::new(nic)));
        say(&mut cluster, &format!("h{host}"), vec![reading]);
    }
    cluster
}

#[test]
fn slower_nic_or_odd_fec_named() {
    let speed = |gbps: u64| NicReport {
        speed: Some(Rate::from_bits_per_s(gbps * 1_000_000_000)),
        ..NicReport::default()
    };
    let fec = |fec: Fec| NicReport {
        fec: Some(fec),
        ..NicReport::default()
    };
    let odd = (Class::ConfigurationMismatch, "h6".to_owned());
    assert_eq!(only(&mut nics(&speed(25), &speed(100))), odd);
    assert_eq!(only(&mut nics(&fec(Fec::Off), &fec(Fec::ReedSolomon))), odd);
    assert_eq!(causes(&mut nics(&speed(100), &speed(100))), []);
}

fn exchanging(slow: Option<&str>) -> Cluster {
    let mut cluster = begun(slow);
    cluster.run_for(SETTLE_TIME);
    cluster
}

/// One flow in each direction with two other hosts, for every host.
fn begun(slow: Option<&str>) -> Cluster {
    let mut cluster = cluster();
    for host in 0..8 {
        let name = format!("h{host}");
        let most = if slow == Some(&name) { 12e6 } else { 30e6 };
        let node = cluster.network.node(&name);
        cluster.network.caps.insert(node, most);
        for (nth, spine) in [(4, host % 4), (5, (host + 1) % 4)] {
            let to = format!("h{}", (host + nth) % 4 + 4 * usize::from(host < 4));
            let port = 1000 + (10 * host + nth) as u16;
            cluster.network.start(&name, &to, port, spine);
        }
    }
    cluster
}

#[test]
fn host_with_all_slow_flows_straggles() {
    assert_eq!(causes(&mut exchanging(None)), []);
    let report = (Class::Straggler, "h2".to_owned());
    let mut cluster = exchanging(Some("h2"));
    assert_eq!(only(&mut cluster), report);
    let said = causes(&mut cluster)[0].evidence.join("; ");
    assert!(said.ends_with(" Mb/s"), "{said}");
}

#[test]
fn straggler_needs_enough_readings() {
    let mut cluster = begun(Some("h2"));
    cluster.run_for(TWO_REPORT_INTERVALS);
    assert_eq!(causes(&mut cluster), []);
    cluster.run_for(SETTLE_TIME);
    assert_eq!(causes(&mut cluster).len(), 1);
}

fn is_busy(cluster: &mut Cluster, host: usize, percent: u8) {
    let machine = Machine {
        cpu_busy_percent: Some(percent),
        ..Machine::default()
    };
    let reading = Reading::Host(HostReading::Machine(machine));
    say(cluster, &format!("h{host}"), vec![reading]);
}

#[test]
fn busy_host_makes_job_host_bound() {
    let mut cluster = exchanging(None);
    let beat = IterationPeriod {
        period: TimeSpan::from_millis(200),
        gap: TimeSpan::from_millis(190),
        sent: Bytes::new(1000),
        received: Bytes::new(1000),
        shape: Some(ExchangePattern::AllToAll),
        confidence_percent: Percent::new(90).unwrap(),
        iterations: 20,
        since: Moment::default(),
        next_gap: Moment::default(),
    };
    let rhythm = Reading::Host(HostReading::Rhythm(Periodicity::Found(beat)));
    say(&mut cluster, "h0", vec![rhythm]);
    (0..8).for_each(|host| is_busy(&mut cluster, host, 96));
    assert_eq!(causes(&mut cluster), [], "all are as busy");
    (0..8).for_each(|host| is_busy(&mut cluster, host, if host == 5 { 99 } else { 20 }));
    let (class, subject) = only(&mut cluster);
    assert_eq!(class, Class::HostBound);
    assert!(subject.starts_with("job h0"), "{subject}");
    let said = causes(&mut cluster)[0].evidence.concat();
    assert!(said.contains("processors of h5"), "{said}");
}

/// The interface of a node to this neighbour.
fn interface(cluster: &Cluster, node: &str, to: &str) -> String {
    let hop = hop(cluster, node, to);
    let links = cluster.network.fabric.links_of(hop.from);
    let place = links.iter().position(|link| *link == hop.link).unwrap();
    format!("swp{place}")
}

#[test]
fn circular_pause_is_pfc_deadlock() {
    let mut cluster = cluster();
    let circle = ["leaf0", "spine0", "leaf1", "spine1", "leaf0"];
    for pair in circle.windows(2) {
        let port = interface(&cluster, pair[0], pair[1]);
        let paused = health(&port, Signal::PausedMicros(3), 1_000_000);
        say(&mut cluster, pair[0], vec![paused]);
    }
    let (class, subject) = only(&mut cluster);
    assert_eq!(class, Class::PfcDeadlock);
    assert!(circle.iter().all(|it| subject.contains(it)), "{subject}");
}

#[test]
fn climbing_corrected_bits_predict_dying_optic() {
    let mut cluster = cluster();
    let port = interface(&cluster, "leaf0", "spine1");
    for minute in 0..12_u64 {
        // Per million.
        let climbing = health(&port, Signal::CorrectedBits, 1 << (minute / 4));
        say(&mut cluster, "leaf0", vec![climbing]);
        cluster.run_for(Duration::from_secs(60));
    }
    let report = (Class::DyingOptic, "leaf0-spine1 from spine1".to_owned());
    assert_eq!(only(&mut cluster), report);
}

#[test]
fn frame_errors_mark_bad_optic() {
    let mut cluster = cluster();
    let port = interface(&cluster, "leaf0", "spine1");
    for minute in 0..24_u64 {
        // Per million: too few to be bad without a rise.
        let broken = Signal::FrameErrors;
        let broken = health(&port, broken, u64::from(minute >= 19));
        say(&mut cluster, "leaf0", vec![broken]);
        cluster.run_for(Duration::from_secs(60));
    }
    let report = (Class::BadOptic, "leaf0-spine1 from spine1".to_owned());
    assert_eq!(only(&mut cluster), report);
    let said = causes(&mut cluster)[0].evidence.join("; ");
    assert!(said.contains("errors went from 0.000 to 1.0e-6"), "{said}");
}
