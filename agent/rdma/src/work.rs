//! Executes the agent's requests.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::Ipv4Addr;

use reweave_common::error::error_chain;
use reweave_common::rdma::{
    Answer, RDMA_PORT, RdmaBandwidth, RdmaLatency, RdmaPort, RdmaReading, Request, Times, Transport,
};
use reweave_common::time_span::TimeSpan;
use reweave_common::units::Bytes;

use crate::error::RdmaError;
use crate::measure::{self, MAX_WRITE_BYTES};
use crate::meeting::{
    Closing, End, Line, MAX_MESSAGES, MAX_TEST_BYTES, Opening, Region, Report, Task,
};
use crate::serve::{Server, stamps};
use crate::verbs::{Kind, LocalPort, Pair, contexts};

#[derive(Default)]
pub struct Helper {
    server: Option<Server>,
}

impl Helper {
    pub fn answer(&mut self, request: &Request) -> Answer {
        let answer = match request {
            Request::Ports => ports().map(Answer::Ports),
            Request::Serve { roster } => self.serve(roster).map(|()| Answer::Serving),
            &Request::Latency {
                peer,
                transport,
                count,
            } => latency(peer, transport, count).map(Answer::Measured),
            &Request::Bandwidth { peer, budget } => bandwidth(peer, budget).map(Answer::Measured),
        };
        answer.unwrap_or_else(|error| Answer::Failed {
            because: error_chain(&error),
        })
    }

    fn serve(&mut self, roster: &[Ipv4Addr]) -> Result<(), RdmaError> {
        if self.server.is_none() {
            self.server = Some(Server::start()?);
        }
        if let Some(server) = &self.server {
            server.set_roster(roster.iter().copied());
        }
        Ok(())
    }
}

fn ports() -> Result<Vec<RdmaPort>, RdmaError> {
    let mut ports = vec![];
    for context in contexts()? {
        ports.extend(context.ports()?);
    }
    Ok(ports)
}

fn latency(peer: Ipv4Addr, transport: Transport, count: u32) -> Result<RdmaReading, RdmaError> {
    let count = count.clamp(1, MAX_MESSAGES);
    let task = Task::Echo { transport, count };
    let mut meeting = Meeting::open(peer, task, Kind::Messages(transport))?;
    let whole = measure::ping(&meeting.pair, transport, count)?;
    let report = meeting.close()?;
    let own = stamps(&meeting.pair, transport);
    let lost = whole.iter().filter(|whole| whole.is_none()).count();
    let held = report
        .held_ns
        .iter()
        .map(|held| held.map(TimeSpan::from_nanos));
    let whole = whole.into_iter().map(|whole| whole.map(TimeSpan::new));
    let both: Vec<_> = whole.zip(held).collect();
    // The two hosts have separate clocks, whose rates differ slightly.
    let network = both
        .iter()
        .filter_map(|&(whole, held)| Some(whole?.saturating_sub(held?)));
    let responder = both.iter().filter_map(|&(whole, held)| whole.and(held));
    Ok(RdmaReading::Latency(RdmaLatency {
        peer,
        transport,
        sent: count,
        lost: u32::try_from(lost).unwrap_or(count),
        network: Times::of(network.collect()),
        responder: Times::of(responder.collect()),
        stamps: own.min(report.stamps),
    }))
}

fn bandwidth(peer: Ipv4Addr, budget: Bytes) -> Result<RdmaReading, RdmaError> {
    let bytes = budget.count().clamp(1, MAX_TEST_BYTES);
    let kind = Kind::Writes {
        bytes: MAX_WRITE_BYTES,
    };
    let mut meeting = Meeting::open(peer, Task::Take { bytes }, kind)?;
    let region = meeting.region.ok_or(RdmaError::NoRegion { peer })?;
    let took = measure::write(&meeting.pair, &region, bytes)?;
    meeting.close()?;
    Ok(RdmaReading::Bandwidth(RdmaBandwidth {
        peer,
        bytes: Bytes::new(bytes),
        took: TimeSpan::new(took.ok_or(RdmaError::Slow { peer })?),
    }))
}

/// Two helpers whose queue pairs know each other.
struct Meeting {
    line: Line,
    pair: Pair,
    region: Option<Region>,
}

impl Meeting {
    fn open(peer: Ipv4Addr, task: Task, kind: Kind) -> Result<Self, RdmaError> {
        let mut line = Line::call(peer, RDMA_PORT)?;
        let port = LocalPort::of(line.own_address()?)?;
        let mut pair = Pair::open(port, kind, random())?;
        let end = pair.end();
        line.say(&Opening { task, end })?;
        let (far, region): (End, _) = line.hear_reply()?;
        pair.connect(far)?;
        Ok(Self { line, pair, region })
    }

    fn close(&mut self) -> Result<Report, RdmaError> {
        self.line.say(&Closing {})?;
        Ok(self.line.hear()?)
    }
}

/// Drawn by the standard library, which asks the kernel.
pub(crate) fn random() -> [u32; 2] {
    let number = RandomState::new().build_hasher().finish();
    [number as u32, (number >> 32) as u32]
}
