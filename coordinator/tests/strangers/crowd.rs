//! Connections to the loopback port that request nothing: however many they are, they keep no operator out.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use super::api::viewers;
use super::house::House;
use super::http::send;
use super::refused::is_warned_of;

/// Some more than the coordinator keeps.
const SILENT_CONNECTIONS: usize = 520;
const NO_WORDS: &[u8] = b"";
const HALF_A_REQUEST: &[u8] = b"GET /api/v1/me HTTP/1.1\r\nHo";

/// Opens connections that say this and no more.
fn crowd(house: &House, words: &[u8]) -> Vec<TcpStream> {
    let connect = |_| {
        let mut stream = TcpStream::connect(house.http).unwrap();
        stream.write_all(words).unwrap();
        stream
    };
    (0..SILENT_CONNECTIONS).map(connect).collect()
}

/// Waits until the coordinator has closed it.
fn expect_closed(mut stream: &TcpStream) {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        // It closes what it has not read.
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        ended => assert_eq!(ended.unwrap(), 0),
    }
}

fn is_open(mut stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let read = stream.read(&mut [0]);
    read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

#[tokio::test]
async fn silent_connections_keep_no_operator_out() {
    let house = House::new();
    let token = viewers(&house).await;
    for words in [NO_WORDS, HALF_A_REQUEST] {
        let held = crowd(&house, words);
        for path in ["/readyz", "/api/v1/me"] {
            assert_eq!(send(&house, "GET", path, &token).code, 200, "{path}");
        }
        expect_closed(held.first().unwrap());
        assert!(is_open(held.last().unwrap()), "the oldest go first");
    }
    is_warned_of(&house, "evicted before it made a request").await;
    let metrics = send(&house, "GET", "/metrics", "").body;
    let counted = "reweave_refused_peers_total{reason=\"crowded\"} ";
    let counted = metrics.lines().find_map(|line| line.strip_prefix(counted));
    assert!(counted.is_some_and(|times| times != "0"), "{counted:?}");
}
