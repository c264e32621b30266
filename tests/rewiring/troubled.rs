//! Many lives at once, on all cores, and what was seen in all of them.

use std::num::NonZero;
use std::panic::{catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Instant;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) worlds: u64,
    pub(crate) events: u64,
    pub(crate) coordinators_died: u64,
    pub(crate) walks: u64,
    pub(crate) acts: u64,
    pub(crate) moves: u64,
    pub(crate) asked_closely: u64,
    pub(crate) kept: u64,
    pub(crate) taken_back: u64,
    pub(crate) beside: u64,
    pub(crate) steered: u64,
    /// All that might.
    pub(crate) all_went_wrong: u64,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.worlds += other.worlds;
        self.events += other.events;
        self.coordinators_died += other.coordinators_died;
        self.walks += other.walks;
        self.acts += other.acts;
        self.moves += other.moves;
        self.asked_closely += other.asked_closely;
        self.kept += other.kept;
        self.taken_back += other.taken_back;
        self.beside += other.beside;
        self.steered += other.steered;
        self.all_went_wrong += other.all_went_wrong;
    }
}

pub(crate) fn play_all(count: u64, live: impl Fn(u64) -> Tally + Sync) -> Tally {
    let (began, next, sum) = (
        Instant::now(),
        AtomicU64::new(0),
        Mutex::new(Tally::default()),
    );
    // The runner calls a test's thread as it calls the test.
    let caller = thread::current();
    let test = caller.name().unwrap_or_default();
    let play = || {
        while let Some(seed) = Some(next.fetch_add(1, SeqCst)).filter(|seed| *seed < count) {
            let seen = telling_how_to_see_it_again(test, seed, &live);
            sum.lock().expect("nobody died with it").add(seen);
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(play);
        }
    });
    let sum = sum.into_inner().expect("nobody died with it");
    let seconds = began.elapsed().as_secs_f64();
    eprintln!("{count} seeds in {seconds:.1} s: {sum:?}");
    sum
}

fn telling_how_to_see_it_again(
    test: &str,
    seed: u64,
    live: &(impl Fn(u64) -> Tally + Sync),
) -> Tally {
    let lived = catch_unwind(std::panic::AssertUnwindSafe(|| live(seed)));
    lived.unwrap_or_else(|panic| {
        eprintln!("to see it again: REWEAVE_SEED={seed} cargo test --test rewiring {test}");
        resume_unwind(panic)
    })
}

pub(crate) fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    let number = value.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable} is a number, not {value:?}")))
}
