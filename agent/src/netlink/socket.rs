//! Requests to the kernel and its answers, one at a time.

use std::io;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::{
    DoneMessage, ErrorMessage, NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST,
    NetlinkDeserializable, NetlinkHeader, NetlinkMessage, NetlinkPayload, NetlinkSerializable,
};
use netlink_sys::{Socket, SocketAddr};
use nix::sys::socket::{setsockopt, sockopt::ReceiveTimeout};
use nix::sys::time::{TimeVal, TimeValLike};

use super::error::{KernelError, NetlinkError};
use crate::eintr;

/// The buffer is larger than any datagram of a dump.
pub(super) const BUFFER_BYTES: usize = 64 * 1024;
/// The kernel answers at once; a lost answer must not block the agent.
const RECEIVE_TIMEOUT_S: i64 = 2;
/// A dump is repeated if something changed during it, or if the buffer was too small.
const MAX_DUMP_TRIES: usize = 5;

pub(crate) struct NetlinkSocket {
    socket: Socket,
    protocol: isize,
    sequence: u32,
    buffer: Vec<u8>,
}

impl NetlinkSocket {
    pub(crate) fn open(protocol: isize) -> Result<Self, NetlinkError> {
        Ok(Self {
            socket: open(protocol).map_err(|source| NetlinkError::Open { source })?,
            protocol,
            sequence: 0,
            buffer: vec![0; BUFFER_BYTES],
        })
    }

    /// Everything that the kernel lists for `request`.
    pub(crate) fn dump<Q, A>(
        &mut self,
        what: &'static str,
        request: &Q,
    ) -> Result<Vec<A>, NetlinkError>
    where
        Q: NetlinkSerializable + Clone,
        A: NetlinkDeserializable,
    {
        let flags = NLM_F_REQUEST | NLM_F_DUMP;
        self.whole(what, request, flags)
    }

    /// The kernel's answer about one object.
    pub(crate) fn ask<Q, A>(
        &mut self,
        what: &'static str,
        request: &Q,
    ) -> Result<Vec<A>, NetlinkError>
    where
        Q: NetlinkSerializable + Clone,
        A: NetlinkDeserializable,
    {
        self.whole(what, request, NLM_F_REQUEST | NLM_F_ACK)
    }

    /// Requests a change, and waits until it is made. If the answer was lost, it may have been made.
    pub(crate) fn change<M>(
        &mut self,
        what: &'static str,
        request: M,
        flags: u16,
    ) -> Result<(), NetlinkError>
    where
        M: NetlinkSerializable + NetlinkDeserializable,
    {
        let flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        self.exchange::<M, M>(what, request, flags).map(drop)
    }

    /// A read request, repeated until its answer is consistent and complete.
    fn whole<Q, A>(
        &mut self,
        what: &'static str,
        request: &Q,
        flags: u16,
    ) -> Result<Vec<A>, NetlinkError>
    where
        Q: NetlinkSerializable + Clone,
        A: NetlinkDeserializable,
    {
        let mut last = NetlinkError::NeverSteady { what };
        for _ in 0..MAX_DUMP_TRIES {
            match self.exchange(what, request.clone(), flags) {
                Ok(Some(listed)) => return Ok(listed),
                Ok(None) => {}
                Err(error) if error.is_overrun() => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    /// A request and its answer; none if something changed meanwhile.
    fn exchange<Q, A>(
        &mut self,
        what: &'static str,
        request: Q,
        flags: u16,
    ) -> Result<Option<Vec<A>>, NetlinkError>
    where
        Q: NetlinkSerializable,
        A: NetlinkDeserializable,
    {
        let sent = self.send(what, request, flags);
        let outcome = sent.and_then(|()| self.receive(what));
        if outcome.as_ref().is_err_and(NetlinkError::leaves_answers) {
            // During a dump the kernel starts no other one on the same socket, and one that stopped for lack of memory
            // never continues. The caller is in the network namespace of the socket.
            let socket = open(self.protocol);
            self.socket = socket.map_err(|source| NetlinkError::Open { source })?;
        }
        outcome
    }

    fn send<M>(&mut self, what: &'static str, request: M, flags: u16) -> Result<(), NetlinkError>
    where
        M: NetlinkSerializable,
    {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(request));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        let sent = self.socket.send(&bytes, 0);
        sent.map(drop)
            .map_err(|source| NetlinkError::Send { what, source })
    }

    /// The listed messages; none if something changed while they were listed.
    fn receive<M: NetlinkDeserializable>(
        &mut self,
        what: &'static str,
    ) -> Result<Option<Vec<M>>, NetlinkError> {
        let mut answer = NetlinkAnswer {
            what,
            sequence: Some(self.sequence),
            listed: vec![],
            torn: false,
        };
        let mut buffer = mem::take(&mut self.buffer);
        let outcome = loop {
            let received = eintr::retry(|| self.socket.recv(&mut &mut buffer[..], 0));
            let outcome = received
                .map_err(|source| NetlinkError::Receive { what, source })
                .and_then(|length| answer.take(&buffer[..length.min(BUFFER_BYTES)]));
            match outcome {
                Ok(false) => {}
                Ok(true) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.buffer = buffer;
        outcome.map(|()| (!answer.torn).then_some(answer.listed))
    }
}

impl AsFd for NetlinkSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn open(protocol: isize) -> io::Result<Socket> {
    let mut socket = Socket::new(protocol)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    setsockopt(
        &socket,
        ReceiveTimeout,
        &TimeVal::seconds(RECEIVE_TIMEOUT_S),
    )?;
    // Older kernels lack some of these options, which only save work or give reasons.
    let _ = socket.set_netlink_get_strict_chk(true);
    let _ = socket.set_ext_ack(true);
    let _ = socket.set_cap_ack(true);
    Ok(socket)
}

/// The valid objects of a datagram, for any request.
pub(crate) fn listed<M: NetlinkDeserializable>(datagram: &[u8]) -> Vec<M> {
    let mut answer = NetlinkAnswer {
        what: "list",
        sequence: None,
        listed: vec![],
        torn: false,
    };
    let _ = answer.take(datagram);
    answer.listed
}

/// The received part of an answer.
struct NetlinkAnswer<M> {
    what: &'static str,
    /// None if nothing was requested.
    sequence: Option<u32>,
    listed: Vec<M>,
    torn: bool,
}

impl<M: NetlinkDeserializable> NetlinkAnswer<M> {
    /// Reads a datagram. Returns whether the answer is complete.
    fn take(&mut self, mut datagram: &[u8]) -> Result<bool, NetlinkError> {
        while !datagram.is_empty() {
            let what = self.what;
            let message = NetlinkMessage::deserialize(datagram)
                .map_err(|source| NetlinkError::Decode { what, source })?;
            let length = (message.header.length as usize).next_multiple_of(4);
            datagram = datagram.get(length..).unwrap_or_default();
            let number = message.header.sequence_number;
            let is_meant = self.sequence.is_none_or(|asked| asked == number);
            if is_meant && self.take_message(message)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn take_message(&mut self, message: NetlinkMessage<M>) -> Result<bool, NetlinkError> {
        self.torn |= message.header.flags & NLM_F_DUMP_INTR != 0;
        match message.payload {
            NetlinkPayload::InnerMessage(listed) => self.listed.push(listed),
            NetlinkPayload::Error(error) => return self.ended(&error).map(|()| true),
            NetlinkPayload::Done(done) => return self.listed_all(&done).map(|()| true),
            _ => {}
        }
        Ok(false)
    }

    /// A dump that failed ends like a complete one, except for its error.
    fn listed_all(&self, done: &DoneMessage) -> Result<(), NetlinkError> {
        let what = self.what;
        KernelError::of_list(done)
            .map_or(Ok(()), |source| Err(NetlinkError::Refused { what, source }))
    }

    fn ended(&self, error: &ErrorMessage) -> Result<(), NetlinkError> {
        match error.code {
            None => Ok(()),
            Some(_) => Err(NetlinkError::Refused {
                what: self.what,
                source: KernelError::read(error),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use netlink_packet_route::RouteNetlinkMessage;

    use super::*;

    fn taken(code: i32) -> Result<bool, NetlinkError> {
        let mut done = DoneMessage::default();
        done.code = code;
        let payload = NetlinkPayload::<RouteNetlinkMessage>::Done(done);
        let mut message = NetlinkMessage::new(NetlinkHeader::default(), payload);
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        let mut answer = NetlinkAnswer::<RouteNetlinkMessage> {
            what: "list its routes",
            sequence: None,
            listed: vec![],
            torn: false,
        };
        answer.take(&bytes)
    }

    #[test]
    fn interrupted_dump_is_incomplete() {
        assert!(taken(0).unwrap());
        let refused = taken(-105).unwrap_err();
        assert!(refused.is_overrun(), "{refused}");
    }
}
