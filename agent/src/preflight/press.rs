//! The sending side of a load test.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use reweave_agent_core::preflight::{
    PACKET_BYTES, PreflightMessage, PreflightRefusal, Press, SETUP_TIMEOUT,
};
use reweave_common::units::{Bytes, Rate};
use serde::Serialize;
use thiserror::Error;

use super::{BUFFER_BYTES, RECEIPT_BYTES};
use crate::eintr;

const ANSWER_TIMEOUT: Duration = Duration::from_millis(300);
const MAX_TRIES: usize = 3;

#[derive(Debug, Error)]
pub enum PressError {
    #[error("cannot ask {host}")]
    Ask { host: Ipv4Addr, source: io::Error },
    #[error(
        "{host} does not answer: is an agent there, or reweave-agent probe --respond, and does its roster have \
         this host?"
    )]
    Silent { host: Ipv4Addr },
    #[error("{host} refuses a load test {}", why(*.refusal))]
    Unwilling {
        host: Ipv4Addr,
        refusal: PreflightRefusal,
    },
    #[error("a stream to {host} broke")]
    Stream { host: Ipv4Addr, source: io::Error },
}

fn why(refusal: PreflightRefusal) -> &'static str {
    match refusal {
        PreflightRefusal::Training => "while a job trains on it; --force tests anyway",
        PreflightRefusal::Pressed => "now: another test is running",
        PreflightRefusal::TooMuch => "of this duration or number of streams",
        PreflightRefusal::Unable => "now: it cannot open a port",
    }
}

/// The result of a load test, as its receiver reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Pressed {
    /// The payload rate, without headers.
    #[serde(rename = "rate_bits_per_s")]
    pub rate: Rate,
    #[serde(rename = "received_bytes")]
    pub received: Bytes,
    pub took_ns: u64,
}

/// Sends to the agent at `to` as fast as possible.
pub fn press(to: SocketAddrV4, asked: Press) -> Result<Pressed, PressError> {
    let host = *to.ip();
    let (key, port) = ask(to, asked)?;
    let failed = |source| PressError::Stream { host, source };
    let time = Duration::from_secs(u64::from(asked.seconds));
    let stream = || send(SocketAddrV4::new(host, port), key, time);
    let reports = thread::scope(|scope| {
        let streams: Vec<_> = (0..asked.streams).map(|_| scope.spawn(stream)).collect();
        let gone = |_| io::Error::other("one of its threads ended early");
        let join = |it: thread::ScopedJoinHandle<'_, _>| it.join().map_err(gone).flatten();
        streams.into_iter().map(join).collect::<Result<Vec<_>, _>>()
    });
    let reports = reports.map_err(failed)?;
    let received = reports.iter().map(|(bytes, _)| *bytes).sum();
    let took_ns = reports.iter().map(|(_, took)| *took).max().unwrap_or(0);
    Ok(Pressed {
        rate: Rate::mean(Bytes::new(received), Duration::from_nanos(took_ns)),
        received: Bytes::new(received),
        took_ns,
    })
}

fn ask(to: SocketAddrV4, asked: Press) -> Result<(u64, u16), PressError> {
    let host = *to.ip();
    let failed = |source| PressError::Ask { host, source };
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(failed)?;
    socket.connect(to).map_err(failed)?;
    socket
        .set_read_timeout(Some(ANSWER_TIMEOUT))
        .map_err(failed)?;
    let session = rand::random();
    let question = PreflightMessage::Ask(asked).to_bytes(session);
    for tried in 0..MAX_TRIES {
        if socket.send(&question).is_err() {
            break;
        }
        let mut bytes = [0; PACKET_BYTES];
        let answer = eintr::retry(|| socket.recv(&mut bytes)).ok();
        let answer = answer.and_then(|length| PreflightMessage::read(&bytes[..length]));
        match answer.filter(|(it, _)| *it == session) {
            Some((_, PreflightMessage::Grant { key, port })) => return Ok((key, port)),
            // The previous test may be about to end.
            Some((_, PreflightMessage::Refuse(PreflightRefusal::Pressed)))
                if tried + 1 < MAX_TRIES =>
            {
                thread::sleep(ANSWER_TIMEOUT);
            }
            Some((_, PreflightMessage::Refuse(refusal))) => {
                return Err(PressError::Unwilling { host, refusal });
            }
            _ => {}
        }
    }
    Err(PressError::Silent { host })
}

/// One stream, and the receiver's result.
fn send(to: SocketAddrV4, key: u64, time: Duration) -> io::Result<(u64, u64)> {
    let mut stream = TcpStream::connect_timeout(&to.into(), SETUP_TIMEOUT)?;
    stream.set_write_timeout(Some(SETUP_TIMEOUT))?;
    stream.set_read_timeout(Some(SETUP_TIMEOUT * 2))?;
    stream.write_all(&key.to_be_bytes())?;
    let buffer = vec![0; BUFFER_BYTES];
    let end = Instant::now() + time;
    while Instant::now() < end {
        stream.write_all(&buffer)?;
    }
    stream.shutdown(Shutdown::Write)?;
    let mut values = [0; RECEIPT_BYTES];
    stream.read_exact(&mut values)?;
    let [bytes, took] = [0, 8].map(|at| {
        let part = values[at..].first_chunk().copied().unwrap_or_default();
        u64::from_be_bytes(part)
    });
    Ok((bytes, took))
}
