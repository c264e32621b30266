//! Answers hosts on the roster, one after the other.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use reweave_common::error::error_chain;
use reweave_common::lock::lock;
use reweave_common::probing::Stamps;
use reweave_common::rdma::{RDMA_PORT, Transport};

use crate::error::RdmaError;
use crate::measure::{self, MAX_WRITE_BYTES};
use crate::meeting::{
    Closing, End, Greeting, Line, MEETING_VERSION, Opening, Reply, Report, Task, v4,
};
use crate::verbs::{Kind, LocalPort, Pair};
use crate::work::random;

type Roster = Arc<Mutex<BTreeSet<Ipv4Addr>>>;

/// Answers for as long as the program runs.
pub(crate) struct Server {
    roster: Roster,
}

impl Server {
    pub(crate) fn start() -> Result<Self, RdmaError> {
        let failed = |source| RdmaError::Listen {
            port: RDMA_PORT,
            source,
        };
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, RDMA_PORT)).map_err(failed)?;
        let roster = Roster::default();
        let known = Arc::clone(&roster);
        let listen = thread::Builder::new().spawn(move || listen(&listener, &known));
        listen.map_err(failed)?;
        Ok(Self { roster })
    }

    pub(crate) fn set_roster(&self, hosts: impl IntoIterator<Item = Ipv4Addr>) {
        *lock(&self.roster) = hosts.into_iter().collect();
    }
}

/// An error of one peer is reported, and does not affect the next.
fn listen(listener: &TcpListener, roster: &Roster) {
    for stream in listener.incoming().filter_map(Result::ok) {
        let Some(peer) = stream.peer_addr().ok().and_then(|peer| v4(peer.ip())) else {
            continue;
        };
        let known = lock(roster).contains(&peer);
        let answered = if known {
            answer(stream, peer)
        } else {
            refuse(stream, peer)
        };
        if let Err(error) = answered {
            let _ = writeln!(io::stderr(), "{}", error_chain(&error));
        }
    }
}

fn refuse(stream: TcpStream, peer: Ipv4Addr) -> Result<(), RdmaError> {
    let because = "this host is not on its allow-list, which a coordinator sends";
    let refused = Some(because.to_owned());
    let greeting = Greeting {
        version: MEETING_VERSION,
        refused,
    };
    Ok(Line::over(stream, peer)?.say(&greeting)?)
}

fn answer(stream: TcpStream, peer: Ipv4Addr) -> Result<(), RdmaError> {
    let mut line = Line::over(stream, peer)?;
    line.say(&Greeting {
        version: MEETING_VERSION,
        refused: None,
    })?;
    let Opening { task, end } = line.hear_opening()?;
    let outcome = prepare(&line, task, end);
    let unable = outcome.as_ref().err().map(|error| Reply::Unable {
        because: error_chain(error),
    });
    if let Some(unable) = unable {
        line.say(&unable)?;
    }
    let pair = outcome?;
    let region = matches!(task, Task::Take { .. }).then(|| pair.region());
    let end = pair.end();
    line.say(&Reply::Ready { end, region })?;
    let report = take_part(&pair, task, &line)?;
    let Closing {} = line.hear()?;
    Ok(line.say(&report)?)
}

fn prepare(line: &Line, task: Task, far: End) -> Result<Pair, RdmaError> {
    let port = LocalPort::of(line.own_address()?)?;
    let kind = match task {
        Task::Echo { transport, .. } => Kind::Messages(transport),
        Task::Take { .. } => Kind::Writes {
            bytes: MAX_WRITE_BYTES,
        },
    };
    let mut pair = Pair::open(port, kind, random())?;
    pair.connect(far)?;
    Ok(pair)
}

fn take_part(pair: &Pair, task: Task, line: &Line) -> Result<Report, RdmaError> {
    let (held, transport) = match task {
        Task::Echo { transport, count } => {
            let held = measure::echo(pair, transport, count, || line.has_word())?;
            (held, transport)
        }
        Task::Take { .. } => {
            measure::wait(|| line.has_word());
            (vec![], Transport::Rc)
        }
    };
    let nanos = |held: std::time::Duration| u64::try_from(held.as_nanos()).ok();
    Ok(Report {
        held_ns: held.into_iter().map(|held| held.and_then(nanos)).collect(),
        stamps: stamps(pair, transport),
    })
}

/// By whose stamps a pair of that kind measures.
pub(crate) fn stamps(pair: &Pair, transport: Transport) -> Stamps {
    match (transport, pair.queue().clock()) {
        (Transport::Ud, Some(_)) => Stamps::Hardware,
        _ => Stamps::Program,
    }
}
