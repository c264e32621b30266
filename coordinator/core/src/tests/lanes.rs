//! What a job's ranks send over: RDMA devices of its hosts, and the ways between their switches.

use reweave_common::hardware::NicReport;
use reweave_common::operator::{Lanes, Mode, Refused, Request, Response};
use reweave_common::sample::{HostReading, Reading};

use super::cluster::Cluster;
use super::diagnosis::say;
use super::network::Network;
use super::scene::SETTLE_TIME;

/// Two hosts in each of two racks, each with two NICs at leaves of their own: the first of each at leaves with three
/// spines between them, the second at leaves with two.
fn cluster() -> Cluster {
    let mut text = "kind = \"graph\"\n".to_owned();
    let mut node = |name: &str, role: &str| {
        text += &format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\n");
    };
    (0..4).for_each(|host| node(&format!("h{host}"), "host"));
    (0..4).for_each(|leaf| node(&format!("leaf{leaf}"), "switch"));
    (0..5).for_each(|spine| node(&format!("spine{spine}"), "switch"));
    let hosts = (0..4).flat_map(|host| {
        [0, 1].map(|nic| (format!("h{host}"), format!("leaf{}", host / 2 * 2 + nic)))
    });
    let spines = [[0, 2], [0, 1], [0, 0], [1, 3], [1, 4]]
        .into_iter()
        .flat_map(|[rail, spine]| {
            [rail, rail + 2].map(|leaf| (format!("leaf{leaf}"), format!("spine{spine}")))
        });
    for (a, b) in hosts.chain(spines) {
        text += &format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\ngbps = 1\n");
    }
    let mut cluster = Cluster::on(Network::of(&text), Mode::Manual);
    cluster.run_for(SETTLE_TIME);
    (0..4).for_each(|host| tell(&mut cluster, host, ["mlx5_0", "mlx5_10"]));
    cluster
}

fn tell(cluster: &mut Cluster, host: usize, devices: [&str; 2]) {
    let nics = devices.into_iter().enumerate().map(|(nth, device)| {
        Reading::Host(HostReading::Nic(Box::new(NicReport {
            interface: format!("eth{nth}"),
            rdma: Some(device.to_owned()),
            ..NicReport::default()
        })))
    });
    say(cluster, &format!("h{host}"), nics.collect());
}

fn lanes(cluster: &mut Cluster, hosts: &[&str]) -> Lanes {
    let hosts = hosts.iter().map(|&host| host.to_owned()).collect();
    match cluster.ask(Request::Lanes { hosts }) {
        Response::Lanes(lanes) => lanes,
        other => panic!("{other:?}"),
    }
}

fn ways(lanes: &Lanes) -> Vec<(&str, u32)> {
    lanes
        .lanes
        .iter()
        .map(|it| (&it.device[..], it.ways))
        .collect()
}

const ALL: [&str; 4] = ["h0", "h1", "h2", "h3"];

#[test]
fn common_devices_listed_with_path_counts() {
    let mut cluster = cluster();
    let report = lanes(&mut cluster, &ALL);
    assert_eq!(ways(&report), [("mlx5_0", 3), ("mlx5_10", 2)]);
    assert_eq!(report.left_out, [""; 0]);
    assert_eq!(
        ways(&lanes(&mut cluster, &["h0", "h1"])),
        [("mlx5_0", 1), ("mlx5_10", 1)]
    );
    assert_eq!(
        ways(&lanes(&mut cluster, &["h0"])),
        [("mlx5_0", 1), ("mlx5_10", 1)]
    );
}

#[test]
fn down_link_removes_device_or_path() {
    let mut cluster = cluster();
    cluster.network.fail("leaf0", "spine1");
    cluster.network.fail("h2", "leaf3");
    cluster.run_for(SETTLE_TIME);
    let report = lanes(&mut cluster, &ALL);
    assert_eq!(ways(&report), [("mlx5_0", 2)]);
    assert_eq!(
        report.left_out,
        ["mlx5_10: h2-leaf3 of h2 is down, or drained"]
    );
    assert_eq!(
        lanes(&mut cluster, &["h0", "h1"]).lanes.len(),
        2,
        "it is another's"
    );
    cluster.network.mend("h2", "leaf3");
    ["spine3", "spine4"]
        .iter()
        .for_each(|spine| cluster.network.fail("leaf1", spine));
    cluster.run_for(SETTLE_TIME);
    let report = lanes(&mut cluster, &ALL);
    assert_eq!(report.left_out, ["mlx5_10: no path from h1 to h2"]);
}

#[test]
fn device_missing_on_host_left_out() {
    let mut cluster = cluster();
    tell(&mut cluster, 3, ["mlx5_0", "rocep1"]);
    let report = lanes(&mut cluster, &ALL);
    assert_eq!(ways(&report), [("mlx5_0", 3)]);
    let expected = [
        "mlx5_10: h3 has it on no link of the fabric",
        "rocep1: h0 has it on no link of the fabric",
    ];
    assert_eq!(report.left_out, expected);
    let hosts = vec!["h0".to_owned(), "h9".to_owned()];
    let refused = cluster.ask(Request::Lanes { hosts });
    let name = "h9".to_owned();
    assert_eq!(refused, Response::Refused(Refused::NoSuchHost { name }));
}
