//! Thousands knock, and are not there any more when the door opens.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::{ClientConfig, Connection, Endpoint, EndpointConfig};

use super::cluster::{Cluster, listen, soon};
use crate::verify::Verdict;
use crate::{Identity, Role, connect, tls, transport};

const KNOCKS: usize = 5000;
/// They come from so many addresses of this machine.
const PLACES: u8 = 50;
/// Each that is let in costs some tens of KiB, and few are.
const MOST_BYTES: usize = 64 << 20;

fn knocker(ours: &Identity) -> ClientConfig {
    let crypto = tls::client(ours, Role::Coordinator, Arc::<Verdict>::default()).unwrap();
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(transport::opening_side());
    config
}

/// The first packet of a session that never gets any further.
fn knock(endpoint: &mut Endpoint, config: &ClientConfig, at: SocketAddr) -> Vec<u8> {
    let now = Instant::now();
    let begun = endpoint.connect(now, config.clone(), at, tls::SERVER_NAME);
    let (_, mut connection): (_, Connection) = begun.unwrap();
    let mut packet = Vec::new();
    connection.poll_transmit(now, 1, &mut packet).unwrap();
    packet
}

fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let resident: usize = pages.split(' ').nth(1).unwrap().parse().unwrap();
    resident * 4096
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_that_knock_and_leave_keep_nobody_out() {
    let cluster = Cluster::new("lab");
    let (mut listener, address) = listen(&cluster.coordinator());
    let (agent, config) = (cluster.agent(), knocker(&cluster.member(Role::Agent, "h1")));
    let sockets = (0..PLACES).map(|place| UdpSocket::bind((Ipv4Addr::new(127, 1, 0, 1 + place), 0)));
    let sockets: Vec<_> = sockets.collect::<Result<_, _>>().unwrap();
    let before = resident_bytes();

    let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true);
    let packets = (0..KNOCKS).map(|_| knock(&mut endpoint, &config, address));
    let packets: Vec<_> = packets.collect();
    let own = resident_bytes() - before;
    let accepting = tokio::spawn(async move {
        loop {
            // Whoever left in the middle is no session; the first that is one ends this.
            if let Some(Ok(session)) = listener.accept().await {
                return (session, listener);
            }
        }
    });
    for (packet, socket) in packets.iter().zip(sockets.iter().cycle()) {
        socket.send_to(packet, address).unwrap();
        tokio::task::yield_now().await;
    }
    let session = soon(connect(&[address], &agent, Role::Coordinator)).await;
    assert!(session.is_ok(), "{:?}", session.err());
    let (accepted, _listener) = soon(accepting).await.unwrap();
    assert_eq!(accepted.peer().name, "h0");
    let more = resident_bytes().saturating_sub(before + own);
    println!("{} KiB more", more >> 10);
    assert!(more < MOST_BYTES, "{more} bytes");
}
