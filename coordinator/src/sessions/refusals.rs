//! Refused peers, for the log and for operators, without an entry for each of thousands.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use reweave_link::{LinkError, PeerRefusal};

use crate::intake::{Event, Intake};

/// The limit of different refusals between two reports. Further ones are counted together.
const MAX_DISTINCT_REFUSALS: usize = 32;

/// The reason by which refusals are counted; operators see more detail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// None, or none of this cluster's.
    Certificate,
    /// The certificate has expired or is not valid yet, by this machine's clock.
    Expired,
    Revoked,
    /// Its role has nothing to ask here.
    Role,
    Handshake,
    /// No hello, or one of another release.
    Hello,
    /// It sent what is no message.
    Unreadable,
    /// The fabric has no such node or switch.
    UnknownNode,
    /// A coordinator speaks for a number that is none, or another's.
    NoMember,
    /// It refuses this coordinator's certificate: it is of another cluster, or one of both clocks is wrong.
    Refuses,
    /// Another machine is here with its certificate.
    Contested,
    /// Too many are here already.
    Crowded,
    Token,
    Other,
}

impl Reason {
    pub(crate) const ALL: [Self; 14] = [
        Self::Certificate,
        Self::Expired,
        Self::Revoked,
        Self::Role,
        Self::Handshake,
        Self::Hello,
        Self::Unreadable,
        Self::UnknownNode,
        Self::NoMember,
        Self::Refuses,
        Self::Contested,
        Self::Crowded,
        Self::Token,
        Self::Other,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Certificate => "certificate",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
            Self::Role => "role",
            Self::Handshake => "handshake",
            Self::Hello => "hello",
            Self::Unreadable => "unreadable",
            Self::UnknownNode => "unknown_node",
            Self::NoMember => "no_member",
            Self::Refuses => "refuses",
            Self::Contested => "contested",
            Self::Crowded => "crowded",
            Self::Token => "token",
            Self::Other => "other",
        }
    }

    pub(crate) fn of(error: &LinkError) -> Self {
        match error {
            LinkError::Refused { source, .. } | LinkError::Denied(source) => Self::judged(source),
            LinkError::HandshakeTimedOut { .. } | LinkError::Handshake { .. } => Self::Handshake,
            LinkError::Hello { .. } | LinkError::NoHello { .. } => Self::Hello,
            LinkError::WrongChannels { .. } | LinkError::Unreadable(_) => Self::Unreadable,
            LinkError::NoKey { .. } => Self::Certificate,
            LinkError::RefusedByPeer { .. } => Self::Refuses,
            _ => Self::Other,
        }
    }

    fn judged(refusal: &PeerRefusal) -> Self {
        match refusal {
            PeerRefusal::Expired { .. } | PeerRefusal::NotYetValid { .. } => Self::Expired,
            PeerRefusal::Revoked { .. }
            | PeerRefusal::Removed { .. }
            | PeerRefusal::SignerRevoked { .. } => Self::Revoked,
            PeerRefusal::WrongRole { .. } => Self::Role,
            _ => Self::Certificate,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Refusals {
    pending: BTreeMap<(IpAddr, Reason, String), u64>,
    beyond: BTreeMap<Reason, u64>,
}

impl Refusals {
    pub(crate) fn note(&mut self, error: &LinkError) {
        let reason = Reason::of(error);
        match error.address() {
            Some(address) => self.add(address, reason, error.fault()),
            None => *self.beyond.entry(reason).or_default() += 1,
        }
    }

    pub(crate) fn add(&mut self, from: SocketAddr, reason: Reason, why: String) {
        let key = (from.ip(), reason, why);
        let times = if self.pending.len() < MAX_DISTINCT_REFUSALS || self.pending.contains_key(&key)
        {
            self.pending.entry(key).or_default()
        } else {
            self.beyond.entry(reason).or_default()
        };
        *times += 1;
    }

    /// Reports the refusals since the last report to the log and to the core.
    pub(crate) fn report(&mut self, intake: &Intake) {
        for ((from, reason, why), times) in std::mem::take(&mut self.pending) {
            intake.note_refused(reason, times);
            report_refusal(intake, from.to_string(), why, times);
        }
        let beyond = std::mem::take(&mut self.beyond);
        for (&reason, &times) in &beyond {
            intake.note_refused(reason, times);
        }
        if !beyond.is_empty() {
            let why = "too many to list".to_owned();
            report_refusal(intake, "others".to_owned(), why, beyond.values().sum());
        }
    }
}

fn report_refusal(intake: &Intake, from: String, why: String, times: u64) {
    match times {
        1 => tracing::warn!("peer refused: {from}: {why}"),
        _ => tracing::warn!("peer refused: {from}: {why} ({times} times)"),
    }
    // When the queue is full of other things, the log has to do.
    let _ = intake.put_telemetry(Event::TurnedAway { from, why, times });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intake::queue;

    /// Checks a client that comes from another port each time.
    #[tokio::test]
    async fn refusing_peer_is_reported_once() {
        let (intake, mut events) = queue();
        let mut refusals = Refusals::default();
        for port in 1..=40 {
            refusals.note(&LinkError::RefusedByPeer {
                address: SocketAddr::from(([10, 0, 0, 1], port)),
                own_problem: None,
            });
        }
        refusals.report(&intake);
        let Ok(Event::TurnedAway { from, why, times }) = events.try_next() else {
            panic!("nothing is reported")
        };
        assert_eq!((&*from, times), ("10.0.0.1", 40));
        assert_eq!(why, "it refuses this side's certificate");
        assert!(events.try_next().is_err(), "once");
        assert_eq!(intake.counts().refused_for(Reason::Refuses), 40);
    }

    #[tokio::test]
    async fn thousands_of_refusals_are_summarized() {
        let (intake, mut events) = queue();
        let mut refusals = Refusals::default();
        for port in 1..=5000 {
            let from = SocketAddr::from(([10, 0, 0, 1], port));
            let why = "it showed no certificate".to_owned();
            refusals.add(from, Reason::Certificate, why);
            let everywhere = SocketAddr::from(([10, 1, (port >> 8) as u8, port as u8], 1));
            let why = "it did not complete the handshake".to_owned();
            refusals.add(everywhere, Reason::Handshake, why);
        }
        refusals.report(&intake);
        let mut reported_count = 0;
        let mut lines = 0;
        while let Ok(Event::TurnedAway { times, .. }) = events.try_next() {
            reported_count += times;
            lines += 1;
        }
        assert_eq!((reported_count, lines), (10_000, MAX_DISTINCT_REFUSALS + 1));
        let counts = intake.counts();
        for reason in [Reason::Certificate, Reason::Handshake] {
            assert_eq!(counts.refused_for(reason), 5000);
        }
        refusals.report(&intake);
        assert!(events.try_next().is_err(), "nothing is reported twice");
    }
}
