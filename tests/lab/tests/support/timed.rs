//! Wall-clock limits that users are promised, checked on shared machines: stalls of the machine are subtracted, and
//! only a measurement during which the machine stalled is repeated.
//!
//! In `make test` no other test may retry. Tests that use this are named `timed_...`; the tidy test limits their number.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const MAX_ATTEMPTS: usize = 3;
const TICK_INTERVAL: Duration = Duration::from_millis(10);
/// Later wake-ups are stalls; earlier ones are ordinary scheduling latency.
const MIN_STALL: Duration = Duration::from_millis(50);

/// Late wake-ups that take less of a measurement do not excuse it.
const MIN_LATE_FRACTION: f64 = 0.01;
/// A rate says nothing if the machine was stalled for a larger part of its measurement.
const MAX_STALLED_FRACTION: f64 = 0.3;

/// Fails where `measure` takes longer than `limit`, stalls subtracted: what it returns is nearly all of the time that it
/// runs.
#[track_caller]
pub(crate) fn timed(name: &str, limit: Duration, measure: impl FnMut() -> Duration) {
    retry_if_stalled(name, measure, |took, stalls| {
        took.saturating_sub(stalls.stalled) <= limit
    });
}

/// Fails where less than `min_fraction` of the nominal throughput is measured, over the time without stalls.
#[track_caller]
pub(crate) fn timed_throughput(name: &str, min_fraction: f64, measure: impl FnMut() -> f64) {
    retry_if_stalled(name, measure, |fraction, stalls| {
        meets_min_fraction(*fraction, min_fraction, stalls)
    });
}

/// Fails if a measured value is unexpected. Stalls cannot be subtracted from it.
#[track_caller]
pub(crate) fn timed_value<T: fmt::Debug>(
    name: &str,
    measure: impl FnMut() -> T,
    is_expected: impl Fn(&T) -> bool,
) {
    retry_if_stalled(name, measure, |value, _| is_expected(value));
}

/// A repeated measurement is printed as FLAKY, which `make test`, `make test-lab` and `.ci/run` list in their last lines.
#[track_caller]
fn retry_if_stalled<T: fmt::Debug>(
    name: &str,
    mut measure: impl FnMut() -> T,
    passes: impl Fn(&T, &Stalls) -> bool,
) {
    for attempt in 1..=MAX_ATTEMPTS {
        let witness = StallWitness::start();
        let measured = measure();
        let stalls = witness.stop();
        println!("{name}: {measured:.2?}, {stalls}");
        if passes(&measured, &stalls) {
            return;
        }
        let may_be_the_machine = stalls.excuses_retry() && attempt < MAX_ATTEMPTS;
        assert!(may_be_the_machine, "{name}: {measured:?}, {stalls}");
        print_uncaptured(format_args!("FLAKY {name}: {measured:.2?}, {stalls}"));
    }
}

fn meets_min_fraction(fraction: f64, min_fraction: f64, stalls: &Stalls) -> bool {
    stalls.fraction() <= MAX_STALLED_FRACTION
        && fraction >= min_fraction * (1.0 - stalls.fraction())
}

/// Duration of the machine's stalls during a measurement.
struct Stalls {
    /// From late wake-ups of the witness.
    late: Duration,
    /// The same, or the steal time of the hypervisor if that is more: steal makes wake-ups late, so their sum would count it
    /// twice.
    stalled: Duration,
    measured_for: Duration,
}

impl Stalls {
    fn fraction(&self) -> f64 {
        self.stalled.div_duration_f64(self.measured_for)
    }

    /// A hypervisor that always steals a little excuses nothing.
    fn excuses_retry(&self) -> bool {
        self.late.div_duration_f64(self.measured_for) >= MIN_LATE_FRACTION
    }
}

impl fmt::Display for Stalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            late,
            stalled,
            measured_for,
        } = self;
        write!(
            f,
            "the machine was stalled for {stalled:.2?} ({late:.2?} by late wake-ups) of {measured_for:.2?}"
        )
    }
}

/// Bypasses the capture of test runners, which hides the output of tests that pass. A runner may have begun a line.
fn print_uncaptured(line: fmt::Arguments<'_>) {
    writeln!(io::stderr(), "\n{line}").expect("stderr is open");
}

/// A ticking thread whose late wake-ups are counted.
struct StallWitness {
    began: Instant,
    is_over: Arc<AtomicBool>,
    late_ms: Arc<AtomicU64>,
    steal_at_start: Duration,
    ticks: JoinHandle<()>,
}

impl StallWitness {
    fn start() -> Self {
        let (is_over, late_ms) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (end, late) = (Arc::clone(&is_over), Arc::clone(&late_ms));
        let ticks = thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                let began = Instant::now();
                thread::park_timeout(TICK_INTERVAL);
                let beyond = began.elapsed().saturating_sub(TICK_INTERVAL);
                if beyond >= MIN_STALL {
                    late.fetch_add(beyond.as_millis() as u64, Ordering::Relaxed);
                }
            }
        });
        Self {
            began: Instant::now(),
            is_over,
            late_ms,
            steal_at_start: steal_time(),
            ticks,
        }
    }

    fn stop(self) -> Stalls {
        let measured_for = self.began.elapsed();
        self.is_over.store(true, Ordering::Relaxed);
        self.ticks.join().expect("it only counts");
        let late = Duration::from_millis(self.late_ms.load(Ordering::Relaxed));
        Stalls {
            late,
            stalled: late.max(steal_time().saturating_sub(self.steal_at_start)),
            measured_for,
        }
    }
}

/// Steal time since boot, averaged over the cores: field 8 of `cpu` in /proc/stat, in ticks of 10 ms.
fn steal_time() -> Duration {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = text.split_whitespace().nth(8);
    let ticks = ticks.and_then(|it| it.parse().ok()).unwrap_or(0);
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    Duration::from_millis(10 * ticks) / processors as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stalled_for(millis: u64) -> Stalls {
        Stalls {
            late: Duration::from_millis(millis),
            stalled: Duration::from_millis(millis),
            measured_for: Duration::from_secs(2),
        }
    }

    #[test]
    fn steady_steal_excuses_no_retry() {
        let stolen = Stalls {
            late: Duration::ZERO,
            ..stalled_for(100)
        };
        assert!(!stolen.excuses_retry() && stalled_for(100).excuses_retry());
    }

    #[test]
    fn stalls_are_subtracted_from_throughput() {
        assert!(meets_min_fraction(0.95, 0.95, &stalled_for(0)));
        assert!(!meets_min_fraction(0.92, 0.95, &stalled_for(0)));
        assert!(meets_min_fraction(0.92, 0.95, &stalled_for(130)));
    }

    #[test]
    fn mostly_stalled_measurement_never_passes() {
        assert!(!meets_min_fraction(0.95, 0.95, &stalled_for(700)));
        assert!(!meets_min_fraction(0.0, 0.95, &stalled_for(2000)));
        assert!(!meets_min_fraction(f64::NAN, 0.95, &stalled_for(0)));
    }

    #[test]
    #[should_panic(expected = "never: 1")]
    fn wrong_value_without_stall_fails() {
        // If a stall is witnessed, only the last attempt fails.
        timed_value("never", || 1, |_| false);
    }
}
