//! The text format of Prometheus.

use std::fmt::Write as _;

use reweave_common::units::Rate;

#[derive(Default)]
pub(super) struct Page(pub(super) String);

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Gauge,
    Counter,
    Histogram,
}

impl Page {
    pub(super) fn family(&mut self, kind: Kind, name: &str, help: &str) {
        let kind = match kind {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
            Kind::Histogram => "histogram",
        };
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Into<f64>) {
        let labels: Vec<_> = labels
            .iter()
            .map(|(name, value)| label(name, value))
            .collect();
        let labels = if labels.is_empty() {
            String::new()
        } else {
            format!("{{{}}}", labels.join(","))
        };
        let _ = writeln!(self.0, "{name}{labels} {}", value.into());
    }

    /// Adds a family of one sample without labels.
    pub(super) fn single(&mut self, kind: Kind, name: &str, help: &str, value: impl Into<f64>) {
        self.family(kind, name, help);
        self.sample(name, &[], value);
    }
}

fn label(name: &str, value: &str) -> String {
    let escaped = value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    format!("{name}=\"{escaped}\"")
}

pub(super) fn count(number: usize) -> f64 {
    number as f64
}

/// Prometheus' base unit of data is the byte.
pub(super) fn bytes_per_s(rate: Rate) -> f64 {
    rate.bits_per_s() as f64 / 8.0
}
