//! A command is delivered in time during endless telemetry.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::cluster::{pair, soon};
use crate::{Channel, Session};

const PIECE_BYTES: usize = 16 << 10;
const FLOOD_ROUNDS: usize = 200;
/// Messages that fill a channel whose peer does not read.
const PIECES_PER_CHANNEL: usize = 15;

/// Sends telemetry as fast as possible, and counts.
async fn flood(agent: &Session, start: Instant, sent: &Cell<usize>) {
    let padding = "x".repeat(PIECE_BYTES);
    loop {
        let piece = (start.elapsed(), &padding);
        agent.send_any(Channel::Telemetry, &piece).await.unwrap();
        sent.set(sent.get() + 1);
    }
}

async fn until_full(sent: &Cell<usize>) {
    while sent.get() < PIECES_PER_CHANNEL {
        tokio::task::yield_now().await;
    }
}

/// An agent that answers each command.
async fn obey(agent: &Session) {
    loop {
        let command: u32 = agent.receive(Channel::Commands).await.unwrap();
        agent.send_any(Channel::Commands, &command).await.unwrap();
    }
}

async fn command(coordinator: &Session, number: u32) -> Duration {
    let start = Instant::now();
    coordinator
        .send_any(Channel::Commands, &number)
        .await
        .unwrap();
    let answer: u32 = coordinator.receive(Channel::Commands).await.unwrap();
    assert_eq!(answer, number);
    start.elapsed()
}

/// The age of the next telemetry message.
async fn read_telemetry(coordinator: &Session, start: Instant) -> Duration {
    let read = coordinator.receive(Channel::Telemetry).await;
    let (sent, _piece): (Duration, String) = read.unwrap();
    start.elapsed() - sent
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[tokio::test]
async fn commands_pass_unread_channel() {
    let (coordinator, agent) = pair().await;
    let sent = Cell::new(0);
    let commands = async {
        until_full(&sent).await;
        for number in 0..FLOOD_ROUNDS as u32 {
            command(&coordinator, number).await;
        }
    };
    let race = async {
        tokio::select! {
            () = flood(&agent, Instant::now(), &sent) => unreachable!("it never ends"),
            () = obey(&agent) => unreachable!("it never ends"),
            () = commands => {}
        }
    };
    soon(race).await;
    assert!(
        sent.get() < 4 * PIECES_PER_CHANNEL,
        "{} pieces went unread",
        sent.get()
    );
}

/// The reader takes one telemetry message per command, so telemetry queues up; commands do not wait behind it.
#[tokio::test]
async fn commands_overtake_telemetry() {
    let (coordinator, agent) = pair().await;
    let (start, sent) = (Instant::now(), Cell::new(0));
    let rounds = async {
        until_full(&sent).await;
        let mut times = vec![];
        for number in 0..FLOOD_ROUNDS as u32 {
            let command = command(&coordinator, number).await;
            times.push((command, read_telemetry(&coordinator, start).await));
        }
        times.into_iter().unzip()
    };
    let race = async {
        tokio::select! {
            () = flood(&agent, start, &sent) => unreachable!("it never ends"),
            () = obey(&agent) => unreachable!("it never ends"),
            times = rounds => times,
        }
    };
    let (commands, telemetry) = soon(race).await;
    let (command, telemetry) = (median(commands), median(telemetry));
    println!("command there and back {command:?}, telemetry one way {telemetry:?}");
    assert!(3 * command < telemetry, "{command:?} against {telemetry:?}");
}
