//! Reports of finished work: sums, one message for each communicator.

use reweave_common::collective::{
    MAX_PEERS_PER_WORD, MAX_WORKS_PER_WORD, Rank, RankPeer, RankWord, Works, add_peer, add_works,
};
use reweave_common::moment::Moment;
use reweave_common::time_span::TimeSpan;
use reweave_common::units::Bytes;

use crate::clock::Rate;
use crate::names::{ALGORITHMS, COLLECTIVE_KINDS, PROTOCOLS, name};
use crate::works::{Done, DonePeer, Work};

/// Whose they are, how many are missed, and what is over; and how long what was ticked off is.
pub(crate) struct Account {
    pub(crate) rank: Rank,
    pub(crate) rate: Rate,
    pub(crate) missed: u64,
    pub(crate) done: Vec<Done>,
}

impl Account {
    pub(crate) fn is_empty(&self) -> bool {
        self.missed == 0 && self.done.is_empty()
    }

    /// The report, split into messages of bounded length.
    pub(crate) fn words(&self, from: Moment, to: Moment) -> Vec<RankWord> {
        let mut works = self.works().into_iter();
        let peers = self.peers();
        let mut rest = peers.as_slice();
        let mut missed = self.missed;
        let mut words = vec![];
        while words.is_empty() || !rest.is_empty() || works.len() > 0 {
            let (these, others) = rest.split_at(rest.len().min(MAX_PEERS_PER_WORD));
            rest = others;
            words.push(RankWord {
                rank: self.rank.clone(),
                from,
                to,
                missed: std::mem::take(&mut missed),
                works: works.by_ref().take(MAX_WORKS_PER_WORD).collect(),
                peers: these.to_vec(),
            });
        }
        words
    }

    fn works(&self) -> Vec<Works> {
        let mut sums = vec![];
        for done in &self.done {
            add_works(&mut sums, works_of(done));
        }
        sums
    }

    /// The peers by rank. A rank outside of the communicator is a mistake of the reporter.
    fn peers(&self) -> Vec<RankPeer> {
        let mut sums = vec![];
        for peer in self.done.iter().flat_map(|done| &done.peers) {
            add_peer(&mut sums, peer_of(peer, self.rate));
        }
        sums.retain(|peer| peer.rank < self.rank.ranks);
        sums
    }
}

fn works_of(done: &Done) -> Works {
    let Work {
        kind,
        algorithm,
        protocol,
        bytes,
        ..
    } = done.work;
    Works {
        kind: name(COLLECTIVE_KINDS, kind).to_owned(),
        algorithm: name(ALGORITHMS, algorithm).to_owned(),
        protocol: name(PROTOCOLS, protocol).to_owned(),
        count: 1,
        bytes: Bytes::new(bytes),
        took: TimeSpan::from_nanos(done.took_ns.unwrap_or_default()),
        timed: u64::from(done.took_ns.is_some()),
    }
}

fn peer_of(done: &DonePeer, rate: Rate) -> RankPeer {
    let [sent, received] = done.bytes.map(Bytes::new);
    let [sending, receiving] = done.ticks.map(|ticks| TimeSpan::from_nanos(rate.ns(ticks)));
    RankPeer {
        rank: done.rank,
        sent,
        received,
        sending,
        receiving,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST_RATE: Rate = Rate::of(1, 10);

    fn rank() -> Rank {
        Rank {
            communicator: 7,
            name: "world".to_owned(),
            nodes: 600,
            ranks: 600,
            rank: 0,
        }
    }

    fn done(kind: u8, took_ns: Option<u64>, peers: Vec<DonePeer>) -> Done {
        let work = Work {
            member: 0,
            kind,
            algorithm: 0,
            protocol: 2,
            channels: 1,
            bytes: 1000,
        };
        Done {
            work,
            took_ns,
            peers,
        }
    }

    fn peer(rank: u32) -> DonePeer {
        DonePeer {
            rank,
            bytes: [10, 1],
            ticks: [50, 20],
        }
    }

    #[test]
    fn reports_sum_works_and_peer_bytes() {
        let account = Account {
            rank: rank(),
            rate: TEST_RATE,
            missed: 3,
            done: vec![
                done(0, Some(50), vec![peer(2), peer(1)]),
                done(1, Some(9), vec![]),
                done(0, None, vec![peer(1), peer(600)]),
            ],
        };
        let at = Moment::from_micros;
        let words = account.words(at(1), at(2));
        let [word] = words.as_slice() else {
            panic!("{words:?}");
        };
        assert!(word.is_bounded());
        assert_eq!(word.missed, 3);
        let sums = |it: &Works| (it.kind.clone(), it.count, it.bytes.count(), it.timed);
        let works: Vec<_> = word.works.iter().map(sums).collect();
        let expected = [("AllReduce", 2, 2000, 1), ("AllGather", 1, 1000, 1)];
        assert_eq!(
            works,
            expected.map(|(kind, n, bytes, timed)| (kind.to_owned(), n, bytes, timed))
        );
        let peers: Vec<_> = word
            .peers
            .iter()
            .map(|it| (it.rank, it.sent.count(), it.receiving.as_nanos()))
            .collect();
        assert_eq!(peers, [(1, 20, 4), (2, 10, 2)], "and no rank 600");
    }

    #[test]
    fn many_peers_split_into_several_reports() {
        let done = (0..600).map(|rank| done(8, Some(1), vec![peer(rank)]));
        let account = Account {
            rank: rank(),
            rate: TEST_RATE,
            missed: 1,
            done: done.collect(),
        };
        let words = account.words(Moment::default(), Moment::default());
        assert!(words.len() == 3 && words.iter().all(RankWord::is_bounded));
        assert_eq!(
            words.iter().map(|word| word.peers.len()).sum::<usize>(),
            600
        );
        assert_eq!(words.iter().map(|word| word.missed).sum::<u64>(), 1);
        assert_eq!(words.iter().map(|word| word.works.len()).sum::<usize>(), 1);
        for word in words {
            assert!(
                postcard::to_stdvec(&word).unwrap().len()
                    <= reweave_common::collective::MAX_WORD_BYTES
            );
        }
    }
}
