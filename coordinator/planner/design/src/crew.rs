//! Work that a caller can run in parallel.
//!
//! This module starts no threads: the caller does, or runs everything itself. Results never depend on the order of
//! execution.

use std::sync::atomic::{AtomicUsize, Ordering};

/// One piece of work.
pub type Piece<'w> = Box<dyn FnOnce() + Send + 'w>;

/// Whether there is time for more. A function that always says yes gets the same answer every time.
pub type InTime<'t> = &'t (dyn Fn() -> bool + Sync);

/// For a caller without a time limit.
pub const NO_DEADLINE: InTime<'static> = &|| true;

/// Runs all pieces, in any order, and returns when all are done.
pub trait Crew: Sync {
    fn all(&self, pieces: Vec<Piece<'_>>);
}

/// One piece after another.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alone;

impl Crew for Alone {
    fn all(&self, pieces: Vec<Piece<'_>>) {
        pieces.into_iter().for_each(|piece| piece());
    }
}

/// Applies `work` to each item, and returns the results in their order.
pub fn each<T: Send, R: Send>(
    crew: &dyn Crew,
    items: Vec<T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let mut done: Vec<Option<R>> = items.iter().map(|_| None).collect();
    let work = &work;
    let slots = items.into_iter().zip(&mut done);
    let pieces = slots.map(|(item, slot)| Box::new(move || *slot = Some(work(item))) as Piece<'_>);
    crew.all(pieces.collect());
    done.into_iter().flatten().collect()
}

/// Same as `each`, up to the first result that is enough: later items can be skipped.
pub fn each_until<T: Send, R: Send>(
    crew: &dyn Crew,
    items: Vec<T>,
    work: impl Fn(T) -> R + Sync,
    is_enough: impl Fn(&R) -> bool + Sync,
) -> Vec<R> {
    let first = AtomicUsize::new(usize::MAX);
    let needed = |(nth, item)| {
        // Items before the first are worked on, in any order of the workers.
        let done = (nth <= first.load(Ordering::Relaxed)).then(|| work(item))?;
        if is_enough(&done) {
            first.fetch_min(nth, Ordering::Relaxed);
        }
        Some(done)
    };
    let done = each(crew, items.into_iter().enumerate().collect(), needed);
    let last = first.into_inner().saturating_add(1);
    done.into_iter().take(last).flatten().collect()
}

/// Runs out after this many looks, at any time.
#[cfg(test)]
pub(crate) struct HourGlass {
    most: usize,
    looks: AtomicUsize,
}

#[cfg(test)]
impl HourGlass {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            looks: AtomicUsize::new(0),
        }
    }

    pub(crate) fn runs(&self) -> bool {
        self.looks.fetch_add(1, Ordering::Relaxed) < self.most
    }

    pub(crate) fn looks(&self) -> usize {
        self.looks.load(Ordering::Relaxed)
    }
}

/// Works from the last item to the first.
#[cfg(test)]
pub(crate) struct Backwards;

#[cfg(test)]
impl Crew for Backwards {
    fn all(&self, pieces: Vec<Piece<'_>>) {
        pieces.into_iter().rev().for_each(|piece| piece());
    }
}

/// Each by a hand of its own, all at once.
#[cfg(test)]
pub(crate) struct AtOnce;

#[cfg(test)]
impl Crew for AtOnce {
    #[expect(
        clippy::disallowed_methods,
        reason = "a test that stands in for the shell"
    )]
    fn all(&self, pieces: Vec<Piece<'_>>) {
        std::thread::scope(|hands| {
            for piece in pieces {
                hands.spawn(piece);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_order_does_not_affect_results() {
        let items: Vec<_> = (0..10).collect();
        let squares = |crew: &dyn Crew| each(crew, items.clone(), |it| it * it);
        assert_eq!(squares(&Backwards), squares(&Alone));
        assert_eq!(squares(&Alone)[3], 9);
    }

    #[test]
    fn results_after_first_sufficient_are_dropped() {
        let worked_on = AtomicUsize::new(0);
        let up_to_16 = |crew: &dyn Crew| {
            let square = |it: i32| {
                worked_on.fetch_add(1, Ordering::Relaxed);
                it * it
            };
            each_until(crew, (0..10).collect(), square, |it| *it >= 16)
        };
        assert_eq!(up_to_16(&Alone), [0, 1, 4, 9, 16]);
        assert_eq!(worked_on.load(Ordering::Relaxed), 5);
        assert_eq!(up_to_16(&Backwards), [0, 1, 4, 9, 16]);
        let none = each_until(&Alone, vec![1, 2], |it| it, |_| false);
        assert_eq!(none, [1, 2]);
    }
}
