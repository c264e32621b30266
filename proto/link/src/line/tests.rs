//! To whom the line is kept up, and for how long.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::mpsc;
use std::thread;

use reweave_common::instruction::Instruction;
use reweave_common::sample::Sample;
use reweave_proto::message::{AgentMessage, CoordinatorMessage};
use tempfile::TempDir;
use tokio::runtime::Builder;
use tokio::time::{Instant, pause};

use super::*;
use crate::pki::{Authority, Validity};
use crate::{IDLE_TIMEOUT, Identity, Listener, Role};

enum Plain {}

impl Dialect for Plain {
    type Said = AgentMessage;
    type Heard = CoordinatorMessage;
    type Told = Instruction;
    type Measured = Sample;
    type Report = ();

    fn clock(time_of_day_us: u64) -> AgentMessage {
        AgentMessage::Clock { time_of_day_us }
    }

    fn renew(request: Vec<u8>) -> AgentMessage {
        AgentMessage::Renew { request }
    }

    fn report((): &mut (), sample: Sample) -> AgentMessage {
        AgentMessage::Sample(sample)
    }
}

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A coordinator that lets one agent in, and stands still from then on: in its runtime nothing is
/// driven any more.
struct Frozen {
    address: SocketAddr,
    _stays: mpsc::Sender<()>,
}

impl Frozen {
    fn begin(ours: Identity) -> Self {
        let (tell, told) = mpsc::channel();
        let (stays, goes) = mpsc::channel::<()>();
        thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            let session = runtime.block_on(async {
                let mut listener = Listener::bind(ANY_PORT, &ours, &[Role::Agent]).unwrap();
                tell.send(listener.address().unwrap()).unwrap();
                let session = listener.accept().await.unwrap().unwrap();
                (listener, session)
            });
            let _ = goes.recv();
            drop(session);
        });
        Self {
            address: told.recv().unwrap(),
            _stays: stays,
        }
    }
}

fn issued(authority: &Authority, home: &TempDir, role: Role, name: &str) -> std::path::PathBuf {
    let folder = home.path().join(name);
    authority
        .issue(role, name, Validity::day(), &folder)
        .unwrap();
    folder
}

/// How long it takes until the agent leaves, with so many other addresses that it knows.
async fn leaves_after(others: usize) -> Duration {
    let home = tempfile::tempdir().unwrap();
    let authority = Authority::create(&home.path().join("authority"), "lab").unwrap();
    let coordinator = issued(&authority, &home, Role::Coordinator, "c0");
    let frozen = Frozen::begin(Identity::load(&coordinator).unwrap());
    let agent = issued(&authority, &home, Role::Agent, "h0");
    let certificate = Certificate::load(&agent, Role::Agent).unwrap();
    let silent = UdpSocket::bind(ANY_PORT).unwrap();
    let silent = std::iter::repeat_n(silent.local_addr().unwrap(), others);
    let addresses = std::iter::once(frozen.address).chain(silent).collect();
    let dialer = Dialer::new(certificate.identity(), addresses, Role::Coordinator).unwrap();
    let mut line = Line::<Plain>::start(dialer, certificate);
    assert!(matches!(line.next().await, Some(Event::Connected)));
    pause();
    let since = Instant::now();
    assert!(matches!(line.next().await, Some(Event::Lost)));
    since.elapsed()
}

#[tokio::test]
async fn a_coordinator_that_says_nothing_is_left_for_another() {
    let after = leaves_after(1).await;
    let rule = LOOK_EVERY * GIVE_UP_AFTER;
    assert_eq!(rule, Duration::from_millis(1200));
    let late = LOOK_EVERY * 5;
    assert!(
        (rule - LOOK_EVERY..rule + late).contains(&after),
        "{after:?}"
    );
}

#[tokio::test]
async fn the_only_coordinator_there_is_is_waited_for() {
    let after = leaves_after(0).await;
    assert!(after > IDLE_TIMEOUT / 2, "{after:?}");
}
