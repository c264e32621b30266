//! What an iteration takes, how sure that is, and what a change is therefore worth.

use serde::{Deserialize, Serialize};

/// The time of an iteration, and between which times it lies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    pub ms: f64,
    pub low_ms: f64,
    pub high_ms: f64,
    /// What is learned from in an iteration, so that different sizes of a job can be compared.
    pub samples: f64,
}

impl Estimate {
    pub fn ms_per_sample(&self) -> f64 {
        self.ms / self.samples
    }

    /// What this many samples take.
    pub fn time_ms(&self, samples: f64) -> f64 {
        self.ms_per_sample() * samples
    }
}

/// What a change to a running job is worth: what it saves in the time that the job has left, and
/// what it costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Gain {
    pub saved_ms: f64,
    /// What is saved when the old is as fast as it may be, and the new as slow.
    pub surely_saved_ms: f64,
    pub cost_ms: f64,
}

impl Gain {
    /// `left` samples are still to be learned from; the change takes `cost_ms`.
    pub fn of(old: &Estimate, new: &Estimate, left: f64, cost_ms: f64) -> Self {
        let at = |ms: f64, it: &Estimate| ms / it.samples * left;
        Self {
            saved_ms: at(old.ms, old) - at(new.ms, new),
            surely_saved_ms: at(old.low_ms, old) - at(new.high_ms, new),
            cost_ms,
        }
    }

    /// Whether it pays, however the uncertainty falls.
    pub fn pays(&self) -> bool {
        self.surely_saved_ms > self.cost_ms
    }

    /// Why it pays or does not.
    pub fn reason(&self) -> String {
        let [saved, sure, cost] = [self.saved_ms, self.surely_saved_ms, self.cost_ms].map(span);
        if self.pays() {
            format!("it saves {saved} ({sure} for sure) and costs {cost}")
        } else if self.saved_ms <= self.cost_ms {
            format!("it would save {saved} and cost {cost}")
        } else if self.surely_saved_ms <= 0.0 {
            format!("it would save {saved}, which is less than the prediction is uncertain by")
        } else {
            format!("only {sure} of the {saved} that it would save are sure, and it costs {cost}")
        }
    }
}

/// Milliseconds as a person says them.
pub(crate) fn span(ms: f64) -> String {
    let [seconds, minutes, hours] = [1e3, 6e4, 3.6e6].map(|unit| ms / unit);
    match ms.abs() {
        0.0 => "nothing".to_owned(),
        ..1.0 => format!("{:.0} us", ms * 1e3),
        1.0..1e3 => format!("{ms:.1} ms"),
        1e3..120e3 => format!("{seconds:.1} s"),
        120e3..7.2e6 => format!("{minutes:.1} min"),
        _ => format!("{hours:.1} h"),
    }
}
