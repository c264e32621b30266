//! Delay of decisions while agents with valid certificates send as much as they can, in every possible way.

use std::env;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use reweave_common::moment::Moment;
use reweave_common::sample::{Reading, Sample};
use reweave_link::{Channel, Identity, Role as PeerRole, Session, connect};
use reweave_proto::message::AgentMessage;
use reweave_proto::since_version::SinceVersion;
use serde::ser::{Serialize, SerializeTuple as _, Serializer};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::load::{Heard, instructed_at, listen, revoke};
use crate::machine;
use crate::members::{Members, Operator};
use crate::process::peak_mib;
use crate::reports;
use crate::times::{Spread, now};

const TURN_COUNT: usize = 6;
const TURN_TIME: Duration = Duration::from_secs(5);
/// At most the rate limit of one operator.
const REQUEST_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum number of queued datagrams of a session; beyond it, the oldest are dropped.
const MAX_QUEUED_DATAGRAMS: usize = 16;
/// Number of sessions of each agent; each one replaces the previous.
const SESSIONS_PER_AGENT: usize = 4;

pub(crate) fn measure(agents: usize) {
    machine::introduce();
    // The last agent only listens.
    let mut members = Members::new(1, agents + 1);
    members.start(0);
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(run(&members, agents));
}

async fn run(members: &Members, agents: usize) {
    let mut people = People {
        operator: members.operator(0),
        heard: listen(members, agents..agents + 1),
    };
    while people.operator.status().await.is_none() {
        sleep(Duration::from_millis(100)).await;
    }
    people.decide(TURN_TIME).await;
    let before_mib = peak_mib(members.pid(0));
    let [mut calm, mut flooded] = [Times::default(), Times::default()];
    for _ in 0..TURN_COUNT {
        calm.add(people.decide(TURN_TIME).await);
        let hostile = Hostile::begin(members, agents);
        flooded.add(people.decide(TURN_TIME).await);
        drop(hostile);
        sleep(Duration::from_millis(300)).await;
    }
    let more_mib = peak_mib(members.pid(0)) - before_mib;
    println!("what when p50_ms p99_ms max_ms");
    let commits = [("calm", calm.commits), ("flooded", flooded.commits)];
    let ratio = compare("commits", commits);
    println!("# {agents} flood: p99 is {ratio:.2} of the calm one, {more_mib:.0} MiB more");
    println!("# goal: 1.2, and 64 MiB");
    let deliveries = [("calm", calm.deliveries), ("flooded", flooded.deliveries)];
    compare("commands", deliveries);
    println!("# goal: p99 of 50 ms, from the operator's word to an agent");
}

/// Returns the ratio of the 99th percentiles.
fn compare(what: &str, times: [(&str, Vec<Duration>); 2]) -> f64 {
    let p99 = times.map(|(when, times)| {
        let spread = Spread::of(times);
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| spread.ms(share));
        println!("{what} {when} {p50:.2} {p99:.2} {max:.2}");
        p99
    });
    p99[1] / p99[0]
}

/// Time from the request of the operator to the answer, and to the agent that receives the decision.
#[derive(Default)]
struct Times {
    commits: Vec<Duration>,
    deliveries: Vec<Duration>,
}

impl Times {
    fn add(&mut self, more: Self) {
        self.commits.extend(more.commits);
        self.deliveries.extend(more.deliveries);
    }
}

/// An operator that decides, and an agent that receives the decision.
struct People {
    operator: Operator,
    heard: Heard,
}

impl People {
    /// Makes one decision after another.
    async fn decide(&mut self, lasting: Duration) -> Times {
        let end = Instant::now() + lasting;
        let mut times = Times::default();
        while Instant::now() < end {
            let began = now();
            revoke(&mut self.operator, "absent").await;
            times.commits.push(now() - began);
            let at = instructed_at(&mut self.heard, None).await;
            times.deliveries.push(at - began);
            sleep(REQUEST_INTERVAL).await;
        }
        times
    }
}

/// A program that stands for another machine, until it is dropped. It has the lowest CPU priority. Even so, a computing
/// program may keep the CPU until the next kernel tick, for 4 ms, so it only sends messages that were encoded
/// beforehand.
struct Hostile(Child);

impl Hostile {
    fn begin(members: &Members, agents: usize) -> Self {
        let mut hostile = Command::new("chrt");
        hostile.args(["--idle", "0"]);
        hostile.arg(env::current_exe().expect("it runs"));
        hostile.arg("hostile").arg(members.addresses[0].to_string());
        hostile.args((0..agents).map(|host| members.agent(host)));
        Self(hostile.spawn().expect("chrt is there"))
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Floods until it is killed.
pub(crate) fn be_hostile(address: SocketAddr, identities: &[PathBuf]) {
    let runtime = Builder::new_current_thread().enable_all().build();
    let hostile = async {
        let mut sessions = JoinSet::new();
        for identity in identities
            .iter()
            .cycle()
            .take(SESSIONS_PER_AGENT * identities.len())
        {
            let identity = Identity::load(identity).expect("it was issued");
            sessions.spawn(shout(identity, address));
        }
        sessions.join_all().await;
    };
    runtime.expect("a runtime").block_on(hostile);
}

async fn shout(identity: Identity, address: SocketAddr) {
    loop {
        if let Ok(session) = connect(&[address], &identity, PeerRole::Coordinator).await {
            tokio::select! {
                () = report(&session) => {}
                () = gossip(&session) => {}
                () = whisper(&session) => {}
            }
        }
    }
}

/// Sends reports that fill a frame.
async fn report(session: &Session) {
    let Sample { readings, .. } = reports::sample(0, 2, 1);
    let readings: Vec<Reading> = readings.iter().cycle().take(4000).cloned().collect();
    let message = Ready::from(&AgentMessage::Sample(Sample {
        taken: Moment::from_micros(1),
        readings,
    }));
    while session.send(Channel::Telemetry, &message).await.is_ok() {}
}

/// Sends loose messages as often as possible.
async fn gossip(session: &Session) {
    let message = Ready::from(&AgentMessage::Clock { time_of_day_us: 1 });
    while session.send(Channel::Commands, &message).await.is_ok() {}
}

async fn whisper(session: &Session) {
    let nothing = vec![0_u8; 1000];
    while (0..MAX_QUEUED_DATAGRAMS).all(|_| session.send_loose(&nothing).is_ok()) {
        sleep(Duration::from_millis(1)).await;
    }
}

/// A message that is already encoded.
struct Ready(Vec<u8>);

impl From<&AgentMessage> for Ready {
    fn from(message: &AgentMessage) -> Self {
        Self(postcard::to_stdvec(message).expect("there is room"))
    }
}

/// Messages of agents exist since the first version.
impl SinceVersion for Ready {
    fn since(&self) -> u16 {
        0
    }
}

impl Serialize for Ready {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bytes = serializer.serialize_tuple(self.0.len())?;
        for byte in &self.0 {
            bytes.serialize_element(byte)?;
        }
        bytes.end()
    }
}
