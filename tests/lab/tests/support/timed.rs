//! Wall-clock limits that users are promised, checked on shared machines: stalls of the machine are subtracted, and
//! only a measurement during which the machine stalled is repeated.
//!
//! No other test may retry. Tests that use this are named `timed_...`; the tidy test limits their number.

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

/// Fails where `measure` takes longer than `limit`, stalls subtracted. A repeated measurement is printed as FLAKY, which
/// `.ci/run` repeats in its last lines.
#[track_caller]
pub(crate) fn timed(name: &str, limit: Duration, mut measure: impl FnMut() -> Duration) {
    for attempt in 1..=MAX_ATTEMPTS {
        let witness = StallWitness::start();
        let took = measure();
        let stalled = witness.stop();
        println!("{name}: {took:.2?}, of which the machine was stalled for {stalled:.2?}");
        if took.saturating_sub(stalled) <= limit {
            return;
        }
        let may_be_the_machine = stalled >= MIN_STALL && attempt < MAX_ATTEMPTS;
        assert!(
            may_be_the_machine,
            "{name} took {took:?}, limit {limit:?}, machine stalled for {stalled:?}"
        );
        print_uncaptured(format_args!(
            "FLAKY {name}: {took:.2?}, limit {limit:?}, machine stalled for {stalled:.2?}"
        ));
    }
}

/// Bypasses the capture of test runners, which hides the output of tests that pass.
fn print_uncaptured(line: fmt::Arguments<'_>) {
    writeln!(io::stderr(), "{line}").expect("stderr is open");
}

/// Sums up late wake-ups of a ticking thread and the steal time of the hypervisor.
struct StallWitness {
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
            is_over,
            late_ms,
            steal_at_start: steal_time(),
            ticks,
        }
    }

    fn stop(self) -> Duration {
        self.is_over.store(true, Ordering::Relaxed);
        self.ticks.join().expect("it only counts");
        let late = Duration::from_millis(self.late_ms.load(Ordering::Relaxed));
        late + steal_time().saturating_sub(self.steal_at_start)
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
