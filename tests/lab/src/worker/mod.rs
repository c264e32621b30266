//! The traffic program: one process per rank of a job, which computes and communicates as a
//! training job does, over real sockets, and reports how it went.

mod assignment;
mod clock;
mod datagram;
mod flow;
mod listening;
mod meter;
mod payload;
pub(crate) mod protocol;
mod quic;
mod rank;
mod tcp;

use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};
use tokio::task::LocalSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

pub use self::assignment::AssignmentError;
use self::listening::Listening;
use self::protocol::{Assignment, Event, FlowSpec, Order, RankReport};
use self::rank::RankFlows;
use crate::error::LabError;

/// Interval of a rank's reports of received bytes.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// Runs a rank as the lab orders it on standard input.
pub(crate) fn run() -> Result<u8, LabError> {
    let failed = |source| LabError::Worker { source };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    LocalSet::new().block_on(&runtime, Worker::default().run())
}

/// Receives orders on standard input, until the lab ends.
struct Worker {
    orders: Lines<BufReader<Stdin>>,
}

impl Default for Worker {
    fn default() -> Self {
        Self {
            orders: BufReader::new(tokio::io::stdin()).lines(),
        }
    }
}

impl Worker {
    async fn run(mut self) -> Result<u8, LabError> {
        let Some(line) = self.line().await? else {
            return Ok(0);
        };
        let assignment =
            Assignment::parse(&line).map_err(|source| LabError::BadAssignment { source })?;
        let Some(flows) = self.open(&assignment).await? else {
            return Ok(0);
        };
        let report = match self.order().await? {
            Some(Order::Start) => self.carry_out(&assignment, &flows).await?,
            Some(_) => flows.report(true),
            None => return Ok(0),
        };
        say(&Event::Report(report))?;
        // The sessions stay open until all ranks have reported: closing them would look to the
        // others like a failure.
        while self.line().await?.is_some() {}
        Ok(0)
    }

    /// Opens all sessions in two steps, so that none connects before all listen.
    async fn open(&mut self, assignment: &Assignment) -> Result<Option<RankFlows>, LabError> {
        let Assignment { rank, flows, .. } = assignment;
        let [outgoing, incoming] = [FlowSpec::sender, FlowSpec::receiver]
            .map(|end| flows.iter().filter(move |flow| end(flow) == *rank));
        let listening = Listening::open(assignment.transport, outgoing, incoming)?;
        say(&Event::Listening)?;
        let Some(Order::Connect) = self.order().await? else {
            return Ok(None);
        };
        let flows = listening.connect().await?;
        say(&Event::Connected)?;
        Ok(Some(flows))
    }

    async fn carry_out(
        &mut self,
        assignment: &Assignment,
        flows: &RankFlows,
    ) -> Result<RankReport, LabError> {
        let program = iterate_all(assignment, flows);
        tokio::pin!(program);
        let mut samples = interval_at(Instant::now() + SAMPLE_INTERVAL, SAMPLE_INTERVAL);
        samples.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                ended = &mut program => return ended.map(|()| flows.report(false)),
                () = flows.broken() => return Ok(flows.report(false)),
                order = self.order() => return order.map(|_| flows.report(true)),
                _ = samples.tick() => say(&flows.sample())?,
            }
        }
    }

    async fn order(&mut self) -> Result<Option<Order>, LabError> {
        let Some(line) = self.line().await? else {
            return Ok(None);
        };
        serde_json::from_str(&line)
            .map(Some)
            .map_err(|source| LabError::BadOrder { source })
    }

    async fn line(&mut self) -> Result<Option<String>, LabError> {
        self.orders
            .next_line()
            .await
            .map_err(|source| LabError::Worker { source })
    }
}

/// Ends when all iterations are done.
async fn iterate_all(assignment: &Assignment, flows: &RankFlows) -> Result<(), LabError> {
    for index in 0..assignment.iterations {
        let iterated = flows.iterate(&assignment.program).await;
        let [duration, exposed] = iterated.map_err(|source| LabError::Worker { source })?;
        let [duration_us, exposed_us] = [duration, exposed].map(clock::micros);
        say(&Event::Iteration {
            index,
            duration_us,
            exposed_us,
        })?;
    }
    Ok(())
}

/// Sends a line to the lab. Lines are short, so writing them does not block for long.
fn say(event: &Event) -> Result<(), LabError> {
    use std::io::Write as _;
    let mut stdout = io::stdout().lock();
    let line = serde_json::to_string(event).map_err(io::Error::from);
    line.and_then(|line| writeln!(stdout, "{line}").and_then(|()| stdout.flush()))
        .map_err(|source| LabError::Say { source })
}
