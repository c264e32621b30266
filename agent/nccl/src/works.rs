//! Work in progress, in memory that is allocated at the start.
//!
//! Events come on several threads of the job, so everything here is atomic and nothing waits: an event without a free
//! slot is counted as missed. A slot is free again once the reporting thread has taken its content; later events
//! change nothing.

use std::process;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};

use crate::handle::Place;

/// The limit is larger than the number of works under way within some tens of milliseconds.
const MAX_WORKS: usize = 4096;
/// The number of peers of one collective: two on a ring, four on two trees.
pub(crate) const MAX_PEERS: usize = 8;
/// Transfers may end a little after the kernel that filled their buffers.
pub(crate) const SETTLE_TICKS: u64 = 2;
/// The state of a kernel expires when the profiler reports nothing of it for this long.
const KERNEL_TIMEOUT_TICKS: u64 = 12_000;

/// A work at its start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    /// Its communicator's place in the table.
    pub(crate) member: u8,
    pub(crate) kind: u8,
    pub(crate) algorithm: u8,
    pub(crate) protocol: u8,
    pub(crate) channels: u8,
    pub(crate) bytes: u64,
}

/// A finished work, and its result.
#[derive(Debug, Clone)]
pub(crate) struct Done {
    pub(crate) work: Work,
    pub(crate) took_ns: Option<u64>,
    pub(crate) peers: Vec<DonePeer>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DonePeer {
    pub(crate) rank: u32,
    /// Towards it, and from it.
    pub(crate) bytes: [u64; 2],
    pub(crate) ticks: [u64; 2],
}

pub(crate) struct Works {
    next: Apart<AtomicU64>,
    shared_flags: Apart<SharedFlags>,
    /// By slot: the ticket of its work, or zero. Apart from the slots, so that looking for those in use
    /// touches little memory.
    tickets: [AtomicU64; MAX_WORKS],
    slots: [Slot; MAX_WORKS],
    missed: [AtomicU64; 256],
    /// The process id is kept, because a system call each time takes longer than everything else.
    process: AtomicU32,
}

/// In lines of the processor's cache that nothing else is in: what each work writes would otherwise be fetched again by
/// all threads that only read what lies beside it.
#[repr(align(128))]
struct Apart<T>(T);

/// Read by every call, and seldom written.
struct SharedFlags {
    /// Advances with each report to the agent.
    tick: AtomicU64,
    /// Not every version of NCCL and not every kernel reports when kernels run.
    kernels: AtomicBool,
}

/// What a work writes as it begins lies in the first line of the processor's cache, and no more than that.
#[repr(C, align(64))]
struct Slot {
    member: AtomicU8,
    kind: AtomicU8,
    algorithm: AtomicU8,
    protocol: AtomicU8,
    channels: AtomicU8,
    stopped: AtomicBool,
    bytes: AtomicU64,
    kernels: AtomicU32,
    open_transfers: AtomicU32,
    touched: AtomicU64,
    began_ns: AtomicU64,
    ended_ns: AtomicU64,
    /// Plus one, so that nought is none. A free slot has none, and has moved nothing.
    ranks: [AtomicU32; MAX_PEERS],
    peers: Peers,
}

/// The first two, and a ring has no others, share a line of the processor's cache.
#[repr(align(64))]
struct Peers([Peer; MAX_PEERS]);

struct Peer {
    bytes: [AtomicU64; 2],
    /// Ends minus beginnings: right whenever nothing is open.
    ticks: [AtomicU64; 2],
}

impl Works {
    pub(crate) const fn new() -> Self {
        Self {
            next: Apart(AtomicU64::new(0)),
            shared_flags: Apart(SharedFlags {
                tick: AtomicU64::new(0),
                kernels: AtomicBool::new(false),
            }),
            tickets: [const { AtomicU64::new(0) }; MAX_WORKS],
            slots: [const { Slot::new() }; MAX_WORKS],
            missed: [const { AtomicU64::new(0) }; 256],
            process: AtomicU32::new(0),
        }
    }

    /// A communicator has come: of this process, which may be a child of the one that had others.
    pub(crate) fn note_process(&self) {
        self.process.store(process::id(), Relaxed);
    }

    pub(crate) fn process(&self) -> u32 {
        self.process.load(Relaxed)
    }

    /// Its ticket, if there is room.
    pub(crate) fn begin(&self, work: Work) -> Option<u64> {
        let ticket = self.next.0.fetch_add(1, Relaxed) + 1;
        let place = self.tickets.get(ticket as usize % MAX_WORKS)?;
        let slot = self.slots.get(ticket as usize % MAX_WORKS)?;
        // A slot is not read before it is stopped, and only the holder of the ticket stops it.
        let claimed = place.compare_exchange(0, ticket, AcqRel, Relaxed);
        if claimed.is_err() {
            self.miss(work.member);
            return None;
        }
        slot.begin(work, self.shared_flags.0.tick.load(Relaxed));
        Some(ticket)
    }

    /// The program has handed the work over; its kernels may not have begun.
    pub(crate) fn stop(&self, ticket: u64) {
        if let Some(slot) = self.slot(ticket) {
            slot.stopped.store(true, Release);
        }
    }

    pub(crate) fn kernel_began(&self, ticket: u64, gpu_ns: u64) {
        if let Some(slot) = self.slot(ticket) {
            self.shared_flags.0.note_kernels();
            slot.began_ns.fetch_min(gpu_ns, Relaxed);
        }
    }

    pub(crate) fn kernel_ended(&self, ticket: u64, gpu_ns: u64) {
        if let Some(slot) = self.slot(ticket) {
            slot.ended_ns.fetch_max(gpu_ns, Relaxed);
            slot.kernels.fetch_add(1, Release);
        }
    }

    /// Where its bytes are counted; none where the work has too many peers, or is over.
    pub(crate) fn transfer_began(
        &self,
        ticket: u64,
        rank: u32,
        sends: bool,
        ticks: u64,
    ) -> Option<Place> {
        let slot = self.slot(ticket)?;
        let Some(peer) = slot.peer(rank) else {
            self.miss(slot.member.load(Relaxed));
            return None;
        };
        let place = Place { peer, sends };
        slot.open_transfers.fetch_add(1, Relaxed);
        slot.time(place)?.fetch_sub(ticks, Relaxed);
        Some(place)
    }

    pub(crate) fn transfer_ended(&self, ticket: u64, place: Place, ticks: u64) {
        let Some(slot) = self.slot(ticket) else {
            return;
        };
        if let Some(time) = slot.time(place) {
            time.fetch_add(ticks, Relaxed);
        }
        slot.open_transfers.fetch_sub(1, Release);
    }

    pub(crate) fn moved(&self, ticket: u64, place: Place, bytes: u64) {
        let peer = self
            .slot(ticket)
            .and_then(|it| it.peers.0.get(usize::from(place.peer)));
        if let Some(peer) = peer {
            peer.bytes[way(place)].fetch_add(bytes, Relaxed);
        }
    }

    /// Counts an event of this communicator that is not reported.
    pub(crate) fn miss(&self, member: u8) {
        self.missed[usize::from(member)].fetch_add(1, Relaxed);
    }

    pub(crate) fn take_missed(&self, member: u8) -> u64 {
        self.missed[usize::from(member)].swap(0, Relaxed)
    }

    /// Returns and forgets everything that is over. Only one thread calls this.
    pub(crate) fn take_done(&self) -> Vec<Done> {
        let shared_flags = &self.shared_flags.0;
        let tick = shared_flags.tick.fetch_add(1, Relaxed) + 1;
        self.take_if(|slot| slot.is_done(tick, shared_flags.kernels.load(Relaxed)))
    }

    /// A communicator is gone; what was still under way will never end.
    pub(crate) fn forget(&self, member: u8) {
        drop(self.take_if(|slot| slot.member.load(Relaxed) == member));
        self.take_missed(member);
    }

    fn take_if(&self, is_due: impl Fn(&Slot) -> bool) -> Vec<Done> {
        let in_use = self.tickets.iter().zip(&self.slots);
        let in_use = in_use.filter(|(ticket, _)| ticket.load(Acquire) != 0);
        let due = in_use.filter(|(_, slot)| is_due(slot));
        due.map(|(ticket, slot)| {
            let done = slot.done();
            ticket.store(0, Release);
            done
        })
        .collect()
    }

    /// None where the work is over.
    fn slot(&self, ticket: u64) -> Option<&Slot> {
        let place = ticket as usize % MAX_WORKS;
        let slot = self.slots.get(place)?;
        let is_its = self.tickets.get(place)?.load(Acquire) == ticket;
        is_its.then(|| {
            slot.touched
                .store(self.shared_flags.0.tick.load(Relaxed), Relaxed);
        })?;
        Some(slot)
    }
}

impl SharedFlags {
    /// The flag is read first, because a read costs less than a write to memory that other threads read.
    fn note_kernels(&self) {
        if !self.kernels.load(Relaxed) {
            self.kernels.store(true, Relaxed);
        }
    }
}

impl Slot {
    const fn new() -> Self {
        Self {
            member: AtomicU8::new(0),
            kind: AtomicU8::new(0),
            algorithm: AtomicU8::new(0),
            protocol: AtomicU8::new(0),
            channels: AtomicU8::new(0),
            stopped: AtomicBool::new(false),
            bytes: AtomicU64::new(0),
            kernels: AtomicU32::new(0),
            open_transfers: AtomicU32::new(0),
            touched: AtomicU64::new(0),
            began_ns: AtomicU64::new(0),
            ended_ns: AtomicU64::new(0),
            ranks: [const { AtomicU32::new(0) }; MAX_PEERS],
            peers: Peers([const { Peer::new() }; MAX_PEERS]),
        }
    }

    fn begin(&self, work: Work, tick: u64) {
        self.member.store(work.member, Relaxed);
        self.kind.store(work.kind, Relaxed);
        self.algorithm.store(work.algorithm, Relaxed);
        self.protocol.store(work.protocol, Relaxed);
        self.channels.store(work.channels, Relaxed);
        self.bytes.store(work.bytes, Relaxed);
        self.kernels.store(0, Relaxed);
        self.open_transfers.store(0, Relaxed);
        self.touched.store(tick, Relaxed);
        self.began_ns.store(u64::MAX, Relaxed);
        self.ended_ns.store(0, Relaxed);
    }

    fn is_done(&self, tick: u64, kernels_report: bool) -> bool {
        let idle = tick.saturating_sub(self.touched.load(Relaxed));
        let all_kernels = self.kernels.load(Acquire) >= u32::from(self.channels.load(Relaxed));
        self.stopped.load(Acquire)
            && self.open_transfers.load(Acquire) == 0
            && idle >= SETTLE_TICKS
            && (all_kernels || !kernels_report || idle >= KERNEL_TIMEOUT_TICKS)
    }

    /// Leaves no peer behind: the thread that tells the agent has time for that, and the one that begins a work has not.
    fn done(&self) -> Done {
        self.stopped.store(false, Relaxed);
        let (began, ended) = (self.began_ns.load(Relaxed), self.ended_ns.load(Relaxed));
        let all_kernels = self.kernels.load(Relaxed) >= u32::from(self.channels.load(Relaxed));
        Done {
            work: Work {
                member: self.member.load(Relaxed),
                kind: self.kind.load(Relaxed),
                algorithm: self.algorithm.load(Relaxed),
                protocol: self.protocol.load(Relaxed),
                channels: self.channels.load(Relaxed),
                bytes: self.bytes.load(Relaxed),
            },
            took_ns: ended.checked_sub(began).filter(|_| all_kernels),
            peers: self.take_peers(),
        }
    }

    fn take_peers(&self) -> Vec<DonePeer> {
        let ranks = self.ranks.iter().map(|rank| rank.load(Relaxed));
        let claimed = ranks.zip(&self.peers.0).filter(|(rank, _)| *rank != 0);
        let taken = claimed.map(|(rank, peer)| peer.take(rank - 1)).collect();
        self.ranks.iter().for_each(|rank| rank.store(0, Relaxed));
        taken
    }

    /// The place of this rank among the work's peers.
    fn peer(&self, rank: u32) -> Option<u8> {
        let wanted = rank + 1;
        let is_its = |place: &AtomicU32| {
            let claim = || place.compare_exchange(0, wanted, Relaxed, Relaxed);
            match place.load(Relaxed) {
                0 => claim().map_or_else(|there| there == wanted, |_| true),
                there => there == wanted,
            }
        };
        self.ranks.iter().position(is_its).map(|place| place as u8)
    }

    fn time(&self, place: Place) -> Option<&AtomicU64> {
        let peer = self.peers.0.get(usize::from(place.peer))?;
        Some(&peer.ticks[way(place)])
    }
}

impl Peer {
    const fn new() -> Self {
        Self {
            bytes: [const { AtomicU64::new(0) }; 2],
            ticks: [const { AtomicU64::new(0) }; 2],
        }
    }

    fn take(&self, rank: u32) -> DonePeer {
        let take = |figures: &[AtomicU64; 2]| figures.each_ref().map(|it| it.swap(0, Relaxed));
        // What began just as the work was taken never ends: its time is less than nothing.
        let whole = |ticks: u64| i64::try_from(ticks).map_or(0, |_| ticks);
        DonePeer {
            rank,
            bytes: take(&self.bytes),
            ticks: take(&self.ticks).map(whole),
        }
    }
}

fn way(place: Place) -> usize {
    usize::from(!place.sends)
}
