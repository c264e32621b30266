//! `iterations`: shows the iteration period of this host's traffic.

use std::thread;
use std::time::{Duration, Instant};

use reweave_agent::activity::Activity;
use reweave_agent::clock;
use reweave_agent::error::AgentError;
use reweave_agent::flows::FlowSocket;
use reweave_agent::netlink::RouteSocket;
use reweave_agent::packet_trains::SharedGate;
use reweave_agent::traffic::{own_addresses, wires};
use reweave_common::periodicity::{ExchangePattern, IterationPeriod, Periodicity};
use reweave_common::sample::HostReading;
use serde_json::{Value, json};

use super::show::or_dash;
use super::{Form, Watched, out, table};

/// Interval of readings, as in a running agent.
const READ_INTERVAL: Duration = Duration::from_millis(500);

pub(super) fn rhythm(watched: &Watched) -> Result<(), AgentError> {
    let heard = hear(watched.over_ms, SharedGate::default())?;
    match (watched.output.form, heard) {
        (Form::Json, rhythm) => out::json(&json!({ "rhythm": as_json(&rhythm) })),
        (Form::Table, Periodicity::Found(beat)) => tell(&beat),
        (Form::Table, Periodicity::Unknown { .. }) => {
            out::line("unknown; increase the measurement time");
        }
        (Form::Table, Periodicity::None { .. }) => out::line("no rhythm"),
    }
    Ok(())
}

/// Returns the result after this time; `gate` receives every step.
pub(super) fn hear(over: Duration, gate: SharedGate) -> Result<Periodicity, AgentError> {
    let (mut route, mut flows) = (RouteSocket::open()?, FlowSocket::open()?);
    let mut activity = Activity::start(false, gate);
    let end = Instant::now() + over;
    let mut heard = None;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        thread::sleep(left.min(READ_INTERVAL));
        let (wires, own) = (wires(&route.links()?), own_addresses(&route.interfaces()?));
        let (said, _) = activity.readings(clock::now(), &wires, &own, &flows.sockets()?);
        let mut rhythms = said.into_iter().filter_map(|reading| match reading {
            HostReading::Rhythm(rhythm) => Some(rhythm),
            _ => None,
        });
        heard = rhythms.next_back().or(heard);
    }
    heard.ok_or(AgentError::NoPulse)
}

fn as_json(rhythm: &Periodicity) -> Value {
    match rhythm {
        Periodicity::Unknown { watched } => {
            json!({ "unknown": { "watched_us": watched.as_micros() } })
        }
        Periodicity::None { watched } => json!({ "none": { "watched_us": watched.as_micros() } }),
        Periodicity::Found(beat) => json!({ "found": {
            "period_us": beat.period.as_micros(),
            "gap_us": beat.gap.as_micros(),
            "sent_bytes": beat.sent,
            "received_bytes": beat.received,
            "shape": beat.shape,
            "confidence_percent": beat.confidence_percent,
            "iterations": beat.iterations,
        } }),
    }
}

fn tell(beat: &IterationPeriod) {
    let ms = |it: Duration| format!("{:.1} ms", it.as_secs_f64() * 1e3);
    let mb = |bytes: u64| format!("{:.2} MB", bytes as f64 / 1e6);
    let row = [
        ms(*beat.period),
        ms(*beat.gap),
        mb(beat.sent.count()),
        mb(beat.received.count()),
        or_dash(beat.shape.map(shape)),
        format!("{} %", beat.confidence_percent),
        beat.iterations.to_string(),
    ];
    let headings = [
        "period",
        "gap",
        "sent",
        "received",
        "shape",
        "confidence",
        "iterations",
    ];
    table::print(headings, &[row]);
}

fn shape(shape: ExchangePattern) -> &'static str {
    match shape {
        ExchangePattern::Ring => "ring",
        ExchangePattern::AllToAll => "all-to-all",
        ExchangePattern::Pipeline => "pipeline",
    }
}
