//! Interfaces at fibres get the hardware address that all of them share, unless something passes them.

use std::time::Duration;

use reweave_agent::fibres::Fibres;
use reweave_common::hardware::Mac;
use reweave_common::sample::{HostReading, Reading};

use crate::commands::agent;
use crate::fabric::{Fabric, ip_in, within};
use crate::serving::{at_the_coordinator, plug_in, reading};
use crate::tests;
use crate::traffic::{Session, Stream};

tests! {
    idle_fibre_gets_fibre_mac,
    busy_fibre_keeps_its_mac,
    invalid_fibre_mac_is_refused,
}

fn settle(interfaces: &[&str]) {
    let fibres = Fibres {
        interfaces: interfaces.iter().map(|&it| it.to_owned()).collect(),
        fabric_mac: Mac::DEFAULT_FIBRE_MAC,
    };
    within("h0", || fibres.settle()).expect("the kernel answers");
}

fn borne(interface: &str) -> String {
    let output = ip_in("h0", &["-o", "link", "show", interface]);
    let mut words = output
        .split_whitespace()
        .skip_while(|it| *it != "link/ether");
    words.nth(1).expect("it is Ethernet").to_owned()
}

fn addresses(interface: &str) -> String {
    ip_in("h0", &["-o", "-4", "address", "show", interface])
}

/// It is not there, is asked twice, or bears the address already: all the same to the others.
fn idle_fibre_gets_fibre_mac() {
    let _fabric = Fabric::new();
    plug_in("h0");
    let (other, ip) = (borne("spare1"), addresses("spare0"));
    assert_ne!(borne("spare0"), Mac::DEFAULT_FIBRE_MAC.to_string());
    settle(&["nowhere0", "spare0"]);
    settle(&["spare0"]);
    assert_eq!(borne("spare0"), Mac::DEFAULT_FIBRE_MAC.to_string());
    assert_eq!((borne("spare1"), addresses("spare0")), (other, ip));
    at_the_coordinator(async |mut stage| {
        let _agent = stage.start_with_files("h0");
        let link = stage.session("h0").await;
        let of_spare = |it| match it {
            Reading::Host(HostReading::Hardware(it)) if it.interface == "spare0" => {
                Some(it.address)
            }
            _ => None,
        };
        assert_eq!(reading(&link, of_spare).await, Mac::DEFAULT_FIBRE_MAC);
    });
}

fn busy_fibre_keeps_its_mac() {
    let _fabric = Fabric::new();
    plug_in("h0");
    let before = borne("eth0");
    let stream = Stream::start(Session::new(0, 2), 100_000, Duration::from_millis(100));
    settle(&["eth0", "spare0"]);
    assert_ne!(stream.finish(), 0, "the session lives");
    assert_eq!(borne("eth0"), before);
    assert_eq!(borne("spare0"), Mac::DEFAULT_FIBRE_MAC.to_string());
}

fn invalid_fibre_mac_is_refused() {
    let _fabric = Fabric::new();
    let run = ["run", "--coordinator", "10.1.1.1", "--fabric-mac"];
    let wrong = agent(
        "h0",
        &[&run[..], &["ff:ff:ff:ff:ff:ff", "--fibres", "eth0"]].concat(),
    );
    let said = String::from_utf8(wrong.stderr).expect("UTF-8");
    let words = "a hardware address of one NIC is written like 02:fa:b0:00:00:01";
    assert!(
        wrong.status.code() == Some(2) && said.contains(words),
        "{said}"
    );
    let alone = agent("h0", &[&run[..], &["02:fa:b0:00:00:02"]].concat());
    let said = String::from_utf8(alone.stderr).expect("UTF-8");
    assert!(
        alone.status.code() == Some(2) && said.contains("--fibres"),
        "{said}"
    );
}
