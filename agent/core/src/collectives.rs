//! Reports of this host's jobs about collectives: sums of the last seconds for each rank, and the network traffic
//! over time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use reweave_common::collective::{
    MAX_PEERS_PER_WORD, MAX_WORKS_PER_WORD, Rank, RankPeer, RankReading, RankWord, Works, add_peer,
    add_works,
};
use reweave_common::moment::Moment;
use reweave_common::time_span::TimeSpan;
use reweave_common::units::Bytes;

use crate::iteration_detector::ByteDelta;

/// The length of a reading.
const READING_WINDOW: Duration = Duration::from_secs(10);
const PART_SPAN: Duration = Duration::from_secs(1);
/// The limit is larger than the GPUs of a host times the communicators of a framework.
const MAX_RANKS: usize = 64;
/// The resolution at which the iteration period of traffic is detected.
const SPAN_US: u64 = 10_000;
/// Reports arrive at most this much later than the work they describe.
const WORD_DELAY: Duration = Duration::from_millis(100);
const MAX_SPANS: usize = 4096;

/// The reports that this host receives.
#[derive(Debug, Default)]
pub struct CollectiveBook {
    ranks: BTreeMap<Rank, VecDeque<RankWindow>>,
    /// Sent and received bytes, by the number of the span.
    spans: BTreeMap<u64, [Bytes; 2]>,
    /// The span up to which everything is reported.
    reported_to: Option<u64>,
}

/// Reports of consecutive times within a second.
#[derive(Debug)]
struct RankWindow {
    from: Moment,
    to: Moment,
    sums: RankReading,
}

impl CollectiveBook {
    /// Takes a report. Returns whether it is plausible and there was room for it.
    pub fn handle_word(&mut self, now: Moment, word: &RankWord) -> bool {
        let is_recent = word.to <= now && now.since(word.to) < READING_WINDOW;
        if !word.is_bounded() || !is_recent {
            return false;
        }
        if self.ranks.len() == MAX_RANKS && !self.ranks.contains_key(&word.rank) {
            return false;
        }
        self.note_growth(word);
        let parts = self.ranks.entry(word.rank.clone()).or_default();
        match parts.back_mut() {
            Some(part) if word.to.since(part.from) < PART_SPAN => part.add(word),
            _ => parts.push_back(RankWindow::new(word)),
        }
        true
    }

    /// A reading of each rank that reported recently.
    pub fn poll_readings(&mut self, now: Moment) -> Vec<RankReading> {
        for parts in self.ranks.values_mut() {
            parts.retain(|part| now.since(part.to) < READING_WINDOW);
        }
        self.ranks.retain(|_, parts| !parts.is_empty());
        let heard = self.ranks.values();
        heard.filter_map(|parts| reading(now, parts)).collect()
    }

    /// The traffic since the last call, without a gap; none before the first report.
    pub fn poll_growth(&mut self, now: Moment) -> Vec<ByteDelta> {
        let Some((&first, _)) = self.spans.first_key_value() else {
            return vec![];
        };
        let end = now
            .as_micros()
            .saturating_sub(WORD_DELAY.as_micros() as u64)
            / SPAN_US;
        let begin = self.reported_to.unwrap_or(first);
        let begin = begin.max(end.saturating_sub(MAX_SPANS as u64));
        let later = self.spans.split_off(&end.max(begin));
        let before = std::mem::replace(&mut self.spans, later);
        self.reported_to = Some(end.max(begin));
        let growth = |span: u64| {
            let [sent, received] = before.get(&span).copied().unwrap_or_default();
            let at = |span| Moment::from_micros(span * SPAN_US);
            ByteDelta {
                from: at(span),
                to: at(span + 1),
                sent,
                received,
            }
        };
        // An empty span marks where the reports began.
        self.spans.entry(end.max(begin)).or_default();
        (begin..end).map(growth).collect()
    }

    fn note_growth(&mut self, word: &RankWord) {
        let span = word.to.as_micros() / SPAN_US;
        let span = span.max(self.reported_to.unwrap_or_default());
        if self.spans.len() >= MAX_SPANS && !self.spans.contains_key(&span) {
            return;
        }
        let [sent, received] = self.spans.entry(span).or_default();
        for peer in &word.peers {
            *sent = sent.saturating_add(peer.sent);
            *received = received.saturating_add(peer.received);
        }
    }
}

fn reading(now: Moment, parts: &VecDeque<RankWindow>) -> Option<RankReading> {
    let first = parts.front()?;
    let mut sums = RankReading {
        over: now.since(first.from).into(),
        ..nothing(first.sums.rank.clone())
    };
    for part in parts {
        add(
            &mut sums,
            &part.sums.works,
            &part.sums.peers,
            part.sums.missed,
        );
    }
    Some(sums)
}

fn nothing(rank: Rank) -> RankReading {
    RankReading {
        rank,
        over: TimeSpan::ZERO,
        missed: 0,
        works: vec![],
        peers: vec![],
    }
}

impl RankWindow {
    fn new(word: &RankWord) -> Self {
        let mut part = Self {
            from: word.from,
            to: word.to,
            sums: nothing(word.rank.clone()),
        };
        part.add(word);
        part
    }

    fn add(&mut self, word: &RankWord) {
        self.to = self.to.max(word.to);
        add(&mut self.sums, &word.works, &word.peers, word.missed);
    }
}

/// Adds works and peers; those without room count as missed.
fn add(sums: &mut RankReading, works: &[Works], peers: &[RankPeer], missed: u64) {
    works
        .iter()
        .cloned()
        .for_each(|it| add_works(&mut sums.works, it));
    peers.iter().for_each(|it| add_peer(&mut sums.peers, *it));
    let more_peers = sums.peers.len().saturating_sub(MAX_PEERS_PER_WORD);
    let more_works = sums.works.len().saturating_sub(MAX_WORKS_PER_WORD);
    sums.peers.truncate(MAX_PEERS_PER_WORD);
    sums.works.truncate(MAX_WORKS_PER_WORD);
    let missed = missed.saturating_add((more_peers + more_works) as u64);
    sums.missed = sums.missed.saturating_add(missed);
}

#[cfg(test)]
mod tests {
    use reweave_common::periodicity::Periodicity;

    use super::*;
    use crate::iteration_detector::IterationDetector;

    const fn at(ms: u64) -> Moment {
        Moment::from_micros(ms * 1000)
    }

    fn word(rank: u32, to_ms: u64, bytes: u64) -> RankWord {
        RankWord {
            rank: Rank {
                communicator: 7,
                name: "world".to_owned(),
                nodes: 2,
                ranks: 4,
                rank,
            },
            from: at(to_ms.saturating_sub(10)),
            to: at(to_ms),
            missed: 0,
            works: vec![Works {
                kind: "AllReduce".to_owned(),
                algorithm: "RING".to_owned(),
                protocol: "LL".to_owned(),
                count: 1,
                bytes: Bytes::new(8),
                took: TimeSpan::from_micros(30),
                timed: 1,
            }],
            peers: vec![RankPeer {
                rank: 3,
                sent: Bytes::new(bytes),
                received: Bytes::new(1),
                sending: TimeSpan::from_micros(5),
                receiving: TimeSpan::ZERO,
            }],
        }
    }

    #[test]
    fn reading_covers_last_seconds() {
        let mut book = CollectiveBook::default();
        for ms in (10..=20_000).step_by(10) {
            assert!(book.handle_word(at(ms), &word(0, ms, 100)));
        }
        assert!(book.handle_word(at(20_000), &word(1, 20_000, 5)));
        let [first, second] = book.poll_readings(at(20_000)).try_into().unwrap();
        let per_s = first.works[0].count as f64 / first.over.as_secs_f64();
        assert!((99.0..=101.0).contains(&per_s), "{per_s}");
        assert!((9_000..=11_000).contains(&first.over.as_millis()));
        assert_eq!(second.peers[0].sent, Bytes::new(5));
        assert!(
            book.poll_readings(at(31_000)).is_empty(),
            "nothing was reported"
        );
    }

    #[test]
    fn impossible_collective_reports_are_rejected() {
        let mut book = CollectiveBook::default();
        let mut stranger = word(4, 10, 1);
        assert!(!book.handle_word(at(10), &stranger), "rank 4 of 4");
        stranger.rank.rank = 0;
        stranger.peers[0].rank = 4;
        assert!(!book.handle_word(at(10), &stranger), "to rank 4 of 4");
        assert!(!book.handle_word(at(10), &word(0, 11, 1)), "of the future");
        assert!(
            !book.handle_word(at(60_000), &word(0, 10, 1)),
            "of the past"
        );
        assert!(book.poll_readings(at(60_000)).is_empty());
    }

    #[test]
    fn overflowing_collective_counts_saturate() {
        let mut book = CollectiveBook::default();
        for _ in 0..3 {
            let mut word = word(0, 10, u64::MAX);
            word.missed = u64::MAX;
            word.works[0].took = TimeSpan::MAX;
            word.works[0].count = u64::MAX;
            assert!(book.handle_word(at(10), &word));
        }
        let [reading] = book.poll_readings(at(10)).try_into().unwrap();
        assert_eq!(reading.peers[0].sent, Bytes::new(u64::MAX));
        assert_eq!(book.poll_growth(at(500))[0].sent, Bytes::new(u64::MAX));
    }

    #[test]
    fn kept_ranks_are_bounded() {
        let mut book = CollectiveBook::default();
        for communicator in 0..1000 {
            let mut word = word(0, 10, 1);
            word.rank.communicator = communicator;
            book.handle_word(at(10), &word);
        }
        assert_eq!(book.poll_readings(at(10)).len(), MAX_RANKS);
        assert!(book.handle_word(
            at(10),
            &RankWord {
                rank: Rank {
                    communicator: 0,
                    ..word(0, 10, 1).rank
                },
                ..word(0, 10, 1)
            }
        ));
    }

    /// Iterations of 250 ms that send in their first 100 ms.
    #[test]
    fn job_period_found_from_reports() {
        let (mut book, mut rhythm) = (CollectiveBook::default(), IterationDetector::default());
        let mut found = None;
        for ms in (10..=20_000).step_by(10) {
            if ms % 250 < 100 {
                book.handle_word(at(ms), &word(0, ms, 1_000_000));
            }
            if ms.is_multiple_of(500) {
                for it in book.poll_growth(at(ms)) {
                    rhythm.handle_growth(it.from, it.to, it.sent, it.received);
                }
                found = Some(rhythm.poll_rhythm(at(ms)));
            }
        }
        let Some(Periodicity::Found(beat)) = found else {
            panic!("{found:?}")
        };
        assert_eq!(beat.period.as_millis(), 250);
        assert!((100..=200).contains(&beat.gap.as_millis()), "{beat:?}");
    }

    #[test]
    fn bytes_reported_once_without_gaps() {
        let mut book = CollectiveBook::default();
        assert!(book.poll_growth(at(5_000)).is_empty());
        book.handle_word(at(1_000), &word(0, 1_000, 10));
        book.handle_word(at(1_005), &word(1, 1_005, 20));
        book.handle_word(at(1_200), &word(0, 1_200, 40));
        let mut reports = book.poll_growth(at(1_250));
        reports.extend(book.poll_growth(at(1_500)));
        reports.extend(book.poll_growth(at(1_500)));
        let sent: u64 = reports.iter().map(|it| it.sent.count()).sum();
        assert_eq!(sent, 70);
        assert_eq!(reports[0].sent, Bytes::new(30), "two ranks of one span");
        assert!(reports.windows(2).all(|pair| pair[0].to == pair[1].from));
        assert_eq!(reports.last().unwrap().to, at(1_400));
        // A late report counts in the first span that is not reported yet.
        book.handle_word(at(1_600), &word(0, 1_200, 7));
        let late = book.poll_growth(at(1_700));
        assert_eq!(late[0].sent, Bytes::new(7));
    }
}
