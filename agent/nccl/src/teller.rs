//! The thread that reports finished work to the agent, and never waits for it.

use std::collections::VecDeque;
use std::env;
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use reweave_common::collective::{COLLECTIVES_SOCKET, COLLECTIVES_VARIABLE, RankWord};
use reweave_common::lock::lock;
use reweave_common::moment::Moment;

use crate::clock::{Reading, now_ns};
use crate::members::Members;
use crate::words::Account;
use crate::works::{Done, SETTLE_TICKS, Works};

/// The interval is the finest resolution at which an agent looks for the iteration period of a job.
const REPORT_INTERVAL: Duration = Duration::from_millis(10);
/// What an agent that is busy may hear later.
const MAX_UNSENT: usize = 256;

/// Runs while there are communicators, so that the library can be unloaded afterwards.
pub(crate) struct Teller {
    running: Mutex<Option<Running>>,
}

struct Running {
    /// Dropped when the thread should end.
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Teller {
    pub(crate) const fn new() -> Self {
        Self {
            running: Mutex::new(None),
        }
    }

    /// Whether it runs; a machine may have no room for another thread.
    pub(crate) fn start(&self, works: &'static Works, members: &'static Members) -> bool {
        let mut running = lock(&self.running);
        if running.is_none() {
            let (stop, stopped) = channel();
            let name = "reweave-nccl".to_owned();
            let thread = thread::Builder::new().name(name).spawn(move || {
                let mut line = Line::new(works, members);
                while stopped.recv_timeout(REPORT_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                    line.tell();
                }
                line.send_rest();
            });
            *running = thread.ok().map(|thread| Running { stop, thread });
        }
        running.is_some()
    }

    /// Returns when all finished work is reported.
    pub(crate) fn stop(&self) {
        if let Some(Running { stop, thread }) = lock(&self.running).take() {
            drop(stop);
            // A thread that panicked has reported what it could.
            let _ = thread.join();
        }
    }
}

struct Line {
    works: &'static Works,
    members: &'static Members,
    socket: Option<UnixDatagram>,
    agent: PathBuf,
    begun: Reading,
    reported_to: Moment,
    unsent: VecDeque<RankWord>,
}

impl Line {
    fn new(works: &'static Works, members: &'static Members) -> Self {
        let agent = env::var_os(COLLECTIVES_VARIABLE);
        Self {
            works,
            members,
            socket: socket(),
            agent: agent.map_or_else(|| COLLECTIVES_SOCKET.into(), PathBuf::from),
            begun: Reading::now(),
            reported_to: now(),
            unsent: VecDeque::new(),
        }
    }

    /// Sends what is left of a communicator that has ended.
    fn send_rest(&mut self) {
        (0..=SETTLE_TICKS).for_each(|_| self.tell());
    }

    fn tell(&mut self) {
        let (from, to) = (self.reported_to, now());
        self.reported_to = to;
        let done = self.works.take_done();
        let rate = self.begun.rate_since();
        for (member, rank) in self.members.all() {
            let of = |done: &&Done| done.work.member == member;
            let account = Account {
                rank,
                rate,
                missed: self.works.take_missed(member),
                done: done.iter().filter(of).cloned().collect(),
            };
            if !account.is_empty() {
                self.unsent.extend(account.words(from, to));
            }
        }
        self.send();
        for member in self.members.handle_sent(SETTLE_TICKS + 1) {
            self.works.forget(member);
        }
    }

    /// Sends until the agent has no room for more. Without an agent, all of it is lost.
    fn send(&mut self) {
        while let Some(word) = self.unsent.pop_front() {
            if self.is_refused(&word) {
                self.unsent.push_front(word);
                break;
            }
        }
        while self.unsent.len() > MAX_UNSENT {
            self.miss_oldest();
        }
    }

    fn is_refused(&self, word: &RankWord) -> bool {
        let sent = self.send_word(word);
        matches!(sent, Some(Err(error)) if error.kind() == ErrorKind::WouldBlock)
    }

    /// None without a socket.
    fn send_word(&self, word: &RankWord) -> Option<io::Result<usize>> {
        let bytes = postcard::to_stdvec(word).ok()?;
        Some(self.socket.as_ref()?.send_to(&bytes, &self.agent))
    }

    /// The next word of the same rank says that it is missing.
    fn miss_oldest(&mut self) {
        let Some(oldest) = self.unsent.pop_front() else {
            return;
        };
        let missed = oldest.works.iter().map(|it| it.count).sum::<u64>() + oldest.missed;
        let mut later = self.unsent.iter_mut();
        if let Some(next) = later.find(|word| word.rank == oldest.rank) {
            next.missed += missed;
        }
    }
}

fn socket() -> Option<UnixDatagram> {
    let socket = UnixDatagram::unbound().ok()?;
    socket.set_nonblocking(true).ok()?;
    Some(socket)
}

fn now() -> Moment {
    Moment::from_micros(now_ns() / 1000)
}
