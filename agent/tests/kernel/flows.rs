//! What the kernel tells of flows and interfaces, against what was really sent.

use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use reweave_agent::clock;
use reweave_agent::flows::FlowSocket;
use reweave_agent_core::flows::{FlowBook, Socket};
use reweave_common::flow::FlowKey;
use reweave_common::sample::Reading;
use reweave_common::units::Bytes;

use crate::fabric::{Fabric, host, tool, wait_for, within};
use crate::tests;
use crate::traffic::{Session, Stream, v4};

tests! {
    acknowledged_bytes_are_those_sent,
    a_socket_with_an_ipv6_name_is_a_flow_too,
    the_rate_is_what_the_link_lets_through needs "tc",
    a_flow_that_pauses_is_rated_while_it_sends needs "tc",
}

fn sockets(number: usize) -> Vec<Socket> {
    within(&format!("h{number}"), || {
        let listed = FlowSocket::open().and_then(|mut flows| flows.sockets());
        listed.expect("socket diagnostics")
    })
}

fn socket(number: usize, flow: &FlowKey) -> Option<Socket> {
    sockets(number)
        .into_iter()
        .find(|socket| socket.flow == *flow)
}

pub(crate) fn retransmits(number: usize, flow: &FlowKey) -> u64 {
    socket(number, flow)
        .expect("the session is open")
        .retransmits
        .expect("TCP counts them")
}

fn acknowledged_bytes_are_those_sent() {
    let _fabric = Fabric::new();
    let mut sessions: Vec<_> = (0..8).map(|_| Session::new(0, 2)).collect();
    for (number, session) in (1..).zip(&mut sessions) {
        session.transfer(number * 100_000);
    }
    for (number, session) in (1..).zip(&sessions) {
        // The opening of a session is acknowledged as if it were one byte.
        let expected = Bytes::new(number * 100_000 + 1);
        let all = |socket: &Socket| socket.acked == expected;
        wait_for("the last acknowledgement", || {
            socket(0, &session.flow).filter(all)
        });
    }
    assert_eq!(sockets(0).len(), 8);
}

fn a_socket_with_an_ipv6_name_is_a_flow_too() {
    let _fabric = Fabric::new();
    let listener = within("h0", || {
        TcpListener::bind((Ipv6Addr::UNSPECIFIED, 7000)).expect("bind")
    });
    let client = within("h2", || {
        TcpStream::connect((host(0), 7000)).expect("connect")
    });
    let (_server, _) = listener.accept().expect("accept");
    let flows: Vec<_> = sockets(0).into_iter().map(|socket| socket.flow).collect();
    let [from, to] =
        [client.peer_addr(), client.local_addr()].map(|end| v4(end.expect("connected")));
    assert_eq!(flows.len(), 1);
    assert_eq!((flows[0].source, flows[0].destination), (from, to));
}

const LINK_MBPS: f64 = 100.0;
/// A link carries frames; what is acknowledged is what is in them.
const PAYLOAD: f64 = 1448.0 / 1514.0;

/// Lets no more than `LINK_MBPS` through each uplink of leaf 0.
pub(crate) fn shape() {
    let bucket = ["tbf", "rate", "100mbit", "burst", "20kb", "limit", "200kb"];
    for uplink in ["up0", "up1"] {
        let queue = ["qdisc", "add", "dev", uplink, "root"];
        within("leaf0", || tool("tc", &[&queue[..], &bucket].concat()));
    }
}

/// The rates of the flow that a book reads every half second, in Mb/s.
fn rates(flow: &FlowKey, readings: usize) -> Vec<f64> {
    let mut book = FlowBook::default();
    let mut rates = vec![];
    let mut due = Instant::now();
    while rates.len() < readings {
        due += Duration::from_millis(500);
        wait_for("the next reading", || (Instant::now() >= due).then_some(()));
        let told = book.handle_sockets(clock::now(), &sockets(0));
        rates.extend(told.iter().filter_map(|reading| match reading {
            Reading::Flow(read) if read.flow == *flow => Some(read.rate?.mbps()),
            _ => None,
        }));
    }
    rates
}

fn assert_mean(rates: &[f64]) {
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let expected = LINK_MBPS * PAYLOAD;
    eprintln!("rates {rates:.1?} Mb/s, {expected:.1} expected");
    assert!(
        (mean / expected - 1.0).abs() < 0.1,
        "{rates:?} Mb/s, {expected} expected"
    );
}

fn the_rate_is_what_the_link_lets_through() {
    let _fabric = Fabric::new();
    shape();
    let stream = Stream::start(Session::new(0, 2), 256 << 10, Duration::ZERO);
    let rates = rates(&stream.flow, 6);
    // The first bytes fill buffers.
    assert_mean(&rates[1..]);
    stream.finish();
}

fn a_flow_that_pauses_is_rated_while_it_sends() {
    let _fabric = Fabric::new();
    shape();
    // 2.5 MB take 210 ms, then half a second of computing.
    let stream = Stream::start(Session::new(0, 2), 2_500_000, Duration::from_millis(500));
    let rates = rates(&stream.flow, 8);
    assert_mean(&rates[2..]);
    stream.finish();
}
