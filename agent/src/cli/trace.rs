//! `trace`: shows the path of a flow, or all paths.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use reweave_agent::clock;
use reweave_agent::error::AgentError;
use reweave_agent::path_confirmation::ConfirmationClient;
use reweave_agent::probes::Prober;
use reweave_agent::probing::Engine;
use reweave_agent_core::latency::MAX_RATE;
use reweave_agent_core::probe::ProbeMark;
use reweave_agent_core::trace::{MultipathTrace, TraceResult, Tracer};
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::probing::{PROBE_PORT, ProbeList, Routers};
use reweave_common::sample::TracedPath;
use serde_json::json;

use super::show::{joined, or_dash};
use super::{Form, Trace, out, table};

/// Time limit for an agent at the other end.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(300);
/// Time limit, and minimum interval, for the receiver's agent to look for a packet.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Time limit after which a path counts as unknown.
const PATH_TIMEOUT: Duration = Duration::from_secs(5);
/// Source port of the request for the number of routers; later ports are for the probes of users.
const ARRIVAL_QUERY_PORT: u16 = 7499;

pub(super) fn trace(asked: &Trace) -> Result<(), AgentError> {
    let flow = asked.flow()?;
    begins_here(&flow)?;
    let mut tracing = Tracing::open(&flow)?;
    if asked.all {
        all_ways(&mut tracing, flow, asked.output.form)
    } else {
        one_way(&mut tracing, flow, asked)
    }
}

/// Fails unless the flow begins here. Routers answer to the source address, and no other host should get these answers.
fn begins_here(flow: &FlowKey) -> Result<(), AgentError> {
    let address = *flow.source.ip();
    let bound = UdpSocket::bind((address, 0)).map(drop);
    bound.map_err(|source| AgentError::NotHere { address, source })
}

/// Prints the path of the flow, and then each change.
fn one_way(tracing: &mut Tracing, flow: FlowKey, asked: &Trace) -> Result<(), AgentError> {
    let end = Instant::now() + asked.over_ms;
    tracing.watch(&[flow]);
    tracing.confirm(&flow);
    let mut traced_path = None;
    loop {
        let path = tracing.next_path(traced_path.as_ref().map(|_| end))?;
        let Some(path) = path else {
            return Ok(());
        };
        let is_new = |traced_path: &TracedPath| traced_path.routers != path.routers;
        if traced_path.as_ref().is_none_or(is_new) {
            print_path(&path, tracing.said, asked.output.form);
        }
        traced_path = Some(path);
        if Instant::now() >= end {
            return Ok(());
        }
    }
}

/// Returns the routers that answer on the path, if this program has permission to trace.
pub(super) fn routers(flow: FlowKey) -> Option<Vec<Option<Ipv4Addr>>> {
    let mut tracing = Tracing::open(&flow).ok()?;
    tracing.watch(&[flow]);
    let path = tracing
        .next_path(Some(Instant::now() + PATH_TIMEOUT))
        .ok()??;
    Some(path.routers)
}

fn all_ways(tracing: &mut Tracing, like: FlowKey, form: Form) -> Result<(), AgentError> {
    let mut spread = MultipathTrace::new(like);
    loop {
        let flows = spread.poll_flows();
        if flows.is_empty() {
            break;
        }
        tracing.watch(&flows);
        while !spread.is_settled() {
            if let Some(path) = tracing.next_path(None)? {
                spread.handle_path(path);
            }
        }
    }
    print_spread(&spread, form);
    Ok(())
}

/// Asks the receiver's agent, if one answers this host.
fn ask_receiver(flow: &FlowKey) -> Option<Routers> {
    let asking = FlowKey {
        protocol: Protocol::Udp,
        source: SocketAddrV4::new(*flow.source.ip(), ARRIVAL_QUERY_PORT),
        destination: SocketAddrV4::new(*flow.destination.ip(), PROBE_PORT),
    };
    let list = ProbeList {
        flows: vec![asking],
        period: (ANSWER_TIMEOUT / 6).into(),
        most_rate: MAX_RATE,
        roster: vec![],
        valid_for: ANSWER_TIMEOUT.into(),
        trains_every: None,
    };
    let mut engine = Engine::new(rand::random(), Duration::ZERO);
    engine.handle_list(list).ok()?;
    let end = Instant::now() + ANSWER_TIMEOUT;
    while Instant::now() < end {
        engine.turn(ANSWER_TIMEOUT / 10).ok()?;
        let mut readings = engine.poll_readings().into_iter();
        if let Some(routers) = readings.find_map(|reading| reading.tally.routers) {
            return Some(routers);
        }
    }
    None
}

struct Tracing {
    prober: Prober,
    tracer: Tracer,
    asker: ConfirmationClient,
    receiver: Ipv4Addr,
    /// Number of routers in the answer of the receiver's agent, from other packets.
    said: Option<Routers>,
}

impl Tracing {
    fn open(flow: &FlowKey) -> Result<Self, AgentError> {
        Ok(Self {
            prober: Prober::open(ProbeMark(rand::random()))?,
            tracer: Tracer::numbered_from(rand::random()),
            asker: ConfirmationClient::default(),
            receiver: *flow.destination.ip(),
            said: ask_receiver(flow),
        })
    }

    /// Sends a packet of the flow for the receiver's agent, if there is one.
    fn confirm(&mut self, flow: &FlowKey) {
        let end = Instant::now() + ARRIVAL_TIMEOUT;
        while self.said.is_some() && Instant::now() < end {
            self.ask();
            if self.tracer.is_arrival_settled(flow) {
                return;
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn ask(&mut self) {
        let now = clock::now();
        self.asker.hear_for(&mut self.tracer, now);
        self.asker.ask_for(&mut self.tracer, &mut self.prober, now);
    }

    fn watch(&mut self, flows: &[FlowKey]) {
        let now = clock::now();
        self.tracer.watch(now, flows);
        if let Some(routers) = self.said {
            self.tracer
                .handle_distance(now, self.receiver, routers.there);
        }
    }

    /// Waits for the next known path; none after the time limit.
    fn next_path(&mut self, by: Option<Instant>) -> Result<Option<TracedPath>, AgentError> {
        loop {
            self.ask();
            while let Some(probe) = self.tracer.poll_probe(clock::now()) {
                self.prober.send(&probe);
            }
            match self.tracer.poll_found() {
                Some(TraceResult::Path(path)) => return Ok(Some(path)),
                Some(TraceResult::Deaf(host)) => return Err(AgentError::Untraceable { host }),
                None if by.is_some_and(|by| Instant::now() >= by) => return Ok(None),
                None => self.wait(by),
            }
            while let Some((at, answer)) = self.prober.receive()? {
                self.tracer.handle_answer(at, &answer);
            }
        }
    }

    fn wait(&self, by: Option<Instant>) {
        let due = self.tracer.next_due().map(|due| due.since(clock::now()));
        let left = by.map(|by| by.saturating_duration_since(Instant::now()));
        let patience = [due, left].into_iter().flatten().min();
        // Rounded up, because a wait below one millisecond would not wait at all.
        let patience = patience.unwrap_or_default() + Duration::from_millis(1);
        let timeout = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
        // The next read shows whether an answer arrived or the time is over.
        let _ = poll(
            &mut [PollFd::new(self.prober.as_fd(), PollFlags::POLLIN)],
            timeout,
        );
    }
}

fn print_path(path: &TracedPath, said: Option<Routers>, form: Form) {
    if form == Form::Json {
        let TracedPath {
            flow,
            routers,
            confirmed,
        } = path;
        let back = said.map(|said| said.back);
        out::json(&json!({
            "flow": flow, "routers": routers, "confirmed": confirmed, "routers_back": back
        }));
        return;
    }
    let hops = (1..).zip(&path.routers);
    let rows: Vec<_> = hops
        .map(|(hop, router)| [hop.to_string(), or_dash(*router)])
        .collect();
    table::print(["hop", "router"], &rows);
    print_receiver(path.confirmed, said);
}

/// Prints messages: what is confirmed, and what is known of the return path.
fn print_receiver(confirmed: bool, said: Option<Routers>) {
    match said {
        None => out::tell(
            "not confirmed: no agent answers at the receiver; the distance is from its ICMP echo",
        ),
        Some(_) if !confirmed => {
            out::tell("not confirmed: the receiver's agent saw no packet of this flow");
        }
        Some(_) => {}
    }
    match said {
        None => out::tell("the return path is unknown"),
        Some(Routers { there, back }) if there != back => {
            out::tell(format_args!(
                "the return path differs: {there} routers there, {back} back"
            ));
        }
        Some(Routers { back, .. }) => out::tell(format_args!(
            "the return path passes {back} routers; trace it at the receiver"
        )),
    }
}

fn print_spread(spread: &MultipathTrace, form: Form) {
    let forks = spread.forks();
    let silent = spread.silent_hops();
    if form == Form::Json {
        out::json(&json!({
            "forks": forks,
            "silent_hops": silent,
            "flows": spread.flows(),
        }));
        return;
    }
    let rows: Vec<_> = forks
        .iter()
        .map(|fork| {
            [
                fork.hop.to_string(),
                fork.router
                    .map_or_else(|| "here".to_owned(), |it| it.to_string()),
                joined(&fork.next),
                fork.flows.to_string(),
                if fork.complete { "yes" } else { "perhaps not" }.to_owned(),
            ]
        })
        .collect();
    table::print(["hop", "router", "goes on to", "flows", "all known"], &rows);
    for hop in silent {
        out::tell(format_args!("no answer from the routers at hop {hop}"));
    }
}
