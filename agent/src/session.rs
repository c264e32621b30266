//! The line to the coordinator: kept up for as long as the agent runs, by a task of its own.

use std::net::SocketAddr;
use std::time::Duration;

use reweave_common::instruction::{Ack, Instruction};
use reweave_common::sample::Sample;
use reweave_link::{Channel, Dialer, LinkError, Session, reason};
use reweave_proto::message::{AgentMessage, CoordinatorMessage};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// What is measured while the line is slow or gone is of no use later.
const MOST_SAMPLES: usize = 8;
/// Instructions come one by one, each after the answer to the one before.
const MOST_ACKS: usize = 64;
/// Saying goodbye takes no longer.
const GOODBYE: Duration = Duration::from_secs(1);

pub struct Uplink {
    events: mpsc::Receiver<Event>,
    samples: mpsc::Sender<AgentMessage>,
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
    samples: mpsc::Receiver<AgentMessage>,
    acks: mpsc::Receiver<AgentMessage>,
}

impl Uplink {
    /// Must be called inside a runtime.
    pub fn start(dialer: Dialer) -> Self {
        let (tell, events) = mpsc::channel(MOST_ACKS);
        let (samples, samples_out) = mpsc::channel(MOST_SAMPLES);
        let (acks, acks_out) = mpsc::channel(MOST_ACKS);
        let outgoing = Outgoing {
            samples: samples_out,
            acks: acks_out,
        };
        let task = tokio::spawn(keep_up(dialer, tell, outgoing));
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
        let _ = self.samples.try_send(AgentMessage::Sample(sample));
    }

    /// Sends it, unless the line is gone: then the coordinator will ask again.
    pub fn send_ack(&self, ack: Ack) {
        let _ = self.acks.try_send(AgentMessage::Ack(ack));
    }
}

async fn keep_up(mut dialer: Dialer, tell: mpsc::Sender<Event>, mut outgoing: Outgoing) {
    while let Some(session) = unless_closed(&tell, dialer.dial()).await {
        outgoing.forget();
        tracing::info!("{} at {}", session.peer(), session.address());
        let _ = tell.send(Event::Connected).await;
        match unless_closed(&tell, serve(&session, &tell, &mut outgoing)).await {
            Some(Ending::Lost(error)) => tracing::warn!("the line is lost: {}", reason(&error)),
            Some(Ending::Elsewhere(there)) => {
                session.close("another coordinator leads").await;
                dialer.go_elsewhere(there);
            }
            None => return session.close("the agent ends").await,
        }
        let _ = tell.send(Event::Lost).await;
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
    /// Another coordinator leads, there if that is known.
    Elsewhere(Option<SocketAddr>),
}

/// Serves both directions until one of them fails, or there is nothing to be had here.
async fn serve(session: &Session, tell: &mpsc::Sender<Event>, outgoing: &mut Outgoing) -> Ending {
    tokio::select! {
        ending = listen(session, tell) => ending,
        error = speak(session, Channel::Commands, &mut outgoing.acks) => Ending::Lost(error),
        error = speak(session, Channel::Telemetry, &mut outgoing.samples) => Ending::Lost(error),
    }
}

async fn listen(session: &Session, tell: &mpsc::Sender<Event>) -> Ending {
    loop {
        let instruction = match session.receive(Channel::Commands).await {
            Ok(CoordinatorMessage::Elsewhere(there)) => return Ending::Elsewhere(there),
            Ok(CoordinatorMessage::Watch(watch)) => Instruction::Watch(watch),
            Ok(CoordinatorMessage::Install(install)) => Instruction::Install(install),
            Err(error) => return Ending::Lost(error),
        };
        let _ = tell.send(Event::Told(instruction)).await;
    }
}

async fn speak(
    session: &Session,
    channel: Channel,
    messages: &mut mpsc::Receiver<AgentMessage>,
) -> LinkError {
    while let Some(message) = messages.recv().await {
        if let Err(error) = session.send(channel, &message).await {
            return error;
        }
    }
    session.closed().await
}
