//! One coordinator and everybody who reports to it.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use reweave_common::member::{Member, Role};
use reweave_common::operator::{AgentState, Request, Response, Status};
use reweave_link::{Channel, Role as PeerRole, connect};
use reweave_proto::message::CoordinatorMessage;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::time::{Instant, sleep, timeout};

use crate::agents::Crowd;
use crate::machine;
use crate::members::{Members, Operator};
use crate::process::{core_s, peak_mib};
use crate::times::{Spread, now};

const LOOKS: usize = 15;
const FROM_LOOK_TO_LOOK: Duration = Duration::from_secs(2);
/// They listen and do not report.
const LISTENERS: usize = 16;
const COMMANDS: usize = 20;
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn measure(agents: usize) {
    machine::introduce();
    // The last of them only listen.
    let mut members = Members::new(1, agents + LISTENERS);
    members.start(0);
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(run(&members, agents));
}

async fn run(members: &Members, agents: usize) {
    let (pid, own) = (members.pid(0), std::process::id());
    let crowd = Crowd::of(members, agents);
    let mut operator = members.operator(0);
    let began = Instant::now();
    until_all_report(&mut operator, agents).await;
    println!(
        "# {agents} agents report after {:.1} s",
        began.elapsed().as_secs_f64()
    );
    // What comes once at the beginning is over.
    sleep(Duration::from_secs(10)).await;

    let (theirs_before_s, ours_before_s) = (core_s(pid), core_s(own));
    let (began, mut oldest_ms) = (Instant::now(), 0);
    for _ in 0..LOOKS {
        sleep(FROM_LOOK_TO_LOOK).await;
        let ages = operator
            .status()
            .await
            .map(|status| oldest(&status, agents));
        oldest_ms = oldest_ms.max(ages.unwrap_or(u64::MAX));
    }
    let elapsed_s = began.elapsed().as_secs_f64();
    let cores = (core_s(pid) - theirs_before_s) / elapsed_s;
    let ours = (core_s(own) - ours_before_s) / elapsed_s;
    let mib = peak_mib(pid);
    let lost = crowd.counts.lost.load(Ordering::Relaxed);
    println!("agents cores peak_mib oldest_report_ms sessions_lost");
    println!("{agents} {cores:.2} {mib:.0} {oldest_ms} {lost}");
    println!("# goal: 1 core, 1024 MiB, 2000 ms; the agents themselves took {ours:.2} cores");
    let delivered = Spread::of(deliveries(members, &mut operator, agents).await);
    let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| delivered.ms(share));
    println!("commands p50_ms p99_ms max_ms");
    println!("{} {p50:.1} {p99:.1} {max:.1}", delivered.count());
    println!("# goal: p99 of 50 ms, from the operator's word to the agent, to all at once");
}

async fn until_all_report(operator: &mut Operator, agents: usize) {
    let all = async {
        loop {
            let status = operator.status().await;
            if status.is_some_and(|status| up(&status) >= agents) {
                return;
            }
            sleep(Duration::from_millis(500)).await;
        }
    };
    timeout(PATIENCE, all).await.expect("all report in the end");
}

pub(crate) fn up(status: &Status) -> usize {
    let up = status
        .agents
        .iter()
        .filter(|agent| agent.state == AgentState::Up);
    up.count()
}

fn oldest(status: &Status, agents: usize) -> u64 {
    let of_crowd = status
        .agents
        .iter()
        .filter(|agent| is_one(&agent.node, agents));
    let ages = of_crowd.map(|agent| agent.age_ms.unwrap_or(u64::MAX));
    ages.max().unwrap_or(u64::MAX)
}

/// Whether it is one of those that report.
fn is_one(node: &str, agents: usize) -> bool {
    let number = node
        .strip_prefix('h')
        .and_then(|number| number.parse::<usize>().ok());
    number.is_some_and(|number| number < agents)
}

/// Somebody is shut out, which is agreed on and told to all agents: how long that takes.
async fn deliveries(members: &Members, operator: &mut Operator, agents: usize) -> Vec<Duration> {
    let mut heard = listen(members, agents..agents + LISTENERS);
    sleep(Duration::from_secs(2)).await;
    let mut times = Vec::new();
    for number in 0..COMMANDS {
        while heard.try_recv().is_ok() {}
        let said = now();
        shut_out(operator, &format!("nobody{number}")).await;
        for _ in 0..LISTENERS {
            let at = timeout(PATIENCE, heard.recv()).await.ok().flatten();
            times.push(at.expect("all are told") - said);
        }
        sleep(Duration::from_millis(730)).await;
    }
    times
}

/// When these agents are told that somebody is shut out.
pub(crate) fn listen(members: &Members, agents: Range<usize>) -> UnboundedReceiver<Duration> {
    let (tell, heard) = mpsc::unbounded_channel();
    for listener in agents {
        let identity = members.agent_identity(listener);
        let (address, tell) = (members.addresses[0], tell.clone());
        tokio::spawn(async move {
            let session = connect(&[address], &identity, PeerRole::Coordinator).await;
            let session = session.expect("it is let in");
            while let Ok(message) = session
                .receive::<CoordinatorMessage>(Channel::Commands)
                .await
            {
                if matches!(message, CoordinatorMessage::Denied(_)) {
                    let _ = tell.send(now());
                }
            }
        });
    }
    heard
}

/// Has this one shut out, until that is acknowledged.
pub(crate) async fn shut_out(operator: &mut Operator, name: &str) {
    let member = Member {
        role: Role::Viewer,
        name: name.to_owned(),
    };
    let answer = operator.ask(&Request::Revoke { member }).await;
    assert!(
        matches!(answer, Some(Response::Revoked { .. })),
        "{answer:?}"
    );
}
