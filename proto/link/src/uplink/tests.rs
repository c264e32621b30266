//! Which coordinator the uplink uses, and for how long.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::mpsc;
use std::thread;

use reweave_common::instruction::{Instruction, Watch};
use reweave_common::member::{Admission, DenyList, Member, RemovedCoordinators};
use reweave_common::sample::Sample;
use reweave_proto::message::{AgentMessage, CoordinatorAddress, CoordinatorMessage};
use tempfile::TempDir;
use tokio::runtime::Builder;
use tokio::time::{Instant, pause};

use super::*;
use crate::pki::{Authority, MAX_MEMBER_VALIDITY, Validity};
use crate::{DenyListFile, IDLE_TIMEOUT, Identity, Listener, Role};

enum Plain {}

impl MemberProtocol for Plain {
    type Said = AgentMessage;
    type Heard = CoordinatorMessage;
    type Instruction = Instruction;
    type Measured = Sample;
    type Report = ();

    fn clock(time_of_day_us: u64) -> AgentMessage {
        AgentMessage::Clock { time_of_day_us }
    }

    fn renew(request: Vec<u8>) -> AgentMessage {
        AgentMessage::Renew { request }
    }

    fn report((): &mut (), sample: Sample, _: Version) -> AgentMessage {
        AgentMessage::Sample(sample)
    }
}

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A coordinator that admits one agent and then freezes: its runtime is no longer driven.
struct Frozen {
    address: SocketAddr,
    _stays: mpsc::Sender<()>,
}

impl Frozen {
    fn begin(ours: Identity) -> Self {
        let (tell, report) = mpsc::channel();
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
            address: report.recv().unwrap(),
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

/// The time until the agent leaves, with this many other known addresses.
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
    let mut line = Uplink::<Plain>::start(dialer, certificate);
    assert!(matches!(line.next().await, Some(UplinkEvent::Connected)));
    pause();
    let since = Instant::now();
    assert!(matches!(line.next().await, Some(UplinkEvent::Lost)));
    since.elapsed()
}

#[tokio::test]
async fn silent_coordinator_is_replaced() {
    let after = leaves_after(1).await;
    let rule = LIVENESS_INTERVAL * GIVE_UP_AFTER_CHECKS;
    assert_eq!(rule, Duration::from_millis(1200));
    let late = LIVENESS_INTERVAL * 5;
    assert!(
        (rule - LIVENESS_INTERVAL..rule + late).contains(&after),
        "{after:?}"
    );
}

#[tokio::test]
async fn only_coordinator_is_waited_for() {
    let after = leaves_after(0).await;
    assert!(after > IDLE_TIMEOUT / 2, "{after:?}");
}

/// A coordinator, and the uplink of an agent whose certificate has lived this long of its day.
struct Renewing {
    home: TempDir,
    authority: Authority,
    session: Session,
    _listener: Listener,
    line: Uplink<Plain>,
}

impl Renewing {
    async fn after(age: Duration) -> Self {
        let home = tempfile::tempdir().unwrap();
        let authority = Authority::create(&home.path().join("authority"), "lab").unwrap();
        let coordinator = issued(&authority, &home, Role::Coordinator, "c0");
        let coordinator = Identity::load(&coordinator).unwrap();
        let mut listener = Listener::bind(ANY_PORT, &coordinator, &[Role::Agent]).unwrap();
        let not_before = SystemTime::now() - age;
        let validity = Validity {
            not_before,
            not_after: not_before + MAX_MEMBER_VALIDITY,
        };
        let folder = home.path().join("h0");
        authority
            .issue(Role::Agent, "h0", validity, &folder)
            .unwrap();
        let certificate = Certificate::load(&folder, Role::Agent).unwrap();
        let addresses = vec![listener.address().unwrap()];
        let dialer = Dialer::new(certificate.identity(), addresses, Role::Coordinator).unwrap();
        let mut line = Uplink::<Plain>::start(dialer, certificate);
        let session = listener.accept().await.unwrap().unwrap();
        assert!(matches!(line.next().await, Some(UplinkEvent::Connected)));
        Self {
            home,
            authority,
            session,
            _listener: listener,
            line,
        }
    }

    /// The renewal request before this mark, if any.
    async fn asked_before(&self, mark: u64) -> Option<Vec<u8>> {
        self.line.answer(Plain::clock(mark));
        let mut asked = None;
        loop {
            match self.session.receive(Channel::Commands).await.unwrap() {
                AgentMessage::Renew { request } => asked = Some(request),
                said if said == Plain::clock(mark) => return asked,
                _ => {}
            }
        }
    }

    /// Checked twice: after the second time, everything that an uplink does at its start is done.
    async fn asked(&self) -> Option<Vec<u8>> {
        let first = self.asked_before(1).await;
        first.or(self.asked_before(2).await)
    }
}

#[tokio::test]
async fn renewed_certificate_keeps_session() {
    const ONE_MINUTE: Duration = Duration::from_mins(1);
    let early = Renewing::after(MAX_MEMBER_VALIDITY * 2 / 3 - ONE_MINUTE).await;
    assert_eq!(early.asked().await, None);
    let due = Renewing::after(MAX_MEMBER_VALIDITY * 2 / 3 + ONE_MINUTE).await;
    let request = due.asked().await.expect("it asks for the next one");
    let credentials = due.session.credentials();
    let (member, admission) = (&credentials.member, credentials.admission);
    let chain_pem = due
        .authority
        .certify(&request, member, admission)
        .map(Some)
        .unwrap();
    let renewed = CoordinatorMessage::Renewed { chain_pem };
    due.session.send(Channel::Commands, &renewed).await.unwrap();
    let is_new = || {
        let held = Identity::load(&due.home.path().join("h0")).unwrap();
        held.validity().renewal() > SystemTime::now()
    };
    for mark in 3.. {
        assert_eq!(due.asked_before(mark).await, None, "one request is enough");
        if is_new() {
            break;
        }
    }
}

/// Coordinators, and the uplink of an agent that knows them all.
struct Court {
    _home: TempDir,
    listeners: [Listener; 2],
    agent: std::path::PathBuf,
    line: Uplink<Plain>,
}

impl Court {
    fn new() -> Self {
        Self::known_to_the(2)
    }

    /// The agent was started with the addresses of this many of them.
    fn known_to_the(count: usize) -> Self {
        let home = tempfile::tempdir().unwrap();
        let authority = Authority::create(&home.path().join("authority"), "lab").unwrap();
        let listeners = ["c0", "c1"].map(|name| {
            let ours = issued(&authority, &home, Role::Coordinator, name);
            let ours = Identity::load(&ours).unwrap();
            Listener::bind(ANY_PORT, &ours, &[Role::Agent]).unwrap()
        });
        let agent = issued(&authority, &home, Role::Agent, "h0");
        let certificate = Certificate::load(&agent, Role::Agent).unwrap();
        let addresses = listeners.each_ref().map(|it| it.address().unwrap());
        let dialer = Dialer::new(
            certificate.identity(),
            addresses[..count].to_vec(),
            Role::Coordinator,
        );
        Self {
            _home: home,
            listeners,
            agent,
            line: Uplink::start(dialer.unwrap(), certificate),
        }
    }

    /// The current session, and the standby session.
    async fn sessions(&mut self) -> [Session; 2] {
        let asked = self.listeners[0].accept().await.unwrap().unwrap();
        assert!(matches!(
            self.line.next().await,
            Some(UplinkEvent::Connected)
        ));
        let waits = self.listeners[1].accept().await.unwrap().unwrap();
        say(&waits, CoordinatorMessage::Elsewhere(None)).await;
        [asked, waits]
    }

    /// Checks everything that this coordinator has sent.
    async fn expect_heard(&mut self, session: &Session) {
        say(session, CoordinatorMessage::Watch(Watch::default())).await;
        let heard = self.line.next().await;
        assert!(
            matches!(heard, Some(UplinkEvent::Instructed(_))),
            "{heard:?}"
        );
    }

    /// The coordinators that a restarted agent refuses.
    fn removed(&self) -> DenyList {
        let agent = Identity::load(&self.agent).unwrap();
        DenyListFile::load(&self.agent, &agent).unwrap();
        agent.denied().now().removed.clone()
    }

    /// Checks that the agent's messages arrive here.
    async fn expect_at(&self, session: &Session) {
        let mark = Plain::clock(7);
        self.line.answer(mark.clone());
        while session
            .receive::<AgentMessage>(Channel::Commands)
            .await
            .unwrap()
            != mark
        {}
    }
}

async fn say(session: &Session, message: CoordinatorMessage) {
    session.send(Channel::Commands, &message).await.unwrap();
}

#[tokio::test]
async fn standby_is_asked_when_leading() {
    let mut court = Court::new();
    let [asked, waits] = court.sessions().await;
    say(&waits, CoordinatorMessage::Here).await;
    assert!(matches!(court.line.next().await, Some(UplinkEvent::Lost)));
    assert!(matches!(
        court.line.next().await,
        Some(UplinkEvent::Connected)
    ));
    court.expect_at(&waits).await;
    let end = asked.closed().await;
    assert!(matches!(end, LinkError::ClosedByPeer { .. }), "{end}");
    let again = court.listeners[0].accept().await.unwrap().unwrap();
    say(&again, CoordinatorMessage::Here).await;
    assert!(matches!(court.line.next().await, Some(UplinkEvent::Lost)));
    assert!(matches!(
        court.line.next().await,
        Some(UplinkEvent::Connected)
    ));
    court.expect_at(&again).await;
}

/// The agent keeps standby sessions with coordinators that others named, and knows them after a restart.
#[tokio::test]
async fn coordinator_learned_from_peer_is_found() {
    let mut court = Court::known_to_the(1);
    let [first, second] = [0, 1].map(|nth: usize| CoordinatorAddress {
        name: format!("c{nth}"),
        address: court.listeners[nth].address().unwrap(),
    });
    let asked = court.listeners[0].accept().await.unwrap().unwrap();
    assert!(matches!(
        court.line.next().await,
        Some(UplinkEvent::Connected)
    ));
    let both = CoordinatorMessage::Coordinators(vec![first, second]);
    say(&asked, both).await;
    let waits = court.listeners[1].accept().await.unwrap().unwrap();
    say(&waits, CoordinatorMessage::Here).await;
    assert!(matches!(court.line.next().await, Some(UplinkEvent::Lost)));
    assert!(matches!(
        court.line.next().await,
        Some(UplinkEvent::Connected)
    ));
    court.expect_at(&waits).await;
    let Court {
        _home,
        listeners: [gone, mut stays],
        agent,
        line,
    } = court;
    line.close().await;
    let configured = gone.address().unwrap();
    drop((gone, asked));

    let certificate = Certificate::load(&agent, Role::Agent).unwrap();
    let dialer = Dialer::new(certificate.identity(), vec![configured], Role::Coordinator);
    let mut line = Uplink::<Plain>::start(dialer.unwrap(), certificate);
    let again = stays.accept().await.unwrap().unwrap();
    assert!(matches!(line.next().await, Some(UplinkEvent::Connected)));
    assert_eq!(again.peer().name, "h0");
}

/// No member has to be admitted again.
#[tokio::test]
async fn lost_leader_is_replaced_by_caller() {
    let mut court = Court::new();
    let [asked, waits] = court.sessions().await;
    asked.close("it dies").await;
    assert!(matches!(court.line.next().await, Some(UplinkEvent::Lost)));
    say(&waits, CoordinatorMessage::Here).await;
    assert!(matches!(
        court.line.next().await,
        Some(UplinkEvent::Connected)
    ));
    court.expect_at(&waits).await;
}

/// A list of coordinators that were removed at this time.
fn removal(as_of: u64, names: &[&str]) -> RemovedCoordinators {
    let members = names
        .iter()
        .map(|name| Member::new(Role::Coordinator, name));
    RemovedCoordinators {
        as_of: Admission(as_of),
        list: members.map(|member| (member, Admission(as_of))).collect(),
    }
}

/// The removed coordinator's own messages would not say so.
#[tokio::test]
async fn removed_coordinator_loses_its_agent() {
    let mut court = Court::new();
    let [asked, waits] = court.sessions().await;
    say(&waits, CoordinatorMessage::Removed(removal(7, &["c0"]))).await;
    assert!(matches!(court.line.next().await, Some(UplinkEvent::Lost)));
    let end = asked.closed().await;
    assert!(matches!(end, LinkError::ClosedByPeer { .. }), "{end}");
    say(&waits, CoordinatorMessage::Here).await;
    assert!(matches!(
        court.line.next().await,
        Some(UplinkEvent::Connected)
    ));
    court.expect_at(&waits).await;
}

/// A deposed leader still says that it leads, and still lists the coordinator that was removed since.
#[tokio::test]
async fn only_later_list_readmits_coordinator() {
    let mut court = Court::new();
    let [asked, _waits] = court.sessions().await;
    say(&asked, CoordinatorMessage::Removed(removal(7, &["c2"]))).await;
    let seat = |name: &str, listener: &Listener| CoordinatorAddress {
        name: name.to_owned(),
        address: listener.address().unwrap(),
    };
    let [first, second] = court.listeners.each_ref();
    let seats = vec![seat("c2", first), seat("c1", second)];
    let earlier = CoordinatorMessage::Removed(removal(6, &[]));
    for outdated in [CoordinatorMessage::Coordinators(seats), earlier] {
        say(&asked, CoordinatorMessage::Here).await;
        say(&asked, outdated).await;
        court.expect_heard(&asked).await;
        assert_eq!(court.removed(), removal(7, &["c2"]).list);
    }
    say(&asked, CoordinatorMessage::Removed(removal(8, &[]))).await;
    court.expect_heard(&asked).await;
    assert_eq!(court.removed(), DenyList::default());
}

/// An agent that connected to a follower first keeps that session, and connects to the leader only once.
#[tokio::test]
async fn redirected_agent_keeps_standby_session() {
    let mut court = Court::new();
    let [asked, _waits] = court.sessions().await;
    let there = court.listeners[1].address().unwrap();
    say(&asked, CoordinatorMessage::Elsewhere(Some(there))).await;
    assert!(matches!(court.line.next().await, Some(UplinkEvent::Lost)));
    let leads = court.listeners[1].accept().await.unwrap().unwrap();
    assert!(matches!(
        court.line.next().await,
        Some(UplinkEvent::Connected)
    ));
    court.expect_at(&leads).await;
    say(&asked, CoordinatorMessage::Here).await;
    assert!(matches!(court.line.next().await, Some(UplinkEvent::Lost)));
    assert!(matches!(
        court.line.next().await,
        Some(UplinkEvent::Connected)
    ));
    court.expect_at(&asked).await;
}

#[tokio::test]
async fn all_asked_when_no_leader_calls() {
    let mut court = Court::new();
    let [asked, _waits] = court.sessions().await;
    asked.close("it dies").await;
    assert!(matches!(court.line.next().await, Some(UplinkEvent::Lost)));
    let [first, second] = &mut court.listeners;
    let again = tokio::select! {
        again = first.accept() => again,
        again = second.accept() => again,
    };
    assert!(matches!(
        court.line.next().await,
        Some(UplinkEvent::Connected)
    ));
    court.expect_at(&again.unwrap().unwrap()).await;
}
