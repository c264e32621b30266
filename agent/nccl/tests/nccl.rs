//! The plugin as NCCL loads and calls it, by a program in C that knows nothing of how it is written.
//! Where there is a GPU, NCCL itself can load it: docs/nccl.md says how.

use std::collections::BTreeMap;
use std::env;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use reweave_common::collective::{
    COLLECTIVES_VARIABLE, MAX_WORD_BYTES, RankPeer, RankWord, Works, add_peer, add_works,
};
use reweave_common::time_span::TimeSpan;
use tempfile::TempDir;

const PLUGIN_VERSIONS: [&str; 2] = ["4", "5"];
const MIB_BYTES: u64 = 1 << 20;

/// The harness, compiled, and a place for an agent.
struct Stage {
    scratch: TempDir,
}

impl Stage {
    fn new() -> Self {
        let scratch = tempfile::tempdir().expect("a folder");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/harness.c");
        let compiled = Command::new("cc")
            .args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(scratch.path().join("harness"))
            .arg(source)
            .args(["-ldl", "-lpthread"])
            .status();
        assert!(compiled.expect("cc runs").success());
        Self { scratch }
    }

    fn place(&self) -> PathBuf {
        self.scratch.path().join("collectives")
    }

    fn play(&self, version: &str, mode: &[&str]) -> Child {
        Command::new(self.scratch.path().join("harness"))
            .arg(plugin())
            .arg(version)
            .args(mode)
            .env(COLLECTIVES_VARIABLE, self.place())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the harness runs")
    }
}

/// The plugin lies in the same folder as this test.
fn plugin() -> PathBuf {
    let this = env::current_exe().expect("this test has a place");
    this.with_file_name("libnccl_profiler_reweave.so")
}

/// All reports of a job until it has ended.
fn heard(stage: &Stage, version: &str, mode: &[&str]) -> Vec<RankWord> {
    let agent = UnixDatagram::bind(stage.place()).expect("a place");
    let mut job = stage.play(version, mode);
    let listening = thread::spawn(move || words(&agent));
    assert!(job.wait().expect("it ends").success());
    let end = UnixDatagram::unbound().expect("a socket");
    end.send_to(&[], stage.place()).expect("it listens");
    std::fs::remove_file(stage.place()).expect("it listens");
    listening.join().expect("all is heard")
}

/// The reports up to an empty one.
fn words(agent: &UnixDatagram) -> Vec<RankWord> {
    let mut bytes = vec![0; MAX_WORD_BYTES + 1];
    let mut next = || {
        agent
            .recv(&mut bytes)
            .map(|length| bytes[..length].to_vec())
    };
    let mut words: Vec<RankWord> = vec![];
    loop {
        let bytes = next().expect("there is an end");
        if bytes.is_empty() {
            return words;
        }
        #[expect(clippy::disallowed_methods, reason = "it was just written")]
        let word = postcard::from_bytes(&bytes).expect("a word");
        words.push(word);
    }
}

/// The sums of all works and peers. The test fails if a report was missed.
fn summed(words: Vec<RankWord>) -> (Vec<Works>, Vec<RankPeer>) {
    let (mut works, mut peers) = (vec![], vec![]);
    for word in words {
        assert_eq!(word.missed, 0);
        let done = word.works.into_iter();
        done.for_each(|it| add_works(&mut works, it));
        let with = word.peers.into_iter();
        with.for_each(|it| add_peer(&mut peers, it));
    }
    (works, peers)
}

#[test]
fn ring_is_reported_to_byte() {
    let stage = Stage::new();
    for version in PLUGIN_VERSIONS {
        let began = Instant::now();
        let words = heard(&stage, version, &["ring", "4", "1", "30", "100", "1500"]);
        assert!(words.iter().all(RankWord::is_bounded));
        assert!(words.windows(2).all(|pair| pair[0].to <= pair[1].to));
        let rank = &words[0].rank;
        let said = (rank.communicator, rank.name.as_str(), rank.ranks, rank.rank);
        assert_eq!(said, (0xfeed, "world", 4, 1));
        let (works, peers) = summed(words);
        let [ring] = works.try_into().expect("one kind");
        assert_eq!(
            (
                ring.kind.as_str(),
                ring.algorithm.as_str(),
                ring.protocol.as_str()
            ),
            ("AllReduce", "RING", "SIMPLE")
        );
        assert_eq!(
            (ring.count, ring.timed, ring.bytes.count()),
            (30, 30, 30 * MIB_BYTES)
        );
        // The time is from the first kernel's start to the last one's end, by the clock of the harness.
        let at_least = 30 * Duration::from_micros(1500);
        assert!(at_least <= *ring.took && *ring.took <= began.elapsed());
        let [previous, next] = peers.try_into().expect("two peers");
        assert_eq!(
            (
                previous.rank,
                previous.sent.count(),
                previous.received.count()
            ),
            (0, 0, 30 * MIB_BYTES)
        );
        assert_eq!(
            (next.rank, next.sent.count(), next.received.count()),
            (2, 30 * MIB_BYTES, 0)
        );
        assert!(next.sending > TimeSpan::ZERO && next.receiving == TimeSpan::ZERO);
    }
}

/// By any clock that they are timed by. Steps take at least the time that was asked of them less a hundredth, for the
/// two clocks of the plugin agree no better while they are young.
#[test]
fn transfer_durations_are_reported() {
    let stage = Stage::new();
    let began = Instant::now();
    let words = heard(
        &stage,
        "5",
        &["ring", "4", "1", "60", "0", "0", "4000", "1000"],
    );
    let elapsed = began.elapsed();
    let (_, peers) = summed(words);
    let [previous, next] = peers.try_into().expect("two peers");
    let steps = 2 * 60 * Duration::from_millis(1);
    for (took, at_least) in [(next.sending, 4 * steps), (previous.receiving, steps)] {
        assert!(*took >= at_least * 99 / 100, "{took:?} of {at_least:?}");
    }
    let all = next.sending.saturating_add(previous.receiving);
    assert!(*all <= elapsed, "{all:?} in {elapsed:?}");
}

/// The second of three stages has from the first what it hands on to the third.
#[test]
fn pipeline_stage_is_reported_to_byte() {
    let stage = Stage::new();
    for version in PLUGIN_VERSIONS {
        let words = heard(
            &stage,
            version,
            &["pipeline", "3", "1", "20", "100", "1500"],
        );
        let (works, peers) = summed(words);
        let of = |it: &Works| (it.kind.clone(), [it.count, it.timed, it.bytes.count()]);
        let done = |kind: &str| (kind.to_owned(), [20, 20, 20 * MIB_BYTES]);
        let works: BTreeMap<_, _> = works.iter().map(of).collect();
        assert_eq!(works, BTreeMap::from(["Recv", "Send"].map(done)));
        let peers = peers
            .iter()
            .map(|it| (it.rank, it.sent.count(), it.received.count()));
        assert_eq!(
            peers.collect::<Vec<_>>(),
            [(0, 0, 20 * MIB_BYTES), (2, 20 * MIB_BYTES, 0)]
        );
    }
}

/// Each communicator of a process is reported by itself.
#[test]
fn all_reduces_are_grouped_by_ranks() {
    let stage = Stage::new();
    let words = heard(&stage, "5", &["sizes", "8", "1", "10", "100", "1000"]);
    let mut took = BTreeMap::new();
    for word in &words {
        assert_eq!((&word.rank.name[..], word.rank.rank), ("dp", 1));
        let (count, sum): &mut (u64, Duration) = took.entry(word.rank.ranks).or_default();
        *count += word.works.iter().map(|it| it.count).sum::<u64>();
        *sum += word.works.iter().map(|it| *it.took).sum::<Duration>();
    }
    let at_least = |ranks: u32| 10 * Duration::from_millis(u64::from(ranks));
    let ranks: Vec<_> = took.keys().copied().collect();
    assert_eq!(ranks, [2, 4, 8]);
    assert!(
        took.iter()
            .all(|(&ranks, &(count, sum))| count == 10 && sum >= at_least(ranks)),
        "{took:?}"
    );
}

#[test]
fn invalid_plugin_calls_are_harmless() {
    let stage = Stage::new();
    for version in PLUGIN_VERSIONS {
        let words = heard(&stage, version, &["abuse"]);
        assert!(!words.is_empty());
        assert!(words.iter().all(RankWord::is_bounded), "{words:?}");
        let works = words.iter().flat_map(|word| &word.works);
        let works: Vec<_> = works
            .map(|it| (it.kind.as_str(), it.bytes.count()))
            .collect();
        for expected in [("AllReduce", 12), ("Send", 77), ("other", u64::MAX)] {
            assert!(works.contains(&expected), "{works:?}");
        }
        // Of another process, of nothing, and to a negative rank; the library was loaded twice.
        assert_eq!(words.iter().map(|word| word.missed).sum::<u64>(), 2 * 3);
        let sent = words
            .iter()
            .flat_map(|word| &word.peers)
            .map(|peer| peer.sent.count());
        assert_eq!(
            sent.sum::<u64>(),
            2 * 40,
            "what comes after the end counts nowhere"
        );
    }
}

#[test]
fn job_waits_for_no_agent() {
    let stage = Stage::new();
    let plays = || {
        stage
            .play("5", &["cost", "10000"])
            .wait_with_output()
            .unwrap()
    };
    assert!(plays().status.success(), "there is none");
    let deaf = UnixDatagram::bind(stage.place()).expect("a place");
    assert!(plays().status.success(), "it does not listen");
    drop(deaf);
    assert!(plays().status.success(), "it has ended");
}
