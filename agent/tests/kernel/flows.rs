//! Compares what the kernel reports of flows and interfaces with what was really sent.

use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use reweave_agent::clock;
use reweave_agent::flows::FlowSocket;
use reweave_agent_core::flows::{FlowBook, Socket};
use reweave_common::flow::FlowKey;
use reweave_common::sample::Reading;
use reweave_common::units::Bytes;

use crate::fabric::{Fabric, host, tool, uplink_bytes, wait_for, within};
use crate::tests;
use crate::traffic::{Session, Stream, v4};

tests! {
    acknowledged_bytes_are_those_sent,
    ipv6_mapped_socket_is_flow,
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

fn ipv6_mapped_socket_is_flow() {
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
const PAYLOAD_SHARE: f64 = 1448.0 / 1514.0;

/// Lets no more than `LINK_MBPS` through each uplink of leaf 0.
pub(crate) fn shape() {
    let bucket = ["tbf", "rate", "100mbit", "burst", "20kb", "limit", "200kb"];
    for uplink in ["up0", "up1"] {
        let queue = ["qdisc", "add", "dev", uplink, "root"];
        within("leaf0", || tool("tc", &[&queue[..], &bucket].concat()));
    }
}

/// What a book says of the flow's rate every half second, and what the uplinks carried meanwhile, in Mb/s.
struct Rates {
    rates: Vec<f64>,
    carried: Vec<f64>,
}

impl Rates {
    fn of(flow: &FlowKey, readings: usize) -> Self {
        let mut book = FlowBook::default();
        let (mut rates, mut carried) = (vec![], vec![]);
        let mut due = Instant::now();
        let (mut since, mut before) = (due, all_carried());
        while rates.len() < readings {
            due += Duration::from_millis(500);
            wait_for("the next reading", || (Instant::now() >= due).then_some(()));
            let read = book.handle_sockets(clock::now(), &sockets(0));
            let (now, after) = (Instant::now(), all_carried());
            let rate = read.iter().find_map(|reading| match reading {
                Reading::Flow(read) if read.flow == *flow => Some(read.rate?.mbps()),
                _ => None,
            });
            if let Some(rate) = rate {
                rates.push(rate);
                let bits = (after - before) as f64 * 8.0;
                carried.push(bits / 1e6 / (now - since).as_secs_f64());
            }
            (since, before) = (now, after);
        }
        eprintln!("rates {rates:.1?} Mb/s, and {carried:.1?} on the uplinks");
        Self { rates, carried }
    }
}

fn all_carried() -> u64 {
    uplink_bytes().iter().sum()
}

/// The one in the middle, since a reading that falls into the first milliseconds of sending tells of little else than
/// when the sender was awake.
fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A machine that is busy does not fill the link: what goes through is what the link says that it carries.
pub(crate) fn rate_matches_link() {
    let _fabric = Fabric::new();
    shape();
    let stream = Stream::start(Session::new(0, 2), 256 << 10, Duration::ZERO);
    // The first bytes fill buffers.
    let Rates { rates, carried } = Rates::of(&stream.flow, 6);
    let pairs = rates.iter().zip(&carried).skip(1);
    let share = median(pairs.map(|(rate, carried)| rate / carried));
    // An interface counts the headers of large packets once for several.
    let shares = PAYLOAD_SHARE * 0.95..1.05;
    assert!(shares.contains(&share), "{rates:?} Mb/s of {carried:?}");
    let most = LINK_MBPS * PAYLOAD_SHARE * 1.1;
    assert!(
        median(rates.iter().copied().skip(1)) < most,
        "{rates:?} Mb/s, {most} at most"
    );
    stream.finish();
}

/// What it is rated is less while a busy machine keeps it from sending, which is not so each time; it is never more.
pub(crate) fn pausing_flow_is_rated_while_sending() {
    let _fabric = Fabric::new();
    shape();
    // 2.5 MB take 210 ms, then half a second of computing.
    let stream = Stream::start(Session::new(0, 2), 2_500_000, Duration::from_millis(500));
    let expected = LINK_MBPS * PAYLOAD_SHARE;
    let is_rated = (0..5).any(|_| {
        let rates = Rates::of(&stream.flow, 8).rates;
        let share = median(rates.into_iter().skip(2)) / expected;
        assert!(share < 1.1, "{share} of {expected} Mb/s");
        share > 0.9
    });
    assert!(is_rated, "never {expected} Mb/s");
    stream.finish();
}
