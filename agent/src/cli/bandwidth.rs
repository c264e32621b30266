//! `bandwidth`: measures the bandwidth to a few hosts by trains, one after the other.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use reweave_agent::error::AgentError;
use reweave_agent::packet_trains::{TrainError, TrainSender};
use reweave_agent_core::packet_trains::{FRAME_HEADER_BYTES, TrainRefusal, TrainSequence};
use reweave_common::bandwidth::Bandwidth;
use reweave_common::error::error_chain;
use reweave_common::flow::FlowKey;
use reweave_common::units::{Bytes, Rate};
use serde::Serialize;
use serde_json::json;

use super::ways::{Ports, flows, resolve_all};
use super::{Bandwidth as Arguments, Form, out, table};

/// Trains use at most one part in this number of the time.
const REST_FACTOR: u32 = 10;
const MIN_REST_TIME: Duration = Duration::from_millis(20);
/// Wait before a busy host is asked again, and number of attempts.
const BUSY_RETRY_INTERVAL: Duration = Duration::from_millis(250);
const MAX_BUSY_RETRIES: u32 = 120;

/// Result for one path.
#[derive(Serialize)]
struct PathResult {
    flow: FlowKey,
    bandwidth: Bandwidth,
    packets_per_train: u32,
    #[serde(rename = "sent_bytes")]
    sent: Bytes,
}

pub(super) fn bandwidth(asked: &Arguments) -> Result<(), AgentError> {
    let hosts = resolve_all(&asked.hosts)?;
    let ports = Ports {
        first: asked.source_port,
        paths: asked.paths,
        to: asked.port,
    };
    let mut purse = Purse(asked.most_mb * 1_000_000);
    let (mut results, mut last) = (vec![], Ok(()));
    for flow in flows(&hosts, &ports)? {
        match measure(flow, asked, &mut purse) {
            Ok(report) => results.push(report),
            // Other paths may succeed.
            Err(error) => {
                if let Err(before) = std::mem::replace(&mut last, Err(error)) {
                    out::tell(format_args!("error: {}", error_chain(&before)));
                }
            }
        }
    }
    if asked.output.form == Form::Json || !results.is_empty() {
        tell(&results, asked.output.form);
    }
    Ok(last?)
}

/// Remaining number of bytes that may be sent.
struct Purse(u64);

impl Purse {
    fn take(&mut self, bytes: u64) -> bool {
        let left = self.0.checked_sub(bytes);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

/// Sends trains until there are enough of one length, or the limit is reached.
fn measure(flow: FlowKey, asked: &Arguments, purse: &mut Purse) -> Result<PathResult, TrainError> {
    let mut sequence = TrainSequence::new(asked.packet_bytes, asked.most_packets);
    let mut sender = TrainSender::open(&flow, rand::random())?;
    let mut sent = Bytes::ZERO;
    // Trains may first have to grow.
    for _ in 0..asked.trains * 2 {
        let shape = sequence.shape();
        let frame = u64::from(shape.bytes) + u64::from(FRAME_HEADER_BYTES);
        let bytes = u64::from(shape.packets) * frame;
        if sequence.trains() >= asked.trains || !purse.take(bytes) {
            break;
        }
        let began = Instant::now();
        let crossing = send_when_wanted(&mut sender, &sequence)?;
        sent += Bytes::new(bytes);
        sequence.handle_verdict(crossing.verdict());
        thread::sleep((began.elapsed() * REST_FACTOR).max(MIN_REST_TIME));
    }
    Ok(PathResult {
        flow,
        bandwidth: sequence.bandwidth(),
        packets_per_train: sequence.shape().packets,
        sent,
    })
}

fn send_when_wanted(
    sender: &mut TrainSender,
    sequence: &TrainSequence,
) -> Result<reweave_agent_core::packet_trains::TrainArrivals, TrainError> {
    let mut asked = 0;
    loop {
        match sender.send(sequence.shape(), || true) {
            Err(TrainError::Unwilling {
                refusal: TrainRefusal::Later | TrainRefusal::Busy,
                ..
            }) if asked < MAX_BUSY_RETRIES => {
                asked += 1;
                thread::sleep(BUSY_RETRY_INTERVAL);
            }
            other => return other,
        }
    }
}

fn tell(path_result: &[PathResult], form: Form) {
    if form == Form::Json {
        let mut hosts: BTreeMap<&Ipv4Addr, Vec<&PathResult>> = BTreeMap::new();
        for it in path_result {
            hosts.entry(it.flow.destination.ip()).or_default().push(it);
        }
        let host = |(host, paths)| json!({ "host": host, "paths": paths });
        let hosts: Vec<_> = hosts.into_iter().map(host).collect();
        out::json(&json!({ "hosts": hosts }));
        return;
    }
    let rows: Vec<_> = path_result.iter().map(row).collect();
    let headings = [
        "host",
        "from port",
        "bandwidth",
        "95 %",
        "trains",
        "packets each",
        "sent",
    ];
    table::print(headings, &rows);
}

fn row(path_result: &PathResult) -> [String; 7] {
    let dash = || "-".to_owned();
    let (bandwidth, bounds, trains) = match path_result.bandwidth {
        Bandwidth::Known {
            rate,
            least,
            most,
            trains,
        } => (
            fine(rate),
            format!("{} to {}", fine(least), fine(most)),
            trains,
        ),
        Bandwidth::AtLeast { rate, trains } => (format!("at least {}", fine(rate)), dash(), trains),
        Bandwidth::Unknown { why, trains } => (format!("unknown: {why}"), dash(), trains),
    };
    [
        path_result.flow.destination.ip().to_string(),
        path_result.flow.source.port().to_string(),
        bandwidth,
        bounds,
        trains.to_string(),
        path_result.packets_per_train.to_string(),
        format!("{:.1} MB", path_result.sent.count() as f64 / 1e6),
    ]
}

/// Formats a rate with enough digits to distinguish it from others.
fn fine(rate: Rate) -> String {
    match rate.bits_per_s() {
        0..1_000_000_000 => format!("{:.2} Mb/s", rate.mbps()),
        _ => format!("{:.3} Gb/s", rate.gbps()),
    }
}
