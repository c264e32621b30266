//! Parameters of a client.

use std::io::{Write as _, stdout};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::asking::Asking;
use crate::system::System;
use crate::times::now;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) system: System,
    /// Folder with the certificates.
    pub(crate) home: PathBuf,
    pub(crate) clients: usize,
    /// Number of decisions; unlimited if absent.
    pub(crate) decisions: Option<usize>,
    /// Pause between decisions.
    pub(crate) pause_ms: u64,
}

impl Order {
    pub(crate) async fn carry_out(self) {
        let mut clients = JoinSet::new();
        for _ in 0..self.clients {
            let mut asking = Asking::new(self.system, &self.home);
            // Connects to the leader before the measurement.
            asking.decide().await;
            clients.spawn(self.clone().go_on(asking));
        }
        clients.join_all().await;
    }

    async fn go_on(self, mut asking: Asking) {
        for _ in 0..self.decisions.unwrap_or(usize::MAX) {
            let began = now();
            asking.decide().await;
            let line = format!("{} {}\n", began.as_nanos(), now().as_nanos());
            if stdout().write_all(line.as_bytes()).is_err() {
                return;
            }
            if self.pause_ms > 0 {
                sleep(Duration::from_millis(self.pause_ms)).await;
            }
        }
    }
}
