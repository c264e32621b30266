//! The agent's loop: readings at a fixed interval, probes and answers when they are due, instructions when they
//! arrive.

use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use reweave_common::instruction::{Ack, Instruction, Watch};
use reweave_link::service::Watchdog;
use reweave_proto::message::AgentMessage;
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until};

use crate::agent::Agent;
use crate::clock;
use crate::error::AgentError;
use crate::fast_sampling::FastSamplingTimer;
use crate::session::{AgentEvent, AgentUplink};

/// The interval between urgent reports.
const NEWS_INTERVAL: Duration = Duration::from_millis(20);
/// The longest time without anything due.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Serves until the process is asked to end. The kernel then keeps its pins.
pub async fn run(
    mut agent: Agent,
    mut uplink: AgentUplink,
    pace: Duration,
) -> Result<(), AgentError> {
    let failed = |source| AgentError::Loop { source };
    let mut ends = endings().map_err(failed)?;
    let answers = agent.answers().map_err(failed)?;
    let answers = answers.map(watched).transpose().map_err(failed)?;
    let turns = agent.turns().and_then(watched).map_err(failed)?;
    let (mut ticks, mut looks) = (ticks(pace), FastSamplingTimer::default());
    let mut watchdog = Watchdog::ready();
    let mut news_due = Instant::now();
    loop {
        tokio::select! {
            _ = ticks.tick() => uplink.send_measured(agent.sample()),
            event = uplink.next() => {
                let event = event.ok_or(AgentError::LineGone)?;
                handle(&mut agent, &uplink, &mut ticks, &mut looks, event);
            }
            () = looks.due() => {
                agent.look().into_iter().for_each(|it| uplink.send_measured(it));
                looks.handle_taken(Instant::now());
            }
            () = watchdog.due() => watchdog.feed(),
            ready = readable(answers.as_ref()) => {
                let mut ready = ready.map_err(failed)?;
                if agent.receive()? {
                    ready.clear_ready();
                }
            }
            ready = readable(Some(&turns)) => {
                let mut ready = ready.map_err(failed)?;
                let (turned, is_all) = agent.poll_turned();
                if is_all {
                    ready.clear_ready();
                }
                turned.into_iter().for_each(|it| uplink.send_measured(it));
            }
            () = sleep_until(next_due(&agent, news_due)) => {}
            () = ended(&mut ends) => {
                uplink.close().await;
                return Ok(());
            }
        }
        agent.probe();
        agent.revert_unconfirmed();
        if Instant::now() >= news_due
            && let Some(news) = agent.poll_news()
        {
            uplink.send_measured(news);
            news_due = Instant::now() + NEWS_INTERVAL;
        }
    }
}

#[allow(
    unsafe_code,
    reason = "the descriptor is owned by what watches it, and so stays open as long"
)]
fn watched(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    let watched = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
    Ok(watched?)
}

/// Never ready if there is nothing to read from.
async fn readable(
    answers: Option<&AsyncFd<OwnedFd>>,
) -> io::Result<AsyncFdReadyGuard<'_, OwnedFd>> {
    match answers {
        Some(answers) => answers.readable().await,
        None => pending().await,
    }
}

fn ticks(pace: Duration) -> Interval {
    // The uplink comes first: a new coordinator gets everything at once.
    let mut ticks = interval_at(Instant::now() + pace, pace);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

fn handle(
    agent: &mut Agent,
    uplink: &AgentUplink,
    ticks: &mut Interval,
    looks: &mut FastSamplingTimer,
    event: AgentEvent,
) {
    match event {
        // A new coordinator has no state of this agent yet.
        AgentEvent::Connected => ticks.reset_immediately(),
        // Without a coordinator there are no probe lists and no reports.
        AgentEvent::Lost => agent.watch(&Watch::default()),
        AgentEvent::Instructed(Instruction::Watch(watch)) => agent.watch(&watch),
        AgentEvent::Instructed(Instruction::Probe(list)) => agent.probe_hosts(list),
        AgentEvent::Instructed(Instruction::Closely(it)) => looks.handle_asked(Instant::now(), it),
        AgentEvent::Instructed(Instruction::Install(install)) => {
            answer(uplink, agent.install(install));
        }
        AgentEvent::Instructed(Instruction::Unconfirmed(it)) => {
            answer(uplink, agent.install_unconfirmed(it));
        }
    }
}

fn answer(uplink: &AgentUplink, acks: Vec<Ack>) {
    for ack in acks {
        uplink.answer(AgentMessage::Ack(ack));
    }
}

fn next_due(agent: &Agent, news_due: Instant) -> Instant {
    let now = clock::now();
    let probe = agent
        .next_probe()
        .map(|due| Instant::now() + due.since(now));
    let news = agent.has_news().then_some(news_due);
    let look = agent.next_look_at_unconfirmed();
    let look = look.map(|rest| Instant::now() + rest);
    let due = [probe, news, look].into_iter().flatten().min();
    due.unwrap_or_else(|| Instant::now() + IDLE_TIMEOUT)
}

fn endings() -> io::Result<[Signal; 2]> {
    Ok([
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    ])
}

async fn ended([terminate, interrupt]: &mut [Signal; 2]) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
