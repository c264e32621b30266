//! Peers that are many, or that say much: the others are served, and memory stays bounded.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::crypto::rustls::QuicClientConfig;
use reweave_common::bandwidth::{Bandwidth, BandwidthReading, Unclear};
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::forwarding_state::ForwardingState;
use reweave_common::instruction::{Ack, Token};
use reweave_common::member::Member;
use reweave_common::moment::Moment;
use reweave_common::operator::Request;
use reweave_common::plan::Generation;
use reweave_common::sample::{FlowReading, Interface, Reading, Sample, TracedPath};
use reweave_common::units::Bytes;
use reweave_link::{Channel, Identity, Role, Session};
use reweave_proto::message::AgentMessage;
use tokio::runtime::Builder;
use tokio::time::{MissedTickBehavior, interval};

use super::house::{House, ask, soon};
use super::timed::timed_value;

const HALF_OPEN_SESSIONS: usize = 5000;
/// What all this may cost.
const MAX_GROWTH_BYTES: u64 = 64 << 20;
const DECISION_COUNT: usize = 200;
const WAIT_TOLERANCE: Duration = Duration::from_millis(50);
/// A few at a time, since a full socket loses some.
const ATTEMPTS_PER_BATCH: usize = 50;

/// The first packets of this many handshakes, none of which will ever go on. They are caught on their way to nowhere,
/// so each is as good as any.
async fn first_packets(count: usize) -> Vec<Vec<u8>> {
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    sink.set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let nowhere = sink.local_addr().unwrap();
    let catching = tokio::task::spawn_blocking(move || {
        let mut packets = Vec::new();
        let mut buffer = [0; 2048];
        while packets.len() < count {
            match sink.recv(&mut buffer) {
                Ok(length) => packets.push(buffer[..length].to_vec()),
                // By a stop of the process, see signal(7).
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("{error}"),
            }
        }
        packets
    });
    let endpoint = quinn::Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let config = quinn::ClientConfig::new(Arc::new(anonymous()));
    let mut rounds = interval(Duration::from_millis(10));
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for _ in 0..20 * count / ATTEMPTS_PER_BATCH {
        if catching.is_finished() {
            break;
        }
        let attempts: Vec<_> = (0..ATTEMPTS_PER_BATCH)
            .map(|_| endpoint.connect_with(config.clone(), nowhere, "x").unwrap())
            .collect();
        // What was begun is sent meanwhile.
        rounds.tick().await;
        drop(attempts);
    }
    catching.await.unwrap()
}

/// No certificate is ever looked at.
fn anonymous() -> QuicClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    config.alpn_protocols = vec![b"reweave".to_vec()];
    config.try_into().unwrap()
}

/// From many sockets, as from many machines.
fn shower(packets: &[Vec<u8>], to: SocketAddr) {
    let sockets: Vec<_> = (0..100)
        .map(|_| UdpSocket::bind("127.0.0.1:0").unwrap())
        .collect();
    for (index, packet) in packets.iter().enumerate() {
        // What the kernel has no room for is lost, as anywhere.
        let _ = sockets[index % sockets.len()].send_to(packet, to);
    }
}

#[tokio::test]
async fn half_open_handshakes_block_no_agent() {
    let house = House::new();
    let agent = house.member(Role::Agent, "h0");
    drop(soon(house.connect(&agent)).await.unwrap());
    let before = house.peak_bytes();
    let packets = soon(first_packets(HALF_OPEN_SESSIONS)).await;
    for some in packets.chunks(HALF_OPEN_SESSIONS / 10) {
        shower(some, house.address);
        shower(some, house.door);
        let began = Instant::now();
        // If each handshake held up the next for its timeout, this would take far longer than `soon` waits.
        drop(soon(knock(&house, &agent)).await);
        println!("in after {:?}", began.elapsed());
    }
    let more = house.peak_bytes().saturating_sub(before);
    println!(
        "{} KiB more for {HALF_OPEN_SESSIONS} half-open handshakes",
        more >> 10
    );
    assert!(more <= MAX_GROWTH_BYTES, "{more} bytes");
    house
        .status_when("they are counted", |status| {
            let mut refused = status.refused.iter();
            refused.any(|one| one.why.contains("did not complete the handshake"))
        })
        .await;
}

/// A machine that is busy may make it knock more than once.
async fn knock(house: &House, member: &Identity) -> Session {
    loop {
        if let Ok(session) = house.connect(member).await {
            return session;
        }
    }
}

fn flow(port: u16) -> FlowKey {
    let end = |host, port| std::net::SocketAddrV4::new([10, 0, 0, host].into(), port);
    FlowKey {
        protocol: Protocol::Tcp,
        source: end(1, port),
        destination: end(2, 5001),
    }
}

/// Of each flow all that an agent may keep a coordinator busy with, and that takes room there.
fn about(port: u16) -> [Reading; 4] {
    let flow = flow(port);
    let routers = vec![Some([10, 9, 9, 9].into()); 255];
    let (bytes, taken) = (Bytes::new(u64::from(port)), Some(routers.clone()));
    [
        Reading::Flow(FlowReading {
            flow,
            bytes,
            rate: None,
            rtt: None,
            retransmits: None,
        }),
        Reading::Path(TracedPath {
            flow,
            routers,
            confirmed: true,
        }),
        Reading::Bandwidth(BandwidthReading {
            flow,
            bandwidth: Bandwidth::Unknown {
                why: Unclear::Few,
                trains: 1,
            },
            routers: taken,
        }),
        Reading::FlowEnded(flow),
    ]
}

/// As much as it may say at once, over and over, on both channels: of flows that are its own.
async fn flood(session: &Session) {
    let own = Reading::Interface(Interface {
        name: "eth0".to_owned(),
        addresses: vec![*flow(0).source.ip()],
        gateways: vec![],
    });
    let about = (0..700).flat_map(about);
    let sample = AgentMessage::Sample(Sample {
        taken: Moment::default(),
        readings: std::iter::once(own).chain(about).collect(),
    });
    let ack = AgentMessage::Ack(Ack {
        generation: Generation(1),
        token: Token(1),
        outcome: Ok(ForwardingState::default()),
    });
    let samples = async { while session.send(Channel::Telemetry, &sample).await.is_ok() {} };
    let acks = async { while session.send(Channel::Commands, &ack).await.is_ok() {} };
    tokio::join!(samples, acks);
}

/// How long each of many decisions takes, sorted.
async fn waits(operator: &Session) -> Vec<Duration> {
    let mut waits = Vec::new();
    let mut pace = interval(Duration::from_millis(5));
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for _ in 0..DECISION_COUNT {
        let began = Instant::now();
        let member = Member::new(Role::Viewer, "absent");
        ask(operator, &Request::Revoke { member }).await;
        waits.push(began.elapsed());
        pace.tick().await;
    }
    waits.sort();
    waits
}

/// How long nearly all of them take at most.
async fn p99(what: &str, operator: &Session) -> Duration {
    let waits = waits(operator).await;
    let [p50, p99] = [50, 99].map(|percent| waits[DECISION_COUNT * percent / 100 - 1]);
    println!("{what}: p50 {p50:?}, p99 {p99:?}");
    p99
}

/// An agent is heard no faster than it may speak. Exact figures are for a bench: here are others on the machine, too.
#[test]
fn timed_agent_flood_keeps_decisions_fast() {
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    let house = House::new();
    let mut hostile = ["h0", "h1", "h2"].iter();
    let measure = || {
        let name = hostile.next().expect("one for each attempt");
        runtime.block_on(beside_a_flood(&house, name))
    };
    timed_value(
        "p99 of decisions, alone and beside a flood",
        measure,
        |[alone, beside]| *beside <= 5 * *alone + WAIT_TOLERANCE,
    );
}

/// How long nearly all decisions take at most, before and while this agent floods.
async fn beside_a_flood(house: &House, hostile: &str) -> [Duration; 2] {
    let operator = house.operator().await;
    let hostile = house.member(Role::Agent, hostile);
    let alone = p99("alone", &operator).await;
    let before = house.peak_bytes();
    let session = soon(house.connect(&hostile)).await.unwrap();
    let flooding = tokio::spawn(async move { flood(&session).await });
    let beside = p99("beside a flood", &operator).await;
    let more = house.peak_bytes().saturating_sub(before);
    println!("{} KiB more", more >> 10);
    assert!(more <= MAX_GROWTH_BYTES, "{more} bytes");
    assert!(
        !flooding.is_finished(),
        "it is slowed down and not thrown out"
    );
    flooding.abort();
    [alone, beside]
}
