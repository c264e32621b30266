//! A trace in OTLP's JSON: an `ExportTraceServiceRequest` with hexadecimal identifiers and times in nanoseconds as
//! text.

use reweave_common::moment::Moment;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use super::spans::{Span, Trace};
use crate::hex::hex;

/// Within one process, as opposed to what is asked of others over the wire.
const SPAN_KIND_INTERNAL: u8 = 1;
const STATUS_CODE_OK: u8 = 1;
const STATUS_CODE_ERROR: u8 = 2;

/// Every coordinator exports a rollout under the same identifiers.
pub(super) fn letter(trace: &Trace) -> Value {
    let number = number(trace);
    let spans = trace.spans.iter().zip(0..);
    let spans: Vec<_> = spans
        .map(|(span, place)| span_json(&number, span, place))
        .collect();
    let scope = json!({ "name": "reweave-coordinator", "version": env!("CARGO_PKG_VERSION") });
    json!({ "resourceSpans": [{
        "resource": { "attributes": [fact("service.name", "reweave-coordinator")] },
        "scopeSpans": [{ "scope": scope, "spans": spans }],
    }]})
}

fn number(trace: &Trace) -> Vec<u8> {
    let began = trace.spans.first().map_or(0, |span| span.began.as_micros());
    let name = format!("{} {began}", trace.generation);
    digest(&SHA256, name.as_bytes()).as_ref()[..16].to_vec()
}

fn span_json(trace: &[u8], span: &Span, place: usize) -> Value {
    let mut facts: Vec<_> = span
        .facts
        .iter()
        .map(|(name, value)| fact(name, value))
        .collect();
    facts.extend(span.failed.as_ref().map(|why| fact("reweave.why", why)));
    let status = match &span.failed {
        None => json!({ "code": STATUS_CODE_OK }),
        Some(why) => json!({ "code": STATUS_CODE_ERROR, "message": why }),
    };
    let mut answer = json!({
        "traceId": hex(trace),
        "spanId": span_number(trace, place),
        "name": span.name,
        "kind": SPAN_KIND_INTERNAL,
        "startTimeUnixNano": nanos(span.began),
        "endTimeUnixNano": nanos(span.ended),
        "attributes": facts,
        "status": status,
    });
    if let Some(parent) = span.parent {
        answer["parentSpanId"] = span_number(trace, parent).into();
    }
    answer
}

fn span_number(trace: &[u8], place: usize) -> String {
    let name = [trace, &place.to_be_bytes()].concat();
    hex(&digest(&SHA256, &name).as_ref()[..8])
}

fn fact(name: &str, value: &str) -> Value {
    json!({ "key": name, "value": { "stringValue": value } })
}

/// JSON's numbers would lose the last digits.
fn nanos(at: Moment) -> String {
    (u128::from(at.as_micros()) * 1000).to_string()
}
