//! The measurements, over a connected queue pair.

use std::thread;
use std::time::{Duration, Instant};

use reweave_common::rdma::Transport;

use crate::clock::Stamp;
use crate::error::RdmaError;
use crate::meeting::Region;
use crate::verbs::{Completion, Done, Pair};

/// What has not come back by then is lost.
const MESSAGE_TIMEOUT: Duration = Duration::from_millis(500);
/// What a write may take, however slow the network.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// A longer wait yields the processor.
const SPIN_TIMEOUT: Duration = Duration::from_millis(20);
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// No measurement takes longer.
const MEASUREMENT_TIMEOUT: Duration = Duration::from_secs(60);
/// Writes that are under way at once.
const MAX_CONCURRENT_WRITES: u64 = 16;
/// The most that one write carries.
pub(crate) const MAX_WRITE_BYTES: usize = 64 << 10;

type Message = [u8; 16];

fn message(number: u32) -> Message {
    let mut message = [0x5a; 16];
    message[..4].copy_from_slice(&number.to_be_bytes());
    message
}

fn number(message: Message) -> u32 {
    let [a, b, c, d, ..] = message;
    u32::from_be_bytes([a, b, c, d])
}

/// Whether a completion says when a message left. Of a connection it says when it was acknowledged.
fn tells_departure(pair: &Pair, transport: Transport) -> bool {
    transport == Transport::Ud && pair.queue().clock().is_some()
}

/// How long each message was under way, there and back with the stay there; by its number.
pub(crate) fn ping(
    pair: &Pair,
    transport: Transport,
    count: u32,
) -> Result<Vec<Option<Duration>>, RdmaError> {
    (0..count).map(|n| ping_once(pair, transport, n)).collect()
}

fn ping_once(pair: &Pair, transport: Transport, n: u32) -> Result<Option<Duration>, RdmaError> {
    let began = Instant::now();
    let (mut left, mut sent, mut back) = (Stamp::now(), false, None);
    pair.send(message(n))?;
    while !sent || back.is_none() {
        match pair.queue().poll()? {
            Some(Completion {
                done: Done::Sent,
                stamp,
            }) => {
                sent = true;
                if tells_departure(pair, transport) {
                    left = stamp;
                }
            }
            Some(Completion {
                done: Done::Received(slot),
                stamp,
            }) => {
                if number(pair.message(slot)) == n {
                    back = Some(arrival(pair, transport, stamp));
                }
                pair.receive(slot)?;
            }
            None if began.elapsed() > MESSAGE_TIMEOUT => return Ok(None),
            None => std::hint::spin_loop(),
        }
    }
    let clock = pair.queue().clock();
    Ok(back.and_then(|back| left.until(back, clock)))
}

/// By the clock that the departure is known by.
fn arrival(pair: &Pair, transport: Transport, stamp: Stamp) -> Stamp {
    if tells_departure(pair, transport) {
        stamp
    } else {
        Stamp::now()
    }
}

/// Sends messages back until `stop`, or until nothing can come any longer. For how long each stayed, by its number.
pub(crate) fn echo(
    pair: &Pair,
    transport: Transport,
    count: u32,
    stop: impl Fn() -> bool,
) -> Result<Vec<Option<Duration>>, RdmaError> {
    let mut held = vec![None; count as usize];
    let mut arrived: Option<(usize, Stamp)> = None;
    let (began, mut heard) = (Instant::now(), Instant::now());
    while began.elapsed() < MEASUREMENT_TIMEOUT {
        match pair.queue().poll()? {
            Some(Completion {
                done: Done::Received(slot),
                stamp,
            }) => {
                heard = Instant::now();
                let came = arrival(pair, transport, stamp);
                let message: Message = pair.message(slot);
                pair.receive(slot)?;
                let place = number(message) as usize;
                if place < held.len() {
                    held[place] = came.until(Stamp::now(), None);
                    arrived = Some((place, came));
                    pair.send(message)?;
                }
            }
            Some(Completion {
                done: Done::Sent,
                stamp,
            }) => {
                if let Some((place, came)) =
                    arrived.take().filter(|_| tells_departure(pair, transport))
                {
                    held[place] = came.until(stamp, pair.queue().clock());
                }
            }
            None if heard.elapsed() < SPIN_TIMEOUT => std::hint::spin_loop(),
            None if stop() => break,
            None => thread::park_timeout(POLL_INTERVAL),
        }
    }
    Ok(held)
}

/// While others write, until `stop`: the NIC does all by itself.
pub(crate) fn wait(stop: impl Fn() -> bool) {
    let began = Instant::now();
    while began.elapsed() < MEASUREMENT_TIMEOUT && !stop() {
        thread::park_timeout(POLL_INTERVAL);
    }
}

/// Writes this many bytes, and says how long it took until the last was acknowledged.
pub(crate) fn write(pair: &Pair, to: &Region, bytes: u64) -> Result<Option<Duration>, RdmaError> {
    let most = to.bytes.min(MAX_WRITE_BYTES as u64);
    let (mut left, mut under_way) = (bytes, 0);
    let mut began = Instant::now();
    let start = began;
    while left > 0 || under_way > 0 {
        while left > 0 && under_way < MAX_CONCURRENT_WRITES {
            let now = left.min(most);
            pair.write(usize::try_from(now).unwrap_or(MAX_WRITE_BYTES), to)?;
            left -= now;
            under_way += 1;
        }
        match pair.queue().poll()? {
            Some(_) => {
                under_way -= 1;
                began = Instant::now();
            }
            None if began.elapsed() > WRITE_TIMEOUT => return Ok(None),
            None => std::hint::spin_loop(),
        }
    }
    Ok(Some(start.elapsed()))
}
