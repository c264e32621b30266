//! Wall-clock limits that users are promised, checked on shared machines: stalls of the machine are subtracted, and
//! only a measurement during which the machine stalled is repeated.
//!
//! No other test may retry. Tests that use this are named `timed_...`; the tidy test limits their number.

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

/// Fails where `measure` takes longer than `limit`, stalls subtracted.
#[track_caller]
pub(crate) fn timed(name: &str, limit: Duration, measure: impl FnMut() -> Duration) {
    judge(name, measure, |took, stalled| {
        took.saturating_sub(stalled.stalled) <= limit
    });
}

/// Fails where `measure` finds that less is carried than `min` of what should be, over the time in which the machine was
/// not stalled.
#[track_caller]
pub(crate) fn timed_share(name: &str, min: f64, measure: impl FnMut() -> f64) {
    judge(name, measure, |share, stalled| {
        *share >= min * (1.0 - stalled.share())
    });
}

/// Fails where a measured rate, delay or share is not right. A stall cannot be subtracted from it.
#[track_caller]
pub(crate) fn timed_figure<T: fmt::Debug>(
    name: &str,
    measure: impl FnMut() -> T,
    is_right: impl Fn(&T) -> bool,
) {
    judge(name, measure, |figure, _| is_right(figure));
}

/// A repeated measurement is printed as FLAKY, which `.ci/run` and `make test-lab` repeat in their last lines.
#[track_caller]
fn judge<T: fmt::Debug>(
    name: &str,
    mut measure: impl FnMut() -> T,
    is_right: impl Fn(&T, &Stalls) -> bool,
) {
    for attempt in 1..=MAX_ATTEMPTS {
        let witness = StallWitness::start();
        let measured = measure();
        let stalls = witness.stop();
        println!("{name}: {measured:.2?}, {stalls}");
        if is_right(&measured, &stalls) {
            return;
        }
        let may_be_the_machine = stalls.stalled >= MIN_STALL && attempt < MAX_ATTEMPTS;
        assert!(may_be_the_machine, "{name}: {measured:?}, {stalls}");
        print_uncaptured(format_args!("FLAKY {name}: {measured:.2?}, {stalls}"));
    }
}

/// For how long the machine was stalled during a measurement.
struct Stalls {
    stalled: Duration,
    measured_for: Duration,
}

impl Stalls {
    fn share(&self) -> f64 {
        let share = self.stalled.as_secs_f64() / self.measured_for.as_secs_f64();
        share.min(1.0)
    }
}

impl fmt::Display for Stalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            stalled,
            measured_for,
        } = self;
        write!(
            f,
            "the machine was stalled for {stalled:.2?} of {measured_for:.2?}"
        )
    }
}

/// Bypasses the capture of test runners, which hides the output of tests that pass.
fn print_uncaptured(line: fmt::Arguments<'_>) {
    writeln!(io::stderr(), "{line}").expect("stderr is open");
}

/// Sums up late wake-ups of a ticking thread and the steal time of the hypervisor.
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
            stalled: late + steal_time().saturating_sub(self.steal_at_start),
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
