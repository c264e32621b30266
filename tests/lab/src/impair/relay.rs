//! Delay, loss and joints without help of the kernel: a thread that forwards every frame at its due time.
//!
//! One thread serves all wires. One per wire was no faster: on two cores four wires of 1 Gb/s were full in both cases,
//! and the switches between threads increased the delay.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::EventFd;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use reweave_common::ids::LinkId;

use super::line::{Line, RandomLoss};
use crate::packet::{FrameSocket, Inbox};

/// Frames taken from one end before the others have their turn.
const FRAMES_PER_TURN: usize = 64;
/// A thread that sleeps until a given time wakes up a little later; by so much earlier it asks to
/// be woken, and hands on what is due until then.
const WAKE_AHEAD_TIME: Duration = Duration::from_micros(15);
/// A frame that leaves later than this after its time is counted as late.
const MIN_LATENESS: Duration = Duration::from_micros(50);
/// Size of the socket buffer for one end, which the kernel fills while the relay is busy.
const SOCKET_BUFFER_BYTES: usize = 8 << 20;

/// Marks of what is not an end of a wire among those the thread waits for.
const TIMER_TOKEN: u64 = u64::MAX;
const STOP_TOKEN: u64 = u64::MAX - 1;

/// A wire to be served.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) link: LinkId,
    /// The interfaces between which frames are handed on.
    pub(super) ends: [String; 2],
    pub(super) latency: Duration,
    /// Maximum bytes in flight in one direction.
    pub(super) capacity_bytes: usize,
    pub(super) seed: u64,
}

/// Counts of the relay on one wire, in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Passed {
    frames: u64,
    /// Lost by lot, as a fault asked.
    lost: u64,
    /// Dropped because too much was in flight, the relay was too slow, or the cable was pulled meanwhile.
    dropped: u64,
    /// Handed on later than they should have been by more than [`MIN_LATENESS`].
    late: u64,
    latest_us: u64,
}

impl Passed {
    pub(super) fn is_nothing(&self) -> bool {
        self.frames + self.lost + self.dropped == 0
    }
}

impl fmt::Display for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            frames,
            lost,
            dropped,
            late,
            latest_us,
        } = self;
        write!(
            f,
            "{frames} frames, {late} late by more than {MIN_LATENESS:?} (at most {latest_us} us), \
             {lost} lost on purpose, {dropped} dropped"
        )
    }
}

/// One wire as others see it.
#[derive(Debug)]
pub(super) struct Control {
    sockets: [FrameSocket; 2],
    /// The bits of a probability.
    loss: AtomicU64,
    frames: AtomicU64,
    lost: AtomicU64,
    dropped: AtomicU64,
    late: AtomicU64,
    latest_us: AtomicU64,
}

/// The running relay; it ends when dropped.
#[derive(Debug)]
pub(super) struct Relay {
    wires: BTreeMap<LinkId, Arc<Control>>,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Stop {
    asked: AtomicBool,
    wake: EventFd,
}

impl Relay {
    /// Serves the given wires, whose ends are in the network namespace of the calling thread.
    pub(super) fn start(spans: Vec<Span>) -> io::Result<Self> {
        let stop = Arc::new(Stop {
            asked: AtomicBool::new(false),
            wake: EventFd::new()?,
        });
        let (mut wires, mut lanes) = (BTreeMap::new(), Vec::new());
        for span in spans {
            let control = Arc::new(Control::open(&span.ends)?);
            lanes.extend([0, 1].map(|end| Lane::new(&span, end, &control)));
            wires.insert(span.link, control);
        }
        let mut work = Work::new(lanes, Arc::clone(&stop))?;
        let thread = std::thread::Builder::new().name("wires".to_owned());
        Ok(Self {
            wires,
            stop,
            thread: Some(thread.spawn(move || work.run())?),
        })
    }

    pub(super) fn control(&self, link: LinkId) -> Option<&Control> {
        self.wires.get(&link).map(AsRef::as_ref)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.asked.store(true, Relaxed);
        // The write fails only if the counter is full, and then the thread is awake.
        let _ = self.stop.wake.write(1);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Control {
    fn open([a, b]: &[String; 2]) -> io::Result<Self> {
        let open = |end| FrameSocket::open(end, SOCKET_BUFFER_BYTES);
        let zero = || AtomicU64::new(0);
        Ok(Self {
            sockets: [open(a)?, open(b)?],
            loss: AtomicU64::new(0.0_f64.to_bits()),
            frames: zero(),
            lost: zero(),
            dropped: zero(),
            late: zero(),
            latest_us: zero(),
        })
    }

    /// Sets the probability of loss of each frame.
    pub(super) fn set_loss(&self, probability: f64) {
        self.loss.store(probability.to_bits(), Relaxed);
    }

    fn loss(&self) -> f64 {
        f64::from_bits(self.loss.load(Relaxed))
    }

    pub(super) fn passed(&self) -> Passed {
        for socket in &self.sockets {
            // The kernel counts from nought after each question.
            let dropped = socket.dropped().unwrap_or(0);
            self.dropped.fetch_add(dropped.into(), Relaxed);
        }
        Passed {
            frames: self.frames.load(Relaxed),
            lost: self.lost.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            late: self.late.load(Relaxed),
            latest_us: self.latest_us.load(Relaxed),
        }
    }

    fn count_late(&self, late: Duration) {
        if late > MIN_LATENESS {
            self.late.fetch_add(1, Relaxed);
        }
        let late_us = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
        self.latest_us.fetch_max(late_us, Relaxed);
    }
}

/// One direction of a wire: frames that arrive at one end leave at the other.
struct Lane {
    wire: Arc<Control>,
    from: usize,
    line: Line,
    random_loss: RandomLoss,
}

impl Lane {
    fn new(span: &Span, from: usize, wire: &Arc<Control>) -> Self {
        Self {
            wire: Arc::clone(wire),
            from,
            line: Line::new(span.latency, span.capacity_bytes),
            // Neighbouring links have neighbouring seeds.
            random_loss: RandomLoss::new(span.seed ^ ((from as u64) << 63)),
        }
    }

    /// Takes what waits at its end, up to a turn's worth.
    fn take(&mut self, inbox: &mut Inbox) {
        for _ in 0..FRAMES_PER_TURN {
            match self.wire.sockets[self.from].receive(inbox) {
                Ok(Some(received)) => {
                    let arrived = Instant::now() - received.age;
                    Self::take_one(
                        &mut self.line,
                        &mut self.random_loss,
                        &self.wire,
                        arrived,
                        received.frame,
                    );
                }
                // The kernel reports a pulled cable once, as an error.
                Ok(None) | Err(_) => break,
            }
        }
    }

    fn take_one(
        line: &mut Line,
        random_loss: &mut RandomLoss,
        wire: &Control,
        arrived: Instant,
        frame: &[u8],
    ) {
        let loss = wire.loss();
        if loss > 0.0 && random_loss.loses(loss) {
            wire.lost.fetch_add(1, Relaxed);
        } else if !line.enter(arrived, frame) {
            wire.dropped.fetch_add(1, Relaxed);
        }
    }

    /// Hands on what is due.
    fn release(&mut self) {
        let out = &self.wire.sockets[1 - self.from];
        while let Some((frame, due)) = self.line.leave(Instant::now() + WAKE_AHEAD_TIME) {
            match out.send(&frame) {
                Ok(_) => self.wire.frames.fetch_add(1, Relaxed),
                // The cable was pulled while the frame was in flight.
                Err(_) => self.wire.dropped.fetch_add(1, Relaxed),
            };
            self.wire
                .count_late(Instant::now().saturating_duration_since(due));
        }
    }
}

/// State of the thread.
struct Work {
    lanes: Vec<Lane>,
    epoll: Epoll,
    timer: TimerFd,
    stop: Arc<Stop>,
    inbox: Inbox,
}

impl Work {
    fn new(lanes: Vec<Lane>, stop: Arc<Stop>) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        for (index, lane) in lanes.iter().enumerate() {
            let event = EpollEvent::new(EpollFlags::EPOLLIN, index as u64);
            epoll.add(&lane.wire.sockets[lane.from], event)?;
        }
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC)?;
        // Notified once per event, these two need no reading.
        let once = EpollFlags::EPOLLIN | EpollFlags::EPOLLET;
        epoll.add(&timer, EpollEvent::new(once, TIMER_TOKEN))?;
        epoll.add(&stop.wake, EpollEvent::new(once, STOP_TOKEN))?;
        Ok(Self {
            lanes,
            epoll,
            timer,
            stop,
            inbox: Inbox::new(),
        })
    }

    fn run(&mut self) {
        let mut events = [EpollEvent::empty(); 64];
        while !self.stop.asked.load(Relaxed) {
            // An interrupted wait has no events, and is begun again.
            let ready = self
                .epoll
                .wait(&mut events, EpollTimeout::NONE)
                .unwrap_or(0);
            for event in &events[..ready] {
                let lane = usize::try_from(event.data())
                    .ok()
                    .and_then(|at| self.lanes.get_mut(at));
                if let Some(lane) = lane {
                    lane.take(&mut self.inbox);
                }
            }
            self.lanes.iter_mut().for_each(Lane::release);
            self.set_timer();
        }
    }

    fn set_timer(&self) {
        let Some(due) = self
            .lanes
            .iter()
            .filter_map(|lane| lane.line.next_due())
            .min()
        else {
            return;
        };
        let left = due.saturating_duration_since(Instant::now() + WAKE_AHEAD_TIME);
        // Zero would mean never.
        let expiry = Expiration::OneShot(TimeSpec::from(left.max(Duration::from_nanos(1))));
        // This fails only for times out of range, which the latency of a link never is.
        let _ = self.timer.set(expiry, TimerSetTimeFlags::empty());
    }
}
