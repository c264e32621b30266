//! What a user is promised within some time, as a test can judge it on a machine that others share: less the time in
//! which a witness saw this machine stand still, and once more only where it saw that.
//!
//! Nothing else may be tried again. A test that uses this is called `timed_...`, and the tidy test counts them.

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const TRIES: usize = 3;
const TICK: Duration = Duration::from_millis(10);
/// A kernel that has something else to do lets a thread wait for a few ticks. Less in all is no standstill.
const LATE: Duration = Duration::from_millis(50);

/// Plays a story that says how long something took, which is no longer than `limit`. One that is played again is
/// named in the last lines of `make test`.
#[track_caller]
pub(crate) fn timed(name: &str, limit: Duration, mut story: impl FnMut() -> Duration) {
    for attempt in 1..=TRIES {
        let witness = Witness::begin();
        let took = story();
        let stood_still = witness.end();
        println!("{name}: {took:.2?}, of which this machine stood still for {stood_still:.2?}");
        if took.saturating_sub(stood_still) <= limit {
            return;
        }
        let may_be_the_machine = stood_still >= LATE && attempt < TRIES;
        assert!(
            may_be_the_machine,
            "{name} took {took:?} where {limit:?} is promised, and this machine stood still for {stood_still:?} of it"
        );
        tell(format_args!(
            "FLAKY {name}: {took:.2?} where {limit:?} is promised; this machine stood still for {stood_still:.2?}"
        ));
    }
}

/// Also of a test that passes then, of which runners keep to themselves what is printed.
fn tell(line: fmt::Arguments<'_>) {
    writeln!(io::stderr(), "{line}").expect("somebody reads it");
}

/// Ticks while something is timed, and adds up by how much ticks were late, and what other machines took from this one.
struct Witness {
    is_over: Arc<AtomicBool>,
    late_ms: Arc<AtomicU64>,
    stolen_before: Duration,
    ticks: JoinHandle<()>,
}

impl Witness {
    fn begin() -> Self {
        let (is_over, late_ms) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (end, late) = (Arc::clone(&is_over), Arc::clone(&late_ms));
        let ticks = thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                let began = Instant::now();
                thread::park_timeout(TICK);
                let beyond = began.elapsed().saturating_sub(TICK);
                if beyond >= LATE {
                    late.fetch_add(beyond.as_millis() as u64, Ordering::Relaxed);
                }
            }
        });
        Self {
            is_over,
            late_ms,
            stolen_before: stolen(),
            ticks,
        }
    }

    fn end(self) -> Duration {
        self.is_over.store(true, Ordering::Relaxed);
        self.ticks.join().expect("it only counts");
        let late = Duration::from_millis(self.late_ms.load(Ordering::Relaxed));
        late + stolen().saturating_sub(self.stolen_before)
    }
}

/// So far, of the mean processor: the eighth figure of the first line, in hundredths of a second.
fn stolen() -> Duration {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = text.split_whitespace().nth(8);
    let ticks = ticks.and_then(|it| it.parse().ok()).unwrap_or(0);
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    Duration::from_millis(10 * ticks) / processors as u32
}
