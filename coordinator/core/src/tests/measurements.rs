//! What hosts measure and cannot measure, as operators see it.

use std::net::{Ipv4Addr, SocketAddrV4};

use reweave_common::bandwidth::{Bandwidth, BandwidthReading, Unclear};
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::hardware::Lack;
use reweave_common::operator::{Mode, Status};
use reweave_common::probing::{PROBE_PORT, PortStrays, Strays};
use reweave_common::sample::{HostReading, Reading};

use super::cluster::Cluster;
use super::diagnosis::say;
use super::network::{host_address, link_address};
use super::scene::{SETTLE_TIME, status};

fn cluster() -> Cluster {
    let mut cluster = Cluster::new(Mode::Manual);
    cluster.run_for(SETTLE_TIME);
    cluster
}

fn lack(measurement: &str, because: &str) -> Reading {
    Reading::Host(HostReading::Lack(Lack {
        measurement: measurement.to_owned(),
        because: because.to_owned(),
        remedy: format!("allow {measurement}"),
    }))
}

fn loss_lines(status: &Status) -> Vec<(&str, &str, Vec<&str>)> {
    let lacks = status.lacks.iter().map(|it| {
        let nodes = it.nodes.iter().map(String::as_str);
        (&*it.lack.measurement, &*it.lack.because, nodes.collect())
    });
    lacks.collect()
}

#[test]
fn same_lacks_are_merged_and_expire() {
    let mut cluster = cluster();
    assert_eq!(loss_lines(&status(&mut cluster)), []);
    say(&mut cluster, "h1", vec![lack("paths of flows", "no right")]);
    for host in ["h0", "h2"] {
        let lacks = vec![lack("RDMA", "no helper"), lack("paths of flows", "busy")];
        say(&mut cluster, host, lacks);
    }
    say(&mut cluster, "h4", vec![lack("RDMA", "no helper")]);
    let expected = [
        ("RDMA", "no helper", vec!["h0", "h2", "h4"]),
        ("paths of flows", "busy", vec!["h0", "h2"]),
        ("paths of flows", "no right", vec!["h1"]),
    ];
    assert_eq!(loss_lines(&status(&mut cluster)), expected);
    cluster.run_for(4 * SETTLE_TIME);
    assert_eq!(loss_lines(&status(&mut cluster)), []);
}

#[test]
fn stray_packets_are_reported_per_agent() {
    let mut cluster = cluster();
    let kinds = |malformed, foreign, late| Strays {
        malformed,
        foreign,
        late,
    };
    let strays = PortStrays {
        asking: kinds(1, 2, 3),
        answering: kinds(4, 5, 0),
    };
    let said = Reading::Host(HostReading::Strays(strays));
    say(&mut cluster, "h2", vec![said]);
    let agents = status(&mut cluster).agents;
    let reports = agents.iter().map(|it| (it.node.as_str(), it.strays));
    let reports: Vec<_> = reports.filter(|(_, strays)| strays.is_some()).collect();
    assert_eq!(reports, [("h2", Some(strays))]);
}

/// The routers on a train's path: one of the fabric, by the address of a link, a silent one, and an unknown one.
#[test]
fn train_path_lists_node_names() {
    let mut cluster = cluster();
    let [from, to, leaf] = ["h0", "h3", "leaf0"].map(|name| cluster.network.node(name));
    let fabric = cluster.network.fabric.clone();
    let link = fabric.links_of(leaf)[0];
    let stranger = Ipv4Addr::new(192, 0, 2, 1);
    let reading = |port, routers| {
        Reading::Bandwidth(BandwidthReading {
            flow: FlowKey {
                protocol: Protocol::Udp,
                source: SocketAddrV4::new(host_address(from), port),
                destination: SocketAddrV4::new(host_address(to), PROBE_PORT),
            },
            bandwidth: Bandwidth::Unknown {
                why: Unclear::Batched,
                trains: 1,
            },
            routers,
        })
    };
    let passed = vec![
        Some(link_address(&fabric, leaf, link)),
        None,
        Some(stranger),
    ];
    say(
        &mut cluster,
        "h0",
        vec![reading(7432, Some(passed)), reading(7433, None)],
    );
    let over = status(&mut cluster)
        .bandwidths
        .into_iter()
        .map(|it| it.over);
    let names = ["leaf0", "?", "192.0.2.1"].map(str::to_owned).to_vec();
    assert_eq!(over.collect::<Vec<_>>(), [Some(names), None]);
}
