//! Packets of one flow, sent in a node by this very program.

use std::env;
use std::net::{SocketAddrV4, UdpSocket};
use std::process::{Child, ExitCode};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use reweave_common::split_mix::SplitMix64;
use reweave_common::time_span::TimeSpan;
use reweave_tests::Stage;

use crate::play::must;

/// More than anything else that happens in an idle lab.
pub(crate) const PACKET_COUNT: u64 = 200;
const PACKET_BYTES: usize = 64;
const SEND_FLOW_ARGUMENT: &str = "send-a-flow";
const SEND_RANDOM_ARGUMENT: &str = "send-at-random";
/// What is sent at random has bursts of any size between these.
const BURST_RANGE_BYTES: [f64; 2] = [20_000.0, 2_000_000.0];
const DATAGRAM_BYTES: usize = 1400;

pub(crate) struct Flow {
    source: SocketAddrV4,
    destination: SocketAddrV4,
    at_random: Option<AtRandom>,
}

/// Bursts that do not know of each other: each comes as likely now as then.
struct AtRandom {
    seed: u64,
    mean_pause: Duration,
    over: Duration,
}

/// The flow that this program was started for.
pub(crate) fn asked_for() -> Option<Flow> {
    let words: Vec<_> = env::args().skip(1).collect();
    let behind = |word: &str| {
        let at = words.iter().position(|it| it == word)?;
        Some(&words[at + 1..])
    };
    if let Some(words) = behind(SEND_RANDOM_ARGUMENT) {
        let at_random = AtRandom {
            seed: word(words, 2)?,
            mean_pause: Duration::from_millis(word(words, 3)?),
            over: Duration::from_millis(word(words, 4)?),
        };
        return Flow::new(words, Some(at_random));
    }
    Flow::new(behind(SEND_FLOW_ARGUMENT)?, None)
}

fn word<T: FromStr>(words: &[String], nth: usize) -> Option<T> {
    words.get(nth)?.parse().ok()
}

impl Flow {
    fn new(words: &[String], at_random: Option<AtRandom>) -> Option<Self> {
        Some(Self {
            source: word(words, 0)?,
            destination: word(words, 1)?,
            at_random,
        })
    }

    pub(crate) fn send(&self) -> ExitCode {
        let sent = UdpSocket::bind(self.source).and_then(|socket| {
            let send = |bytes: &[u8]| socket.send_to(bytes, self.destination).map(drop);
            match &self.at_random {
                Some(at_random) => at_random.send(send),
                None => (0..PACKET_COUNT).try_for_each(|_| send(&[7; PACKET_BYTES])),
            }
        });
        match sent {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{} > {}: {error}", self.source, self.destination);
                ExitCode::FAILURE
            }
        }
    }
}

impl AtRandom {
    fn send(&self, send: impl Fn(&[u8]) -> std::io::Result<()>) -> std::io::Result<()> {
        let mut rng = SplitMix64::new(self.seed);
        let mut share = || rng.nonzero_fraction();
        let [least, most] = BURST_RANGE_BYTES;
        let end = Instant::now() + self.over;
        while Instant::now() < end {
            pace(TimeSpan::new(self.mean_pause).scaled(-share().ln()).get());
            let bytes = least * (most / least).powf(share());
            let packets = bytes as usize / DATAGRAM_BYTES;
            (0..packets).try_for_each(|_| send(&[7; DATAGRAM_BYTES]))?;
        }
        Ok(())
    }
}

/// What this paces is traffic, not the test.
fn pace(pause: Duration) {
    let end = Instant::now() + pause;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        thread::park_timeout(left.max(Duration::from_micros(1)));
    }
}

/// Sends [`PACKET_COUNT`] of this flow from a node.
pub(crate) fn send(stage: &Stage, node: &str, source: SocketAddrV4, destination: SocketAddrV4) {
    let [source, destination] = [source, destination].map(|end| end.to_string());
    must(stage.output(node, &[&this(), SEND_FLOW_ARGUMENT, &source, &destination]));
}

/// Sends bursts from a node that have no rhythm, for this long.
pub(crate) fn start_at_random(
    stage: &Stage,
    node: &str,
    [source, destination]: [SocketAddrV4; 2],
    [seed, mean_pause_ms, over_ms]: [u64; 3],
) -> Child {
    let mut command = stage.inside(node, this());
    command.arg(SEND_RANDOM_ARGUMENT);
    command.args([source, destination].map(|end| end.to_string()));
    command.args([seed, mean_pause_ms, over_ms].map(|number| number.to_string()));
    command.spawn().expect("it starts")
}

fn this() -> String {
    let this = env::current_exe().expect("this program knows where it lies");
    this.to_string_lossy().into_owned()
}
