//! `probe`: measures latency and loss to a few hosts; and its responder.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use reweave_agent::error::AgentError;
use reweave_agent::probing::Engine;
use reweave_agent_core::latency::MAX_RATE;
use reweave_common::flow::FlowKey;
use reweave_common::moment::Moment;
use reweave_common::probing::{
    ProbeList, ProbeReading, ProbeTally, Spread, Stamps, Strays, Summary,
};
use serde_json::{Value, json};

use super::interrupt::Interrupt;
use super::show::or_dash;
use super::ways::{Ports, flows, resolve_all};
use super::{Form, Probe, out, table};

/// Interval of checks for outcomes and for an interruption.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const NO_DEADLINE: Moment = Moment::from_micros(u64::MAX);

pub(super) fn probe(asked: &Probe) -> Result<(), AgentError> {
    let interrupt = Interrupt::install();
    let hosts = resolve_all(&asked.hosts)?;
    if asked.respond {
        return respond(&hosts, asked.port, &interrupt);
    }
    let mut engine = Engine::new(rand::random(), Duration::ZERO);
    let ports = Ports {
        first: asked.source_port,
        paths: asked.paths,
        to: asked.port,
    };
    let flows = flows(&hosts, &ports)?;
    engine.handle_list(list(flows, asked))?;
    let tallies = measure(&mut engine, asked.over_ms, &interrupt)?;
    tell(&tallies, engine.strays().asking, asked.output.form);
    Ok(())
}

fn respond(hosts: &[Ipv4Addr], port: u16, interrupt: &Interrupt) -> Result<(), AgentError> {
    let mut engine = Engine::new(rand::random(), Duration::ZERO);
    engine.answer_on(port)?;
    engine.handle_roster(hosts.iter().copied());
    engine.take_trains(|_| Some(NO_DEADLINE));
    out::tell(format_args!(
        "answering the probes and taking the trains of {} on UDP port {port}",
        super::show::joined(hosts)
    ));
    while !interrupt.is_raised() {
        engine.turn(POLL_INTERVAL)?;
    }
    print_strays(engine.strays().answering);
    Ok(())
}

fn list(flows: Vec<FlowKey>, asked: &Probe) -> ProbeList {
    let between = Duration::from_secs(1) / asked.rate;
    ProbeList {
        period: (between * u32::from(asked.paths)).into(),
        flows,
        most_rate: MAX_RATE,
        roster: vec![],
        valid_for: asked.over_ms.into(),
        trains_every: None,
    }
}

type Tallies = BTreeMap<FlowKey, ProbeTally>;

/// Probes until the list has expired and the outcome of each probe is known. An interruption prints the results so far.
fn measure(
    engine: &mut Engine,
    over: Duration,
    interrupt: &Interrupt,
) -> Result<Tallies, AgentError> {
    let end = Instant::now() + over;
    let mut tallies = Tallies::new();
    while !interrupt.is_raised() && (Instant::now() < end || !engine.is_settled()) {
        engine.turn(POLL_INTERVAL)?;
        for ProbeReading { flow, tally } in engine.poll_readings() {
            tallies.entry(flow).or_default().merge(&tally);
        }
    }
    Ok(tallies)
}

fn tell(tallies: &Tallies, strays: Strays, form: Form) {
    let mut hosts: BTreeMap<Ipv4Addr, ProbeTally> = BTreeMap::new();
    for (flow, tally) in tallies {
        let host = hosts.entry(*flow.destination.ip()).or_default();
        host.merge(tally);
    }
    if form == Form::Json {
        let hosts = hosts
            .iter()
            .map(|(&host, all)| tally_json(tallies, host, all));
        let hosts: Vec<_> = hosts.collect();
        out::json(&json!({ "hosts": hosts, "strays": strays }));
        return;
    }
    let rows: Vec<_> = hosts
        .iter()
        .map(|(&host, tally)| row(host, tally))
        .collect();
    let headings = [
        "host",
        "sent",
        "lost",
        "there, back",
        "loss, 95 %",
        "network",
        "p99",
        "most",
        "responder",
        "prober",
        "jitter",
        "reordered",
        "duplicated",
        "routers",
        "stamps",
    ];
    table::print(headings, &rows);
    for (host, tally) in hosts.iter().filter(|(_, tally)| tally.refused > 0) {
        let refused = tally.refused;
        out::tell(format_args!(
            "{host} refused {refused} probes: run an agent there, or reweave-agent probe --respond"
        ));
    }
    for (&host, tally) in &hosts {
        print_astray(host, tally);
    }
    print_strays(strays);
}

/// Prints counts that should be zero, for which the table has no columns.
fn print_astray(host: Ipv4Addr, tally: &ProbeTally) {
    let (unsent, large) = (tally.unsent, tally.large);
    if unsent.count() > 0 {
        out::tell(format_args!(
            "{} probes to {host} were not sent: {} forbidden by this kernel, {} by a full queue, \
             {} without a route",
            unsent.count(),
            unsent.forbidden,
            unsent.no_room,
            unsent.no_way
        ));
    }
    if tally.stalled > 0 {
        out::tell(format_args!(
            "{} probes to {host} are undecided: this host or the responder was stalled",
            tally.stalled
        ));
    }
    if large.lost > 0 {
        out::tell(format_args!(
            "of {} probes to {host} as large as the MTU here, {} were lost",
            large.sent(),
            large.lost
        ));
    }
}

/// Returns the results of a host and of its paths, by source port.
fn tally_json(tallies: &Tallies, host: Ipv4Addr, all: &ProbeTally) -> Value {
    let own = tallies
        .iter()
        .filter(|(flow, _)| *flow.destination.ip() == host);
    let path = |(flow, tally): (&FlowKey, &ProbeTally)| json!({ "flow": flow, "summary": Summary::from(tally) });
    let paths: Vec<_> = own.map(path).collect();
    json!({ "host": host, "summary": Summary::from(all), "paths": paths })
}

fn row(host: Ipv4Addr, tally: &ProbeTally) -> [String; 15] {
    let it = Summary::from(tally);
    let median = |spread: Option<Spread>| or_dash(spread.map(|it| micros(it.median)));
    let loss = it.loss.map(|loss| {
        let [least, most] = [loss.least, loss.most].map(|share| share * 100.0);
        format!("{least:.2} to {most:.2} %")
    });
    let routers = it.routers.map(|way| {
        if way.there == way.back {
            way.there.to_string()
        } else {
            format!("{} there, {} back", way.there, way.back)
        }
    });
    [
        host.to_string(),
        it.sent.to_string(),
        it.lost.to_string(),
        lost_where(&it),
        or_dash(loss),
        median(it.network_us),
        or_dash(it.network_us.map(|it| micros(it.p99))),
        or_dash(it.network_us.map(|it| micros(it.most))),
        median(it.responder_us),
        median(it.prober_us),
        median(it.jitter_us),
        it.reordered.to_string(),
        it.duplicated.to_string(),
        or_dash(routers),
        or_dash(it.stamped.mostly().map(by)),
    ]
}

/// Describes the directions of the losses; some are unknown.
fn lost_where(it: &Summary) -> String {
    match it.lost {
        0 => "-".to_owned(),
        _ => format!("{}, {}", it.lost_there, it.lost_back),
    }
}

fn print_strays(strays: Strays) {
    let Strays {
        malformed,
        foreign,
        late,
    } = strays;
    if strays.count() > 0 {
        out::tell(format_args!(
            "ignored: {malformed} malformed packets, {foreign} from unknown hosts, {late} too late"
        ));
    }
}

fn micros(micros: f64) -> String {
    format!("{micros:.1} us")
}

pub(super) fn by(stamps: Stamps) -> &'static str {
    match stamps {
        Stamps::Program => "program",
        Stamps::Kernel => "kernel",
        Stamps::Hardware => "hardware",
    }
}
