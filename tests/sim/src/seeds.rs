//! Chooses the seeds of a simulation test, and runs them on all cores.
//!
//! In `make test` half of the seeds are fixed and half are drawn from the commit's hash. `REWEAVE_SEEDS=COUNT` runs
//! seeds 0 to COUNT; `REWEAVE_SEED=N` runs that one alone.

use std::env;
use std::fmt::Debug;
use std::iter::repeat_with;
use std::num::NonZero;
use std::ops::AddAssign;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Instant;

use super::chance::Chance;

/// No more seeds are played after this many failures.
const MAX_FAILURES: usize = 10;
/// Others have no more digits, so that they can be typed.
const MAX_DRAWN_SEED: usize = 1_000_000;

/// Returns the number in an environment variable.
pub fn number(variable: &str) -> Option<u64> {
    let value = env::var(variable).ok()?;
    let number = value.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable} is a number, not {value:?}")))
}

/// The first ones, those by which mistakes were found, and as many others, which this commit draws.
pub fn sample_seeds(first: u64, found: &[u64]) -> Vec<u64> {
    if let Some(count) = number("REWEAVE_SEEDS") {
        return (0..count).collect();
    }
    let mut seeds: Vec<_> = (0..first).chain(found.iter().copied()).collect();
    let mut chance = Chance::of(commit_number());
    seeds.extend(repeat_with(|| chance.below(MAX_DRAWN_SEED) as u64).take(seeds.len()));
    seeds
}

/// The commit that is checked out, or that CI builds elsewhere; 0 in a tree without history.
fn commit_number() -> u64 {
    let text = env::var("REWEAVE_COMMIT").unwrap_or_else(|_| {
        let mut ask = Command::new("git");
        ask.args(["-C", env!("CARGO_MANIFEST_DIR"), "rev-parse", "HEAD"]);
        let answer = ask.output().map(|it| it.stdout).unwrap_or_default();
        String::from_utf8_lossy(&answer).into_owned()
    });
    let digits = text.get(..15).unwrap_or_default();
    u64::from_str_radix(digits, 16).unwrap_or(0)
}

/// Counts per life, and totals over all lives. For counts after `max`, the maximum over lives replaces the sum.
#[macro_export]
macro_rules! counts {
    (
        $(#[$about:meta])*
        $visible:vis struct $name:ident {
            $($(#[$what:meta])* $field:ident,)*
        }
        $(max { $($(#[$most_of:meta])* $most:ident,)* })?
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, Default)]
        $visible struct $name {
            $($(#[$what])* $visible $field: u64,)*
            $($($(#[$most_of])* $visible $most: u64,)*)?
        }

        impl ::std::ops::AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                $(self.$field += other.$field;)*
                $($(self.$most = self.$most.max(other.$most);)*)?
            }
        }
    };
}

/// Lives all of them, and gives what was seen in all together.
pub fn sum_of<T: AddAssign + Debug + Default + Send>(
    seeds: &[u64],
    live: impl Fn(u64) -> T + Sync,
) -> T {
    let mut sum = T::default();
    play_all(seeds, live, |seen| sum += seen);
    eprintln!("{sum:?}");
    sum
}

/// Lives all of them, and hands what was seen in each to `add`. Lives that break a law are named in the end.
pub fn play_all<T>(seeds: &[u64], live: impl Fn(u64) -> T + Sync, add: impl FnMut(T) + Send) {
    let (began, next) = (Instant::now(), AtomicUsize::new(0));
    let (add, broken) = (Mutex::new(add), Mutex::new(Vec::new()));
    let has_failed_enough = || broken.lock().expect("naming breaks nothing").len() >= MAX_FAILURES;
    let play = || {
        while let Some(&seed) = seeds.get(next.fetch_add(1, SeqCst))
            && !has_failed_enough()
        {
            match catch_unwind(AssertUnwindSafe(|| live(seed))) {
                Ok(seen) => (add.lock().expect("adding breaks nothing"))(seen),
                Err(_) => broken.lock().expect("naming breaks nothing").push(seed),
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(play);
        }
    });
    let seconds = began.elapsed().as_secs_f64();
    eprintln!("{} seeds in {seconds:.1} s", seeds.len());
    let broken = broken.into_inner().expect("naming breaks nothing");
    // The runner calls a test's thread as it calls the test.
    let caller = thread::current();
    let test = caller.name().unwrap_or_default();
    assert!(
        broken.is_empty(),
        "seeds broke a law: {broken:?}; REWEAVE_SEED={} and {test} play one again",
        broken[0],
    );
}
