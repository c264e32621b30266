//! Asks the agents of receivers for arrivals of flows.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};

use reweave_agent_core::latency::PACKET_BYTES;
use reweave_agent_core::path_confirmation::{question, read_answer};
use reweave_agent_core::trace::{ArrivalQuestion, Tracer};
use reweave_common::moment::Moment;
use reweave_common::probing::PROBE_PORT;

use crate::probes::Prober;

/// A flood on one socket must not delay the others.
const MAX_PACKETS_PER_TURN: usize = 256;

/// A socket for each own address that flows begin at: agents answer addresses that they know.
#[derive(Debug, Default)]
pub struct ConfirmationClient {
    sockets: BTreeMap<Ipv4Addr, UdpSocket>,
}

impl ConfirmationClient {
    /// Asks all that is to be asked now. What cannot be sent is as good as lost.
    pub fn ask_for(&mut self, tracer: &mut Tracer, prober: &mut Prober, now: Moment) {
        while let Some(ArrivalQuestion { flow, probe }) = tracer.poll_arrival(now) {
            if let Some(probe) = probe {
                prober.send(&probe);
            }
            let to = SocketAddrV4::new(*flow.destination.ip(), PROBE_PORT);
            if let Ok(socket) = self.socket(*flow.source.ip()) {
                let id = probe.map(|probe| probe.id);
                let _ = socket.send_to(&question(&flow, id), to);
            }
        }
    }

    /// Hands on what was answered meanwhile.
    pub fn hear_for(&self, tracer: &mut Tracer, now: Moment) {
        for (own, socket) in &self.sockets {
            let mut bytes = [0; PACKET_BYTES];
            for _ in 0..MAX_PACKETS_PER_TURN {
                match socket.recv_from(&mut bytes) {
                    Ok((length, SocketAddr::V4(from))) if from.port() == PROBE_PORT => {
                        let answer = read_answer([*from.ip(), *own], &bytes[..length]);
                        if let Some((flow, sight)) = answer {
                            tracer.handle_sight(now, &flow, sight);
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    // The packet is from another port, or the error is of an earlier request that was refused.
                    _ => {}
                }
            }
        }
    }

    fn socket(&mut self, own: Ipv4Addr) -> io::Result<&UdpSocket> {
        match self.sockets.entry(own) {
            Entry::Occupied(open) => Ok(open.into_mut()),
            Entry::Vacant(place) => {
                let socket = UdpSocket::bind((own, 0))?;
                socket.set_nonblocking(true)?;
                Ok(place.insert(socket))
            }
        }
    }
}
