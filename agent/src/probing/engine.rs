//! One turn after the other: send what is due, receive packets, answer permitted requests.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use reweave_agent_core::latency::{Clocks, OutgoingProbe, PACKET_BYTES, Prober};
use reweave_agent_core::path_confirmation::ConfirmationResponder;
use reweave_common::error::error_chain;
use reweave_common::hardware::Lack;
use reweave_common::moment::Moment;
use reweave_common::probing::{PortStrays, ProbeList, ProbeReading};
use thiserror::Error;

use super::answers::{ProbeListener, Reply};
use super::packet_batch::{OutgoingPacket, PacketBatch};
use super::socket::{Fate, StampedSocket};
use super::tap::Tap;
use crate::clock;
use crate::netlink::RouteSocket;
use crate::preflight::PreflightListener;

#[derive(Debug, Error)]
pub enum ProbingError {
    #[error("cannot answer probes on UDP port {port}; another program uses it")]
    Answer { port: u16, source: Errno },
    #[error("cannot send probes from UDP port {port}; another program uses it")]
    Ask { port: u16, source: Errno },
    #[error("cannot wait for packets")]
    Wait { source: Errno },
}

pub struct Engine {
    prober: Prober,
    answers: ProbeListener,
    answering: Option<StampedSocket>,
    /// The port is opened with the first list.
    answer_on: Option<u16>,
    /// Why that failed when it was last tried.
    deaf_because: Option<String>,
    asking: BTreeMap<u16, StampedSocket>,
    /// Open while arrivals are requested.
    tap: Option<Tap>,
    inbox: PacketBatch,
    /// When it was last looked which probes are overdue.
    looked: Moment,
}

/// The name of this measurement where it is reported as off.
const MEASUREMENT_NAME: &str = "answers to probes";
const PORT_REMEDY: &str = "a coordinator on this machine takes joins there by default: give it another `door` in \
                           coordinator.toml; `ss -ulpn` shows which program it is";
/// Losses are not urgent.
const FATE_CHECK_INTERVAL: Duration = Duration::from_millis(100);

impl Engine {
    /// `seed` is drawn at random; for `head_start` see [`Prober::new`].
    pub fn new(seed: u64, head_start: Duration) -> Self {
        Self {
            prober: Prober::new(seed, head_start),
            answers: ProbeListener::new(),
            answering: None,
            answer_on: None,
            deaf_because: None,
            asking: BTreeMap::new(),
            tap: None,
            inbox: PacketBatch::new(),
            looked: Moment::default(),
        }
    }

    /// Answers probes on this port from now on, of the hosts on the roster.
    pub fn answer_on(&mut self, port: u16) -> Result<(), ProbingError> {
        let socket = answering_socket(port);
        let socket = socket.map_err(|source| ProbingError::Answer { port, source })?;
        self.answering = Some(socket);
        Ok(())
    }

    /// The same once there is a list. Until then the kernel refuses probes, which do not count as lost.
    pub fn answer_after(&mut self, port: u16) {
        self.answer_on = Some(port);
    }

    fn answer_now(&mut self) -> Result<(), ProbingError> {
        if let Some(port) = self.answer_on {
            let opened = self.answer_on(port);
            self.deaf_because = opened.as_ref().err().map(|error| error_chain(error));
            opened?;
            self.answer_on = None;
        }
        Ok(())
    }

    /// Why other hosts measure nothing towards this one, where its port is taken.
    pub fn lack(&self) -> Option<Lack> {
        Some(Lack {
            measurement: MEASUREMENT_NAME.to_owned(),
            because: self.deaf_because.clone()?,
            remedy: PORT_REMEDY.to_owned(),
        })
    }

    pub fn handle_roster(&mut self, roster: impl IntoIterator<Item = Ipv4Addr>) {
        let roster = roster.into_iter().collect();
        self.answers.handle_roster(roster, Duration::ZERO);
    }

    /// Takes trains of hosts on the roster while `open_until` says so.
    pub fn take_trains(&mut self, open_until: impl Fn(Moment) -> Option<Moment> + Send + 'static) {
        self.answers.take_trains(open_until);
    }

    /// Where this host agrees to be pressed, or does not.
    pub fn door(&self) -> PreflightListener {
        self.answers.door()
    }

    /// Whether a train may come any moment now.
    pub fn expects_train(&self) -> bool {
        self.answers.expects_train()
    }

    /// Whether all flows on the list are probed already.
    pub fn knows(&self, list: &ProbeList) -> bool {
        list.flows.iter().all(|flow| self.prober.probes(flow))
    }

    /// Probes what is on the list, less what cannot be sent from here. Says what was wrong last.
    pub fn handle_list(&mut self, mut list: ProbeList) -> Result<(), ProbingError> {
        let roster = std::mem::take(&mut list.roster);
        self.answers.handle_roster(roster, *list.valid_for);
        let answering = self.answer_now();
        let ports: BTreeSet<_> = list.flows.iter().map(|flow| flow.source.port()).collect();
        // Answers that wait at a port would be lost with it.
        self.asking
            .retain(|port, _| ports.contains(port) || self.prober.awaits(*port));
        let opened: Vec<_> = ports.into_iter().map(|port| self.open(port)).collect();
        let outcome = opened.into_iter().chain([answering]).collect();
        let asking = &self.asking;
        list.flows
            .retain(|flow| asking.contains_key(&flow.source.port()));
        // No probe is large where the kernel does not report the MTU.
        let mtus = RouteSocket::open().and_then(|mut route| route.mtus());
        self.prober.handle_mtus(mtus.unwrap_or_default());
        self.prober.handle_list(clock::now(), &list);
        outcome
    }

    /// Sends what is due, waits for packets, no longer than `most`, and takes them in. Says how many
    /// packets it had to do with.
    pub fn turn(&mut self, most: Duration) -> Result<usize, ProbingError> {
        let mut done = self.send();
        for (port, events) in self.wait(most)? {
            done += match self.asking.get(&port) {
                Some(socket) => hear(&mut self.prober, socket, &mut self.inbox, events),
                None => self.answer(events),
            };
        }
        self.give_up(&clock::clocks());
        Ok(done)
    }

    fn give_up(&mut self, now: &Clocks) {
        if moment(now).since(self.looked) >= FATE_CHECK_INTERVAL {
            self.looked = moment(now);
            self.prober.handle_time(now);
            look(self.answers.witness(), &mut self.tap);
        }
    }

    pub fn poll_readings(&mut self) -> Vec<ProbeReading> {
        self.prober.poll_readings()
    }

    /// Whether the outcome of every probe is known and reported.
    pub fn is_settled(&self) -> bool {
        self.prober.is_settled()
    }

    /// Packets that were of no use so far: at the ports probes are sent from, and where they are
    /// answered.
    pub fn strays(&self) -> PortStrays {
        PortStrays {
            asking: self.prober.strays(),
            answering: self.answers.strays(),
        }
    }

    fn open(&mut self, port: u16) -> Result<(), ProbingError> {
        if let Entry::Vacant(place) = self.asking.entry(port) {
            let socket = StampedSocket::open(port);
            place.insert(socket.map_err(|source| ProbingError::Ask { port, source })?);
        }
        Ok(())
    }

    fn send(&mut self) -> usize {
        let mut due: BTreeMap<u16, Vec<OutgoingProbe>> = BTreeMap::new();
        let clocks = clock::clocks();
        while let Some(probe) = self.prober.poll_probe(moment(&clocks), clocks) {
            due.entry(probe.flow.source.port()).or_default().push(probe);
        }
        for (port, probes) in &due {
            let mut parcels: Vec<_> = probes.iter().map(parcel).collect();
            let Some(socket) = self.asking.get(port) else {
                continue;
            };
            for (at, why) in socket.send(&mut parcels) {
                self.prober.handle_unsent(&probes[at], why);
            }
            // Most have left by now.
            take_fates(&mut self.prober, socket, &mut self.inbox);
        }
        due.values().map(Vec::len).sum()
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

    /// The time until the next probe is due. It is rounded up, because a wait of less than a millisecond would not
    /// wait at all.
    fn patience(&self, most: Duration) -> PollTimeout {
        let due = self.prober.next_due().map(|due| due.since(clock::now()));
        let wait = due.map_or(most, |due| due.min(most)) + Duration::from_micros(999);
        PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX)
    }

    fn answer(&mut self, events: PollFlags) -> usize {
        let Self {
            answering: Some(socket),
            answers,
            inbox,
            tap,
            ..
        } = self
        else {
            return 0;
        };
        let (mut heard, mut short) = (0, vec![]);
        if let Some(tap) = tap.as_ref() {
            tap.receive(|packet| answers.witness().handle_packet(packet));
        }
        if events.contains(PollFlags::POLLIN) {
            heard = socket.receive(inbox, |packet, length| {
                let (from, to) = (*packet.to.ip(), packet.from);
                match answers.handle_packet(packet, length) {
                    Some(Reply::Short(bytes)) => short.push(answer(bytes, from, to)),
                    // What cannot be sent is lost, and counted by who waits for it.
                    Some(Reply::Page(bytes)) => drop(socket.send_long(&bytes, from, to)),
                    None => {}
                }
            });
        }
        look(answers.witness(), tap);
        socket.send(&mut short);
        let now = clock::clocks();
        socket.fates(inbox, |fate| {
            if let Fate::Left { pair, bytes, stamp } = fate {
                answers.handle_left(pair[1], &bytes, stamp, &now);
            }
        });
        heard
    }
}

fn answering_socket(port: u16) -> Result<StampedSocket, Errno> {
    let socket = StampedSocket::open(port)?;
    socket.widen()?;
    Ok(socket)
}

/// Before an answer says that packets are looked for, and no longer than that.
fn look(witness: &mut ConfirmationResponder, tap: &mut Option<Tap>) {
    if !witness.looks(clock::now()) {
        *tap = None;
    } else if tap.is_none() {
        *tap = Tap::open().ok();
        witness.handle_blind(tap.is_none());
    }
}

fn parcel(probe: &OutgoingProbe) -> OutgoingPacket {
    OutgoingPacket {
        bytes: probe.bytes,
        length: probe.length,
        from: *probe.flow.source.ip(),
        to: probe.flow.destination,
    }
}

fn answer(bytes: [u8; PACKET_BYTES], from: Ipv4Addr, to: SocketAddrV4) -> OutgoingPacket {
    let length = PACKET_BYTES;
    OutgoingPacket {
        bytes,
        length,
        from,
        to,
    }
}

fn hear(
    prober: &mut Prober,
    socket: &StampedSocket,
    inbox: &mut PacketBatch,
    events: PollFlags,
) -> usize {
    if events.contains(PollFlags::POLLERR) {
        take_fates(prober, socket, inbox);
    }
    if events.contains(PollFlags::POLLIN) {
        return socket.receive(inbox, |packet, _| prober.handle_packet(packet));
    }
    0
}

fn take_fates(prober: &mut Prober, socket: &StampedSocket, inbox: &mut PacketBatch) {
    socket.fates(inbox, |fate| match fate {
        Fate::Left { pair, bytes, stamp } => prober.handle_left(pair, &bytes, stamp),
        Fate::Refused { pair, bytes } => prober.handle_refused(pair, &bytes),
    });
}

fn moment(clocks: &Clocks) -> Moment {
    Moment::from_micros(clocks.steady_ns / 1000)
}
