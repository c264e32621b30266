//! A program that collects traces, on the station, and what it received.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use reweave_tests::{Program, STAGE_TIMEOUT, Stage, wait_for};
use serde::Deserialize;
use serde_json::Value;

const COLLECTOR_PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/collector.py");
const COLLECTOR_PORT: &str = "4318";

pub(crate) struct Collector {
    _program: Program,
    lines: PathBuf,
}

/// Names of spans, the one below which each is, and what each failed of.
pub(crate) struct Trace(Vec<SpanSummary>);

pub(crate) struct SpanSummary {
    pub(crate) name: String,
    pub(crate) below: Option<String>,
    pub(crate) failed: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Span {
    trace_id: String,
    span_id: String,
    parent_span_id: Option<String>,
    name: String,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    status: Value,
}

impl Collector {
    /// At the head of a coordinator's settings.
    pub(crate) const TRACES_SETTING: &str = "traces = \"http://127.0.0.1:4318\"\n";

    /// `REWEAVE_PYTHON` has OpenTelemetry's own messages.
    pub(crate) fn start(stage: &Stage) -> Self {
        let published = std::env::var("REWEAVE_PYTHON").ok();
        let reader = published.as_ref().map_or("plain", |_| "published");
        let lines = stage.path("traces.jsonl");
        let mut command = stage.inside(
            Stage::STATION_NAME,
            published.as_deref().unwrap_or("python3"),
        );
        command
            .args([COLLECTOR_PATH, COLLECTOR_PORT])
            .arg(&lines)
            .arg(reader);
        let program = stage.start("collector", command);
        Self {
            _program: program.expect("it starts"),
            lines,
        }
    }

    /// The first that is like this, once it is received.
    #[track_caller]
    pub(crate) fn trace(&self, what: &str, is_it: impl Fn(&Trace) -> bool) -> Trace {
        let found = wait_for(what, STAGE_TIMEOUT, || {
            Ok(self.traces().into_iter().find(|trace| is_it(trace)))
        });
        found.unwrap_or_else(|error| panic!("{error}: {:#?}", self.outlines()))
    }

    fn outlines(&self) -> Vec<Vec<String>> {
        self.traces().iter().map(Trace::outline).collect()
    }

    fn traces(&self) -> Vec<Trace> {
        let text = fs::read_to_string(&self.lines).unwrap_or_default();
        text.lines().map(read).collect()
    }
}

fn read(line: &str) -> Trace {
    let answer: Value = serde_json::from_str(line).expect("it writes JSON");
    assert_eq!(answer["path"], "/v1/traces", "{answer:#}");
    assert_eq!(answer["type"], "application/json", "{answer:#}");
    let spans: Vec<Span> = serde_json::from_value(answer["spans"].clone()).expect("spans");
    let by_number: BTreeMap<_, _> = spans.iter().map(|span| (&*span.span_id, span)).collect();
    assert_eq!(by_number.len(), spans.len(), "numbers are given once");
    let above = |span: &Span| {
        let number = span.parent_span_id.as_deref()?;
        let above = by_number.get(number).copied();
        Some(above.unwrap_or_else(|| panic!("{} has no {number} above it", span.name)))
    };
    let of = |span: &Span| {
        let above = above(span);
        above.inspect(|above| span.is_within(above));
        SpanSummary {
            name: span.name.clone(),
            below: above.map(|above| above.name.clone()),
            failed: span.status["message"].as_str().map(str::to_owned),
        }
    };
    Trace(spans.iter().map(of).collect())
}

impl Span {
    fn is_within(&self, above: &Self) {
        let nanos = |text: &str| text.parse::<u64>().expect("nanoseconds");
        assert_eq!(self.trace_id, above.trace_id);
        let began = nanos(&above.start_time_unix_nano) <= nanos(&self.start_time_unix_nano);
        let ended = nanos(&self.end_time_unix_nano) <= nanos(&above.end_time_unix_nano);
        assert!(began && ended, "{self:?} is not within {above:?}");
    }
}

impl Trace {
    pub(crate) fn outline(&self) -> Vec<String> {
        let below = |span_summary: &SpanSummary| {
            span_summary.below.clone().unwrap_or_else(|| "-".to_owned())
        };
        let spans = self.0.iter();
        spans
            .map(|span_summary| format!("{} < {}", span_summary.name, below(span_summary)))
            .collect()
    }

    /// Of the whole, why it failed.
    pub(crate) fn failed(&self) -> Option<&str> {
        self.0.first()?.failed.as_deref()
    }

    /// Whether there is a span of this name, below one whose name begins so.
    pub(crate) fn has(&self, name: &str, below: &str) -> bool {
        let is_below = |span_summary: &&SpanSummary| {
            span_summary
                .below
                .as_ref()
                .is_some_and(|it| it.starts_with(below))
        };
        self.0
            .iter()
            .filter(is_below)
            .any(|span_summary| span_summary.name == name)
    }
}
