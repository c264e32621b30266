//! `flows`: shows the flows that this host sends.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use reweave_agent::clock;
use reweave_agent::error::AgentError;
use reweave_agent::flows::FlowSocket;
use reweave_agent_core::flows::FlowBook;
use reweave_common::flow::FlowKey;
use reweave_common::moment::Moment;
use reweave_common::sample::{FlowReading, Reading};
use reweave_common::units::{Bytes, Rate};
use serde::Serialize;

use super::show::{or_dash, print_json};
use super::{Form, Watched, table};

/// Interval of readings.
const READ_INTERVAL: Duration = Duration::from_millis(200);

/// Last reading of a flow, with the minimum and maximum of its rate.
#[derive(Serialize)]
struct SeenFlow {
    flow: FlowKey,
    bytes: Bytes,
    rate_bits_per_s: Option<Rate>,
    least_bits_per_s: Option<Rate>,
    most_bits_per_s: Option<Rate>,
    rtt_us: Option<u128>,
    retransmits: Option<u64>,
}

pub(super) fn flows(watched: &Watched) -> Result<(), AgentError> {
    let began = clock::now();
    let mut book = FlowBook::default();
    let flows = watch_flows(&mut book, watched.over_ms)?;
    let flows: Vec<_> = flows.iter().map(|it| seen(&book, began, it)).collect();
    if watched.output.form == Form::Json {
        print_json("flows", &flows);
        return Ok(());
    }
    let rows: Vec<_> = flows.iter().map(flow_row).collect();
    table::print(["flow", "rate", "least", "most", "rtt", "resent"], &rows);
    Ok(())
}

/// Returns the last reading of each flow that has not ended.
fn watch_flows(book: &mut FlowBook, over: Duration) -> Result<Vec<FlowReading>, AgentError> {
    let mut socket = FlowSocket::open()?;
    let mut last = BTreeMap::new();
    let end = Instant::now() + over;
    loop {
        for reading in book.handle_sockets(clock::now(), &socket.sockets()?) {
            match reading {
                Reading::Flow(reading) => drop(last.insert(reading.flow, reading)),
                Reading::FlowEnded(flow) => drop(last.remove(&flow)),
                _ => {}
            }
        }
        match end.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => thread::sleep(left.min(READ_INTERVAL)),
            _ => return Ok(last.into_values().collect()),
        }
    }
}

fn seen(book: &FlowBook, began: Moment, reading: &FlowReading) -> SeenFlow {
    let range = book.range_since(&reading.flow, began);
    SeenFlow {
        flow: reading.flow,
        bytes: reading.bytes,
        rate_bits_per_s: reading.rate,
        least_bits_per_s: range.map(|[least, _]| least),
        most_bits_per_s: range.map(|[_, most]| most),
        rtt_us: reading.rtt.map(|rtt| rtt.as_micros()),
        retransmits: reading.retransmits,
    }
}

fn flow_row(it: &SeenFlow) -> [String; 6] {
    let rtt = it.rtt_us.map(|us| format!("{:.1} ms", us as f64 / 1e3));
    [
        it.flow.to_string(),
        or_dash(it.rate_bits_per_s),
        or_dash(it.least_bits_per_s),
        or_dash(it.most_bits_per_s),
        or_dash(rtt),
        or_dash(it.retransmits),
    ]
}
