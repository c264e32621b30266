//! Real traffic between hosts: TCP sessions that go on until they are asked to end, and numbered datagrams.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};
use reweave_agent::eintr;
use reweave_common::flow::{FlowKey, Protocol};

use crate::fabric::{TEST_TIMEOUT, flow, host, within};

pub(crate) fn v4(address: SocketAddr) -> SocketAddrV4 {
    match address {
        SocketAddr::V4(address) => address,
        SocketAddr::V6(address) => panic!("{address} is not IPv4"),
    }
}

/// Waits this long. What it paces is traffic, not the test.
fn pause(duration: Duration) {
    let end = Instant::now() + duration;
    while let Some(left) = end
        .checked_duration_since(Instant::now())
        .filter(|left| !left.is_zero())
    {
        thread::park_timeout(left);
    }
}

/// A TCP session from one host to another.
pub(crate) struct Session {
    pub(crate) flow: FlowKey,
    pub(crate) sender: TcpStream,
    pub(crate) receiver: TcpStream,
}

impl Session {
    pub(crate) fn new(from: usize, to: usize) -> Self {
        let listener = within(&format!("h{to}"), || {
            TcpListener::bind((host(to), 0)).expect("bind")
        });
        let at = v4(listener.local_addr().expect("bound"));
        let sender = within(&format!("h{from}"), || {
            TcpStream::connect(at).expect("connect")
        });
        let (receiver, _) = listener.accept().expect("accept");
        receiver
            .set_read_timeout(Some(TEST_TIMEOUT))
            .expect("a timeout");
        sender
            .set_write_timeout(Some(TEST_TIMEOUT))
            .expect("a timeout");
        let source = v4(sender.local_addr().expect("connected"));
        Self {
            flow: flow(Protocol::Tcp, source, at),
            sender,
            receiver,
        }
    }

    /// Sends this many bytes and reads them at the other end.
    pub(crate) fn transfer(&mut self, bytes: usize) {
        let Self {
            sender, receiver, ..
        } = self;
        thread::scope(|scope| {
            scope.spawn(|| {
                sender
                    .write_all(&vec![7; bytes])
                    .expect("the session takes it");
            });
            receiver
                .read_exact(&mut vec![0; bytes])
                .expect("the session brings it");
        });
    }
}

/// A session over which bursts are sent until it is stopped.
pub(crate) struct Stream {
    pub(crate) flow: FlowKey,
    stop: Arc<AtomicBool>,
    sent: JoinHandle<u64>,
    received: JoinHandle<u64>,
}

impl Stream {
    /// Sends `burst` bytes, pauses, and so on.
    pub(crate) fn start(session: Session, burst: usize, every: Duration) -> Self {
        let Session {
            flow,
            mut sender,
            mut receiver,
        } = session;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let sent = thread::spawn(move || {
            let (data, mut sent) = (vec![7; burst], 0);
            while !stopped.load(Ordering::Relaxed) {
                sender.write_all(&data).expect("the session lives");
                sent += burst as u64;
                pause(every);
            }
            sent
        });
        let received = thread::spawn(move || {
            let (mut buffer, mut received) = (vec![0; 1 << 16], 0);
            loop {
                match eintr::retry(|| receiver.read(&mut buffer)).expect("the session lives") {
                    0 => return received,
                    length => received += length as u64,
                }
            }
        });
        Self {
            flow,
            stop,
            sent,
            received,
        }
    }

    /// Ends the session; every byte sent must have arrived.
    pub(crate) fn finish(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let sent = self.sent.join().expect("the sender ends well");
        assert_eq!(self.received.join().expect("so does the receiver"), sent);
        sent
    }
}

/// Numbered datagrams, one a millisecond.
pub(crate) struct Datagrams {
    pub(crate) flow: FlowKey,
    stop: Arc<AtomicBool>,
    sent: JoinHandle<u64>,
    arrived: JoinHandle<BTreeSet<u64>>,
}

/// Room for what is sent in 5 s, at some 800 bytes of the kernel for each.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
/// Marks the sequence number of the datagram that carries the count of the datagrams before it.
const TOTAL_FLAG: u64 = 1 << 63;

impl Datagrams {
    pub(crate) fn start(from: usize, to: usize) -> Self {
        let bind = |at: usize| {
            within(&format!("h{at}"), || {
                UdpSocket::bind((host(at), 0)).expect("bind")
            })
        };
        let (sender, receiver) = (bind(from), bind(to));
        // What comes while the receiver waits for a core is not lost. Where that needs rights, the default must do.
        let _ = setsockopt(&receiver, sockopt::RcvBufForce, &RECEIVE_BUFFER_BYTES);
        let ends = [&sender, &receiver].map(|end| v4(end.local_addr().expect("bound")));
        sender.connect(ends[1]).expect("connect");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        Self {
            flow: flow(Protocol::Udp, ends[0], ends[1]),
            stop,
            sent: thread::spawn(move || send_until(&sender, &stopped)),
            arrived: thread::spawn(move || receive_all(&receiver)),
        }
    }

    /// How many were sent, and how many of these arrived.
    pub(crate) fn finish(self) -> (u64, u64) {
        self.stop.store(true, Ordering::Relaxed);
        let sent = self.sent.join().expect("the sender ends well");
        let arrived = self.arrived.join().expect("so does the receiver");
        (sent, arrived.len() as u64)
    }
}

fn send_until(sender: &UdpSocket, stopped: &AtomicBool) -> u64 {
    let send = |number: u64| {
        sender
            .send(&number.to_be_bytes())
            .expect("the network takes it")
    };
    let mut number = 0;
    while !stopped.load(Ordering::Relaxed) {
        send(number);
        number += 1;
        pause(Duration::from_millis(1));
    }
    send(TOTAL_FLAG | number);
    number
}

/// Until all have come, or nothing comes any longer. On a busy machine those that went another way may come long after
/// the one that tells how many there were.
fn receive_all(receiver: &UdpSocket) -> BTreeSet<u64> {
    receiver
        .set_read_timeout(Some(TEST_TIMEOUT))
        .expect("a timeout");
    let mut arrived = BTreeSet::new();
    let mut total = None;
    let mut number = [0; 8];
    while total != Some(arrived.len() as u64) && eintr::retry(|| receiver.recv(&mut number)).is_ok()
    {
        match u64::from_be_bytes(number) {
            report if report & TOTAL_FLAG != 0 => total = Some(report & !TOTAL_FLAG),
            number => drop(arrived.insert(number)),
        }
    }
    arrived
}
