//! A member's uplink to the coordinators: maintained by a task of its own as long as the member runs. Agents and
//! drivers have one each, with different messages.

mod certificate;
mod coordinator_list;
mod error;
mod notices;
mod standby_sessions;

use std::net::{AddrParseError, IpAddr, SocketAddr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reweave_common::error::error_chain;
use reweave_proto::DEFAULT_PORT;
use reweave_proto::hello::Version;
use reweave_proto::message::Order;
use reweave_proto::since_version::SinceVersion;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::dialer::Dialer;
use crate::error::LinkError;
use crate::session::{Channel, Session};
pub use certificate::Certificate;
pub use error::CertificateError;
use notices::Notices;
use standby_sessions::StandbySessions;

/// Measurements that wait for a slow or lost session are soon outdated.
const MAX_QUEUED_REPORTS: usize = 8;
/// Instructions come one by one, each after the answer to the previous one.
const MAX_QUEUED_ANSWERS: usize = 64;
/// Clocks drift slowly, and are set rarely.
const CLOCK_INTERVAL: Duration = Duration::from_secs(10);
/// How often to check whether anything was received; after this many checks without success a message is sent that
/// must be acknowledged, and after this many another coordinator is tried.
const LIVENESS_INTERVAL: Duration = Duration::from_millis(100);
const PING_AFTER_CHECKS: u32 = 5;
const GIVE_UP_AFTER_CHECKS: u32 = 12;
/// The time for closing a session.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The messages of one kind of member, in both directions.
pub trait MemberProtocol: 'static {
    type Said: Serialize + SinceVersion + Send + Sync;
    type Heard: DeserializeOwned + Into<Order<Self::Instruction>> + Send;
    /// The instructions for this kind of member.
    type Instruction: Send;
    /// Measurements, which may be dropped if there is no room.
    type Measured: Send;
    /// Turns measurements into messages; a new one for each session.
    type Report: Default + Send;

    /// The message with the member's clock.
    fn clock(time_of_day_us: u64) -> Self::Said;
    /// The request to certify a new key.
    fn renew(request: Vec<u8>) -> Self::Said;
    /// The message for a coordinator of this version.
    fn report(report: &mut Self::Report, measured: Self::Measured, version: Version) -> Self::Said;
}

pub struct Uplink<D: MemberProtocol> {
    events: mpsc::Receiver<UplinkEvent<D::Instruction>>,
    measured: mpsc::Sender<D::Measured>,
    answers: mpsc::Sender<D::Said>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
pub enum UplinkEvent<T> {
    Connected,
    Instructed(T),
    Lost,
}

/// Messages that wait to be sent.
struct OutboundQueues<D: MemberProtocol> {
    measured: mpsc::Receiver<D::Measured>,
    answers: mpsc::Receiver<D::Said>,
}

impl<D: MemberProtocol> Uplink<D> {
    /// Must be called inside a tokio runtime.
    pub fn start(dialer: Dialer, certificate: Certificate) -> Self {
        let (tell, events) = mpsc::channel(MAX_QUEUED_ANSWERS);
        let (measured, measured_out) = mpsc::channel(MAX_QUEUED_REPORTS);
        let (answers, answers_out) = mpsc::channel(MAX_QUEUED_ANSWERS);
        let outgoing = OutboundQueues {
            measured: measured_out,
            answers: answers_out,
        };
        let task = tokio::spawn(keep_up::<D>(dialer, certificate, tell, outgoing));
        Self {
            events,
            measured,
            answers,
            task,
        }
    }

    /// None when the uplink's task has ended, which is a bug.
    pub async fn next(&mut self) -> Option<UplinkEvent<D::Instruction>> {
        self.events.recv().await
    }

    /// Closes the session with the coordinator.
    pub async fn close(mut self) {
        self.events.close();
        let _ = timeout(CLOSE_TIMEOUT, self.task).await;
    }

    /// Sends a measurement, unless the session is lost or slow: a newer one will follow.
    pub fn send_measured(&self, measured: D::Measured) {
        let _ = self.measured.try_send(measured);
    }

    /// Sends an answer, unless the session is lost: the coordinator will ask again.
    pub fn answer(&self, answer: D::Said) {
        let _ = self.answers.try_send(answer);
    }
}

type EventSender<D> = mpsc::Sender<UplinkEvent<<D as MemberProtocol>::Instruction>>;

async fn keep_up<D: MemberProtocol>(
    mut dialer: Dialer,
    mut certificate: Certificate,
    tell: EventSender<D>,
    mut outgoing: OutboundQueues<D>,
) {
    let mut reserves = StandbySessions::new(&dialer, &certificate);
    dialer.learn(&reserves.seats());
    while let Some(session) = unless_closed::<D, _>(&tell, reserves.next(&mut dialer)).await {
        outgoing.forget();
        tracing::info!("{} at {}", session.peer(), session.address());
        let _ = tell.send(UplinkEvent::Connected).await;
        let serving = serve(
            &session,
            &tell,
            &mut outgoing,
            &mut certificate,
            &mut reserves,
        );
        let ending = unless_closed::<D, _>(&tell, serving).await;
        dialer.learn(&reserves.seats());
        match ending {
            Some(SessionEnd::Lost(error)) => {
                tracing::warn!("the line is lost: {}", error_chain(&error));
                dialer.go_elsewhere(None);
            }
            Some(SessionEnd::Silent) => {
                tracing::warn!("no message from {}", session.peer());
                dialer.go_elsewhere(None);
            }
            Some(SessionEnd::Elsewhere(there)) => {
                reserves.keep::<D>(session);
                dialer.go_elsewhere(there);
            }
            Some(SessionEnd::Called(there)) => {
                // Closing does not delay the next session.
                tokio::spawn(session.close("another coordinator leads"));
                reserves.go_to(*there);
            }
            None => return session.close("this program ends").await,
        }
        let _ = tell.send(UplinkEvent::Lost).await;
        dialer.renew(certificate.identity());
    }
}

/// Waits for `work`, unless the receiver is gone.
async fn unless_closed<D: MemberProtocol, T>(
    tell: &EventSender<D>,
    work: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        done = work => Some(done),
        () = tell.closed() => None,
    }
}

impl<D: MemberProtocol> OutboundQueues<D> {
    fn forget(&mut self) {
        while self.measured.try_recv().is_ok() {}
        while self.answers.try_recv().is_ok() {}
    }
}

/// Why a session ends.
enum SessionEnd {
    Lost(LinkError),
    /// The coordinator is silent, and there are others.
    Silent,
    /// Another coordinator leads; its address, if known.
    Elsewhere(Option<SocketAddr>),
    /// This coordinator has become leader.
    Called(Box<Session>),
}

/// Serves both directions until one of them fails, or the coordinator does not lead.
async fn serve<D: MemberProtocol>(
    session: &Session,
    tell: &EventSender<D>,
    outgoing: &mut OutboundQueues<D>,
    certificate: &mut Certificate,
    reserves: &mut StandbySessions,
) -> SessionEnd {
    let (renewed, heard) = mpsc::channel(1);
    let notices = certificate.notices();
    let has_others = reserves.has_others();
    let error = tokio::select! {
        ending = listen::<D>(session, tell, &renewed, &notices) => return ending,
        () = silence::<D>(session, has_others) => return SessionEnd::Silent,
        there = reserves.called_beside::<D>(session) => return SessionEnd::Called(Box::new(there)),
        error = answer(session, &mut outgoing.answers) => error,
        error = report::<D>(session, &mut outgoing.measured) => error,
        error = certificate.keep_good::<D>(session, heard) => error,
        error = send_time::<D>(session) => error,
        error = session.revoked() => error,
    };
    SessionEnd::Lost(error)
}

async fn listen<D: MemberProtocol>(
    session: &Session,
    tell: &EventSender<D>,
    renewed: &mpsc::Sender<Option<String>>,
    notices: &Notices,
) -> SessionEnd {
    loop {
        let heard = session.receive::<D::Heard>(Channel::Commands).await;
        match heard.map(Into::into) {
            Ok(Order::Instructed(instruction)) => {
                drop(tell.send(UplinkEvent::Instructed(instruction)).await);
            }
            // An answer without a waiting request is ignored.
            Ok(Order::Renewed { chain_pem }) => drop(renewed.try_send(chain_pem)),
            Ok(Order::Elsewhere(there)) => return SessionEnd::Elsewhere(there),
            // This session is already in use.
            Ok(Order::Here) => {}
            Ok(notice) => notices.note(session, notice).await,
            Err(error) => return SessionEnd::Lost(error),
        }
    }
}

/// Waits until nothing was received for a while, although something was sent, and another coordinator is known. A
/// pause of this process counts once.
async fn silence<D: MemberProtocol>(session: &Session, has_others: impl Fn() -> bool) {
    let mut looks = interval(LIVENESS_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut heard, mut in_vain) = (session.heard_packets(), 0);
    while in_vain < GIVE_UP_AFTER_CHECKS || !has_others() {
        looks.tick().await;
        let now = session.heard_packets();
        in_vain = if now == heard {
            in_vain.saturating_add(1)
        } else {
            0
        };
        heard = now;
        if in_vain == PING_AFTER_CHECKS {
            // A full channel is sign enough.
            let _ = timeout(LIVENESS_INTERVAL, send_clock::<D>(session)).await;
        }
    }
}

/// Reports the clock, so that the coordinator can find wrong clocks.
async fn send_time<D: MemberProtocol>(session: &Session) -> LinkError {
    let mut ticks = interval(CLOCK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(error) = send_clock::<D>(session).await {
            return error;
        }
    }
}

async fn send_clock<D: MemberProtocol>(session: &Session) -> Result<(), LinkError> {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    let micros = since_epoch.unwrap_or_default().as_micros();
    let clock = D::clock(u64::try_from(micros).unwrap_or(u64::MAX));
    session.send(Channel::Commands, &clock).await
}

/// Reports everything first, and then what has changed.
async fn report<D: MemberProtocol>(
    session: &Session,
    measured: &mut mpsc::Receiver<D::Measured>,
) -> LinkError {
    let mut report = D::Report::default();
    while let Some(measured) = measured.recv().await {
        let message = D::report(&mut report, measured, session.version());
        if let Err(error) = session.send(Channel::Telemetry, &message).await {
            return error;
        }
    }
    session.closed().await
}

async fn answer<S: Serialize + SinceVersion>(
    session: &Session,
    messages: &mut mpsc::Receiver<S>,
) -> LinkError {
    while let Some(message) = messages.recv().await {
        if let Err(error) = session.send(Channel::Commands, &message).await {
            return error;
        }
    }
    session.closed().await
}

/// Parses a coordinator's address; an address without a port gets the usual one.
pub fn coordinator(text: &str) -> Result<SocketAddr, AddrParseError> {
    let alone = |_| Ok((text.parse::<IpAddr>()?, DEFAULT_PORT).into());
    text.parse().or_else(alone)
}

/// The join listeners: this address, or the next port of each coordinator.
pub fn doors(coordinators: &[SocketAddr], socket_addr: &[SocketAddr]) -> Vec<SocketAddr> {
    let beside = |to: &SocketAddr| SocketAddr::new(to.ip(), to.port().saturating_add(1));
    match socket_addr {
        [] => coordinators.iter().map(beside).collect(),
        socket_addr => socket_addr.to_vec(),
    }
}

#[cfg(test)]
mod tests;
