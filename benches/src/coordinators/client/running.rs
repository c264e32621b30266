//! A client from outside of the lab.

use std::env;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use reweave_tests::{STAGE_TIMEOUT, Stage, StageError, wait_for};

use super::Order;
use crate::system::System;

/// Decisions are made every ten milliseconds or so, unless no coordinator leads.
const MIN_OUTAGE: Duration = Duration::from_millis(150);
/// Where people are.
const STATION: &str = "station";

/// When a decision began, and when it was acknowledged.
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
    /// One that goes on for ever, a hundred times a second.
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

    /// For how long nothing was acknowledged after this moment: from the last decision before it was
    /// so to the first again.
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

    /// All, when it has ended by itself.
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
