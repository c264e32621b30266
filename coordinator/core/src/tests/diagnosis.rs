//! What is found to be wrong as the cluster is measured, beside collisions.

use std::time::Duration;

use reweave_common::cause::{Cause, Class, Subject};
use reweave_common::hardware::{Nic, Pcie, PcieLink};
use reweave_common::health::{Health, Place, Signal, SignalReading};
use reweave_common::operator::{About, Finding, Mode, Request, Response};
use reweave_common::sample::{HostReading, Reading, Sample};
use reweave_common::snapshot::Hop;

use super::cluster::Cluster;
use super::network::Network;
use super::scene::A_WHILE;
use crate::Input;

/// As long as it takes to learn the ways of all probes and to hear enough of them.
const LEARNED: Duration = Duration::from_secs(20);

/// Two leaves with four hosts each, and four spines.
fn cluster() -> Cluster {
    let mut cluster = Cluster::on(Network::new(4, 4), Mode::Manual);
    cluster.run_for(A_WHILE);
    cluster
}

fn say(cluster: &mut Cluster, host: &str, readings: Vec<Reading>) {
    let node = cluster.network.node(host);
    let taken = cluster.now();
    let sample = Sample { taken, readings };
    cluster.handle(Input::Sample { node, sample });
}

/// Every host tells once a second what came of its probes.
fn probe_for(cluster: &mut Cluster, duration: Duration) {
    for _ in 0..duration.as_secs() {
        for host in (0..8).map(|it| format!("h{it}")) {
            let readings = cluster.network.probed(cluster.network.node(&host));
            say(cluster, &host, readings);
        }
        cluster.run_for(Duration::from_secs(1));
    }
}

fn causes(cluster: &mut Cluster) -> Vec<Cause> {
    let Response::Findings(found) = cluster.ask(Request::Diagnose) else {
        panic!("no findings")
    };
    let causes = found.findings.into_iter().map(|finding| match finding {
        Finding::Cause(cause) => cause,
        other => panic!("{other:?}"),
    });
    causes.collect()
}

fn only(cluster: &mut Cluster) -> (Class, String) {
    let found = causes(cluster);
    let [one] = &found[..] else {
        panic!("one cause: {found:#?}")
    };
    (one.class, one.subject.to_string())
}

fn hop(cluster: &Cluster, from: &str, to: &str) -> Hop {
    let [from, to] = [from, to].map(|name| cluster.network.node(name));
    let link = cluster
        .network
        .fabric
        .links_between(from, to)
        .next()
        .unwrap();
    Hop { from, link }
}

/// With two leaves, whatever takes the way up to a spine takes its way down to the other leaf: probes
/// alone do not tell these two links apart, and the counters of who sends over them do.
#[test]
fn each_direction_of_each_link_that_loses_probes_is_named_and_nothing_else() {
    for (leaf, spine) in (0..8).map(|it| (it % 2, it / 2)) {
        let ends = [format!("leaf{leaf}"), format!("spine{spine}")];
        for [from, to] in [[&ends[0], &ends[1]], [&ends[1], &ends[0]]] {
            let mut cluster = cluster();
            let lossy = hop(&cluster, from, to);
            cluster.network.lossy.insert(lossy);
            probe_for(&mut cluster, LEARNED);
            let subject = Subject::Hop {
                from: from.clone(),
                to: to.clone(),
                link: cluster.network.fabric.link_name(lossy.link),
            };
            let found = causes(&mut cluster);
            assert_eq!((found.len(), found[0].class), (1, Class::LossyLink));
            let Subject::Ambiguous(both) = &found[0].subject else {
                panic!("{found:#?}")
            };
            assert!(both.len() == 2 && both.contains(&subject), "{both:#?}");
            let links = cluster.network.fabric.links_of(lossy.from).iter();
            let port = links.clone().position(|it| *it == lossy.link).unwrap();
            let drops = health(&format!("swp{port}"), Signal::SendDrops, 20);
            say(&mut cluster, from, vec![drops]);
            let found = causes(&mut cluster);
            assert_eq!((found.len(), &found[0].subject), (1, &subject));
            // A queue that was full loses probes, too.
            let full = health(&format!("swp{port}"), Signal::QueueDrops, 20);
            say(&mut cluster, from, vec![full]);
            assert_eq!(causes(&mut cluster), []);
        }
    }
}

#[test]
fn a_bad_host_is_named_as_host() {
    let mut cluster = cluster();
    let both = [hop(&cluster, "h5", "leaf1"), hop(&cluster, "leaf1", "h5")];
    cluster.network.lossy.extend(both);
    probe_for(&mut cluster, LEARNED);
    assert_eq!(only(&mut cluster), (Class::FaultyHost, "h5".to_owned()));
}

#[test]
fn a_clean_cluster_has_nothing_wrong_with_it() {
    let mut cluster = cluster();
    probe_for(&mut cluster, LEARNED);
    assert_eq!(causes(&mut cluster), []);
}

fn health(interface: &str, signal: Signal, grown: u64) -> Reading {
    let reading = SignalReading {
        signal,
        total: grown,
        grown: Some(grown),
        of: Some(1_000_000),
    };
    Reading::Host(HostReading::Health(Health {
        place: Place::Interface(interface.to_owned()),
        over: Duration::from_secs(1),
        signals: vec![reading],
    }))
}

#[test]
fn counters_of_an_interface_name_its_link() {
    let cases = [
        (Signal::LinkDowns, 1, Class::NicFlap, "h2-leaf0"),
        (
            Signal::FrameErrors,
            100,
            Class::BadOptic,
            "h2-leaf0 from leaf0",
        ),
        (Signal::Oversized, 5, Class::MtuMismatch, "h2-leaf0"),
        (Signal::PausedMicros(3), 400_000, Class::PfcStorm, "leaf0"),
    ];
    for (signal, grown, class, subject) in cases {
        let mut cluster = cluster();
        say(&mut cluster, "h2", vec![health("eth0", signal, grown)]);
        cluster.run_for(A_WHILE);
        assert_eq!(only(&mut cluster), (class, subject.to_owned()), "{signal}");
    }
}

#[test]
fn a_nic_that_differs_and_a_clock_that_is_off_are_named() {
    let mut cluster = cluster();
    for host in 0..8 {
        let nic = Nic {
            interface: "eth0".to_owned(),
            mtu_bytes: Some(if host == 6 { 1500 } else { 9000 }),
            ..Nic::default()
        };
        let reading = Reading::Host(HostReading::Nic(Box::new(nic)));
        say(&mut cluster, &format!("h{host}"), vec![reading]);
    }
    assert_eq!(
        only(&mut cluster),
        (Class::ConfigurationMismatch, "h6".to_owned())
    );
    let link = |lanes| PcieLink {
        mt_per_s: 16_000,
        lanes,
    };
    let nic = Nic {
        interface: "eth0".to_owned(),
        mtu_bytes: Some(9000),
        pcie: Some(Pcie {
            now: link(4),
            most: link(16),
        }),
        ..Nic::default()
    };
    say(
        &mut cluster,
        "h6",
        vec![Reading::Host(HostReading::Nic(Box::new(nic)))],
    );
    assert_eq!(only(&mut cluster), (Class::PcieDowngrade, "h6".to_owned()));
    let about = About {
        build: "1".to_owned(),
        protocol: "1.0".to_owned(),
        good_for: Duration::from_secs(3600),
        skew_us: Some(900_000),
    };
    let node = cluster.network.node("h1");
    cluster.handle(Input::About { node, about });
    let found: Vec<_> = causes(&mut cluster)
        .into_iter()
        .map(|it| it.class)
        .collect();
    assert_eq!(found, [Class::ClocksApart, Class::PcieDowngrade]);
}
