//! Worker threads for searches, one per core.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread;

use reweave_design::crew::{Crew, Piece};

pub(super) struct Cores;

impl Crew for Cores {
    fn all(&self, pieces: Vec<Piece<'_>>) {
        let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let hands = cores.min(pieces.len());
        if hands < 2 {
            pieces.into_iter().for_each(|piece| piece());
            return;
        }
        let waiting = Mutex::new(pieces.into_iter());
        let next = || {
            waiting
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .next()
        };
        let work = || {
            while let Some(piece) = next() {
                piece();
            }
        };
        thread::scope(|scope| {
            for _ in 0..hands {
                scope.spawn(work);
            }
        });
    }
}
