//! The receiving side of a load test.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use reweave_agent_core::preflight::{
    Consent, PACKET_BYTES, PreflightMessage, PreflightRefusal, Press, SETUP_TIMEOUT,
};
use reweave_common::lock::lock;
use reweave_common::moment::Moment;
use reweave_common::periodicity::Periodicity;

use super::{BUFFER_BYTES, KEY_BYTES, RECEIPT_BYTES};
use crate::eintr;

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Shared by the threads that receive periods and rosters and the threads that answer.
#[derive(Debug, Clone, Default)]
pub struct PreflightListener {
    consent: Arc<Mutex<Consent>>,
    /// The last granted test: its answer may have been lost.
    granted: Arc<Mutex<Option<(SocketAddrV4, u32, PreflightMessage)>>>,
    /// Whether a test is running.
    running: Arc<AtomicBool>,
}

/// A granted test.
struct Test {
    listener: TcpListener,
    from: Ipv4Addr,
    key: u64,
    streams: u8,
    end: Instant,
}

impl PreflightListener {
    pub fn handle_roster(&self, roster: impl IntoIterator<Item = Ipv4Addr>) {
        lock(&self.consent).handle_roster(roster);
    }

    pub fn handle_rhythm(&self, now: Moment, rhythm: Periodicity) {
        lock(&self.consent).handle_rhythm(now, rhythm);
    }

    /// The answer to a packet from the first to the second address; none for hosts that are not on the roster.
    pub fn handle_packet(
        &self,
        now: Moment,
        [from, to]: [SocketAddrV4; 2],
        bytes: &[u8],
    ) -> Option<[u8; PACKET_BYTES]> {
        let Some((session, PreflightMessage::Ask(asked))) = PreflightMessage::read(bytes) else {
            return None;
        };
        let mut granted = lock(&self.granted);
        if let Some((to, under, word)) = &*granted
            && (*to, *under) == (from, session)
        {
            return Some(word.to_bytes(session));
        }
        if !self.running.load(Ordering::Acquire) {
            lock(&self.consent).handle_released();
        }
        let decided = lock(&self.consent).decide(now, *from.ip(), &asked)?;
        let opened = decided.and_then(|()| self.open(now, [*from.ip(), *to.ip()], &asked));
        let answer = opened.unwrap_or_else(PreflightMessage::Refuse);
        if matches!(answer, PreflightMessage::Grant { .. }) {
            *granted = Some((from, session, answer));
        }
        Some(answer.to_bytes(session))
    }

    fn open(
        &self,
        now: Moment,
        [from, own]: [Ipv4Addr; 2],
        asked: &Press,
    ) -> Result<PreflightMessage, PreflightRefusal> {
        let unable = |_| PreflightRefusal::Unable;
        let listener = TcpListener::bind((own, 0)).map_err(unable)?;
        listener.set_nonblocking(true).map_err(unable)?;
        let port = listener.local_addr().map_err(unable)?.port();
        let key = rand::random();
        let seconds = Duration::from_secs(u64::from(asked.seconds));
        let test = Test {
            listener,
            from,
            key,
            streams: asked.streams,
            end: Instant::now() + seconds + SETUP_TIMEOUT,
        };
        tracing::warn!(
            "{from} loads this host for {} s over {} streams",
            asked.seconds,
            asked.streams
        );
        lock(&self.consent).handle_pressed(now, asked);
        self.running.store(true, Ordering::Release);
        let running = Arc::clone(&self.running);
        thread::spawn(move || {
            test.take();
            running.store(false, Ordering::Release);
        });
        Ok(PreflightMessage::Grant { key, port })
    }
}

impl Test {
    /// Accepts exactly the expected streams, until all have ended.
    fn take(self) {
        thread::scope(|scope| {
            let (key, end) = (self.key, self.end);
            let mut taken = 0;
            while taken < self.streams && Instant::now() < end {
                match self.listener.accept() {
                    Ok((stream, from)) if from.ip() == self.from => {
                        taken += 1;
                        scope.spawn(move || take_stream(stream, key, end));
                    }
                    Ok(_) => {}
                    Err(_) => thread::sleep(POLL_INTERVAL),
                }
            }
        });
    }
}

/// Reads a stream to its end, and sends the result.
fn take_stream(mut stream: TcpStream, key: u64, end: Instant) -> Option<()> {
    stream.set_nonblocking(false).ok()?;
    stream.set_read_timeout(Some(SETUP_TIMEOUT)).ok()?;
    stream.set_write_timeout(Some(SETUP_TIMEOUT)).ok()?;
    let mut said = [0; KEY_BYTES];
    stream.read_exact(&mut said).ok()?;
    if u64::from_be_bytes(said) != key {
        return None;
    }
    let mut buffer = vec![0; BUFFER_BYTES];
    let (mut bytes, mut first, mut last) = (0_u64, None, Instant::now());
    while Instant::now() < end {
        match eintr::retry(|| stream.read(&mut buffer)).ok()? {
            0 => break,
            some => {
                last = Instant::now();
                // The time starts with the first bytes, which do not count.
                match first {
                    None => first = Some(last),
                    Some(_) => bytes += some as u64,
                }
            }
        }
    }
    let took = last.saturating_duration_since(first?).as_nanos() as u64;
    let mut values = [0; RECEIPT_BYTES];
    values[..8].copy_from_slice(&bytes.to_be_bytes());
    values[8..].copy_from_slice(&took.to_be_bytes());
    stream.write_all(&values).ok()
}
