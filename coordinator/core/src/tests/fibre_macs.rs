//! Interfaces at fibres bear one hardware address, or circuits are not moved.

use reweave_common::cause::Class;
use reweave_common::circuit::{CircuitSet, OpticalName};
use reweave_common::hardware::{HardwareAddress, Mac};
use reweave_common::operator::{Mode, Refused, Request, Response};
use reweave_common::sample::{HostReading, Reading};

use super::cluster::Cluster;
use super::diagnosis::{causes, only, say};
use super::network::Network;
use super::scene::SETTLE_TIME;

const OTHER_MAC: &str = "0c:42:a1:00:00:07";

/// Four hosts in a ring, each with two fibres.
pub(super) fn cluster() -> Cluster {
    let mut text = "kind = \"graph\"\n".to_owned();
    for host in 0..4 {
        text += &format!(
            "[[node]]\nname = \"h{host}\"\nrole = \"relay\"\naddress = \"10.0.0.{}\"\n",
            host + 1
        );
    }
    text +=
        "[[optical]]\nname = \"ocs0\"\nports = 8\ncircuits = [[2, 3], [4, 5], [6, 7], [8, 1]]\n";
    for port in 0..8 {
        let (host, interface) = (port / 2, port % 2);
        text += &format!(
            "[[fibre]]\nnode = \"h{host}\"\ninterface = \"fab{interface}\"\noptical = \"ocs0\"\nport = {}\n\
             gbps = 0.2\n",
            port + 1
        );
    }
    let mut cluster = Cluster::on(Network::of(&text), Mode::Manual);
    cluster.run_for(SETTLE_TIME);
    cluster
}

/// Another interface of a host, which is no fibre's, may bear any address.
fn tell(cluster: &mut Cluster, of_h2: &str) {
    for host in 0..4_u8 {
        let own = Mac::of_one_nic([2, 0, 0, 0, 7, host]).unwrap();
        let fab1 = match host {
            2 => of_h2.parse().unwrap(),
            _ => Mac::DEFAULT_FIBRE_MAC,
        };
        let readings = [
            ("eth0", own),
            ("fab0", Mac::DEFAULT_FIBRE_MAC),
            ("fab1", fab1),
        ];
        let readings = readings.map(|(interface, address)| {
            Reading::Host(HostReading::Hardware(HardwareAddress {
                interface: interface.to_owned(),
                address,
            }))
        });
        say(cluster, &format!("h{host}"), readings.into());
    }
}

/// Why circuits are not led otherwise, if so.
fn refused(cluster: &mut Cluster) -> Option<String> {
    let circuits = CircuitSet::from_text("1-4,2-3,5-8,6-7").unwrap();
    let circuits = [(OpticalName("ocs0".to_owned()), circuits)].into();
    match cluster.ask(Request::Rewire { circuits }) {
        Response::Refused(Refused::Unfit { reasons }) => reasons
            .into_iter()
            .find(|it| it.contains("hardware address")),
        _ => None,
    }
}

#[test]
fn host_with_odd_fibre_mac_named() {
    let mut cluster = cluster();
    tell(&mut cluster, &Mac::DEFAULT_FIBRE_MAC.to_string());
    assert_eq!(causes(&mut cluster), []);
    tell(&mut cluster, OTHER_MAC);
    let odd = (Class::ConfigurationMismatch, "h2".to_owned());
    assert_eq!(only(&mut cluster), odd);
}

#[test]
fn circuits_wait_for_equal_fibre_macs() {
    let mut cluster = cluster();
    assert_eq!(refused(&mut cluster), None, "none was reported");
    tell(&mut cluster, OTHER_MAC);
    let words = "fibre interfaces have several hardware addresses, so packets are dropped after \
                 circuits move: 02:fa:b0:00:00:01 at fab0 of h0, fab1 of h0 and 5 more; \
                 0c:42:a1:00:00:07 at fab1 of h2; `reweave-agent run --fibres` sets one address";
    assert_eq!(refused(&mut cluster).as_deref(), Some(words));
    tell(&mut cluster, &Mac::DEFAULT_FIBRE_MAC.to_string());
    assert_eq!(refused(&mut cluster), None);
}
