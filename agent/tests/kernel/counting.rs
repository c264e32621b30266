//! The traffic matrix against what was sent and what interfaces counted, by each way of counting.

use std::collections::BTreeSet;
use std::time::Duration;

use reweave_agent::clock;
use reweave_agent::flows::FlowSocket;
use reweave_agent::host::Host;
use reweave_agent::netlink::{Link, RouteSocket};
use reweave_agent::traffic::{TrafficRead, TrafficReader, wires};
use reweave_agent_core::links::LinkBook;
use reweave_agent_core::traffic::{Direction, FlowCount};
use reweave_common::flow::FlowKey;
use reweave_common::sample::{HostReading, Reading};
use reweave_common::traffic::TrafficSource;

use crate::commands::unprivileged;
use crate::fabric::{Fabric, host, ip_in, wait_for, within};
use crate::flows::retransmits;
use crate::tests;
use crate::traffic::{Datagrams, Session};

tests! {
    ebpf_counts_match_interface_counters needs "bpf",
    large_packets_count_wire_bytes needs "bpf",
    datagrams_have_flows_too needs "bpf",
    nftables_counts_match_interface_counters needs "nft",
    sockets_report_acknowledged_bytes,
    forbidden_counting_is_refused_with_reason needs "nft",
    vanished_interface_is_named needs "bpf",
}

/// What h0 is read by.
struct Reader(TrafficReader);

impl Reader {
    /// Begins to count.
    fn open(best: TrafficSource) -> Self {
        let mut reader = Self(within("h0", || TrafficReader::open(best)));
        assert_eq!(reader.0.source(), best, "{:?}", reader.0.refused());
        reader.read();
        reader
    }

    fn read(&mut self) -> TrafficRead {
        within("h0", || {
            let wires = wires(&links());
            let sockets = FlowSocket::open().and_then(|mut flows| flows.sockets());
            let sockets = sockets.expect("socket diagnostics");
            let own = BTreeSet::from([host(0)]);
            self.0.read(clock::now(), &wires, &own, &sockets)
        })
    }

    /// Bytes sent to h2 and received from it.
    fn exchanged(&mut self) -> [u64; 2] {
        let peers = self.read().traffic.peers;
        let peer = peers.iter().find(|it| it.peer == host(2));
        let peer = peer.expect("h2 is a peer");
        [peer.sent, peer.received].map(|volume| volume.bytes.count())
    }

    fn flow(&mut self, flow: &FlowKey) -> Option<FlowCount> {
        let flows = self.read().flows;
        let sent = |it: &&FlowCount| it.flow == *flow && it.direction == Direction::Sent;
        flows.iter().find(sent).copied()
    }
}

fn links() -> Vec<Link> {
    let links = RouteSocket::open().and_then(|mut route| route.links());
    links.expect("interfaces")
}

/// What eth0 of h0 has counted.
fn interface_bytes() -> [u64; 2] {
    let links = within("h0", links);
    let eth0 = links.iter().find(|link| link.count.interface == "eth0");
    let count = &eth0.expect("it is there").count;
    [count.sent.count(), count.received.count()]
}

/// Packets as they go on a wire, which interfaces count otherwise when they are large.
fn without_large_packets() {
    for node in ["h0", "h2"] {
        ip_in(node, &["link", "set", "eth0", "gso_max_segs", "1"]);
    }
}

/// What a packet carries at most, beside its headers.
const SEGMENT_BYTES: u64 = 1448;
/// Interfaces count what hosts say to find each other, too.
const MAX_NON_IPV4_BYTES: u64 = 500;

fn assert_counts_like_the_interface(reader: &mut Reader, before: [u64; 2]) {
    let counted = reader.exchanged();
    let after = interface_bytes();
    for way in [0, 1] {
        let truth = after[way] - before[way];
        assert!(
            counted[way].abs_diff(truth) < truth / 100 + MAX_NON_IPV4_BYTES,
            "counted {counted:?}, the interface {before:?} {after:?}"
        );
    }
}

fn ebpf_counts_match_interface_counters() {
    let _fabric = Fabric::new();
    without_large_packets();
    let mut reader = Reader::open(TrafficSource::Ebpf);
    let before = interface_bytes();
    let mut session = Session::new(0, 2);
    session.transfer(3_000_000);
    assert_counts_like_the_interface(&mut reader, before);
    Session::new(2, 0).transfer(500_000);
    assert_counts_like_the_interface(&mut reader, before);
}

fn large_packets_count_wire_bytes() {
    let _fabric = Fabric::new();
    let mut reader = Reader::open(TrafficSource::Ebpf);
    let mut session = Session::new(0, 2);
    session.transfer(3_000_000);
    let count = reader.flow(&session.flow).expect("the flow was counted");
    let packets = count.volume.packets.expect("packets are counted");
    // What is sent again is on the wire twice, and as many segments of it as the kernel tells.
    let again = retransmits(0, &session.flow) * SEGMENT_BYTES;
    // Ethernet, IP, and TCP with its time stamps; the opening has more options.
    let headers = count.volume.bytes.count() - 3_000_000;
    assert!(
        (packets * 66..packets * 66 + 50 + again).contains(&headers),
        "{count:?}, {again} bytes sent again"
    );
    assert!(packets >= 3_000_000 / SEGMENT_BYTES, "{count:?}");
}

fn datagrams_have_flows_too() {
    let _fabric = Fabric::new();
    let mut reader = Reader::open(TrafficSource::Ebpf);
    let datagrams = Datagrams::start(0, 2);
    let flow = datagrams.flow;
    let busy = wait_for("some of them", || {
        let sockets = reader.read().datagrams;
        let socket = sockets.into_iter().find(|socket| socket.flow == flow)?;
        socket.busy.filter(|busy| *busy > Duration::from_millis(50))
    });
    let (sent, _) = datagrams.finish();
    let count = reader.flow(&flow).expect("the flow was counted");
    // Ethernet, IP and UDP around each number, and the last one says that it is the last.
    assert_eq!(count.volume.packets, Some(sent + 1));
    assert_eq!(count.volume.bytes.count(), (sent + 1) * (42 + 8));
    assert!(count.busy >= Some(busy), "{count:?}");
}

fn nftables_counts_match_interface_counters() {
    let _fabric = Fabric::new();
    without_large_packets();
    let mut reader = Reader::open(TrafficSource::Nftables);
    let before = interface_bytes();
    let mut session = Session::new(0, 2);
    session.transfer(3_000_000);
    assert_counts_like_the_interface(&mut reader, before);
    let count = reader.flow(&session.flow).expect("the flow was counted");
    assert!(count.volume.bytes.count() > 3_000_000, "{count:?}");
    drop(within("h0", || reader));
}

fn sockets_report_acknowledged_bytes() {
    let _fabric = Fabric::new();
    let mut reader = Reader::open(TrafficSource::Sockets);
    let mut session = Session::new(0, 2);
    session.transfer(3_000_000);
    // The opening counts as a byte.
    let acknowledged = |[sent, received]: [u64; 2]| (sent == 3_000_001).then_some(received);
    let received = wait_for("the last acknowledgement", || {
        acknowledged(reader.exchanged())
    });
    assert_eq!(received, 0);
}

fn forbidden_counting_is_refused_with_reason() {
    let _fabric = Fabric::new();
    let asked = ["traffic", "--over-ms", "200", "--output", "json"];
    let read = unprivileged("h0", &asked);
    let words = String::from_utf8_lossy(&read.stderr);
    assert!(read.status.success(), "{words}");
    assert!(words.contains("not counted by eBPF: "), "{words}");
    assert!(words.contains("not counted by nftables: "), "{words}");
    let answer: serde_json::Value = serde_json::from_slice(&read.stdout).expect("one JSON object");
    assert_eq!(answer["source"], "sockets");
}

fn vanished_interface_is_named() {
    let _fabric = Fabric::new();
    let mut reader = Reader::open(TrafficSource::Ebpf);
    let mut book = LinkBook::default();
    let mut host = within("h0", || Host::open(Duration::ZERO)).expect("drivers can be asked");
    let mut vanished = || {
        let links = within("h0", links);
        host.readings(clock::now(), &links, &Default::default());
        let counts = links.into_iter().map(|link| link.count).collect();
        let said = book.handle_links(clock::now(), counts).into_iter();
        let named = said.filter_map(|reading| match reading {
            Reading::Host(HostReading::Vanished { interface, .. }) => Some(interface),
            _ => None,
        });
        named.collect::<Vec<_>>()
    };
    ip_in(
        "h0",
        &[
            "link", "add", "extra", "type", "veth", "peer", "name", "other",
        ],
    );
    assert_eq!(vanished(), [""; 0]);
    reader.read();
    ip_in("h0", &["link", "del", "extra"]);
    assert_eq!(vanished(), ["extra", "other"]);
    let mut session = Session::new(0, 2);
    session.transfer(100_000);
    assert!(reader.exchanged()[0] > 100_000);
}
