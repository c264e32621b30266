//! Peers that vanish, and peers that return.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, pause};

use super::cluster::{ANY_ROLE, Cluster, listen, soon};
use crate::transport::KEEP_ALIVE_INTERVAL;
use crate::{
    Channel, Dialer, HANDSHAKE_TIMEOUT, IDLE_TIMEOUT, Identity, LinkError, Listener, Role, Session,
    connect,
};

/// A session whose runtime is no longer driven: like a stopped process, it answers nothing and does not close.
struct Frozen {
    runtime: Runtime,
    session: Session,
}

impl Frozen {
    /// The process and its socket are gone.
    fn kill(self) {
        self.runtime.shutdown_background();
        drop(self.session);
    }
}

async fn freeze<F>(begin: impl FnOnce() -> F + Send + 'static) -> Frozen
where
    F: Future<Output = Session>,
{
    let run = move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let session = runtime.block_on(async { soon(begin()).await });
        Frozen { runtime, session }
    };
    spawn_blocking(run).await.unwrap()
}

/// Waits for the end of the session, and returns tokio's time until then.
async fn noticed(session: &Session) -> Duration {
    pause();
    let start = Instant::now();
    let error = soon(session.receive::<u8>(Channel::Commands))
        .await
        .unwrap_err();
    assert!(matches!(error, LinkError::Vanished), "{error:?}");
    start.elapsed()
}

/// The timeout counts from the first unanswered packet, at the latest a keep-alive; timers are a little coarse.
fn assert_about_five_seconds(took: Duration) {
    let earliest = IDLE_TIMEOUT - KEEP_ALIVE_INTERVAL;
    let latest = IDLE_TIMEOUT + KEEP_ALIVE_INTERVAL + Duration::from_millis(250);
    assert!((earliest..=latest).contains(&took), "{took:?}");
}

#[tokio::test]
async fn coordinator_notices_vanished_agent() {
    let cluster = Cluster::new("lab");
    let (mut listener, address) = listen(&cluster.coordinator());
    let agent = cluster.agent();
    let freezing = freeze(move || async move {
        let connected = connect(&[address], &agent, Role::Coordinator).await;
        connected.unwrap()
    });
    let (frozen, accepted) = tokio::join!(freezing, soon(listener.accept()));
    let session = accepted.unwrap().unwrap();
    assert_about_five_seconds(noticed(&session).await);
    frozen.kill();
}

/// A session with a coordinator that will freeze.
async fn with_frozen_coordinator(cluster: &Cluster) -> (Frozen, Session) {
    let (tell, report) = oneshot::channel();
    let coordinator = cluster.coordinator();
    let freezing = freeze(move || async move {
        let (mut listener, address) = listen(&coordinator);
        tell.send(address).unwrap();
        let session = listener.accept().await.unwrap().unwrap();
        // Once this has arrived, the other side has everything that it waits for.
        session.receive::<u8>(Channel::Commands).await.unwrap();
        session
    });
    let agent = cluster.agent();
    let connecting = async {
        let address = report.await.unwrap();
        let connected = connect(&[address], &agent, Role::Coordinator).await;
        let session = connected.unwrap();
        session.send_any(Channel::Commands, &1_u8).await.unwrap();
        session
    };
    soon(async { tokio::join!(freezing, connecting) }).await
}

#[tokio::test]
async fn agent_notices_vanished_coordinator() {
    let cluster = Cluster::new("lab");
    let (frozen, session) = with_frozen_coordinator(&cluster).await;
    assert_about_five_seconds(noticed(&session).await);
    frozen.kill();
}

/// The address may be in use for a moment after its last owner has ended.
async fn bind_again(address: SocketAddr, ours: &Identity) -> Listener {
    let binding = async {
        loop {
            match Listener::bind(address, ours, ANY_ROLE) {
                Ok(listener) => return listener,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    };
    soon(binding).await
}

#[tokio::test]
async fn agent_notices_restarted_coordinator_at_once() {
    let cluster = Cluster::new("lab");
    let (frozen, session) = with_frozen_coordinator(&cluster).await;
    let address = session.address();
    frozen.kill();
    let coordinator = Identity::load(&cluster.dir("c0")).unwrap();
    let _listener = bind_again(address, &coordinator).await;
    pause();
    let start = Instant::now();
    let error = soon(session.receive::<u8>(Channel::Commands))
        .await
        .unwrap_err();
    assert!(matches!(error, LinkError::Restarted), "{error:?}");
    assert!(
        start.elapsed() <= Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
}

async fn dial(dialer: &mut Dialer, listener: &mut Listener) -> (Session, Session) {
    let both = async { tokio::join!(listener.accept(), dialer.dial()) };
    let (accepted, connected) = soon(both).await;
    (accepted.unwrap().unwrap(), connected)
}

#[tokio::test]
async fn agent_reconnects_after_coordinator_restart() {
    let cluster = Cluster::new("lab");
    let coordinator = cluster.coordinator();
    let (mut listener, address) = listen(&coordinator);
    let agent = cluster.agent();
    let mut dialer = Dialer::new(&agent, vec![address], Role::Coordinator).unwrap();
    let (accepted, first) = dial(&mut dialer, &mut listener).await;
    let (closed, ()) = tokio::join!(soon(first.closed()), soon(listener.close("upgrade")));
    assert!(matches!(closed, LinkError::ClosedByPeer { reason } if reason == "upgrade"));
    drop((accepted, first));

    let mut listener = bind_again(address, &coordinator).await;
    let (accepted, second) = dial(&mut dialer, &mut listener).await;
    accepted.send_any(Channel::Commands, &5_u8).await.unwrap();
    assert_eq!(
        soon(second.receive::<u8>(Channel::Commands)).await.unwrap(),
        5
    );
}

#[tokio::test]
async fn agent_tries_next_address() {
    let cluster = Cluster::new("lab");
    let (mut wrong, wrong_address) = listen(&cluster.member(Role::Agent, "h7"));
    let (mut listener, address) = listen(&cluster.coordinator());
    let addresses = vec![wrong_address, address];
    let mut dialer = Dialer::new(&cluster.agent(), addresses, Role::Coordinator).unwrap();
    let turning_away = async { wrong.accept().await.unwrap().unwrap_err() };
    let (_, (_, connected)) = tokio::join!(turning_away, dial(&mut dialer, &mut listener));
    assert_eq!(connected.address(), address);
    // It stays with the one that answered.
    let (_, again) = dial(&mut dialer, &mut listener).await;
    assert_eq!(again.address(), address);
}

/// The delays between these sessions add up, whatever the speed of the network.
#[tokio::test]
async fn short_sessions_increase_backoff() {
    let cluster = Cluster::new("lab");
    let (mut listener, address) = listen(&cluster.coordinator());
    let agent = cluster.agent();
    let mut dialer = Dialer::new(&agent, vec![address], Role::Coordinator).unwrap();
    let start = Instant::now();
    for _ in 0..5 {
        let (accepted, connected) = dial(&mut dialer, &mut listener).await;
        drop(accepted);
        soon(connected.closed()).await;
    }
    let least: Duration = [50, 100, 200, 400].map(Duration::from_millis).iter().sum();
    assert!(start.elapsed() >= least, "{:?}", start.elapsed());
}

#[tokio::test]
async fn unreachable_address_fails_in_time() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let agent = Cluster::new("lab").agent();
    pause();
    let start = Instant::now();
    let error = soon(connect(&[address, address], &agent, Role::Coordinator))
        .await
        .unwrap_err();
    // The attempts do not wait for each other.
    assert_eq!(start.elapsed().as_secs(), HANDSHAKE_TIMEOUT.as_secs());
    let each = format!("{address} did not complete the handshake in time: is it running there?");
    assert_eq!(
        error.to_string(),
        format!("no address led to a session: {each}; {each}")
    );
    let error = connect(&[], &agent, Role::Coordinator).await.unwrap_err();
    assert!(matches!(error, LinkError::NoAddress));
}

/// Answers every client and admits none, as a busy coordinator does.
async fn stammer(busy: UdpSocket) {
    let mut heard = [0; 1500];
    while let Ok((_, from)) = busy.recv_from(&mut heard).await {
        let _ = busy.send_to(b"?", from).await;
    }
}

/// Trying a silent address must not take as long as trying a busy one.
#[tokio::test]
async fn silent_address_fails_before_busy_one() {
    let cluster = Cluster::new("lab");
    let (mut listener, address) = listen(&cluster.coordinator());
    tokio::spawn(async move { while listener.accept().await.is_some() {} });
    let agent = cluster.agent();
    let [silent, busy] = [(), ()].map(|()| std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
    let [silent_address, busy_address] = [&silent, &busy].map(|it| it.local_addr().unwrap());
    busy.set_nonblocking(true).unwrap();
    tokio::spawn(stammer(UdpSocket::from_std(busy).unwrap()));
    let reached_past = async |first| {
        let start = Instant::now();
        let session = connect(&[first, address], &agent, Role::Coordinator).await;
        assert_eq!(session.unwrap().address(), address);
        start.elapsed()
    };
    let waited =
        soon(async { tokio::join!(reached_past(silent_address), reached_past(busy_address)) })
            .await;
    // Both waited at once, so a stall of the machine affects both.
    assert!(waited.0 < waited.1, "{waited:?}");
    assert!(waited.1 >= HANDSHAKE_TIMEOUT, "{waited:?}");
}
