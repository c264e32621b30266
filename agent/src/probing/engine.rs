//! One turn after the other: send what is due, take in what came, answer who may ask.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use reweave_agent_core::latency::{Clocks, Prober, Strays};
use reweave_common::flow::FlowKey;
use reweave_common::moment::Moment;
use reweave_common::probing::{ProbeList, ProbeReading};
use thiserror::Error;

use super::answers::Answers;
use super::socket::{Fate, Received, StampedSocket};
use crate::clock;
use crate::preflight::Door;

#[derive(Debug, Error)]
pub enum ProbingError {
    #[error("cannot answer probes on UDP port {port}; another program has it, perhaps an agent")]
    Answer { port: u16, source: Errno },
    #[error("cannot send probes from UDP port {port}; another program has it")]
    Ask { port: u16, source: Errno },
    #[error("cannot wait for packets")]
    Wait { source: Errno },
}

/// Whoever floods a port shall not keep the others waiting.
const MOST_AT_ONCE: usize = 256;

pub struct Engine {
    prober: Prober,
    answers: Answers,
    answering: Option<StampedSocket>,
    asking: BTreeMap<u16, StampedSocket>,
}

impl Engine {
    /// `seed` is drawn at random; for `head_start` see [`Prober::new`].
    pub fn new(seed: u64, head_start: Duration) -> Self {
        Self {
            prober: Prober::new(seed, head_start),
            answers: Answers::new(),
            answering: None,
            asking: BTreeMap::new(),
        }
    }

    /// Answers probes on this port from now on, of the hosts on the roster.
    pub fn answer_on(&mut self, port: u16) -> Result<(), ProbingError> {
        let open = || {
            let socket = StampedSocket::open(port)?;
            socket.widen()?;
            Ok(socket)
        };
        let socket = open().map_err(|source| ProbingError::Answer { port, source })?;
        self.answering = Some(socket);
        Ok(())
    }

    pub fn handle_roster(&mut self, roster: impl IntoIterator<Item = Ipv4Addr>) {
        self.answers.handle_roster(roster);
    }

    /// Takes trains of hosts on the roster while `open_until` says so.
    pub fn take_trains(&mut self, open_until: impl Fn(Moment) -> Option<Moment> + Send + 'static) {
        self.answers.take_trains(open_until);
    }

    /// Where this host agrees to be pressed, or does not.
    pub fn door(&self) -> Door {
        self.answers.door()
    }

    /// Whether a train may come any moment now.
    pub fn expects_train(&self) -> bool {
        self.answers.expects_train()
    }

    /// Probes what is on the list, less what cannot be sent from here. Says what was wrong last.
    pub fn handle_list(&mut self, mut list: ProbeList) -> Result<(), ProbingError> {
        self.handle_roster(list.roster.drain(..));
        let ports: BTreeSet<_> = list.flows.iter().map(|flow| flow.source.port()).collect();
        self.asking.retain(|port, _| ports.contains(port));
        let opened: Vec<_> = ports.into_iter().map(|port| self.open(port)).collect();
        let outcome = opened.into_iter().collect();
        let asking = &self.asking;
        list.flows
            .retain(|flow| asking.contains_key(&flow.source.port()));
        self.prober.handle_list(clock::now(), &list);
        outcome
    }

    /// Sends what is due, waits for packets, no longer than `most`, and takes them in.
    pub fn turn(&mut self, most: Duration) -> Result<(), ProbingError> {
        self.send();
        for (port, events) in self.wait(most)? {
            match self.asking.get(&port) {
                Some(socket) => hear(&mut self.prober, socket, events),
                None => self.answer(events),
            }
        }
        self.prober.handle_time(&clock::clocks());
        Ok(())
    }

    pub fn poll_readings(&mut self) -> Vec<ProbeReading> {
        self.prober.poll_readings()
    }

    /// Whether the fate of every probe is decided and told.
    pub fn is_settled(&self) -> bool {
        self.prober.is_settled()
    }

    /// Packets that were of no use so far: at the ports probes are sent from, and where they are
    /// answered.
    pub fn strays(&self) -> [Strays; 2] {
        [self.prober.strays(), self.answers.strays()]
    }

    fn open(&mut self, port: u16) -> Result<(), ProbingError> {
        if let Entry::Vacant(place) = self.asking.entry(port) {
            let socket = StampedSocket::open(port);
            place.insert(socket.map_err(|source| ProbingError::Ask { port, source })?);
        }
        Ok(())
    }

    fn send(&mut self) {
        let mut used: BTreeMap<u16, usize> = BTreeMap::new();
        loop {
            let clocks = clock::clocks();
            let Some(probe) = self.prober.poll_probe(moment(&clocks), clocks) else {
                break;
            };
            let FlowKey {
                source,
                destination,
                ..
            } = probe.flow;
            let socket = self.asking.get(&source.port());
            let sent = socket.map(|it| it.send(&probe.bytes, *source.ip(), destination));
            if !matches!(sent, Some(Ok(()))) {
                self.prober.handle_unsent(&probe);
            }
            *used.entry(source.port()).or_default() += 1;
        }
        // Most have left by now.
        for (port, sent) in used {
            if let Some(socket) = self.asking.get(&port) {
                take_fates(&mut self.prober, socket, sent);
            }
        }
    }

    /// Ports of sockets that have something to say.
    fn wait(&self, most: Duration) -> Result<Vec<(u16, PollFlags)>, ProbingError> {
        let sockets: Vec<_> = self.asking.values().chain(&self.answering).collect();
        let mut watched: Vec<_> = sockets
            .iter()
            .map(|it| PollFd::new(it.as_fd(), PollFlags::POLLIN))
            .collect();
        match poll(&mut watched, self.patience(most)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(source) => return Err(ProbingError::Wait { source }),
        }
        let events = watched
            .iter()
            .map(|it| it.revents().unwrap_or(PollFlags::empty()));
        let ports = sockets.iter().map(|socket| socket.port());
        Ok(ports.zip(events).filter(|(_, it)| !it.is_empty()).collect())
    }

    /// Until the next probe is due; rounded up, or a wait of less than a millisecond were none.
    fn patience(&self, most: Duration) -> PollTimeout {
        let due = self.prober.next_due().map(|due| due.since(clock::now()));
        let wait = due.map_or(most, |due| due.min(most)) + Duration::from_micros(999);
        PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX)
    }

    fn answer(&mut self, events: PollFlags) {
        let Some(socket) = &self.answering else {
            return;
        };
        if events.contains(PollFlags::POLLIN) {
            for packet in packets(socket) {
                let arrival = packet.arrival();
                let answer = self.answers.handle_packet(&arrival, packet.length());
                if let Some(answer) = answer {
                    // What cannot be sent is lost, and counted by who waits for it.
                    let _ = socket.send(&answer, *arrival.to.ip(), arrival.from);
                }
            }
        }
        for fate in fates(socket) {
            if let Fate::Left { pair, bytes, stamp } = fate {
                self.answers.handle_left(pair[1], &bytes, stamp);
            }
        }
    }
}

fn hear(prober: &mut Prober, socket: &StampedSocket, events: PollFlags) {
    if events.contains(PollFlags::POLLERR) {
        take_fates(prober, socket, MOST_AT_ONCE);
    }
    if events.contains(PollFlags::POLLIN) {
        for packet in packets(socket) {
            prober.handle_packet(&packet.arrival());
        }
    }
}

fn take_fates(prober: &mut Prober, socket: &StampedSocket, most: usize) {
    for fate in fates(socket).take(most) {
        match fate {
            Fate::Left { pair, bytes, stamp } => prober.handle_left(pair, &bytes, stamp),
            Fate::Refused { pair, bytes } => prober.handle_refused(pair, &bytes),
            Fate::Other => {}
        }
    }
}

fn packets(socket: &StampedSocket) -> impl Iterator<Item = Received> {
    std::iter::from_fn(|| socket.receive()).take(MOST_AT_ONCE)
}

fn fates(socket: &StampedSocket) -> impl Iterator<Item = Fate> {
    std::iter::from_fn(|| socket.fate()).take(MOST_AT_ONCE)
}

fn moment(clocks: &Clocks) -> Moment {
    Moment::from_micros(clocks.steady_ns / 1000)
}
