//! A sender that keeps the interface and the hardware address that it resolved once, under any routes, as a NIC does
//! for its queue pairs; and a receiver that counts packets. Both are this program as a helper inside a node, and run
//! until their input closes.

use std::io::{self, Read as _};
use std::mem::size_of;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Child, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::libc;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{setsockopt, sockopt};
use reweave_tests::Stage;
use socket2::{Domain, SockAddr, Socket, Type};

/// The arguments that select the helper.
pub(crate) const SEND_ARGUMENT: &str = "--send-fixed";
pub(crate) const COUNT_ARGUMENT: &str = "--count";

/// The hardware address of all fibre interfaces.
const FIBRE_MAC: [u8; 6] = [0x02, 0xfa, 0xb0, 0, 0, 1];
const FIRST_PORT: u16 = 9999;
/// Enough flows to use every path that a hash may choose.
const FLOWS: u16 = 16;
/// The offset behind the Ethernet and IPv4 headers.
const SOURCE_PORT_OFFSET_BYTES: usize = 14 + 20;
const SEND_INTERVAL: Duration = Duration::from_millis(1);
/// Room for what the sender sends in many seconds.
const RECEIVE_BUFFER_BYTES: usize = 64 << 20;
/// Packets in flight have arrived after this time.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// A running sender with its receiver.
pub(crate) struct Stream {
    sender: Child,
    counter: Child,
}

impl Stream {
    /// Starts sending from a host over one of its interfaces to another host.
    pub(crate) fn begin(stage: &Stage, [from, interface, to]: [&str; 3]) -> Self {
        let address = |name: &str| {
            let fabric = stage.fabric();
            let node = fabric.find(name).expect("it is there");
            fabric.address(node).expect("it has one").to_string()
        };
        let helper = |node: &str, words: &[&str]| {
            let this = std::env::current_exe().expect("this program has a path");
            let mut command = stage.inside(node, this);
            let piped = command.args(words).stdin(Stdio::piped());
            piped.stdout(Stdio::piped()).spawn().expect("it starts")
        };
        let mut counter = helper(to, &[COUNT_ARGUMENT]);
        let mut heard = [0];
        let listens = counter
            .stdout
            .as_mut()
            .expect("piped")
            .read_exact(&mut heard);
        listens.expect("the counter listens");
        let sender = helper(
            from,
            &[SEND_ARGUMENT, interface, &address(from), &address(to)],
        );
        Self { sender, counter }
    }

    /// How many packets were sent, and how many arrived.
    pub(crate) fn end(self) -> [u64; 2] {
        [self.sender, self.counter].map(|mut child| {
            drop(child.stdin.take());
            let output = child.wait_with_output().expect("it ends");
            let said = String::from_utf8_lossy(&output.stdout);
            said.trim().parse().expect("a count")
        })
    }
}

/// Becomes true when the input is closed.
fn end_of_input() -> Arc<AtomicBool> {
    let ended = Arc::new(AtomicBool::new(false));
    let tell = Arc::clone(&ended);
    thread::spawn(move || {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        tell.store(true, Ordering::Relaxed);
    });
    ended
}

pub(crate) fn send(arguments: &[String]) -> ExitCode {
    let address = |text: &String| text.parse::<Ipv4Addr>().expect("an address");
    let mut frame = frame(address(&arguments[1]), address(&arguments[2]));
    let socket = Socket::new(Domain::PACKET, Type::RAW, None).expect("a packet socket");
    let to = link(&arguments[0]).expect("an interface");
    let (ended, mut sent) = (end_of_input(), 0_u64);
    for source in (FIRST_PORT..FIRST_PORT + FLOWS).cycle() {
        if ended.load(Ordering::Relaxed) {
            break;
        }
        frame[SOURCE_PORT_OFFSET_BYTES..SOURCE_PORT_OFFSET_BYTES + 2]
            .copy_from_slice(&source.to_be_bytes());
        sent += u64::from(socket.send_to(&frame, &to).is_ok());
        thread::park_timeout(SEND_INTERVAL);
    }
    println!("{sent}");
    ExitCode::SUCCESS
}

pub(crate) fn count() -> ExitCode {
    let socket = UdpSocket::bind(("0.0.0.0", FIRST_PORT)).expect("a port");
    // The buffer keeps what arrives while the processor does other work.
    let room = setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_BUFFER_BYTES);
    room.expect("root may have as much as it likes");
    socket
        .set_read_timeout(Some(DRAIN_TIMEOUT))
        .expect("sockets can wait");
    // The sender waits for this line.
    println!();
    let (ended, mut count) = (end_of_input(), 0_u64);
    loop {
        match socket.recv(&mut [0; 64]) {
            Ok(_) => count += 1,
            Err(_) if ended.load(Ordering::Relaxed) => break,
            Err(_) => {}
        }
    }
    println!("{count}");
    ExitCode::SUCCESS
}

#[allow(unsafe_code, reason = "no crate makes addresses of packet sockets")]
fn link(interface: &str) -> io::Result<SockAddr> {
    let index = if_nametoindex(interface)?;
    // SAFETY: the storage is large enough for every address, and all of this one is written.
    let ((), address) = unsafe {
        SockAddr::try_init(|storage, length| {
            let address = storage.cast::<libc::sockaddr_ll>();
            (*address).sll_family = libc::AF_PACKET as u16;
            (*address).sll_protocol = (libc::ETH_P_IP as u16).to_be();
            (*address).sll_ifindex = i32::try_from(index).unwrap_or(i32::MAX);
            *length = size_of::<libc::sockaddr_ll>() as u32;
            Ok(())
        })
    }?;
    Ok(address)
}

/// A UDP datagram without a payload, with its Ethernet header.
fn frame(from: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
    let mut header = [0; 20];
    header[..4].copy_from_slice(&[0x45, 0, 0, 28]);
    header[8..10].copy_from_slice(&[16, libc::IPPROTO_UDP as u8]);
    header[12..16].copy_from_slice(&from.octets());
    header[16..].copy_from_slice(&to.octets());
    let words = header
        .chunks(2)
        .map(|two| u32::from(two[0]) << 8 | u32::from(two[1]));
    let sum: u32 = words.sum();
    let folded = !((sum & 0xffff) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&folded.to_be_bytes());
    let [high, low] = FIRST_PORT.to_be_bytes();
    let datagram = [high, low, high, low, 0, 8, 0, 0];
    [
        &FIBRE_MAC[..],
        &FIBRE_MAC,
        &[0x08, 0x00],
        &header,
        &datagram,
    ]
    .concat()
}
