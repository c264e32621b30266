//! Circuits of 64 hosts with four fibres each, a usual number, moved by the driver in the lab's optical switch: two
//! fibres form a ring and the third crosses it, and these stay. The fourth leads to a host a quarter or an eighth of
//! the ring away.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::mem;
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reweave_common::circuit::{Circuit, CircuitSet, OpticalName, PortId};
use reweave_common::fabric::Fabric;
use reweave_common::forwarding_state::ForwardingState;
use reweave_common::ids::NodeId;
use reweave_common::lock::lock;
use reweave_common::operator::Request;
use reweave_common::sample::{Interface, Reading};
use reweave_formats::optical::pairs::read_pairs;
use reweave_formats::optical::restconf::CROSS_CONNECTS_PATH;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::followers::{Followers, World};
use super::operator::{approve, committed, offered};
use super::scenery::idle;
use super::tell;
use crate::load::until_all_report;
use crate::members::{Members, Operator};
use crate::web::Line;

const HOSTS: u16 = 64;
const FIBRES_PER_HOST: u16 = 4;
const SWITCHING_MS: &str = "10";
const TURN_COUNT: usize = 10;
const MAX_TIME_MS: f64 = 2000.0;
/// Maximum delay until light is seen.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const DRIVER_TOML: &str = "[[driver]]\nname = \"d0\"\nswitches = [\"ocs0\"]\n";
const DRIVER_TIMEOUT: Duration = Duration::from_secs(30);

/// Destinations of the fourth fibres.
#[derive(Debug, Clone, Copy)]
enum Fourths {
    Quarter,
    Eighth,
}

pub(crate) async fn measure() {
    let text = fabric();
    let world = Arc::new(Ring::of(&text));
    let nodes = world.nodes();
    let names: Vec<_> = nodes.iter().map(|(_, name)| name.clone()).collect();
    let mut members = Members::among(&text, 1, &names, DRIVER_TOML);
    members.start(0);
    let switch = OpticalSwitch::start(&members);
    let _driver = drive(&members, &switch);
    let followers = Followers::of(&members, &nodes, &world);
    let _watch = tokio::spawn(see_light(
        switch.restconf.clone(),
        Arc::clone(&world),
        followers.looks(),
    ));
    let mut operator = members.operator(0);
    until_all_report(&mut operator, nodes.len()).await;
    until_driven(&mut operator).await;
    let mut kept = vec![];
    for turn in 0..TURN_COUNT {
        let fourths = [Fourths::Eighth, Fourths::Quarter][turn % 2];
        let circuits = BTreeMap::from([(OpticalName("ocs0".to_owned()), circuits(fourths))]);
        let generation = offered(&mut operator, &Request::Rewire { circuits }).await;
        let Some(said) = approve(&mut operator, generation).await else {
            break;
        };
        let committed = committed(&mut operator, generation).await;
        kept.extend(committed.map(|at| at - said));
    }
    tell("circuits-of-64-hosts-committed", kept, MAX_TIME_MS);
}

fn port(host: u16, fibre: u16) -> u16 {
    host * FIBRES_PER_HOST + fibre + 1
}

fn circuits(fourths: Fourths) -> CircuitSet {
    let ring = (0..HOSTS).map(|host| [port(host, 1), port((host + 1) % HOSTS, 0)]);
    let reach = match fourths {
        Fourths::Quarter => HOSTS / 4,
        Fourths::Eighth => HOSTS / 8,
    };
    let all = ring.chain(pairs(2, HOSTS / 2)).chain(pairs(3, reach));
    all.map(|ends| Circuit::from(ends.map(PortId))).collect()
}

/// Joins this fibre of each host with the same fibre of the host at this distance.
fn pairs(fibre: u16, reach: u16) -> impl Iterator<Item = [u16; 2]> {
    let begins = (0..HOSTS).filter(move |host| host % (2 * reach) < reach);
    begins.map(move |host| [port(host, fibre), port(host + reach, fibre)])
}

fn address(host: u16) -> Ipv4Addr {
    [10, 0, 0, host as u8 + 1].into()
}

fn fabric() -> String {
    let mut text = "kind = \"graph\"\n".to_owned();
    for host in 0..HOSTS {
        let address = address(host);
        let _ = writeln!(
            text,
            "[[node]]\nname = \"h{host}\"\nrole = \"relay\"\naddress = \"{address}\""
        );
    }
    let first = circuits(Fourths::Quarter);
    let pairs: Vec<_> = first.iter().map(<[_; 2]>::from).collect();
    let pairs: Vec<_> = pairs.iter().map(|[a, b]| format!("[{a}, {b}]")).collect();
    let (ports, pairs) = (HOSTS * FIBRES_PER_HOST, pairs.join(", "));
    let _ = writeln!(
        text,
        "[[optical]]\nname = \"ocs0\"\nports = {ports}\ncircuits = [{pairs}]"
    );
    for (host, fibre) in (0..HOSTS).flat_map(|host| (0..FIBRES_PER_HOST).map(move |it| (host, it)))
    {
        let port = port(host, fibre);
        let _ = writeln!(
            text,
            "[[fibre]]\nnode = \"h{host}\"\ninterface = \"fab{fibre}\"\noptical = \"ocs0\"\n\
             port = {port}\ngbps = 100"
        );
    }
    text
}

/// Hosts of the ring, and ports of the switch with light.
struct Ring {
    fabric: Fabric,
    lit: Mutex<BTreeSet<u16>>,
}

impl Ring {
    fn of(text: &str) -> Self {
        Self {
            fabric: Fabric::parse("fabric.toml", text).expect("it is a fabric"),
            lit: Mutex::default(),
        }
    }

    fn nodes(&self) -> Vec<(NodeId, String)> {
        let nodes = self.fabric.nodes();
        nodes.map(|(id, node)| (id, node.name.clone())).collect()
    }
}

impl World for Ring {
    fn readings(&self, node: NodeId, _: &ForwardingState) -> Vec<Reading> {
        let lit = lock(&self.lit);
        let host = node.index() as u16;
        let fibres = 0..FIBRES_PER_HOST;
        let fibres = fibres.map(|fibre| {
            let up = lit.contains(&port(host, fibre));
            idle(format!("fab{fibre}"), up)
        });
        let own = Reading::Interface(Interface {
            name: "lo".to_owned(),
            addresses: vec![address(host)],
            gateways: vec![],
        });
        fibres.chain([own]).collect()
    }
}

/// The lab's optical switch, without fibres at its ports: hosts see what the switch reports.
struct OpticalSwitch {
    _process: Running,
    restconf: String,
}

/// Runs until it is dropped.
struct Running(Child);

impl OpticalSwitch {
    fn start(members: &Members) -> Self {
        let ports = (HOSTS * FIBRES_PER_HOST).to_string();
        let mut run = Command::new(members.programs().lab());
        run.args(["optical-switch", "--ports", &ports])
            .args(["--switching-ms", SWITCHING_MS])
            .args(["--listen", "127.0.0.1:0", "--tl1", "127.0.0.1:0"]);
        for circuit in circuits(Fourths::Quarter).iter() {
            run.args(["--circuit", &circuit.to_string()]);
        }
        let mut process = run.stdout(Stdio::piped()).spawn().expect("it was built");
        let mut said = String::new();
        let output = process.stdout.take().expect("it is piped");
        let read = BufReader::new(output).read_line(&mut said);
        read.expect("it says where it listens");
        let mut words = said.split_whitespace();
        let address = words.find(|word| word.contains(':'));
        Self {
            _process: Running(process),
            restconf: address.expect("it listens").to_owned(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn drive(members: &Members, switch: &OpticalSwitch) -> Running {
    let (state, ports) = (members.path("driver"), HOSTS * FIBRES_PER_HOST);
    let config = format!(
        "state = {state:?}\n[[optical]]\nname = \"ocs0\"\nports = {ports}\n\
         speaks.restconf.url = \"http://{}\"\n",
        switch.restconf
    );
    members.write("driver.toml", &config);
    let mut run = Command::new(members.programs().driver());
    run.arg("--config").arg(members.path("driver.toml"));
    run.arg("run").arg("--identity").arg(members.path("d0"));
    run.arg("--coordinator")
        .arg(members.addresses[0].to_string());
    run.stdout(Stdio::null()).stderr(Stdio::null());
    Running(run.spawn().expect("it was built"))
}

/// Agents report at once which ports have come up or gone down.
async fn see_light(restconf: String, world: Arc<Ring>, looks: BTreeMap<NodeId, Arc<Notify>>) {
    let address = restconf.parse().expect("it is an address");
    let mut line = Line::to(address, "absent").await.expect("it listens");
    loop {
        // Ends with the switch, after all measurements.
        let Ok(report) = line.get(CROSS_CONNECTS_PATH).await else {
            return;
        };
        let pairs = read_pairs(&String::from_utf8_lossy(&report)).expect("they are pairs");
        let ports = pairs.iter().flat_map(|pair| pair.circuit().ports());
        let ports = ports.map(|port| port.0).collect();
        let before = mem::replace(&mut *lock(&world.lit), ports);
        let turned = &*lock(&world.lit) ^ &before;
        let hosts: BTreeSet<_> = turned
            .iter()
            .map(|port| (port - 1) / FIBRES_PER_HOST)
            .collect();
        for host in hosts {
            looks[&NodeId::from_index(host.into())].notify_one();
        }
        sleep(POLL_INTERVAL).await;
    }
}

async fn until_driven(operator: &mut Operator) {
    let driven = async {
        while operator
            .status()
            .await
            .is_none_or(|status| !status.opticals.iter().all(|it| it.is_driven))
        {
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(DRIVER_TIMEOUT, driven)
        .await
        .expect("the driver comes");
}
