//! The line to the coordinator: kept up for as long as the agent runs, by a task of its own.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reweave_agent_core::delta::Delta;
use reweave_common::error::told;
use reweave_common::instruction::{Ack, Instruction};
use reweave_common::sample::Sample;
use reweave_link::{Channel, Dialer, LinkError, Session};
use reweave_proto::message::{AgentMessage, CoordinatorMessage};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::credentials::Credentials;
use crate::shut_out::ShutOut;

/// What is measured while the line is slow or gone is of no use later.
const MOST_SAMPLES: usize = 8;
/// Instructions come one by one, each after the answer to the one before.
const MOST_ACKS: usize = 64;
/// Clocks drift slowly, and are set rarely.
const CLOCK_PERIOD: Duration = Duration::from_secs(10);
/// How often is looked whether anything was heard; after so many looks in vain something is said
/// that must be acknowledged, and after so many the coordinator is given up for another.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const ASK_AFTER: u32 = 5;
const GIVE_UP_AFTER: u32 = 12;
/// Saying goodbye takes no longer.
const GOODBYE: Duration = Duration::from_secs(1);

pub struct Uplink {
    events: mpsc::Receiver<Event>,
    samples: mpsc::Sender<Sample>,
    acks: mpsc::Sender<AgentMessage>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
pub enum Event {
    Connected,
    Told(Instruction),
    Lost,
}

/// What waits to be sent.
struct Outgoing {
    samples: mpsc::Receiver<Sample>,
    acks: mpsc::Receiver<AgentMessage>,
}

impl Uplink {
    /// Must be called inside a runtime.
    pub fn start(dialer: Dialer, credentials: Credentials) -> Self {
        let (tell, events) = mpsc::channel(MOST_ACKS);
        let (samples, samples_out) = mpsc::channel(MOST_SAMPLES);
        let (acks, acks_out) = mpsc::channel(MOST_ACKS);
        let outgoing = Outgoing {
            samples: samples_out,
            acks: acks_out,
        };
        let task = tokio::spawn(keep_up(dialer, credentials, tell, outgoing));
        Self {
            events,
            samples,
            acks,
            task,
        }
    }

    /// None when nobody keeps the line up any more, which is a fault.
    pub async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// Tells the coordinator that this agent leaves.
    pub async fn close(mut self) {
        self.events.close();
        let _ = timeout(GOODBYE, self.task).await;
    }

    /// Sends it, unless the line is gone or too slow: there will be a newer one.
    pub fn send_sample(&self, sample: Sample) {
        let _ = self.samples.try_send(sample);
    }

    /// Sends it, unless the line is gone: then the coordinator will ask again.
    pub fn send_ack(&self, ack: Ack) {
        let _ = self.acks.try_send(AgentMessage::Ack(ack));
    }
}

async fn keep_up(
    mut dialer: Dialer,
    mut credentials: Credentials,
    tell: mpsc::Sender<Event>,
    mut outgoing: Outgoing,
) {
    while let Some(session) = unless_closed(&tell, dialer.dial()).await {
        outgoing.forget();
        tracing::info!("{} at {}", session.peer(), session.address());
        let _ = tell.send(Event::Connected).await;
        let has_others = dialer.has_others();
        let serving = serve(&session, &tell, &mut outgoing, &mut credentials, has_others);
        match unless_closed(&tell, serving).await {
            Some(Ending::Lost(error)) => {
                tracing::warn!("the line is lost: {}", told(&error));
                dialer.go_elsewhere(None);
            }
            Some(Ending::Silent) => {
                tracing::warn!("nothing is heard from {}", session.peer());
                dialer.go_elsewhere(None);
            }
            Some(Ending::Elsewhere(there)) => {
                session.close("another coordinator leads").await;
                dialer.go_elsewhere(there);
            }
            None => return session.close("the agent ends").await,
        }
        let _ = tell.send(Event::Lost).await;
        dialer.renew(credentials.identity());
    }
}

/// Waits for `work`, unless nobody wants to hear any more.
async fn unless_closed<T>(tell: &mpsc::Sender<Event>, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        done = work => Some(done),
        () = tell.closed() => None,
    }
}

impl Outgoing {
    fn forget(&mut self) {
        while self.samples.try_recv().is_ok() {}
        while self.acks.try_recv().is_ok() {}
    }
}

/// Why a session ends.
enum Ending {
    Lost(LinkError),
    /// Nothing is heard, and there are others to ask.
    Silent,
    /// Another coordinator leads, there if that is known.
    Elsewhere(Option<SocketAddr>),
}

/// Serves both directions until one of them fails, or there is nothing to be had here.
async fn serve(
    session: &Session,
    tell: &mpsc::Sender<Event>,
    outgoing: &mut Outgoing,
    credentials: &mut Credentials,
    has_others: bool,
) -> Ending {
    let (answers, heard) = mpsc::channel(1);
    let shut_out = credentials.shut_out();
    let error = tokio::select! {
        ending = listen(session, tell, &answers, shut_out) => return ending,
        () = silence(session), if has_others => return Ending::Silent,
        error = answer(session, &mut outgoing.acks) => error,
        error = report(session, &mut outgoing.samples) => error,
        error = credentials.keep_good(session, heard) => error,
        error = tell_the_time(session) => error,
        error = session.shut_out() => error,
    };
    Ending::Lost(error)
}

async fn listen(
    session: &Session,
    tell: &mpsc::Sender<Event>,
    renewed: &mpsc::Sender<Option<String>>,
    shut_out: ShutOut,
) -> Ending {
    loop {
        let instruction = match session.receive(Channel::Commands).await {
            Ok(CoordinatorMessage::Denied(list)) => {
                shut_out.note(list);
                continue;
            }
            Ok(CoordinatorMessage::Renewed { chain_pem }) => {
                // An answer that nobody waits for is none.
                let _ = renewed.try_send(chain_pem);
                continue;
            }
            Ok(CoordinatorMessage::Elsewhere(there)) => return Ending::Elsewhere(there),
            Ok(CoordinatorMessage::Watch(watch)) => Instruction::Watch(watch),
            Ok(CoordinatorMessage::Probe(list)) => Instruction::Probe(list),
            Ok(CoordinatorMessage::Install(install)) => Instruction::Install(install),
            Err(error) => return Ending::Lost(error),
        };
        let _ = tell.send(Event::Told(instruction)).await;
    }
}

/// Waits until nothing has been heard for a while, though something was said. Moments in which this
/// process did not run count once.
async fn silence(session: &Session) {
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut heard, mut in_vain) = (session.heard_packets(), 0);
    while in_vain < GIVE_UP_AFTER {
        looks.tick().await;
        let now = session.heard_packets();
        in_vain = if now == heard { in_vain + 1 } else { 0 };
        heard = now;
        if in_vain == ASK_AFTER {
            // A channel that is full says enough by itself.
            let _ = timeout(LOOK_EVERY, send_clock(session)).await;
        }
    }
}

/// So that the coordinator can say whose clock is wrong.
async fn tell_the_time(session: &Session) -> LinkError {
    let mut ticks = interval(CLOCK_PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(error) = send_clock(session).await {
            return error;
        }
    }
}

async fn send_clock(session: &Session) -> Result<(), LinkError> {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    let micros = since_epoch.unwrap_or_default().as_micros();
    let time_of_day_us = u64::try_from(micros).unwrap_or(u64::MAX);
    let clock = AgentMessage::Clock { time_of_day_us };
    session.send(Channel::Commands, &clock).await
}

/// A full picture first, and then what has changed.
async fn report(session: &Session, samples: &mut mpsc::Receiver<Sample>) -> LinkError {
    let mut delta = Delta::default();
    while let Some(sample) = samples.recv().await {
        let message = AgentMessage::Sample(delta.handle_sample(sample));
        if let Err(error) = session.send(Channel::Telemetry, &message).await {
            return error;
        }
    }
    session.closed().await
}

async fn answer(session: &Session, messages: &mut mpsc::Receiver<AgentMessage>) -> LinkError {
    while let Some(message) = messages.recv().await {
        if let Err(error) = session.send(Channel::Commands, &message).await {
            return error;
        }
    }
    session.closed().await
}

#[cfg(test)]
mod tests;
