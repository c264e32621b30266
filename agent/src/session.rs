//! The line to the coordinator: kept up for as long as the agent runs, by a task of its own.

use reweave_common::instruction::Ack;
use reweave_common::sample::Sample;
use reweave_link::{Channel, Dialer, LinkError, Session, reason};
use reweave_proto::message::{AgentMessage, CoordinatorMessage};
use tokio::sync::mpsc;

/// What is measured while the line is slow or gone is of no use later.
const MOST_SAMPLES: usize = 8;
/// Instructions come one by one, each after the answer to the one before.
const MOST_ACKS: usize = 64;

pub struct Uplink {
    events: mpsc::Receiver<Event>,
    samples: mpsc::Sender<AgentMessage>,
    acks: mpsc::Sender<AgentMessage>,
}

#[derive(Debug)]
pub enum Event {
    Connected,
    Told(CoordinatorMessage),
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
        tokio::spawn(keep_up(dialer, tell, outgoing));
        Self {
            events,
            samples,
            acks,
        }
    }

    pub async fn next(&mut self) -> Event {
        // The task lives as long as this receiver.
        self.events.recv().await.unwrap_or(Event::Lost)
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
    loop {
        let session = dialer.dial().await;
        outgoing.forget();
        tracing::info!("{} at {}", session.peer(), session.address());
        if tell.send(Event::Connected).await.is_err() {
            return;
        }
        let error = serve(&session, &tell, &mut outgoing).await;
        tracing::warn!("the line is lost: {}", reason(&error));
        if tell.send(Event::Lost).await.is_err() {
            return;
        }
    }
}

impl Outgoing {
    fn forget(&mut self) {
        while self.samples.try_recv().is_ok() {}
        while self.acks.try_recv().is_ok() {}
    }
}

/// Serves both directions until one of them fails.
async fn serve(
    session: &Session,
    tell: &mpsc::Sender<Event>,
    outgoing: &mut Outgoing,
) -> LinkError {
    tokio::select! {
        error = listen(session, tell) => error,
        error = speak(session, Channel::Commands, &mut outgoing.acks) => error,
        error = speak(session, Channel::Telemetry, &mut outgoing.samples) => error,
    }
}

async fn listen(session: &Session, tell: &mpsc::Sender<Event>) -> LinkError {
    loop {
        let told = match session.receive(Channel::Commands).await {
            Ok(message) => Event::Told(message),
            Err(error) => return error,
        };
        if tell.send(told).await.is_err() {
            return session.closed().await;
        }
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
