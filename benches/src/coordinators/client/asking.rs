//! Search for the leader, the same for both systems.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::{etcd, reweave};
use crate::system::System;

/// Time limit for an answer, after which another member is asked.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(150);
/// Wait after all members have refused.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

enum Line {
    Reweave(Box<reweave::Line>),
    Etcd(Box<etcd::Line>),
}

/// Result of asking one member.
pub(super) enum Answer {
    Decided,
    /// The request must go to another member; its address, if known.
    Elsewhere(Option<SocketAddr>),
    Broken,
}

enum Factory {
    Reweave(reweave::Factory),
    Etcd(etcd::Factory),
}

/// A client with a connection to each member.
pub(super) struct Asking {
    factory: Factory,
    addresses: [SocketAddr; 3],
    lines: [Option<Line>; 3],
    turn: usize,
}

impl Asking {
    pub(super) fn new(system: System, home: &Path) -> Self {
        let factory = match system {
            System::Reweave => Factory::Reweave(reweave::Factory::new(home)),
            System::Etcd => Factory::Etcd(etcd::Factory::new(home)),
        };
        Self {
            factory,
            addresses: [0, 1, 2].map(|place| system.door(place).parse().expect("an address")),
            lines: [None, None, None],
            turn: 0,
        }
    }

    /// Retries until the request is acknowledged.
    pub(super) async fn decide(&mut self) {
        let mut silent = None;
        loop {
            let asked = self.turn;
            match timeout(ANSWER_TIMEOUT, self.ask(asked)).await {
                Ok(Answer::Decided) => return,
                Ok(Answer::Elsewhere(there)) => {
                    let there = there.and_then(|there| self.place_of(there));
                    match there.filter(|there| Some(*there) != silent) {
                        Some(there) => self.turn = there,
                        None => self.look_around(silent).await,
                    }
                }
                Ok(Answer::Broken) | Err(_) => {
                    self.lines[asked] = None;
                    silent = Some(asked);
                    self.look_around(silent).await;
                }
            }
        }
    }

    async fn look_around(&mut self, silent: Option<usize>) {
        self.turn = (self.turn + 1) % 3;
        if Some(self.turn) == silent {
            self.turn = (self.turn + 1) % 3;
            sleep(RETRY_INTERVAL).await;
        }
    }

    fn place_of(&self, address: SocketAddr) -> Option<usize> {
        self.addresses.iter().position(|known| *known == address)
    }

    async fn ask(&mut self, place: usize) -> Answer {
        if self.lines[place].is_none() {
            self.lines[place] = self.factory.connect(self.addresses[place]).await;
        }
        match &mut self.lines[place] {
            Some(Line::Reweave(line)) => line.decide().await,
            Some(Line::Etcd(line)) => line.decide().await,
            None => Answer::Broken,
        }
    }
}

impl Factory {
    async fn connect(&self, to: SocketAddr) -> Option<Line> {
        match self {
            Self::Reweave(factory) => {
                let line = factory.connect(to).await?;
                Some(Line::Reweave(Box::new(line)))
            }
            Self::Etcd(factory) => Some(Line::Etcd(Box::new(factory.connect(to).await?))),
        }
    }
}
