//! A flow that gets another next hop is never without a rule, and loses nothing.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::rule::RuleAttribute;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use reweave_agent::netlink::RouteSocket;

use crate::fabric::{Fabric, ip_in, pin, some_flow, spine_of, within};
use crate::pins::hold;
use crate::tests;
use crate::traffic::{Datagrams, Session, Stream};

tests! {
    pin_changes_lose_no_datagram,
    pin_changes_resend_no_tcp_segment,
    some_rule_exists_at_every_moment,
    foreign_pins_yield_to_ours,
}

fn pin_changes_lose_no_datagram() {
    let _fabric = Fabric::new();
    let datagrams = Datagrams::start(0, 2);
    within("leaf0", || {
        let mut route = RouteSocket::open().expect("netlink");
        for turn in 0..200 {
            let rule = pin(datagrams.flow, turn % 2);
            route.hold(&[rule]).expect("the kernel takes it");
        }
    });
    let (sent, arrived) = datagrams.finish();
    assert_eq!(arrived, sent);
}

fn pin_changes_resend_no_tcp_segment() {
    let _fabric = Fabric::new();
    let stream = Stream::start(Session::new(0, 2), 16 << 10, Duration::from_millis(1));
    let flow = stream.flow;
    let resent = || crate::flows::retransmits(0, &flow);
    let before = resent();
    let started = Instant::now();
    for turn in 0..100 {
        hold(&[pin(flow, turn % 2)]).expect("the kernel takes it");
        assert_eq!(spine_of(&flow), turn % 2);
    }
    eprintln!(
        "100 changes in {:?}, each looked at by ip",
        started.elapsed()
    );
    assert_eq!(resent(), before);
    assert!(stream.finish() > 0);
}

fn some_rule_exists_at_every_moment() {
    let _fabric = Fabric::new();
    let flow = some_flow(40_000);
    hold(&[pin(flow, 0)]).expect("the kernel takes it");
    let listener = within("leaf0", listen);
    for turn in 1..50 {
        hold(&[pin(flow, turn % 2)]).expect("the kernel takes it");
    }
    let mut tables = BTreeSet::from([21_300]);
    let mut changes = 0;
    for message in announced(&listener) {
        changes += 1;
        match message {
            RouteNetlinkMessage::NewRule(rule) => tables.insert(table(&rule.attributes)),
            RouteNetlinkMessage::DelRule(rule) => tables.remove(&table(&rule.attributes)),
            other => panic!("no rule: {other:?}"),
        };
        assert!(!tables.is_empty(), "no rule after {changes} changes");
    }
    assert_eq!(changes, 2 * 49);
}

/// As an agent of another version may have left them: with another priority, in any table.
fn foreign_pins_yield_to_ours() {
    let _fabric = Fabric::new();
    let flow = some_flow(40_000);
    hold(&[pin(flow, 0)]).expect("the kernel takes it");
    let leave = "rule add priority 90 from 10.0.0.1 to 10.1.0.1 ipproto tcp sport 40000 dport 5001 \
                 lookup 21300 protocol 213";
    ip_in("leaf0", &leave.split(' ').collect::<Vec<_>>());
    ip_in("leaf0", &["rule", "del", "priority", "21300"]);
    assert_eq!(spine_of(&flow), 0);
    let listener = within("leaf0", listen);
    hold(&[pin(flow, 1)]).expect("the kernel takes it");
    assert_eq!(spine_of(&flow), 1);
    let order: Vec<_> = announced(&listener)
        .iter()
        .map(|it| matches!(it, RouteNetlinkMessage::NewRule(_)))
        .collect();
    assert_eq!(order, [true, false], "first the new rule, then no old one");
}

fn table(attributes: &[RuleAttribute]) -> u32 {
    let found = attributes.iter().find_map(|attribute| match attribute {
        RuleAttribute::Table(table) => Some(*table),
        _ => None,
    });
    found.expect("a table")
}

fn listen() -> Socket {
    const RTNLGRP_IPV4_RULE: u32 = 8;
    let mut socket = Socket::new(NETLINK_ROUTE).expect("netlink");
    socket.bind(&SocketAddr::new(0, 0)).expect("bind");
    socket.add_membership(RTNLGRP_IPV4_RULE).expect("join");
    socket
        .set_non_blocking(true)
        .expect("all has been said when this is read");
    socket
}

/// What the kernel announced of rules, in order.
fn announced(listener: &Socket) -> Vec<RouteNetlinkMessage> {
    let datagrams = std::iter::from_fn(|| listener.recv_from_full().ok());
    let messages = datagrams.map(|(bytes, _)| {
        let message = NetlinkMessage::deserialize(&bytes).expect("a message");
        match message.payload {
            NetlinkPayload::InnerMessage(message) => message,
            other => panic!("no announcement: {other:?}"),
        }
    });
    messages.collect()
}
