//! From a port of this machine into the cluster, so that a person's browser reaches the dashboard there.
//!
//! A socket belongs to the network it was made in, wherever its owner runs: it is made here, and served
//! by a copy of this program inside.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use reweave_tests::{Stage, StageError};

/// What the copy is called with.
pub(crate) const BRIDGE_ARGUMENT: &str = "--bridge";
/// Where the page is here, if that is free.
const DEFAULT_PORT: u16 = 7334;
/// A coordinator that says nothing for this long does not lead.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

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
        let mut copy: Command = stage.inside(Stage::STATION_NAME, program);
        let socket = Stdio::from(std::os::fd::OwnedFd::from(listener));
        let child = copy
            .arg(BRIDGE_ARGUMENT)
            .args(Stage::PAGE_PORTS.map(|port| port.to_string()))
            .stdin(socket)
            .spawn()
            .map_err(failed)?;
        Ok(Self { child, at })
    }
}

fn listen() -> io::Result<TcpListener> {
    let at = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    at(DEFAULT_PORT).or_else(|_| at(0))
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the copy does: it takes a client to the one of these that leads.
pub(crate) fn serve(ports: &[u16]) -> io::Result<()> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    for browser in TcpListener::from(socket).incoming() {
        let leads = ports.iter().find(|&&port| leads(port).unwrap_or(false));
        let inside = leads.map(|&port| TcpStream::connect((Ipv4Addr::LOCALHOST, port)));
        // Who is not joined is cut off, and may come again.
        if let (Ok(browser), Some(Ok(inside))) = (browser, inside) {
            let _ = join(&browser, &inside);
        }
    }
    Ok(())
}

fn leads(port: u16) -> io::Result<bool> {
    let mut coordinator = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    coordinator.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    coordinator
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut said = String::new();
    coordinator.read_to_string(&mut said)?;
    Ok(said.contains("\nreweave_leads 1\n"))
}

fn join(browser: &TcpStream, inside: &TcpStream) -> io::Result<()> {
    carry(browser.try_clone()?, inside.try_clone()?);
    carry(inside.try_clone()?, browser.try_clone()?);
    Ok(())
}

fn carry(mut from: TcpStream, mut to: TcpStream) {
    thread::spawn(move || {
        // However one side ends, the other learns of it.
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Write);
    });
}
