//! The iteration time with its uncertainty, and the value of a change that follows from it.

use serde::{Deserialize, Serialize};

/// The time of an iteration, with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    pub ms: f64,
    pub low_ms: f64,
    pub high_ms: f64,
    /// Samples per iteration, so that different sizes of a job can be compared.
    pub samples: f64,
}

impl Estimate {
    pub fn ms_per_sample(&self) -> f64 {
        self.ms / self.samples
    }

    /// Returns the time for this number of samples.
    pub fn time_ms(&self, samples: f64) -> f64 {
        self.ms_per_sample() * samples
    }
}

/// Value of a change to a running job: time saved in the job's remaining time, and cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Gain {
    pub saved_ms: f64,
    /// Time saved if the old state is as fast, and the new one as slow, as their intervals allow.
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

    /// Describes why it pays off or not.
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
