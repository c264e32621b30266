//! The messages of two helpers over TCP, so that their queue pairs find each other: lines of JSON.
//!
//! TCP is used since a queue pair needs its peer's number before anything can be sent to it. An address that has
//! completed TCP's handshake can hardly be forged, so the roster identifies hosts as reliably as for probes. The
//! responder speaks first, reads nothing from an unknown host, and lets a peer direct no traffic to a third host: the
//! address of a queue pair must be that of the TCP peer. A peer may write only to a buffer that belongs to one
//! measurement.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use reweave_common::probing::Stamps;
use reweave_common::rdma::{Gid, GidKind, Transport};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub const MEETING_VERSION: u16 = 1;
/// The limit is larger than the report of the longest measurement.
const MAX_LINE_BYTES: u64 = 64 << 10;
/// Neither side computes while the other one waits.
const PEER_TIMEOUT: Duration = Duration::from_secs(10);
/// A measurement of latency needs no more messages than this.
pub const MAX_MESSAGES: u32 = 1000;
/// A measurement with more data would be a load on the network.
pub const MAX_TEST_BYTES: u64 = 1 << 30;

/// The first line, of the one who answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    pub version: u16,
    /// Absent where the other one may go on.
    pub refused: Option<String>,
}

/// The second line, of the one who measures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    pub task: Task,
    pub end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// The helper is to send every message back.
    Echo { transport: Transport, count: u32 },
    /// The helper is to let its memory be written to.
    Take { bytes: u64 },
}

/// The third line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    Ready { end: End, region: Option<Region> },
    Unable { because: String },
}

/// One end of what two queue pairs speak over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    pub queue_pair: u32,
    /// The number of the first packet that it sends.
    pub first_packet: u32,
    /// What datagrams to it must bear.
    pub key: u32,
    pub gid: [u8; 16],
    pub mtu_bytes: u32,
}

/// Memory that the other end may write to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    pub address: u64,
    pub key: u32,
    pub bytes: u64,
}

/// The last line of the one who measures: it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closing {}

/// The last line of all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// For how long each message stayed here, by its number; absent where it did not come, or its answer was not
    /// seen to leave.
    pub held_ns: Vec<Option<u64>>,
    pub stamps: Stamps,
}

#[derive(Debug, Error)]
pub enum MeetingError {
    #[error("cannot reach the helper of {peer} on TCP port {port}; is an agent running there?")]
    Connect {
        peer: Ipv4Addr,
        port: u16,
        source: io::Error,
    },
    #[error("{peer} refuses: {because}")]
    Refused { peer: Ipv4Addr, because: String },
    #[error(
        "{peer} speaks protocol version {theirs}, this host {MEETING_VERSION}: upgrade the older \
         one"
    )]
    Version { peer: Ipv4Addr, theirs: u16 },
    #[error("{peer} requests an unknown measurement")]
    Excessive { peer: Ipv4Addr },
    #[error("{peer} claims an address that is not its own")]
    Foreign { peer: Ipv4Addr },
    #[error("the connection to {peer} broke")]
    Broken { peer: Ipv4Addr, source: io::Error },
    #[error("invalid message from {peer}")]
    Garbled {
        peer: Ipv4Addr,
        source: serde_json::Error,
    },
}

/// A connection to the helper of another host.
pub struct Line {
    stream: BufReader<TcpStream>,
    peer: Ipv4Addr,
}

impl End {
    fn is_of(&self, peer: Ipv4Addr) -> bool {
        let gid = Gid {
            index: 0,
            kind: GidKind::RoceV2,
            bytes: self.gid,
        };
        gid.address() == Some(peer)
    }
}

impl Task {
    fn is_modest(self) -> bool {
        match self {
            Self::Echo { count, .. } => (1..=MAX_MESSAGES).contains(&count),
            Self::Take { bytes } => (1..=MAX_TEST_BYTES).contains(&bytes),
        }
    }
}

fn set_options(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PEER_TIMEOUT))?;
    stream.set_write_timeout(Some(PEER_TIMEOUT))
}

/// Without waiting for anything.
fn peek(stream: &TcpStream) -> io::Result<usize> {
    stream.set_nonblocking(true)?;
    let peeked = stream.peek(&mut [0]);
    stream.set_nonblocking(false)?;
    peeked
}

impl Line {
    /// Connects to the helper of a host, which must allow measurements.
    pub fn call(peer: Ipv4Addr, port: u16) -> Result<Self, MeetingError> {
        let failed = |source| MeetingError::Connect { peer, port, source };
        let stream =
            TcpStream::connect_timeout(&(peer, port).into(), PEER_TIMEOUT).map_err(failed)?;
        let mut line = Self::over(stream, peer)?;
        let Greeting { version, refused } = line.hear()?;
        match refused {
            Some(because) => Err(MeetingError::Refused { peer, because }),
            None if version != MEETING_VERSION => Err(MeetingError::Version {
                peer,
                theirs: version,
            }),
            None => Ok(line),
        }
    }

    /// Accepts the connection of a host that called.
    pub fn over(stream: TcpStream, peer: Ipv4Addr) -> Result<Self, MeetingError> {
        set_options(&stream).map_err(|source| MeetingError::Broken { peer, source })?;
        Ok(Self {
            stream: BufReader::new(stream),
            peer,
        })
    }

    pub fn peer(&self) -> Ipv4Addr {
        self.peer
    }

    /// The address that this host speaks from.
    pub fn own_address(&self) -> Result<Ipv4Addr, MeetingError> {
        match self.stream.get_ref().local_addr() {
            Ok(SocketAddr::V4(own)) => Ok(*own.ip()),
            Ok(SocketAddr::V6(_)) => Ok(Ipv4Addr::UNSPECIFIED),
            Err(source) => Err(self.broken(source)),
        }
    }

    pub fn say(&mut self, what: &impl Serialize) -> Result<(), MeetingError> {
        let peer = self.peer;
        let text = serde_json::to_string(what);
        let text = text.map_err(|source| MeetingError::Garbled { peer, source })?;
        let mut stream = self.stream.get_ref();
        let said = stream.write_all(format!("{text}\n").as_bytes());
        said.map_err(|source| self.broken(source))
    }

    pub fn hear<T: DeserializeOwned>(&mut self) -> Result<T, MeetingError> {
        let peer = self.peer;
        let mut text = String::new();
        let heard = (&mut self.stream).take(MAX_LINE_BYTES).read_line(&mut text);
        match heard {
            Ok(0) => Err(self.broken(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => {
                serde_json::from_str(&text).map_err(|source| MeetingError::Garbled { peer, source })
            }
            Err(source) => Err(self.broken(source)),
        }
    }

    /// What the caller wants; it must be modest, and about its own queue pair.
    pub fn hear_opening(&mut self) -> Result<Opening, MeetingError> {
        let opening: Opening = self.hear()?;
        let peer = self.peer;
        match () {
            () if !opening.task.is_modest() => Err(MeetingError::Excessive { peer }),
            () if !opening.end.is_of(peer) => Err(MeetingError::Foreign { peer }),
            () => Ok(opening),
        }
    }

    /// The end of the one who was called.
    pub fn hear_reply(&mut self) -> Result<(End, Option<Region>), MeetingError> {
        let peer = self.peer;
        match self.hear()? {
            Reply::Ready { end, region } if end.is_of(peer) => Ok((end, region)),
            Reply::Ready { .. } => Err(MeetingError::Foreign { peer }),
            Reply::Unable { because } => Err(MeetingError::Refused { peer, because }),
        }
    }

    /// Whether the other one has said something, or is gone.
    pub fn has_word(&self) -> bool {
        let stream = self.stream.get_ref();
        !self.stream.buffer().is_empty()
            || !matches!(peek(stream), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    fn broken(&self, source: io::Error) -> MeetingError {
        MeetingError::Broken {
            peer: self.peer,
            source,
        }
    }
}

/// IPv4 also where a socket of IPv6 says it in its own way.
pub fn v4(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(address) => address.to_ipv4_mapped(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    const LOCAL_ADDRESS: Ipv4Addr = Ipv4Addr::LOCALHOST;

    fn end(address: Ipv4Addr) -> End {
        End {
            queue_pair: 17,
            first_packet: 1,
            key: 2,
            gid: address.to_ipv6_mapped().octets(),
            mtu_bytes: 1024,
        }
    }

    /// What the one who is called makes of these lines, and the caller of its greeting.
    fn met(
        greeting: &Greeting,
        lines: &[String],
    ) -> (Result<Opening, MeetingError>, Option<MeetingError>) {
        let listener = TcpListener::bind((LOCAL_ADDRESS, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let lines = lines.concat();
        let caller = thread::spawn(move || match Line::call(LOCAL_ADDRESS, port) {
            Ok(line) => {
                let _ = line.stream.get_ref().write_all(lines.as_bytes());
                None
            }
            Err(error) => Some(error),
        });
        let (stream, _) = listener.accept().unwrap();
        let mut line = Line::over(stream, LOCAL_ADDRESS).unwrap();
        line.say(greeting).unwrap();
        let opening = line.hear_opening();
        (opening, caller.join().unwrap())
    }

    fn welcome() -> Greeting {
        Greeting {
            version: MEETING_VERSION,
            refused: None,
        }
    }

    fn opening(task: Task, address: Ipv4Addr) -> String {
        let end = end(address);
        let opening = serde_json::to_string(&Opening { task, end }).unwrap();
        opening + "\n"
    }

    fn echo(count: u32) -> Task {
        let transport = Transport::Ud;
        Task::Echo { transport, count }
    }

    #[test]
    fn valid_caller_is_accepted() {
        let (heard, refused) = met(&welcome(), &[opening(echo(10), LOCAL_ADDRESS)]);
        assert_eq!(heard.unwrap().task, echo(10));
        assert!(refused.is_none(), "{refused:?}");
    }

    #[test]
    fn third_party_address_is_refused() {
        let victim = Ipv4Addr::new(10, 0, 0, 9);
        let (heard, _) = met(&welcome(), &[opening(echo(10), victim)]);
        assert!(
            matches!(heard, Err(MeetingError::Foreign { .. })),
            "{heard:?}"
        );
    }

    #[test]
    fn excessive_task_is_refused() {
        for task in [
            echo(0),
            echo(MAX_MESSAGES + 1),
            Task::Take {
                bytes: MAX_TEST_BYTES + 1,
            },
        ] {
            let (heard, _) = met(&welcome(), &[opening(task, LOCAL_ADDRESS)]);
            assert!(
                matches!(heard, Err(MeetingError::Excessive { .. })),
                "{heard:?}"
            );
        }
    }

    #[test]
    fn garbled_opening_is_refused() {
        for text in ["hello\n".to_owned(), "x".repeat(1 << 20), String::new()] {
            let (heard, _) = met(&welcome(), &[text]);
            let error = heard.expect_err("no opening");
            assert!(
                matches!(
                    error,
                    MeetingError::Garbled { .. } | MeetingError::Broken { .. }
                ),
                "{error:?}"
            );
        }
    }

    #[test]
    fn refusal_carries_its_reason() {
        let refused = Some("this host is not on the allow-list".to_owned());
        let (_, message) = met(
            &Greeting {
                version: MEETING_VERSION,
                refused,
            },
            &[],
        );
        let message = message.expect("an error").to_string();
        assert_eq!(
            message,
            "127.0.0.1 refuses: this host is not on the allow-list"
        );
        let (_, message) = met(
            &Greeting {
                version: 2,
                refused: None,
            },
            &[],
        );
        assert!(
            matches!(message, Some(MeetingError::Version { theirs: 2, .. })),
            "{message:?}"
        );
    }

    #[test]
    fn waiting_line_is_noticed() {
        let listener = TcpListener::bind((LOCAL_ADDRESS, 0)).unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let line = Line::over(listener.accept().unwrap().0, LOCAL_ADDRESS).unwrap();
        assert!(!line.has_word());
        stream.write_all(b"{}\n").unwrap();
        let patience = std::time::Instant::now() + PEER_TIMEOUT;
        while !line.has_word() {
            assert!(std::time::Instant::now() < patience, "nothing comes");
            thread::yield_now();
        }
    }
}
