//! Carries datagrams and time between a socket and a stream's end.

use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::time::{Instant, Sleep, sleep};

use super::session::{Breakage, Session};
use super::socket;
use crate::worker::clock;

/// Maximum number of datagrams received before other streams get a turn.
const MAX_DATAGRAMS_PER_TURN: usize = 32;

pub(super) struct Driver {
    pub(super) socket: UdpSocket,
    pub(super) session: Rc<Session>,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    /// `outgoing` waits until the kernel has room for it.
    blocked: bool,
}

impl Driver {
    pub(super) fn new(socket: UdpSocket, session: Rc<Session>) -> Self {
        Self {
            socket,
            session,
            incoming: vec![0; socket::MAX_MTU_BYTES],
            outgoing: Vec::new(),
            blocked: false,
        }
    }

    /// Until the session breaks. A NIC, too, acknowledges whether a program reads or not.
    pub(super) async fn run(mut self) {
        let mut timer = pin!(sleep(Duration::ZERO));
        let why = loop {
            if let Err(why) = self.turn() {
                break why;
            }
            self.wait(timer.as_mut()).await;
        };
        self.session.break_off(why);
    }

    async fn wait(&self, mut timer: Pin<&mut Sleep>) {
        let wanted = if self.blocked {
            Interest::READABLE | Interest::ERROR | Interest::WRITABLE
        } else {
            Interest::READABLE | Interest::ERROR
        };
        let left = self
            .session
            .with(|endpoint| endpoint.poll_timeout())
            .saturating_sub(clock::now());
        timer.as_mut().reset(Instant::now() + left);
        tokio::select! {
            _ = self.socket.ready(wanted) => {}
            () = self.session.stirred.notified() => {}
            () = timer => {}
        }
    }

    /// First takes in what has come, because it may say that nothing is overdue.
    fn turn(&mut self) -> Result<(), Breakage> {
        self.take_in()?;
        self.pass_time()?;
        self.put_out()
    }

    fn pass_time(&self) -> Result<(), Breakage> {
        let now = clock::now();
        self.session.with(|endpoint| {
            if endpoint.poll_timeout() <= now {
                endpoint.handle_timeout(now);
            }
            if endpoint.is_forsaken(now) {
                Err(Breakage::Silent)
            } else {
                Ok(())
            }
        })
    }

    fn take_in(&mut self) -> Result<(), Breakage> {
        self.hear_errors()?;
        let mut any = false;
        for _ in 0..MAX_DATAGRAMS_PER_TURN {
            match self.socket.try_recv(&mut self.incoming) {
                Ok(length) => {
                    let datagram = &self.incoming[..length];
                    self.session
                        .with(|endpoint| endpoint.handle_datagram(clock::now(), datagram));
                    any = true;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => self.judge(&error)?,
            }
        }
        if any {
            self.session.wake_user();
        }
        Ok(())
    }

    /// Reads ICMP errors of the socket, which arrive separately from data.
    fn hear_errors(&self) -> Result<(), Breakage> {
        let next = || match self.socket.take_error()? {
            Some(error) => Ok(error),
            None => Err(io::ErrorKind::WouldBlock.into()),
        };
        while let Ok(error) = self.socket.try_io(Interest::ERROR, next) {
            self.judge(&error)?;
        }
        Ok(())
    }

    fn put_out(&mut self) -> Result<(), Breakage> {
        while self.blocked
            || self
                .session
                .with(|endpoint| endpoint.poll_transmit(clock::now(), &mut self.outgoing))
        {
            match self.socket.try_send(&self.outgoing) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.blocked = true;
                    return Ok(());
                }
                Err(error) => self.judge(&error)?,
                Ok(_) => {}
            }
            self.blocked = false;
        }
        Ok(())
    }

    /// Judges an error. A missing route or a full queue is temporary, and lost packets are sent again.
    fn judge(&self, error: &io::Error) -> Result<(), Breakage> {
        match error.raw_os_error() {
            Some(libc::ECONNREFUSED) => return Err(Breakage::Refused),
            Some(libc::EMSGSIZE) => {
                if let Ok(bytes) = socket::datagram_bytes(&self.socket) {
                    self.session
                        .with(|endpoint| endpoint.set_datagram_bytes(bytes));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
