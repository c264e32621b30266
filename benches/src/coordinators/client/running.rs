//! A running client, seen from outside of the lab.

use std::env;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use reweave_tests::{STAGE_TIMEOUT, Stage, StageError, wait_for};

use super::Order;
use crate::system::System;

/// Minimum gap that counts as an outage; decisions are about ten milliseconds apart.
const MIN_OUTAGE: Duration = Duration::from_millis(150);
/// Node of the operators.
const STATION: &str = "station";

/// Start and acknowledgement of a decision.
pub(crate) type Decision = [Duration; 2];

pub(crate) struct Running {
    system: System,
    child: Child,
    decisions: Receiver<Decision>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// Starts a client that makes a hundred decisions a second until it is dropped.
    pub(crate) fn start(stage: &Stage, system: System) -> Result<Self, StageError> {
        let order = Order {
            system,
            home: stage.path(""),
            clients: 1,
            decisions: None,
            pause_ms: 10,
        };
        let running = Self::carrying_out(stage, &order);
        let what = format!("the client of {} is with one who decides", system.name());
        wait_for(&what, STAGE_TIMEOUT, || {
            Ok(running.decisions.try_recv().ok())
        })?;
        Ok(running)
    }

    pub(crate) fn carrying_out(stage: &Stage, order: &Order) -> Self {
        let this = env::current_exe().expect("it runs");
        let mut command = stage.inside(STATION, this);
        command.arg("client");
        command.arg(serde_json::to_string(order).expect("it can be written"));
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("it was built");
        let stdout = child.stdout.take().expect("it was asked for");
        let (tell, decisions) = mpsc::channel();
        thread::spawn(move || follow(stdout, &tell));
        Self {
            system: order.system,
            child,
            decisions,
        }
    }

    /// Returns the time without acknowledgements after this moment: from the last decision before it to the first after
    /// it.
    pub(crate) fn outage_after(&self, moment: Duration) -> Result<Duration, StageError> {
        let mut last = moment;
        let mut gap = |[_, ended]: Decision| {
            let gap = ended.saturating_sub(last);
            last = ended;
            (ended > moment && gap > MIN_OUTAGE).then_some(gap)
        };
        let what = format!("{} decides again", self.system.name());
        wait_for(&what, STAGE_TIMEOUT, || {
            Ok(self.decisions.try_iter().find_map(&mut gap))
        })
    }

    /// Returns all decisions of a client that ends by itself.
    pub(crate) fn all(self) -> Vec<Decision> {
        self.decisions.iter().collect()
    }
}

fn follow(stdout: ChildStdout, tell: &mpsc::Sender<Decision>) {
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        let mut numbers = line.split(' ').filter_map(|number| number.parse().ok());
        let [began, ended] = [numbers.next(), numbers.next()].map(Option::unwrap_or_default);
        if tell.send([began, ended].map(Duration::from_nanos)).is_err() {
            return;
        }
    }
}
