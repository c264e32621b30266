//! New source ports for flows that must move, where the switches' hash is unknown: probes with the same fields show
//! which path each port selects, and the kernels then send the flow there.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};

use libtest_mimic::Trial;
use reweave_common::operator::FlowStatus;
use reweave_tests::{Leadership, STAGE_TIMEOUT, Stage, wait_for};
use serde::Deserialize;
use serde_json::{Deserializer, Value};

use crate::needs::trial;
use crate::play::{STAGE_NEEDS, must};
use crate::scene::{leaf_spine, led};

/// Two flows that meet on one of four uplinks.
const JOB: &str = "[[job]]\nname = \"train\"\npattern = \"streams\"\nhosts = [\"h0\", \"h1\", \"h4\", \"h5\"]\n\
    pairs = [[0, 2], [1, 3]]\nbytes = 20_000_000\ncompute_ms = 5\niterations = 1_000_000\npaths = \"collide\"\n";
/// With four paths, probes of this many ports miss one of them once in 4^8 runs.
const PROBED_PORTS: std::ops::Range<u16> = 40_000..40_008;
const TABLE_HEADER: &str = "src,dst,bytes,path,sport,dport,proto,move\n";

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial("probed_ports_separate_flows", STAGE_NEEDS, apart)]
}

#[derive(Debug, Deserialize)]
struct Paths {
    paths: Vec<FlowStatus>,
}

#[derive(Debug, Deserialize)]
struct Answer {
    before: Figures,
    after: Figures,
    pins: Vec<Value>,
    ports: Vec<Port>,
}

#[derive(Debug, Deserialize)]
struct Figures {
    fim: f64,
    floor: f64,
    max_over_mean: f64,
}

#[derive(Debug, Deserialize)]
struct Port {
    flow: usize,
    source_port: u16,
}

fn apart() {
    let stage = led(&leaf_spine(2, 4, 4), JOB, &Leadership::default());
    let job = must(stage.job("train"));
    let flows = must(wait_for("both ways are known", STAGE_TIMEOUT, || {
        let mut paths = stage.operator().ask::<Paths>(&["paths"])?.paths;
        paths.retain(|flow| flow.rate_bits_per_s.mbps() > 10.0 && flow.path.is_some());
        Ok((paths.len() == 2).then_some(paths))
    }));
    let probes: Vec<_> = flows.iter().flat_map(|flow| probed(&stage, flow)).collect();
    must(job.stop());
    let answer = balanced(&stage, &flows, &probes);
    println!("{answer:#?}");
    assert!(answer.pins.is_empty());
    assert_eq!(answer.before.max_over_mean, 4.0);
    assert_eq!(answer.after.fim, answer.after.floor);
    // Two of four links carry equal loads, up to the variation of rates.
    assert!((answer.after.max_over_mean - 2.0).abs() < 0.2);
    assert!(answer.before.fim > answer.before.floor);
    let [port] = &answer.ports[..] else {
        panic!("one of them moves: {answer:?}")
    };
    let (moved, other) = (&flows[port.flow], &flows[1 - port.flow]);
    let uplink = |flow: &FlowStatus, port| kernels_choice(&stage, flow, port);
    let now = uplink(moved, moved.flow.source.port());
    assert_eq!(now, uplink(other, other.flow.source.port()), "they collide");
    assert_ne!(now, uplink(moved, port.source_port), "and then no more");
}

/// The path of packets with the same fields and another source port.
struct Probe {
    source_port: u16,
    flow: FlowStatus,
    path: String,
}

fn probed(stage: &Stage, flow: &FlowStatus) -> Vec<Probe> {
    let [from, to] = [flow.flow.source, flow.flow.destination];
    let agent = stage.programs().agent();
    let trace = |port: u16| {
        let source = SocketAddrV4::new(*from.ip(), port);
        format!(
            "{} trace tcp {source} {to} --output json &\n",
            agent.display()
        )
    };
    let all: String = PROBED_PORTS.map(trace).collect();
    let said = must(stage.output(&flow.from, &["sh", "-c", &(all + "wait")]));
    let names = names(stage);
    let traces = Deserializer::from_str(&said).into_iter::<Value>();
    let probe = |answer: Value| {
        let source: SocketAddrV4 = serde_json::from_value(answer["flow"]["source"].clone()).ok()?;
        let routers: Vec<Ipv4Addr> = serde_json::from_value(answer["routers"].clone()).ok()?;
        let between = routers.iter().map(|router| names.get(router).cloned());
        let between = between.collect::<Option<Vec<_>>>()?.join(">");
        Some(Probe {
            source_port: source.port(),
            path: format!("{}>{between}>{}", flow.from, flow.to),
            flow: flow.clone(),
        })
    };
    let probes = traces.filter_map(|answer| probe(answer.ok()?));
    probes.collect()
}

fn names(stage: &Stage) -> BTreeMap<Ipv4Addr, String> {
    let agents = must(stage.operator().status()).agents.into_iter();
    let named = agents.flat_map(|agent| {
        let addresses = agent.addresses.into_iter();
        addresses.map(move |address| (address, agent.node.clone()))
    });
    named.collect()
}

fn balanced(stage: &Stage, flows: &[FlowStatus], probes: &[Probe]) -> Answer {
    let mut table = TABLE_HEADER.to_owned();
    for flow in flows {
        let hops = flow.path.iter().flatten().map(|hop| format!(">{}", hop.to));
        let path = flow.from.clone() + &hops.collect::<String>();
        let bytes = flow.rate_bits_per_s.bits_per_s() / 8;
        table += &row(flow, flow.flow.source.port(), bytes, &path);
    }
    let of_probe = |it: &Probe| row(&it.flow, it.source_port, 0, &it.path);
    let probed = TABLE_HEADER.to_owned() + &probes.iter().map(of_probe).collect::<String>();
    fs::write(stage.path("flows.csv"), &table).expect("a file can be made");
    fs::write(stage.path("probes.csv"), &probed).expect("a file can be made");
    println!("{table}{probed}");
    let [fabric, flows, probes] = ["two-leaves.toml", "flows.csv", "probes.csv"]
        .map(|name| stage.path(name).display().to_string());
    let words = [
        "plan", "balance", "--fabric", &fabric, "--flows", &flows, "--probed", &probes,
    ];
    println!("{}", must(stage.operator().shown(&words)));
    must(stage.operator().ask(&words))
}

fn row(flow: &FlowStatus, port: u16, bytes: u64, path: &str) -> String {
    let mut row = String::new();
    let (from, to, dport) = (&flow.from, &flow.to, flow.flow.destination.port());
    let _ = writeln!(row, "{from},{to},{bytes},{path},{port},{dport},tcp,port");
    row
}

/// The interface that the first leaf's kernel selects for such packets.
fn kernels_choice(stage: &Stage, flow: &FlowStatus, port: u16) -> String {
    let [from, to] = [flow.flow.source.ip(), flow.flow.destination.ip()];
    let dport = flow.flow.destination.port();
    let fabric = stage.fabric();
    let [host, leaf] = [&*flow.from, "leaf0"].map(|name| fabric.find(name).expect("it is there"));
    let link = fabric
        .links_between(host, leaf)
        .next()
        .expect("they are joined");
    let mut ports = fabric.link(link).ports().into_iter();
    let near = ports.find(|it| it.node == leaf).expect("it ends there");
    let question = format!(
        "ip -o route get {to} from {from} iif swp{} ipproto tcp sport {port} dport {dport}",
        near.index
    );
    let said = must(stage.output("leaf0", &["sh", "-c", &question]));
    let mut words = said.split_whitespace().skip_while(|word| *word != "dev");
    words.nth(1).expect("it leads somewhere").to_owned()
}
