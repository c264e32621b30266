//! Those who were not let in: told to the log and to operators, and not once for each of thousands.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use reweave_link::LinkError;

use crate::intake::{Event, Intake};

/// Different refusals between two tellings; more are counted together.
const MOST: usize = 32;

#[derive(Debug, Default)]
pub(crate) struct Refusals {
    pending: BTreeMap<(IpAddr, String), u64>,
    beyond: u64,
}

impl Refusals {
    pub(crate) fn note(&mut self, error: &LinkError) {
        match error.address() {
            Some(address) => self.add(address, error.fault()),
            None => self.beyond += 1,
        }
    }

    pub(crate) fn add(&mut self, from: SocketAddr, why: String) {
        let key = (from.ip(), why);
        if self.pending.len() < MOST || self.pending.contains_key(&key) {
            *self.pending.entry(key).or_default() += 1;
        } else {
            self.beyond += 1;
        }
    }

    /// The log and the core hear of what came together since the last time.
    pub(crate) fn tell(&mut self, intake: &Intake) {
        let pending = std::mem::take(&mut self.pending).into_iter();
        let pending = pending.map(|((from, why), times)| (from.to_string(), why, times));
        let beyond = std::mem::take(&mut self.beyond);
        let others = (
            "others".to_owned(),
            "too many to tell apart".to_owned(),
            beyond,
        );
        for (from, why, times) in pending.chain((beyond > 0).then_some(others)) {
            match times {
                1 => tracing::warn!("not let in: {from}: {why}"),
                _ => tracing::warn!("not let in: {from}: {why} ({times} times)"),
            }
            intake.note_refused(times);
            // When the queue is full of other things, the log has to do.
            let _ = intake.put_telemetry(Event::TurnedAway { from, why, times });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intake::queue;

    #[tokio::test]
    async fn thousands_of_refusals_are_told_in_few_words() {
        let (intake, mut events) = queue();
        let mut refusals = Refusals::default();
        for port in 1..=5000 {
            let from = SocketAddr::from(([10, 0, 0, 1], port));
            refusals.add(from, "it showed no certificate".to_owned());
            let everywhere = SocketAddr::from(([10, 1, (port >> 8) as u8, port as u8], 1));
            refusals.add(everywhere, "it did not complete the handshake".to_owned());
        }
        refusals.tell(&intake);
        let mut told = 0;
        let mut lines = 0;
        while let Ok(Event::TurnedAway { times, .. }) = events.try_next() {
            told += times;
            lines += 1;
        }
        assert_eq!((told, lines), (10_000, MOST + 1));
        assert_eq!(intake.counts().refused, 10_000);
        refusals.tell(&intake);
        assert!(events.try_next().is_err(), "nothing is told twice");
    }
}
