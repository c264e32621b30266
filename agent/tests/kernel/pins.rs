//! Pins in a kernel: what is asked for is held, read back and followed by packets, and what cannot
//! be had leaves everything as it was.

use reweave_agent::netlink::{PinError, RouteSocket};
use reweave_common::error::error_chain;
use reweave_common::sample::PinRule;

use crate::fabric::{Fabric, ip_in, leaf_at, pin, some_flow, spine_of, uplink_bytes, within};
use crate::tests;
use crate::traffic::{Datagrams, Session};

tests! {
    pinned_flow_leaves_by_its_interface,
    pinned_udp_flow_leaves_by_interface,
    pins_read_back_as_requested,
    impossible_pin_is_explained,
    removing_last_pin_leaves_nothing,
}

/// Makes leaf 0 hold these pins; returns what it holds then.
pub(crate) fn hold(rules: &[PinRule]) -> Result<Vec<PinRule>, PinError> {
    within("leaf0", || {
        let mut route = RouteSocket::open()?;
        route.hold(rules)?;
        Ok(held())
    })
}

/// What the kernel of the calling thread's network holds, with nothing left over.
pub(crate) fn held() -> Vec<PinRule> {
    let held = RouteSocket::open().and_then(|mut route| route.pins());
    let held = held.expect("pins can be read");
    assert!(held.is_tidy());
    held.pins()
}

/// What moves over each uplink of leaf 0 while `work` is done.
pub(crate) fn moved_over(work: impl FnOnce()) -> [u64; 2] {
    let before = uplink_bytes();
    work();
    let after = uplink_bytes();
    [0, 1].map(|spine| after[spine] - before[spine])
}

const TRANSFER_BYTES: usize = 4 << 20;

fn pinned_flow_leaves_by_its_interface() {
    let _fabric = Fabric::new();
    let mut session = Session::new(0, 2);
    for spine in [0, 1, 0] {
        hold(&[pin(session.flow, spine)]).expect("the kernel takes it");
        assert_eq!(spine_of(&session.flow), spine);
        let moved = moved_over(|| session.transfer(TRANSFER_BYTES));
        let [by_pin, by_other] = [moved[usize::from(spine)], moved[1 - usize::from(spine)]];
        assert!(by_pin > TRANSFER_BYTES as u64, "{moved:?}");
        assert!(by_other < 1000, "{moved:?}");
    }
}

fn pinned_udp_flow_leaves_by_interface() {
    let _fabric = Fabric::new();
    let datagrams = Datagrams::start(0, 2);
    let other = 1 - spine_of(&datagrams.flow);
    hold(&[pin(datagrams.flow, other)]).expect("the kernel takes it");
    assert_eq!(spine_of(&datagrams.flow), other);
    let (sent, arrived) = datagrams.finish();
    assert_eq!(sent, arrived);
}

fn pins_read_back_as_requested() {
    let _fabric = Fabric::new();
    let mut rules: Vec<_> = (0..200)
        .map(|port| pin(some_flow(40_000 + port), (port % 2) as u8))
        .collect();
    assert_eq!(hold(&rules).expect("the kernel takes them"), rules);
    let listed = ip_in("leaf0", &["rule"]);
    let ours: Vec<_> = listed
        .lines()
        .filter(|line| line.ends_with("proto 213"))
        .collect();
    assert_eq!(ours.len(), 200);
    let first = "21300:\tfrom 10.0.0.1 to 10.1.0.1 ipproto tcp sport 40000 dport 5001 lookup 21300 proto 213";
    assert_eq!(ours[0], first);
    rules.truncate(3);
    assert_eq!(hold(&rules).expect("the kernel drops the others"), rules);
}

fn removing_last_pin_leaves_nothing() {
    let _fabric = Fabric::new();
    let nothing = tables();
    hold(&[pin(some_flow(1), 0), pin(some_flow(2), 1)]).expect("the kernel takes them");
    assert_ne!(tables(), nothing);
    assert_eq!(hold(&[]).expect("and drops them"), []);
    assert_eq!(tables(), nothing);
}

/// All rules and routes of leaf 0, in words.
pub(crate) fn tables() -> String {
    ip_in("leaf0", &["-4", "rule"]) + &ip_in("leaf0", &["-4", "route", "show", "table", "all"])
}

fn impossible_pin_is_explained() {
    let _fabric = Fabric::new();
    let refused =
        |rule: PinRule| error_chain(&hold(&[rule]).expect_err("the kernel cannot take it"));
    let mut nowhere = pin(some_flow(1), 0);
    nowhere.interface = "up7".into();
    assert_eq!(refused(nowhere), "no interface up7");
    let mut strange = pin(some_flow(1), 0);
    strange.next_hop = leaf_at(1, 1);
    let words = refused(strange);
    assert!(
        words.starts_with("next hop 172.16.3.0 over up0: "),
        "{words}"
    );
    assert!(words.contains("Nexthop has invalid gateway"), "{words}");
    let twice = hold(&[pin(some_flow(1), 0), pin(some_flow(1), 1)]);
    let words = error_chain(&twice.expect_err("one flow has one way"));
    assert_eq!(words, "tcp 10.0.0.1:1 > 10.1.0.1:5001 is pinned twice");
    ip_in("leaf0", &["link", "set", "up1", "down"]);
    assert_eq!(refused(pin(some_flow(1), 1)), "interface up1 is down");
    // The other end's fault: no carrier.
    ip_in("spine0", &["link", "set", "down0", "down"]);
    assert_eq!(refused(pin(some_flow(1), 0)), "interface up0 is down");
    assert_eq!(hold(&[]).expect("nothing is left"), []);
}
