//! Room for so many at a time, and for so many of one. Whoever comes when it is full takes the place of
//! whoever has been still for the longest: those who only hold places keep nobody out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use reweave_common::lock::lock;
use tokio::sync::oneshot;
use tokio::time::Instant;

#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) most: usize,
    pub(super) most_of_one: usize,
}

pub(super) struct Crowd<W> {
    room: Room,
    held: Arc<Mutex<Held<W>>>,
}

struct Held<W> {
    seats: BTreeMap<u64, Taken<W>>,
    last: u64,
}

struct Taken<W> {
    whose: W,
    still_since: Instant,
    /// Dropped when another needs the place.
    _stays: oneshot::Sender<()>,
}

/// Given back when it is dropped.
pub(super) struct Seat<W> {
    of: Arc<Mutex<Held<W>>>,
    number: u64,
}

/// Ready when another needs the place.
pub(super) type Lost = oneshot::Receiver<()>;

impl<W: Clone + PartialEq> Crowd<W> {
    pub(super) fn new(room: Room) -> Self {
        let seats = BTreeMap::new();
        let held = Arc::new(Mutex::new(Held { seats, last: 0 }));
        Self { room, held }
    }

    pub(super) fn enter(&self, whose: W) -> (Seat<W>, Lost) {
        let mut held = lock(&self.held);
        if held.of(&whose) >= self.room.most_of_one {
            held.expel(|taken| taken.whose == whose);
        } else if held.seats.len() >= self.room.most {
            held.expel(|_| true);
        }
        held.last += 1;
        let (_stays, lost) = oneshot::channel();
        let taken = Taken {
            whose,
            still_since: Instant::now(),
            _stays,
        };
        let number = held.last;
        held.seats.insert(number, taken);
        let of = self.held.clone();
        (Seat { of, number }, lost)
    }
}

impl<W: PartialEq> Held<W> {
    fn of(&self, whose: &W) -> usize {
        let seats = self.seats.values();
        seats.filter(|taken| taken.whose == *whose).count()
    }

    fn expel(&mut self, may_go: impl Fn(&Taken<W>) -> bool) {
        let those = self.seats.iter().filter(|(_, taken)| may_go(taken));
        let stillest = those.min_by_key(|(_, taken)| taken.still_since);
        if let Some(number) = stillest.map(|(&number, _)| number) {
            self.seats.remove(&number);
        }
    }
}

impl<W> Seat<W> {
    /// Somebody does something.
    pub(super) fn stir(&self) {
        if let Some(taken) = lock(&self.of).seats.get_mut(&self.number) {
            taken.still_since = Instant::now();
        }
    }
}

impl<W> Drop for Seat<W> {
    fn drop(&mut self) {
        lock(&self.of).seats.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot::error::TryRecvError;
    use tokio::time::advance;

    use super::*;

    const ROOM: Room = Room {
        most: 4,
        most_of_one: 2,
    };

    fn is_lost<W>((_, lost): &mut (Seat<W>, Lost)) -> bool {
        lost.try_recv() == Err(TryRecvError::Closed)
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_takes_many_places_takes_them_from_himself() {
        let crowd = Crowd::new(ROOM);
        let mut other = crowd.enter("other");
        let mut first = crowd.enter("one");
        advance(Duration::from_secs(1)).await;
        let mut second = crowd.enter("one");
        let mut third = crowd.enter("one");
        assert!(is_lost(&mut first));
        assert!(!is_lost(&mut second) && !is_lost(&mut third));
        assert!(!is_lost(&mut other), "though it came first");
    }

    #[tokio::test(start_paused = true)]
    async fn when_it_is_full_whoever_is_still_the_longest_goes() {
        let crowd = Crowd::new(ROOM);
        let mut seats: Vec<_> = (0..ROOM.most).map(|who| crowd.enter(who)).collect();
        advance(Duration::from_secs(1)).await;
        seats[0].0.stir();
        let _newcomer = crowd.enter(ROOM.most);
        assert!(!is_lost(&mut seats[0]));
        let lost = seats
            .iter_mut()
            .filter_map(|seat| is_lost(seat).then_some(()));
        assert_eq!(lost.count(), 1);
        drop(seats);
        assert_eq!(lock(&crowd.held).seats.len(), 1, "places are given back");
    }
}
