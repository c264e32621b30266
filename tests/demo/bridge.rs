//! From a port of this machine into the cluster, so that a person's browser reaches the dashboard there.
//!
//! A socket belongs to the network it was made in, wherever its owner runs: it is made here, and served
//! by a copy of this program inside.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::thread;

use reweave_tests::{Stage, StageError};

/// What the copy is called with.
pub(crate) const INSIDE: &str = "--bridge";
/// Where the coordinator serves HTTP, inside and, if that is free, here too.
const PORT: u16 = 7334;

/// Open until this is dropped.
pub(crate) struct Bridge {
    child: Child,
    pub(crate) at: SocketAddr,
}

impl Bridge {
    pub(crate) fn open(stage: &Stage) -> Result<Self, StageError> {
        let failed = |source| StageError::Start {
            command: "the way to the dashboard".to_owned(),
            source,
        };
        let listener = listen().map_err(failed)?;
        let at = listener.local_addr().map_err(failed)?;
        let program = std::env::current_exe().map_err(failed)?;
        let mut copy: Command = stage.inside(Stage::STATION, program);
        let socket = Stdio::from(std::os::fd::OwnedFd::from(listener));
        let child = copy.arg(INSIDE).stdin(socket).spawn().map_err(failed)?;
        Ok(Self { child, at })
    }
}

fn listen() -> io::Result<TcpListener> {
    let at = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    at(PORT).or_else(|_| at(0))
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the copy does: it takes whoever comes to where the coordinator is.
pub(crate) fn serve() -> io::Result<()> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    for browser in TcpListener::from(socket).incoming() {
        let inside = TcpStream::connect((Ipv4Addr::LOCALHOST, PORT));
        if let (Ok(browser), Ok(inside)) = (browser, inside) {
            join(&browser, &inside)?;
        }
    }
    Ok(())
}

fn join(browser: &TcpStream, inside: &TcpStream) -> io::Result<()> {
    carry(browser.try_clone()?, inside.try_clone()?);
    carry(inside.try_clone()?, browser.try_clone()?);
    Ok(())
}

fn carry(mut from: TcpStream, mut to: TcpStream) {
    thread::spawn(move || {
        // However one side ends, the other is told.
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Write);
    });
}
