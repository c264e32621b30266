//! A few replicas and the messages between them, driven by hand.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::exact::decode_exact;
use crate::{
    Applied, Effect, Founding, Journal, MAX_STATE_BYTES, Member, MemberId, Members, Message,
    ReadId, Replica, RequestId, Saved, Standing, Timing,
};

pub(super) fn member(id: u64) -> Member {
    Member {
        name: format!("c{id}"),
        address: format!("10.0.0.{id}:7332").parse().unwrap(),
        replaces: None,
        folder: None,
    }
}

pub(super) fn timing() -> Timing {
    Timing {
        heartbeat_ticks: 1,
        election_ticks: 10,
        entries_per_snapshot: 20,
        kept_entries: 5,
        promotion_lag: 3,
        snapshot_ticks: 20,
        compaction_retry_ticks: 20,
        ..Timing::default()
    }
}

/// A replica, what it wrote and what it applied.
pub(super) struct Seat {
    pub(super) replica: Replica,
    file: Vec<u8>,
    /// The state is the list of all payloads.
    pub(super) state: Vec<Vec<u8>>,
    pub(super) ready: Vec<ReadId>,
    pub(super) restored: usize,
    /// In which term it reported that it leads, until it reports otherwise.
    leads_in: Option<u64>,
    /// There is no room for a new file, and the old one grows on.
    pub(super) is_full: bool,
    /// No snapshot holds the state.
    pub(super) is_oversized: bool,
}

#[derive(Default)]
pub(super) struct Room {
    pub(super) seats: BTreeMap<u64, Seat>,
    under_way: VecDeque<Message>,
    /// No other hears these, nor do they hear any other.
    pub(super) cut_off: BTreeSet<u64>,
    last: u64,
}

impl Seat {
    fn of(saved: &Saved, file: Vec<u8>) -> Self {
        Self {
            replica: Replica::new(saved, timing()).unwrap(),
            file,
            state: decoded(&saved.state().unwrap()),
            ready: Vec::new(),
            restored: 0,
            leads_in: None,
            is_full: false,
            is_oversized: false,
        }
    }

    fn carry_out(&mut self, effect: Effect) -> Option<Message> {
        match effect {
            Effect::Send(message) => return Some(message),
            Effect::Compact(_) if self.is_full => self.replica.handle_not_compacted(),
            Effect::Compact(whole) => {
                self.file = whole.encode(0).unwrap();
                self.replica.handle_compacted();
            }
            Effect::Persist(batch) => {
                if batch.is_whole {
                    self.file.clear();
                }
                let bytes = batch.encode(self.file.len() as u64).unwrap();
                self.file.extend(bytes);
                self.replica.handle_durable();
            }
            Effect::Apply(Applied { payload, .. }) => {
                let leads = self.leads_in.is_none() || self.leads_in == self.replica.elected();
                assert!(leads, "another's entry, to one that reported that it leads");
                self.state.push(payload);
            }
            Effect::Stands(Standing::Leads { term }) => self.leads_in = Some(term),
            Effect::Stands(Standing::Follows { .. }) => self.leads_in = None,
            Effect::Restore { state, .. } => {
                self.state = decoded(&state);
                self.restored += 1;
            }
            Effect::TakeSnapshot { index } if self.is_oversized => {
                let state = vec![0; MAX_STATE_BYTES + 1];
                self.replica.handle_snapshot(index, state).unwrap_err();
            }
            Effect::TakeSnapshot { index } => {
                let state = postcard::to_stdvec(&self.state).unwrap();
                self.replica.handle_snapshot(index, state).unwrap();
            }
            Effect::ReadReady(read) => self.ready.push(read),
            _ => {}
        }
        None
    }
}

fn decoded(state: &[u8]) -> Vec<Vec<u8>> {
    decode_exact(state).unwrap_or_default()
}

impl Room {
    pub(super) fn of(count: u64) -> Self {
        let members = (1..=count).map(|id| (MemberId(id), member(id))).collect();
        let founding = Founding {
            members,
            state: postcard::to_stdvec(&Vec::<Vec<u8>>::new()).unwrap(),
        };
        let mut room = Self::default();
        for id in 1..=count {
            room.enter(&Saved::founding(MemberId(id), Vec::new(), founding.clone()));
        }
        room
    }

    pub(super) fn enter(&mut self, saved: &Saved) {
        let file = saved.whole().encode(0).unwrap();
        self.seats.insert(saved.member.0, Seat::of(saved, file));
    }

    pub(super) fn join(&mut self, id: u64) {
        self.enter(&Saved::joining(
            MemberId(id),
            Vec::new(),
            Members::default(),
        ));
    }

    /// Comes back with what is in its file.
    pub(super) fn restart(&mut self, id: u64) {
        let file = self.seats.remove(&id).unwrap().file;
        let saved = Journal::read(&file).unwrap().saved;
        self.seats.insert(id, Seat::of(&saved, file));
    }

    /// The snapshot that its file begins with.
    pub(super) fn begins(&self, id: u64) -> u64 {
        let journal = Journal::read(&self.seats[&id].file).unwrap();
        journal.saved.snapshot.index
    }

    /// Until none has anything to say.
    pub(super) fn settle(&mut self) {
        loop {
            for (id, seat) in &mut self.seats {
                while let Some(effect) = seat.replica.poll_effect() {
                    let said = seat.carry_out(effect);
                    let heard = said.filter(|said| {
                        !self.cut_off.contains(id) && !self.cut_off.contains(&said.to.0)
                    });
                    self.under_way.extend(heard);
                }
            }
            let Some(message) = self.under_way.pop_front() else {
                return;
            };
            if let Some(seat) = self.seats.get_mut(&message.to.0) {
                seat.replica.handle_message(message).unwrap();
            }
        }
    }

    pub(super) fn tick(&mut self, count: usize) {
        for _ in 0..count {
            self.seats
                .values_mut()
                .for_each(|seat| seat.replica.handle_tick());
            self.settle();
        }
    }

    pub(super) fn leaders(&self) -> Vec<u64> {
        let seats = self.seats.iter();
        let leads = |seat: &Seat| matches!(seat.replica.standing(), Standing::Leads { .. });
        seats
            .filter(|(_, seat)| leads(seat))
            .map(|(&id, _)| id)
            .collect()
    }

    /// The one who leads, after a while.
    pub(super) fn elect(&mut self) -> u64 {
        for _ in 0..100 {
            self.tick(1);
            let connected = |id: &u64| !self.cut_off.contains(id);
            let leaders: Vec<_> = self.leaders().into_iter().filter(connected).collect();
            if let [leader] = leaders[..] {
                return leader;
            }
        }
        panic!("no replica came to lead: {:?}", self.leaders());
    }

    pub(super) fn propose(&mut self, leader: u64, payload: &str) -> RequestId {
        self.last += 1;
        let request = RequestId {
            client: 7,
            number: self.last,
        };
        let replica = &mut self.seats.get_mut(&leader).unwrap().replica;
        replica.propose(request, payload.into()).unwrap();
        self.settle();
        request
    }

    pub(super) fn state(&self, id: u64) -> Vec<String> {
        let state = self.seats[&id].state.iter();
        state
            .map(|payload| String::from_utf8_lossy(payload).into_owned())
            .collect()
    }
}
