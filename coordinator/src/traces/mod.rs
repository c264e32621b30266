//! Rollouts as OpenTelemetry traces, by OTLP over HTTP, if configured.
//!
//! The event loop hands on decisions and never waits: what does not fit into the queue is not exported. Every
//! coordinator gets all decisions, and the one that leads when a rollout ends exports its trace.

mod letter;
mod spans;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, Url, header};
use reweave_common::error::error_chain;
use reweave_common::fabric::Fabric;
use reweave_core::Command;
use serde_json::Value;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::sleep;

use crate::error::CoordinatorError;
use crate::webhooks;
use letter::letter;
use spans::Rollouts;

/// Decisions that wait to be looked at: those of many plans.
const QUEUE_LENGTH: usize = 1024;
/// Rollouts that wait for the collector.
const MAX_QUEUED_ROLLOUTS: usize = 64;
const MAX_TRIES: u32 = 4;
/// Doubled each time.
const INITIAL_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The queue of decisions for the exporter.
#[derive(Debug, Clone)]
pub(crate) struct Traces(Sender<Heard>);

#[derive(Debug)]
struct Heard {
    command: Command,
    /// Whether this member leads.
    leads: bool,
}

/// The task that exports traces; to be run by a runtime.
pub(crate) struct TraceExport {
    heard: Receiver<Heard>,
    rollouts: Rollouts,
    collector: Url,
}

impl Traces {
    pub(crate) fn new(collector: Url, fabric: Arc<Fabric>) -> (Self, TraceExport) {
        let (queue, heard) = channel(QUEUE_LENGTH);
        let rollouts = Rollouts::new(fabric);
        let export = TraceExport {
            heard,
            rollouts,
            collector: traces_of(collector),
        };
        (Self(queue), export)
    }

    pub(crate) fn hear_decided(&self, command: &Command, leads: bool) {
        let command = command.clone();
        if self.0.try_send(Heard { command, leads }).is_err() {
            tracing::warn!("trace queue full, decision span dropped");
        }
    }
}

/// The URL for traces. The configured URL is the base for all signals, as in every exporter.
fn traces_of(mut collector: Url) -> Url {
    if matches!(collector.path(), "" | "/") {
        collector.set_path("/v1/traces");
    }
    collector
}

impl TraceExport {
    /// Within a runtime, as long as the event loop runs.
    pub(crate) fn begin(self) -> Result<(), CoordinatorError> {
        let post = Post {
            client: webhooks::client()?,
            collector: self.collector.clone(),
        };
        let (queue, letters) = channel(MAX_QUEUED_ROLLOUTS);
        tokio::spawn(post.keep_sending(letters));
        tokio::spawn(self.keep_exporting(queue));
        Ok(())
    }

    async fn keep_exporting(mut self, letters: Sender<Value>) {
        while let Some(Heard { command, leads }) = self.heard.recv().await {
            for trace in self.rollouts.handle_command(&command) {
                if leads && letters.try_send(letter(&trace)).is_err() {
                    let generation = trace.generation;
                    tracing::warn!("trace queue full, trace of plan {generation} dropped");
                }
            }
        }
    }
}

struct Post {
    client: Client,
    collector: Url,
}

impl Post {
    async fn keep_sending(self, mut letters: Receiver<Value>) {
        while let Some(letter) = letters.recv().await {
            if let Err(why) = self.send(&letter.to_string()).await {
                let collector = webhooks::origin(&self.collector);
                tracing::warn!("trace not sent to {collector}: {why}");
            }
        }
    }

    async fn send(&self, letter: &str) -> Result<(), String> {
        let mut pause = INITIAL_RETRY_INTERVAL;
        for _ in 1..MAX_TRIES {
            if self.try_once(letter).await.is_ok() {
                return Ok(());
            }
            sleep(pause).await;
            pause *= 2;
        }
        self.try_once(letter).await
    }

    async fn try_once(&self, letter: &str) -> Result<(), String> {
        let request = self.client.post(self.collector.clone());
        let request = request.header(header::CONTENT_TYPE, "application/json");
        let answer = request.body(letter.to_owned()).send().await;
        let answer = answer.map_err(|error| error_chain(&error.without_url()))?;
        let code = answer.status();
        if code.is_success() {
            Ok(())
        } else {
            Err(format!("status {code}"))
        }
    }
}
