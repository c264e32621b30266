//! Written rows are read back, and lie where other programs find them.

use std::collections::BTreeSet;
use std::time::Duration;

use reweave_common::fabric::Fabric;
use reweave_common::finding::Imbalance;
use reweave_common::hardware::Machine;
use reweave_common::plan::Generation;
use reweave_common::probing::{ProbeReading, ProbeTally};
use reweave_common::sample::{Interface, TracedPath};
use reweave_common::traffic::{PeerTraffic, TrafficSource, Volume};
use reweave_common::units::{Bytes, Rate};

use super::scene::{Disk, chronicle, flow, flowing, live, look, second};
use crate::entry::{Entry, Probed};
use crate::keeper::read_of;
use crate::kind::Kind;
use crate::past::{Past, PastError, Question};
use crate::place::{Place, later};
use crate::resolution::Resolution;

#[test]
fn files_use_hive_partitions() {
    let disk = Disk::default();
    let mut chronicle = chronicle(&disk, 7);
    live(&mut chronicle, 0..3);
    chronicle.close().unwrap();
    let folders: BTreeSet<_> = disk
        .names()
        .into_iter()
        .map(|name| {
            assert!(Place::parse(&name).is_some(), "{name}");
            name.rsplit_once('/').unwrap().0.to_owned()
        })
        .collect();
    let expected = [
        "kind=flows/resolution=10s/day=2026-11-20/hour=14",
        "kind=flows/resolution=1s/day=2026-11-20/hour=14",
        "kind=flows/resolution=5min/day=2026-11-20",
        "kind=links/resolution=10s/day=2026-11-20/hour=14",
        "kind=links/resolution=1s/day=2026-11-20/hour=14",
        "kind=links/resolution=5min/day=2026-11-20",
    ];
    assert_eq!(
        folders.iter().map(String::as_str).collect::<Vec<_>>(),
        expected
    );
}

#[test]
fn empty_kinds_write_nothing() {
    let disk = Disk::default();
    let mut chronicle = chronicle(&disk, 1);
    chronicle.advance(second(0)).unwrap();
    let change = Entry::change("verified", "", Generation(4), "{}");
    chronicle.observe(second(0), &change);
    live(&mut chronicle, 0..400);
    chronicle.close().unwrap();
    let names = disk.names();
    let changes = names.iter().filter(|name| name.contains("kind=changes"));
    assert_eq!(changes.count(), Resolution::ALL.len());
}

#[test]
fn every_kind_roundtrips() {
    let disk = Disk::default();
    let mut chronicle = chronicle(&disk, 1);
    chronicle.advance(second(1)).unwrap();
    let interface = Interface {
        name: "eth0".to_owned(),
        addresses: vec![[10, 0, 0, 1].into()],
        gateways: vec![[10, 0, 0, 9].into(), [10, 0, 0, 8].into()],
    };
    let traced = TracedPath {
        flow: flow(1),
        confirmed: true,
        routers: vec![Some([10, 1, 0, 1].into()), None],
    };
    let mut probes = ProbeReading {
        flow: flow(2),
        tally: ProbeTally::default(),
    };
    (probes.tally.answered, probes.tally.lost.there) = (3, 1);
    let machine = Machine {
        cpu_busy_percent: Some(7),
        ..Machine::default()
    };
    let entries = [
        Entry::agent("h0", true, Some(12)),
        Entry::interface("h0", &interface),
        Entry::path(&"h0".into(), None, &traced),
        Entry::pins("leaf0", Generation(4), 2),
        Entry::probes(&"h0".into(), Some(&"h1".into()), &Probed::of(&probes)),
        Entry::machine("h0", &machine),
        Entry::state("h0", "nic", "eth0", "{}"),
        Entry::change("verified", "", Generation(4), "{\"a\":1}"),
        Entry::finding(Generation(4), "ecmp-collision", "leaf0/3", "{}"),
        Entry::gap("too busy", 9),
        flowing(1000, None),
    ];
    entries
        .into_iter()
        .for_each(|entry| chronicle.observe(second(1), &entry));
    chronicle.close().unwrap();
    let window = look(&disk, 0, 10, Resolution::Second);
    assert_eq!(window.warnings, [""; 0]);
    assert_eq!(window.agents[0].what.readings_sent.unwrap().max, 12);
    assert_eq!(window.interfaces[0].what.gateways, interface.gateways);
    assert_eq!(
        (window.paths[0].what.flow, &window.paths[0].what.routers),
        (flow(1), &traced.routers)
    );
    assert!(window.paths[0].what.confirmed);
    assert_eq!(
        (window.pins[0].what.generation, window.pins[0].what.rules),
        (Generation(4), 2)
    );
    let probed = &window.probes[0].what;
    assert_eq!(probed.to_node.as_deref(), Some("h1"));
    assert_eq!((probed.lost.unwrap().max, probed.sent.unwrap().max), (1, 4));
    assert_eq!(probed.median_ns, None, "no answer, no time");
    assert_eq!(window.machines[0].what.cpu_busy_percent.unwrap().max, 7);
    assert_eq!(window.states[0].what.subject, "eth0");
    assert_eq!(window.changes[0].what.detail, "{\"a\":1}");
    assert_eq!(window.findings[0].what.place, "leaf0/3");
    assert_eq!(window.gaps[0].what.lost.unwrap().max, 9);
    assert_eq!(window.flows[0].what.rate_bits_per_s, None);
    assert_eq!(window.flows[0].what.retransmits, 3);
}

#[test]
fn layer_imbalance_roundtrips() {
    let disk = Disk::default();
    let mut chronicle = chronicle(&disk, 1);
    chronicle.advance(second(1)).unwrap();
    let uneven = Imbalance {
        fim_percent: 100.0,
        floor_percent: 12.5,
        weighted_percent: 90.0,
        max_over_mean: 1.75,
    };
    let entry = Entry::imbalance("train", "tier 1 to 2", 33.8, &uneven);
    chronicle.observe(second(1), &entry);
    chronicle.close().unwrap();
    let window = look(&disk, 0, 10, Resolution::Second);
    let kept = &window.imbalance[0].what;
    assert_eq!((&*kept.job, &*kept.layer), ("train", "tier 1 to 2"));
    let figures = [
        kept.mean_fim_permille,
        kept.worst_fim_permille,
        kept.worst_floor_permille,
        kept.max_over_mean_permille,
    ];
    let figures = figures.map(|figures| figures.unwrap().max);
    assert_eq!(figures, [338, 1000, 125, 1750]);
}

const FABRIC: &str = "kind = \"leaf-spine\"\nleaves = 1\nspines = 1\nhosts_per_leaf = 2\nhost_gbps = 1\n\
                      uplink_gbps = 1\n";

#[test]
fn traffic_and_links_match_fabric() {
    let disk = Disk::default();
    let mut chronicle = chronicle(&disk, 1);
    live(&mut chronicle, 0..120);
    chronicle.close().unwrap();
    let fabric = Fabric::parse("f.toml", FABRIC).unwrap();
    let window = look(&disk, 10, 110, Resolution::Second);
    let [h0, h1] = ["h0", "h1"].map(|name| fabric.find(name).unwrap());
    // The sum has 99 steps of 1000 bytes, and the first second by its rate of 8000 bits.
    assert_eq!(window.traffic_on(&fabric).get(h0, h1).count(), 100_000);
    let flows = window.flows_on(&fabric, second(110));
    assert_eq!(flows.len(), 1);
    assert_eq!(
        (flows[0].rate.bits_per_s(), flows[0].age),
        (8000, Duration::from_secs(1))
    );
    assert_eq!(flows[0].path.as_ref().map(Vec::len), Some(2));
    let links = window.links_on(&fabric, second(110));
    let rates: Vec<_> = links
        .values()
        .map(|state| (state.up, state.rate.bits_per_s()))
        .collect();
    assert_eq!(rates, [(true, 60)], "the mean of 10 to 109, rounded");
}

/// The agents see more flows than they report.
#[test]
fn peer_counters_outrank_flows() {
    let disk = Disk::default();
    let mut chronicle = chronicle(&disk, 1);
    for at in 0..10 {
        chronicle.advance(second(at)).unwrap();
        chronicle.observe(second(at), &flowing(at * 1000, Some(8000)));
        let volume = |bytes| Volume {
            bytes: Bytes::new(bytes),
            packets: None,
        };
        let traffic = PeerTraffic {
            peer: [10, 0, 0, 2].into(),
            // The counter starts again after a restart.
            sent: volume(at % 5 * 7000),
            received: volume(0),
        };
        let entry = Entry::traffic("h0", Some(&"h1".into()), TrafficSource::Ebpf, &traffic);
        chronicle.observe(second(at), &entry);
    }
    chronicle.close().unwrap();
    let fabric = Fabric::parse("f.toml", FABRIC).unwrap();
    let [h0, h1] = ["h0", "h1"].map(|name| fabric.find(name).unwrap());
    let window = look(&disk, 0, 10, Resolution::Second);
    assert_eq!(window.traffic_on(&fabric).get(h0, h1).count(), 8 * 7000);
}

/// Only ranks count the traffic of a NIC that bypasses the kernel. Both count traffic through the kernel.
#[test]
fn rank_reports_fill_unseen_traffic() {
    let disk = Disk::default();
    let mut chronicle = chronicle(&disk, 1);
    let describe =
        |from, to, bytes: u64| Entry::collectives(from, to, Rate::from_bits_per_s(bytes * 8));
    for at in 0..10 {
        chronicle.advance(second(at)).unwrap();
        let there = flowing(at * 1000, Some(8000));
        let [seen, unseen] = [describe("h0", "h1", 900), describe("h1", "h0", 500)];
        for entry in [there, seen, unseen] {
            chronicle.observe(second(at), &entry);
        }
    }
    chronicle.close().unwrap();
    let fabric = Fabric::parse("f.toml", FABRIC).unwrap();
    let [h0, h1] = ["h0", "h1"].map(|name| fabric.find(name).unwrap());
    let traffic = look(&disk, 0, 10, Resolution::Second).traffic_on(&fabric);
    let between = [(h0, h1), (h1, h0)].map(|(from, to)| traffic.get(from, to).count());
    assert_eq!(between, [9000, 5000]);
}

#[test]
fn host_matrix_comes_from_probes() {
    let disk = Disk::default();
    let mut chronicle = chronicle(&disk, 1);
    for (at, [median, slow], lost) in [(0, [10_000, 30_000], 0), (1, [20_000, 50_000], 5)] {
        chronicle.advance(second(at)).unwrap();
        let probed = Probed {
            flow: flow(2),
            sent: 10,
            lost,
            network: Some([median, slow, slow].map(Duration::from_nanos)),
        };
        let entry = Entry::probes(&"h0".into(), Some(&"h1".into()), &probed);
        chronicle.observe(second(at), &entry);
    }
    chronicle.close().unwrap();
    let fabric = Fabric::parse("f.toml", FABRIC).unwrap();
    let matrix = look(&disk, 0, 10, Resolution::Second).matrix_on(&fabric);
    assert_eq!(matrix.hosts, ["h0", "h1"]);
    let [cell] = &matrix.cells[..] else {
        panic!("{matrix:?}");
    };
    assert_eq!((cell.from, cell.to), (0, 1));
    assert_eq!((cell.median_us, cell.p99_us), (Some(15.0), Some(50.0)));
    assert_eq!((cell.lost_share, cell.rate_bits_per_s), (Some(0.25), None));
}

/// Both ends are exact to the second, and hours without a writer have no rows.
#[test]
fn kept_time_has_exact_bounds() {
    let disk = Disk::default();
    let mut first = chronicle(&disk, 1);
    live(&mut first, 100..160);
    first.close().unwrap();
    let mut later = chronicle(&disk, 2);
    live(&mut later, 7300..7310);
    later.close().unwrap();
    let past = Past::on(Box::new(disk));
    let kept = past.kept(Kind::Links).unwrap();
    let seconds: Vec<_> = kept
        .iter()
        .filter(|kept| kept.resolution == Resolution::Second)
        .map(|kept| (kept.from, kept.to))
        .collect();
    let hours = [(second(100), second(3600)), (second(7200), second(7310))];
    assert_eq!(seconds, hours);
    assert_eq!(kept.len(), 2 + 2 + 1, "{kept:?}");
    assert_eq!(past.kept(Kind::Rhythms).unwrap(), []);
}

#[test]
fn only_overlapping_row_groups_are_read() {
    let disk = Disk::default();
    let mut chronicle = chronicle(&disk, 1);
    live(&mut chronicle, 0..60);
    chronicle.close().unwrap();
    let rows = |from, to| {
        let time = second(from)..second(to);
        let files = disk.contents();
        let fine = files
            .iter()
            .filter(|(name, _)| name.contains("kind=links/resolution=1s"));
        let read = fine.map(|(name, content)| {
            let (place, file) = Place::parse(name).unwrap();
            read_of(place, &file, content.clone(), &time).unwrap()
        });
        read.map(|table| table.rows.len()).sum::<usize>()
    };
    assert_eq!(rows(0, 100), 60);
    assert_eq!(rows(60, 100), 0);
    assert!(rows(59, 100) > 0);
}

#[test]
fn reader_respects_memory_and_time_limits() {
    let disk = Disk::default();
    let mut chronicle = chronicle(&disk, 1);
    live(&mut chronicle, 0..60);
    chronicle.close().unwrap();
    let question = Question {
        from: second(0),
        to: second(60),
        resolution: Some(Resolution::Second),
        kinds: Kind::ALL.into(),
    };
    let past = |rows, goes_on| Past::on(Box::new(disk.clone())).within(rows, move || goes_on);
    assert_eq!(past(120, true).look(&question).unwrap().links.len(), 60);
    let error = past(119, true).look(&question).unwrap_err();
    assert!(matches!(error, PastError::TooMuch { most: 119, .. }));
    let error = past(120, false).look(&question).unwrap_err();
    assert!(matches!(error, PastError::Stopped));
    assert!(past(120, false).kept(Kind::Links).is_err());
}

#[test]
fn finest_available_resolution_is_used() {
    let disk = Disk::default();
    let mut chronicle = chronicle(&disk, 1);
    live(&mut chronicle, 0..20);
    chronicle.close().unwrap();
    disk.remove_all("resolution=1s");
    let past = Past::on(Box::new(disk));
    let question = |from, to| Question {
        from: second(from),
        to: second(to),
        resolution: None,
        kinds: vec![Kind::Links],
    };
    let window = past.look(&question(0, 60)).unwrap();
    assert_eq!(
        (window.resolution, window.links.len()),
        (Resolution::TenSeconds, 2)
    );
    let month = past.look(&question(0, 30 * 86_400)).unwrap();
    assert_eq!(
        (month.resolution, month.links.len()),
        (Resolution::FiveMinutes, 1)
    );
    let backwards = past.look(&question(60, 0));
    assert!(matches!(backwards, Err(PastError::NotBefore { .. })));
    let nothing = past.look(&question(10_000, 10_060)).unwrap();
    assert_eq!(
        (nothing.resolution, nothing.links.len()),
        (Resolution::Second, 0)
    );
}

/// A flow is reported in four of ten minutes, and after a pause.
#[test]
fn covered_share_of_time_is_known() {
    let disk = Disk::default();
    let mut chronicle = chronicle(&disk, 1);
    live(&mut chronicle, 0..240);
    chronicle.close().unwrap();
    let past = Past::on(Box::new(disk));
    let covered = |from, to| {
        let span = [from, to].map(second);
        past.covered(span, Resolution::Second).unwrap()
    };
    assert_eq!(covered(60, 180).share(), 1.0);
    let most = covered(0, 600);
    assert_eq!(most.parts, [[second(0), second(240)]]);
    assert!((most.share() - 0.4).abs() < 1e-9);
    assert!(covered(300, 600).parts.is_empty());
}

/// Circuits are moved twice, by separate commands.
#[test]
fn circuit_moves_are_read_in_order() {
    let disk = Disk::default();
    let mut chronicle = chronicle(&disk, 1);
    for (at, generation) in [(0, 9), (400, 12), (1000, 13)] {
        chronicle.advance(second(at)).unwrap();
        let detail = format!("moved by {generation}");
        let intent = Entry::change("circuit-intent", "", Generation(generation), &detail);
        chronicle.observe(second(at), &intent);
        let other = Entry::change("verified", "", Generation(generation), "");
        chronicle.observe(second(at), &other);
    }
    chronicle.close().unwrap();
    let past = Past::on(Box::new(disk));
    let moved = |before| past.circuits_moved(second(before)).unwrap();
    assert_eq!(moved(2000), ["moved by 9", "moved by 12", "moved by 13"]);
    assert_eq!(moved(500), ["moved by 9", "moved by 12"]);
    assert_eq!(moved(1), ["moved by 9"]);
}

#[test]
fn unrepresentable_moment_is_none() {
    let days = |days: u64| Duration::from_secs(days.saturating_mul(86_400));
    assert_eq!(later(second(0), Duration::from_secs(5)), Some(second(5)));
    for beyond in [days(4_000_000), days(999_999_999_999), Duration::MAX] {
        assert_eq!(later(second(0), beyond), None, "{beyond:?}");
    }
}
