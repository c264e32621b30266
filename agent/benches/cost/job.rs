//! A job that never rests, on a shaped link: what it gets through while the agent works, and while it
//! stands still. Both in turns, so that whatever else the machine does hits both alike.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::within;

const PAIRS: usize = 12;
const WINDOW: Duration = Duration::from_secs(2);
/// After the agent was stopped, or goes on.
const SETTLE: Duration = Duration::from_millis(300);
/// Of a gigabit, as the lab shapes it.
const SHAPE: &str = "qdisc replace dev eth0 root tbf rate 1gbit burst 125000 limit 4000000";

/// How much less it gets beside the agent, in percent: the median of all pairs.
pub(crate) fn loses_percent(agent: &Child, peer: Ipv4Addr) -> f64 {
    let listener = within("peers", || TcpListener::bind((peer, 0)).expect("a port"));
    let at = listener.local_addr().expect("bound");
    let sender = within("host", || {
        let shaped = Command::new("tc").args(SHAPE.split(' ')).status();
        assert!(shaped.is_ok_and(|it| it.success()), "tc {SHAPE}");
        TcpStream::connect(at).expect("it is reached")
    });
    let (receiver, _) = listener.accept().expect("it comes");
    let (received, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut ratios = vec![];
    thread::scope(|scope| {
        scope.spawn(|| send(sender, &over));
        scope.spawn(|| receive(receiver, &received));
        for pair in 0..PAIRS {
            let first = pair % 2 == 0;
            let [a, b] = [first, !first].map(|works| window(agent, works, &received));
            let (beside, alone) = if first { (a, b) } else { (b, a) };
            ratios.push(beside / alone);
        }
        signal(agent, Signal::SIGCONT);
        over.store(true, Ordering::Relaxed);
    });
    ratios.sort_by(f64::total_cmp);
    (1.0 - ratios[ratios.len() / 2]) * 100.0
}

/// Bytes in a second.
fn window(agent: &Child, works: bool, received: &AtomicU64) -> f64 {
    signal(
        agent,
        if works {
            Signal::SIGCONT
        } else {
            Signal::SIGSTOP
        },
    );
    thread::sleep(SETTLE);
    let (begun, before) = (Instant::now(), received.load(Ordering::Relaxed));
    thread::sleep(WINDOW);
    let came = received.load(Ordering::Relaxed) - before;
    came as f64 / begun.elapsed().as_secs_f64()
}

fn signal(agent: &Child, signal: Signal) {
    let pid = Pid::from_raw(agent.id().cast_signed());
    kill(pid, signal).expect("the agent is there");
}

fn send(mut sender: TcpStream, over: &AtomicBool) {
    let data = vec![7; 1 << 18];
    while !over.load(Ordering::Relaxed) {
        sender.write_all(&data).expect("the session lives");
    }
}

fn receive(mut receiver: TcpStream, received: &AtomicU64) {
    let mut buffer = vec![0; 1 << 18];
    while let Ok(length @ 1..) = receiver.read(&mut buffer) {
        received.fetch_add(length as u64, Ordering::Relaxed);
    }
}
