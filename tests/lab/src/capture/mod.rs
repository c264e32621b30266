//! Recording the packets of nodes: the heads of the last many, to be looked at when something has
//! gone wrong.

mod pcapng;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::net::if_::if_nameindex;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::EventFd;
use reweave_common::ids::NodeId;

use crate::cluster::Cluster;
use crate::error::LabError;
use crate::packet::{BLOCK_TIMEOUT, Header, HeaderRing};

/// Enough for all headers up to transport, with options.
const SNAP_LENGTH_BYTES: usize = 128;
/// Maximum number of packets kept per node.
const MAX_PACKETS_PER_NODE: usize = 1 << 16;

/// The head of a packet, kept.
#[derive(Debug, Clone, Copy)]
struct Record {
    time: Duration,
    interface: u32,
    outgoing: bool,
    length: u32,
    kept: u8,
    bytes: [u8; SNAP_LENGTH_BYTES],
}

impl Record {
    fn new(header: &Header<'_>) -> Self {
        let mut bytes = [0; SNAP_LENGTH_BYTES];
        let kept = header.bytes.len().min(SNAP_LENGTH_BYTES);
        bytes[..kept].copy_from_slice(&header.bytes[..kept]);
        Self {
            time: header.time,
            interface: header.interface,
            outgoing: header.outgoing,
            length: header.length,
            kept: kept as u8,
            bytes,
        }
    }

    fn kept(&self) -> &[u8] {
        &self.bytes[..usize::from(self.kept)]
    }
}

/// The recording of one node; it ends when dropped.
pub(crate) struct Capture {
    pub(crate) node: NodeId,
    tape: Arc<Tape>,
    thread: Option<JoinHandle<()>>,
}

/// State shared by the recording thread and its owner.
struct Tape {
    records: Mutex<VecDeque<Record>>,
    /// Packets that came faster than they were recorded.
    missed: AtomicU32,
    ended: AtomicBool,
    wake: EventFd,
}

/// Records each of the given nodes from now on.
pub(crate) fn start_all(cluster: &Cluster, nodes: &[NodeId]) -> Result<Vec<Capture>, LabError> {
    nodes
        .iter()
        .map(|node| Capture::start(cluster, *node))
        .collect()
}

impl Capture {
    /// Records all interfaces of the node from now on.
    fn start(cluster: &Cluster, node: NodeId) -> Result<Self, LabError> {
        let failed = |source: io::Error| LabError::Capture {
            node: cluster.fabric().name(node).to_owned(),
            source,
        };
        let open = || HeaderRing::open(SNAP_LENGTH_BYTES as u32);
        let ring = cluster.inside(node, open)?.map_err(failed)?;
        let tape = Tape::new().map_err(failed)?;
        let (tape, own) = (Arc::new(tape), ring);
        let recording = Arc::clone(&tape);
        let thread = thread::Builder::new().name("capture".to_owned());
        let thread = thread
            .spawn(move || recording.record(own))
            .map_err(failed)?;
        Ok(Self {
            node,
            tape,
            thread: Some(thread),
        })
    }

    /// Returns the packets recorded so far, as a pcapng file.
    pub(crate) fn file(&self, cluster: &Cluster) -> Result<Vec<u8>, LabError> {
        let names = cluster.inside(self.node, interface_names)?;
        // The kernel still holds the latest packets.
        thread::sleep(2 * BLOCK_TIMEOUT);
        let records = self.tape.records();
        let missed = self.tape.missed.load(Relaxed);
        let comment = format!(
            "{}: the last {} packets, the first {SNAP_LENGTH_BYTES} bytes of each; {missed} were missed",
            cluster.fabric().name(self.node),
            records.len()
        );
        let name = |index| {
            names
                .get(&index)
                .cloned()
                .unwrap_or_else(|| format!("if{index}"))
        };
        Ok(pcapng::file(
            records.iter(),
            name,
            SNAP_LENGTH_BYTES as u32,
            &comment,
        ))
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.tape.ended.store(true, Relaxed);
        // The write fails only if the counter is full, and then the thread is awake.
        let _ = self.tape.wake.write(1);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Tape {
    fn new() -> io::Result<Self> {
        Ok(Self {
            records: Mutex::default(),
            missed: AtomicU32::new(0),
            ended: AtomicBool::new(false),
            wake: EventFd::new()?,
        })
    }

    fn records(&self) -> MutexGuard<'_, VecDeque<Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, mut ring: HeaderRing) {
        while !self.ended.load(Relaxed) {
            let mut watched =
                [ring.as_fd(), self.wake.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
            // Interrupted or not, what is there is taken.
            let _ = poll(&mut watched, PollTimeout::NONE);
            let mut records = self.records();
            ring.drain(|header| keep(&mut records, &header));
            self.missed.fetch_add(ring.dropped().unwrap_or(0), Relaxed);
        }
    }
}

fn keep(records: &mut VecDeque<Record>, header: &Header<'_>) {
    if records.len() == MAX_PACKETS_PER_NODE {
        records.pop_front();
    }
    records.push_back(Record::new(header));
}

/// Returns the interfaces in the calling thread's network namespace.
fn interface_names() -> BTreeMap<u32, String> {
    let Ok(interfaces) = if_nameindex() else {
        return BTreeMap::new();
    };
    let name = |interface: &nix::net::if_::Interface| {
        (
            interface.index(),
            interface.name().to_string_lossy().into_owned(),
        )
    };
    interfaces.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_packets_are_kept() {
        let mut records = VecDeque::new();
        for length in 0..MAX_PACKETS_PER_NODE as u32 + 10 {
            let header = Header {
                time: Duration::ZERO,
                interface: 1,
                outgoing: false,
                length,
                bytes: &[7; 200],
            };
            keep(&mut records, &header);
        }
        assert_eq!(records.len(), MAX_PACKETS_PER_NODE);
        assert_eq!(records[0].length, 10);
        assert_eq!(records[0].kept(), [7; SNAP_LENGTH_BYTES]);
    }
}
