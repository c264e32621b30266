//! Whether decisions are made as soon as ever while an agent with a good certificate says as much as
//! it can, in every way there is.

use std::env;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use reweave_common::member::{Member, Role};
use reweave_common::moment::Moment;
use reweave_common::operator::{Request, Response};
use reweave_common::sample::{Reading, Sample};
use reweave_link::{Channel, Identity, Role as PeerRole, Session, connect};
use reweave_proto::message::AgentMessage;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::machine;
use crate::members::{Members, Operator};
use crate::process::peak_mib;
use crate::reports;
use crate::times::{Spread, now};

const TURNS: usize = 6;
const TURN: Duration = Duration::from_secs(5);
/// As often as one person is heard.
const FROM_WORD_TO_WORD: Duration = Duration::from_millis(10);
/// Sessions of the one agent, each of which takes the place of the one before.
const SESSIONS: usize = 4;

pub(crate) fn measure() {
    machine::introduce();
    let mut members = Members::new(1, 2);
    members.start(0);
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(run(&members));
}

async fn run(members: &Members) {
    let mut operator = members.operator(0);
    while operator.status().await.is_none() {
        sleep(Duration::from_millis(100)).await;
    }
    decide(&mut operator, TURN).await;
    let before_mib = peak_mib(members.pid(0));
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..TURNS {
        times[0].extend(decide(&mut operator, TURN).await);
        let hostile = Hostile::begin(members);
        times[1].extend(decide(&mut operator, TURN).await);
        drop(hostile);
        sleep(Duration::from_millis(300)).await;
    }
    let more_mib = peak_mib(members.pid(0)) - before_mib;
    let spreads = times.map(Spread::of);
    println!("commits p50_ms p99_ms");
    for (when, spread) in ["calm", "flooded"].into_iter().zip(&spreads) {
        println!("{when} {:.2} {:.2}", spread.ms(0.5), spread.ms(0.99));
    }
    let ratio = spreads[1].ms(0.99) / spreads[0].ms(0.99);
    println!("# flooded: p99 is {ratio:.2} of the calm one, {more_mib:.0} MiB more");
    println!("# goal: 1.2, and 64 MiB");
}

/// One decision after the other, and how long each took.
async fn decide(operator: &mut Operator, lasting: Duration) -> Vec<Duration> {
    let end = Instant::now() + lasting;
    let mut times = Vec::new();
    while Instant::now() < end {
        let member = Member {
            role: Role::Viewer,
            name: "nobody".to_owned(),
        };
        let began = now();
        let answer = operator.ask(&Request::Revoke { member }).await;
        assert!(
            matches!(answer, Some(Response::Revoked { .. })),
            "{answer:?}"
        );
        times.push(now() - began);
        sleep(FROM_WORD_TO_WORD).await;
    }
    times
}

/// Somebody else's program, until it is dropped. It would run on another machine: here it has what time
/// nobody else wants.
struct Hostile(Child);

impl Hostile {
    fn begin(members: &Members) -> Self {
        let mut hostile = Command::new("chrt");
        hostile.args(["--idle", "0"]);
        hostile.arg(env::current_exe().expect("it runs"));
        hostile.arg("hostile").arg(members.path("h0"));
        hostile.arg(members.addresses[0].to_string());
        Self(hostile.spawn().expect("chrt is there"))
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Until it is killed.
pub(crate) fn be_hostile(identity: &Path, address: SocketAddr) {
    let runtime = Builder::new_current_thread().enable_all().build();
    let hostile = async {
        let mut sessions = JoinSet::new();
        for _ in 0..SESSIONS {
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

/// As much as fits into a frame.
async fn report(session: &Session) {
    let Sample { readings, .. } = reports::sample(0, 2, 1);
    let readings: Vec<Reading> = readings.iter().cycle().take(4000).cloned().collect();
    let message = AgentMessage::Sample(Sample {
        taken: Moment::from_micros(1),
        readings,
    });
    while session.send(Channel::Telemetry, &message).await.is_ok() {}
}

/// As often as it can.
async fn gossip(session: &Session) {
    let message = AgentMessage::Clock { time_of_day_us: 1 };
    while session.send(Channel::Commands, &message).await.is_ok() {}
}

async fn whisper(session: &Session) {
    let nothing = vec![0_u8; 1000];
    while session.send_loose(&nothing).is_ok() {
        tokio::task::yield_now().await;
    }
}
