//! All requests on the probes' port: probes, trains, saturating tests, and arrivals of a flow. One roster applies to
//! all of them.

use std::net::Ipv4Addr;
use std::time::Duration;

use reweave_agent_core::latency::{Clocks, PACKET_BYTES, ReceivedPacket, Responder, Stamp};
use reweave_agent_core::packet_trains::{self, TrainReceiver};
use reweave_agent_core::path_confirmation::{self, ConfirmationResponder};
use reweave_agent_core::preflight;
use reweave_common::moment::Moment;
use reweave_common::probing::Strays;

use crate::clock;
use crate::preflight::PreflightListener;

pub(super) struct ProbeListener {
    responder: Responder,
    receiver: TrainReceiver,
    /// The end of the time in which trains may come now.
    open_until: Box<dyn Fn(Moment) -> Option<Moment> + Send>,
    door: PreflightListener,
    witness: ConfirmationResponder,
    /// The number of packets from hosts that are not on the roster, and of malformed ones.
    refused: u64,
}

/// What is sent back: as long as a probe, or when a train arrived.
pub(super) enum Reply {
    Short([u8; PACKET_BYTES]),
    Page(Vec<u8>),
}

impl From<Vec<u8>> for Reply {
    fn from(bytes: Vec<u8>) -> Self {
        match bytes.try_into() {
            Ok(short) => Self::Short(short),
            Err(bytes) => Self::Page(bytes),
        }
    }
}

impl ProbeListener {
    pub(super) fn new() -> Self {
        Self {
            responder: Responder::default(),
            receiver: TrainReceiver::new(rand::random()),
            open_until: Box::new(|_| None),
            door: PreflightListener::default(),
            witness: ConfirmationResponder::default(),
            refused: 0,
        }
    }

    /// Hosts that were removed from the roster only get answers to probes for the time of `grace`.
    pub(super) fn handle_roster(&mut self, roster: Vec<Ipv4Addr>, grace: Duration) {
        self.receiver.handle_roster(roster.iter().copied());
        self.door.handle_roster(roster.iter().copied());
        self.witness.handle_roster(roster.iter().copied());
        self.responder.handle_roster(clock::now(), roster, grace);
    }

    pub(super) fn take_trains(
        &mut self,
        open_until: impl Fn(Moment) -> Option<Moment> + Send + 'static,
    ) {
        self.open_until = Box::new(open_until);
    }

    pub(super) fn door(&self) -> PreflightListener {
        self.door.clone()
    }

    pub(super) fn expects_train(&self) -> bool {
        self.receiver.is_expecting(clock::now())
    }

    /// What is sent back. It is never longer than the `length` that came, of which `packet` may be the
    /// beginning.
    pub(super) fn handle_packet(
        &mut self,
        packet: &ReceivedPacket<'_>,
        length: usize,
    ) -> Option<Reply> {
        let now = Moment::from_micros(packet.read.steady_ns / 1000);
        if packet_trains::is_message(packet.bytes) {
            let open_until = (self.open_until)(now);
            let answer = self.receiver.handle_packet(now, packet, length, open_until);
            return answer.map(Reply::from);
        }
        if preflight::is_word(packet.bytes) {
            let ends = [packet.from, packet.to];
            let answer = self.door.handle_packet(now, ends, packet.bytes);
            self.refused += u64::from(answer.is_none());
            return answer.map(Reply::Short);
        }
        if path_confirmation::is_word(packet.bytes) {
            let ends = [*packet.from.ip(), *packet.to.ip()];
            let answer = self.witness.handle_word(now, ends, packet.bytes);
            self.refused += u64::from(answer.is_none());
            return answer.map(Reply::Short);
        }
        self.responder.handle_packet(packet).map(Reply::Short)
    }

    /// What has to see the packets that come in.
    pub(super) fn witness(&mut self) -> &mut ConfirmationResponder {
        &mut self.witness
    }

    /// The kernel stamped an answer to `host` as it left.
    pub(super) fn handle_left(&mut self, host: Ipv4Addr, bytes: &[u8], stamp: Stamp, now: &Clocks) {
        self.responder.handle_left(host, bytes, stamp, now);
    }

    pub(super) fn strays(&self) -> Strays {
        let mut strays = self.responder.strays();
        strays.foreign += self.receiver.strays() + self.refused;
        strays
    }
}
