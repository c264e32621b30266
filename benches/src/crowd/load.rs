//! Load of one coordinator by all agents that report to it.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use reweave_common::flow::FlowKey;
use reweave_common::member::{Member, Role};
use reweave_common::moment::Moment;
use reweave_common::operator::{AgentState, Between, FlowEnd, Request, Response, Status};
use reweave_common::sample::Sample;
use reweave_link::{Channel, Role as PeerRole, connect};
use reweave_proto::message::{AgentMessage, CoordinatorMessage};
use tokio::runtime::Builder;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::time::{Instant, sleep, timeout};

use crate::agents::Crowd;
use crate::machine;
use crate::members::{Members, Operator};
use crate::process::{core_s, peak_mib};
use crate::reports;
use crate::times::{Spread, now};

const SAMPLE_COUNT: usize = 15;
const SAMPLE_INTERVAL: Duration = Duration::from_secs(2);
/// Number of agents that listen and do not report.
const LISTENER_COUNT: usize = 16;
const BROADCAST_COUNT: usize = 20;
const COMMAND_COUNT: u16 = 100;
const REPORT_TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) fn measure(agents: usize) {
    machine::introduce();
    // The last agents only listen.
    let mut members = Members::new(1, agents + LISTENER_COUNT);
    members.start(0);
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime");
    let _crowd = runtime.block_on(reports(&members, agents));
    // A listener has its own thread: on a host of its own it would not wait for the reports of others.
    let apart = Builder::new_current_thread().enable_all().build();
    apart.expect("a runtime").block_on(words(&members, agents));
}

async fn reports(members: &Members, agents: usize) -> Crowd {
    let (pid, own) = (members.pid(0), std::process::id());
    let crowd = Crowd::of(members, agents);
    let mut operator = members.operator(0);
    let began = Instant::now();
    until_all_report(&mut operator, agents).await;
    println!(
        "# {agents} agents report after {:.1} s",
        began.elapsed().as_secs_f64()
    );
    // Start-up work is over by then.
    sleep(Duration::from_secs(10)).await;

    let (theirs_before_s, ours_before_s) = (core_s(pid), core_s(own));
    let (began, mut oldest_ms) = (Instant::now(), 0);
    for _ in 0..SAMPLE_COUNT {
        sleep(SAMPLE_INTERVAL).await;
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
    crowd
}

async fn words(members: &Members, agents: usize) {
    let mut operator = members.operator(0);
    println!("instructed commands p50_ms p99_ms max_ms");
    let mut heard = listen(members, agents..agents + LISTENER_COUNT);
    sleep(Duration::from_secs(2)).await;
    print("one", commands(&mut heard, &mut operator, agents).await);
    print("all", deliveries(&mut heard, &mut operator).await);
    println!("# goal: p99 of 50 ms, from the operator's word to the agent");
}

fn print(text: &str, times: Vec<Duration>) {
    let times = Spread::of(times);
    let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| times.ms(share));
    println!("{text} {} {p50:.1} {p99:.1} {max:.1}", times.count());
}

pub(crate) async fn until_all_report(operator: &mut Operator, agents: usize) {
    let all = async {
        loop {
            let status = operator.status().await;
            if status.is_some_and(|status| up(&status) >= agents) {
                return;
            }
            sleep(Duration::from_millis(500)).await;
        }
    };
    timeout(REPORT_TIMEOUT, all)
        .await
        .expect("all report in the end");
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

/// Whether this agent sends reports.
fn is_one(node: &str, agents: usize) -> bool {
    let number = node
        .strip_prefix('h')
        .and_then(|number| number.parse::<usize>().ok());
    number.is_some_and(|number| number < agents)
}

/// Measures how long it takes to revoke a member and to send that to all agents.
async fn deliveries(heard: &mut Heard, operator: &mut Operator) -> Vec<Duration> {
    let mut times = Vec::new();
    for number in 0..BROADCAST_COUNT {
        let said = now();
        revoke(operator, &format!("absent{number}")).await;
        for _ in 0..LISTENER_COUNT {
            times.push(instructed_at(heard, None).await - said);
        }
        sleep(Duration::from_millis(730)).await;
    }
    times
}

/// Instructs agents one after another to trace a flow to a reporting agent.
async fn commands(heard: &mut Heard, operator: &mut Operator, agents: usize) -> Vec<Duration> {
    let mut times = Vec::new();
    for port in 1..=COMMAND_COUNT {
        let end = |host: usize, port| FlowEnd {
            host: reports::address(host).to_string(),
            port: Some(port),
        };
        let listener = agents + usize::from(port) % LISTENER_COUNT;
        let between = Between {
            protocol: None,
            from: end(listener, port),
            to: end(0, 1),
        };
        let refresh = true;
        let said = now();
        let answer = operator.ask(&Request::Trace { between, refresh }).await;
        assert!(matches!(answer, Some(Response::Traced(_))), "{answer:?}");
        times.push(instructed_at(heard, Some(port)).await - said);
        // Operators would not request traces more often.
        sleep(Duration::from_millis(373)).await;
    }
    times
}

/// Waits until an agent is instructed to trace a flow from this port, or until it learns that a member is revoked.
pub(crate) async fn instructed_at(heard: &mut Heard, what: Option<u16>) -> Duration {
    let report = async {
        loop {
            let (at, trace) = heard.recv().await.expect("agents listen");
            let is_it = match (what, &trace) {
                (Some(port), Some(trace)) => trace.iter().any(|flow| flow.source.port() == port),
                (what, trace) => what.is_none() && trace.is_none(),
            };
            if is_it {
                return at;
            }
        }
    };
    timeout(REPORT_TIMEOUT, report)
        .await
        .expect("they are instructed")
}

/// Time, and flows to trace; none for a revocation.
pub(crate) type Heard = UnboundedReceiver<(Duration, Option<Vec<FlowKey>>)>;

/// Returns the messages that these agents receive.
pub(crate) fn listen(members: &Members, agents: Range<usize>) -> Heard {
    let (tell, heard) = mpsc::unbounded_channel();
    for listener in agents {
        let identity = members.agent_identity(listener);
        let (address, tell) = (members.addresses[0], tell.clone());
        tokio::spawn(async move {
            let session = connect(&[address], &identity, PeerRole::Coordinator).await;
            let session = session.expect("it is let in");
            let here = AgentMessage::Sample(Sample {
                taken: Moment::from_micros(1),
                readings: vec![reports::interface(listener)],
            });
            let sent = session.send(Channel::Telemetry, &here).await;
            sent.expect("it is heard");
            while let Ok(message) = session.receive(Channel::Commands).await {
                let trace = match message {
                    CoordinatorMessage::Denied(_) | CoordinatorMessage::DeniedMore(_) => None,
                    CoordinatorMessage::Watch(watch) => Some(watch.trace),
                    _ => continue,
                };
                let _ = tell.send((now(), trace));
            }
        });
    }
    heard
}

/// Revokes a member, and waits for the acknowledgement.
pub(crate) async fn revoke(operator: &mut Operator, name: &str) {
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
