//! Do jobs behave like training, does the network treat them like any other traffic, and do their
//! sessions live on when their routes move?

mod support;

use std::array;
use std::net::SocketAddrV4;
use std::process::{Child, ExitCode, Stdio};

use libtest_mimic::Arguments;
use serde_json::Value;

use support::report::{figure, flows, jobs, report, start, word};
use support::{Home, Lab, Need, finish, run, scenario, trial, wait_until};

const LAB_NEEDS: &[Need] = &[Need::Lab];
const IPERF3_NEEDS: &[Need] = &[Need::Lab, Need::Program("iperf3")];

/// Maximum deviation from the rates of an independent program.
const RATE_TOLERANCE: f64 = 0.05;

fn main() -> ExitCode {
    let tests = vec![
        trial("every_pattern_moves_its_bytes", LAB_NEEDS, every_pattern),
        trial(
            "ports_make_flows_meet_or_part",
            LAB_NEEDS,
            ports_make_flows_meet_or_part,
        ),
        trial("rail_flows_bind_their_nics", LAB_NEEDS, || {
            rail_flows_bind("rails-8x8", ["h0", "h4"], 0);
        }),
        trial("shifted_rails_cross_spines", LAB_NEEDS, || {
            rail_flows_bind("rails-pod", ["h0", "h1"], 1);
        }),
        trial(
            "contended_rates_are_those_iperf3_sees",
            IPERF3_NEEDS,
            rates_are_iperf3s,
        ),
        trial(
            "session_survives_route_move",
            LAB_NEEDS,
            session_survives_route_move,
        ),
        trial(
            "datagrams_report_losses",
            LAB_NEEDS,
            datagrams_report_losses,
        ),
        trial(
            "failed_expectation_keeps_artifacts",
            LAB_NEEDS,
            failed_expectation_keeps_artifacts,
        ),
    ];
    // Each test measures rates, so none may run in parallel.
    let arguments = Arguments {
        test_threads: Some(1),
        ..Arguments::from_args()
    };
    libtest_mimic::run(&arguments, tests).exit_code()
}

fn text_of(name: &str) -> String {
    std::fs::read_to_string(scenario(name)).expect("the scenario can be read")
}

fn every_pattern() {
    let report = report(&Home::new(), &scenario("patterns"), 0);
    // Total bytes of one iteration, by algorithm.
    let volumes = [
        8 * 2 * 2_000_000 * 7 / 8,
        8 * (2 * 1_500_000 + 500_000),
        4 * 1_500_000,
        4 * 2 * 3 * 250_000,
        8 * 2 * 2_000_000 * 7 / 8,
    ];
    assert_eq!(jobs(&report).len(), volumes.len());
    for (job, volume) in jobs(&report).iter().zip(volumes) {
        let moved: u64 = flows(job)
            .iter()
            .map(|flow| figure(&flow["bytes"]) as u64)
            .sum();
        assert_eq!(moved, 3 * volume, "{}", job["name"]);
    }
    for job in jobs(&report) {
        for flow in flows(job) {
            let sound = (&flow["resets"], &flow["corrupted"]);
            assert_eq!(sound, (&0.into(), &0.into()), "{flow}");
        }
    }
}

fn ports_make_flows_meet_or_part() {
    let text = text_of("collision");
    let home = Home::new();
    let spines = |paths: &str| -> Vec<String> {
        let text = text.replace("paths = \"collide\"", &format!("paths = \"{paths}\""));
        let text = text.replace("min_iteration_ms", "# min_iteration_ms");
        let report = report(&home, &home.file("paths.toml", &text), 0);
        flows(&report["jobs"][0])
            .iter()
            .map(|flow| flow["path"][2].to_string())
            .collect()
    };
    let together = spines("collide");
    assert_eq!(together[0], together[1]);
    let apart = spines("spread");
    assert_ne!(apart[0], apart[1]);
}

/// Each of the eight flows leaves by its own NIC, over the leaf of its rail and a spine, and arrives at the NIC that is
/// `shift` further.
fn rail_flows_bind(name: &str, [from, to]: [&str; 2], shift: usize) {
    let report = report(&Home::new(), &scenario(name), 0);
    let flows = flows(&report["jobs"][0]);
    assert_eq!(flows.len(), 8);
    for (sent, flow) in flows.iter().enumerate() {
        let received = (sent + shift) % 8;
        let address = |end: &str| -> SocketAddrV4 { word(&flow[end]).parse().expect("an address") };
        let nic = |end| usize::from(address(end).ip().octets()[1]);
        assert_eq!([nic("source"), nic("destination")], [sent, received]);
        let path: Vec<_> = flow["path"]
            .as_array()
            .expect("a path")
            .iter()
            .map(word)
            .collect();
        let [first, out, spine, back, last] = path[..] else {
            panic!("{flow}");
        };
        assert_eq!([first, last], [from, to]);
        assert!(spine.starts_with("spine"), "{flow}");
        let rail = |leaf: &str| {
            let (_, rail) = leaf.rsplit_once('-').expect("a leaf has a number");
            rail.parse::<usize>().expect("a number")
        };
        let leaves = if name == "rails-8x8" { 4 } else { 8 };
        assert_eq!(
            [out, back].map(rail),
            [sent, received].map(|rail| rail % leaves)
        );
        assert_eq!(figure(&flow["bytes"]) as u64, 5 * 4_000_000 / 8, "{flow}");
    }
}

/// Three flows share one uplink. iperf3 is given the same addresses and ports afterwards, so that the kernels' hash
/// treats both alike.
const CONTENDED_SCENARIO: &str = r#"
name = "contended"
seed = 5
[fabric]
kind = "leaf-spine"
leaves = 2
spines = 2
hosts_per_leaf = 3
host_gbps = 0.2
uplink_gbps = 0.1
[[job]]
name = "stream"
pattern = "streams"
hosts = ["h0", "h1", "h2", "h3", "h4", "h5"]
pairs = [[0, 3], [1, 4], [2, 5]]
bytes = 40_000_000
iterations = 1
paths = "collide"
"#;

/// A machine that is busy with other things for a moment disturbs one measurement: of three, the median counts.
fn rates_are_iperf3s() {
    let ratios: [Vec<f64>; 3] = array::from_fn(|_| {
        let (ours, theirs) = rates_of_both();
        println!("ours {ours:.1?} Mb/s, iperf3 {theirs:.1?} Mb/s");
        let pairs = ours.iter().zip(&theirs);
        pairs.map(|(ours, theirs)| ours / theirs).collect()
    });
    for flow in 0..ratios[0].len() {
        let mut of_flow = ratios.each_ref().map(|ratios| ratios[flow]);
        of_flow.sort_by(f64::total_cmp);
        assert!(
            (of_flow[1] - 1.0).abs() <= RATE_TOLERANCE,
            "flow {flow}: {ratios:.3?}"
        );
    }
}

fn rates_of_both() -> (Vec<f64>, Vec<f64>) {
    let home = Home::new();
    let ours = report(&home, &home.file("contended.toml", CONTENDED_SCENARIO), 0);
    let flows = flows(&ours["jobs"][0]);
    let lab = Lab::up_text(CONTENDED_SCENARIO);
    let address =
        |flow: &Value, end: &str| -> SocketAddrV4 { word(&flow[end]).parse().expect("an address") };
    let servers: Vec<_> = flows
        .iter()
        .map(|flow| iperf3_server(&lab, flow, address(flow, "destination")))
        .collect();
    let clients: Vec<_> = flows
        .iter()
        .map(|flow| {
            iperf3_client(
                &lab,
                flow,
                address(flow, "source"),
                address(flow, "destination"),
            )
        })
        .collect();
    let theirs: Vec<f64> = clients
        .into_iter()
        .map(|client| {
            let said = finish(client, "iperf3").expect_code(0).json();
            figure(&said["end"]["sum_received"]["bits_per_second"]) / 1e6
        })
        .collect();
    servers.into_iter().for_each(|mut server| {
        server
            .kill()
            .and_then(|()| server.wait())
            .expect("iperf3 can be ended");
    });
    let ours = flows.iter().map(|flow| figure(&flow["rate_mbps"]));
    (ours.collect(), theirs)
}

fn iperf3_server(lab: &Lab, flow: &Value, at: SocketAddrV4) -> Child {
    let host = word(&flow["to"]);
    let port = at.port().to_string();
    let mut server = lab.command(host, &["iperf3", "--server", "--port", &port]);
    let server = server
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("iperf3 starts");
    let listens = || {
        lab.output(host, &["ss", "-Hltn"])
            .contains(&format!(":{port} "))
    };
    wait_until("iperf3 listens", listens);
    server
}

fn iperf3_client(lab: &Lab, flow: &Value, from: SocketAddrV4, to: SocketAddrV4) -> Child {
    let (address, port, own) = (
        to.ip().to_string(),
        to.port().to_string(),
        from.port().to_string(),
    );
    let words = [
        "iperf3", "--json", "--client", &address, "--port", &port, "--cport", &own, "--time", "9",
    ];
    let mut client = lab.command(word(&flow["from"]), &words);
    client
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("iperf3 starts")
}

fn session_survives_route_move() {
    let text = text_of("collision");
    let text = text
        .replace("iterations = 10", "iterations = 20")
        .replace("min_iteration_ms", "# min_");
    let home = Home::new();
    let running = start(&home, &home.file("moved.toml", &text));
    home.wait_until_ready("collision");
    let lab = |node: &str, words: &[&str]| {
        run(home.lab(&[&["exec", "--lab", "collision", node, "--"], words].concat()))
            .expect_code(0)
            .stdout
    };
    let socket = || lab("h1", &["ss", "-Htne", "dst", "10.0.0.5"]);
    wait_until("the job sends", || {
        sent_bytes(&lab("h1", &["cat", "/proc/net/dev"])) > 10_000_000
    });
    let before = socket();
    let port = port_of(&before);
    let idle = idle_uplink(&lab("leaf0", &["cat", "/proc/net/dev"]));
    let gateway = gateway_over(&lab("leaf0", &["ip", "route", "show", "10.0.0.5"]), &idle);
    lab(
        "leaf0",
        &[
            "ip", "route", "add", "10.0.0.5", "via", &gateway, "dev", &idle, "table", "100",
        ],
    );
    lab(
        "leaf0",
        &[
            "ip", "rule", "add", "ipproto", "tcp", "sport", &port, "to", "10.0.0.5", "lookup",
            "100",
        ],
    );
    let at_the_move = sent_over(&lab("leaf0", &["cat", "/proc/net/dev"]), &idle);
    wait_until("the flow takes the other way", || {
        sent_over(&lab("leaf0", &["cat", "/proc/net/dev"]), &idle) > at_the_move + 5_000_000
    });
    assert_eq!(inode(&socket()), inode(&before), "it is the same socket");
    let report = finish(running, "reweave-lab run").expect_code(0).json();
    let job = &report["jobs"][0];
    for flow in flows(job) {
        assert_eq!(flow["resets"], 0, "{flow}");
    }
    let iteration = &job["iteration_ms"];
    assert!(
        figure(&iteration["least"]) * 1.5 < figure(&iteration["most"]),
        "{iteration}"
    );
}

/// The local port in a line of ss: `ESTAB 0 0 10.0.0.1:49152 10.0.0.5:5001 ... ino:123 ...`.
fn port_of(line: &str) -> String {
    let local = line
        .split_whitespace()
        .nth(3)
        .unwrap_or_else(|| panic!("no socket: {line}"));
    local.rsplit(':').next().unwrap_or_default().to_owned()
}

fn inode(line: &str) -> &str {
    let inode = line
        .split_whitespace()
        .find(|field| field.starts_with("ino:"));
    inode.unwrap_or_else(|| panic!("no inode: {line}"))
}

/// Returns the sent bytes in /proc/net/dev.
fn sent_over(table: &str, interface: &str) -> u64 {
    let (_, figures) = table
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim() == interface)
        .unwrap_or_else(|| panic!("no {interface} in {table}"));
    let sent = figures
        .split_whitespace()
        .nth(8)
        .and_then(|figure| figure.parse().ok());
    sent.unwrap_or_else(|| panic!("no figure in {figures}"))
}

fn sent_bytes(table: &str) -> u64 {
    sent_over(table, "eth0")
}

/// Returns the one of leaf0's two uplinks (ports 4 and 5) that has sent less.
fn idle_uplink(table: &str) -> String {
    let least = ["swp4", "swp5"]
        .into_iter()
        .min_by_key(|name| sent_over(table, name));
    least.expect("there are two").to_owned()
}

/// The next hop over an interface, of the several that `ip route show` lists.
fn gateway_over(routes: &str, interface: &str) -> String {
    let words: Vec<_> = routes.split_whitespace().collect();
    let found = words
        .windows(4)
        .find(|hop| hop[0] == "via" && hop[2..] == ["dev", interface]);
    found.unwrap_or_else(|| panic!("no next hop over {interface}: {routes}"))[1].to_owned()
}

/// One link on the path loses 2 % of the packets.
const LOSSY_SCENARIO: &str = r#"
name = "lossy"
seed = 5
[fabric]
kind = "leaf-spine"
leaves = 2
spines = 1
hosts_per_leaf = 1
host_gbps = 0.2
uplink_gbps = 0.1
[[job]]
name = "stream"
pattern = "streams"
hosts = ["h0", "h1"]
pairs = [[0, 1]]
bytes = 40_000_000
iterations = 1
transport = "udp"
[[fault]]
kind = "link-loss"
at_s = 0
link = ["leaf0", "spine0"]
percent = 2
"#;

fn datagrams_report_losses() {
    let home = Home::new();
    let report = report(&home, &home.file("lossy.toml", LOSSY_SCENARIO), 0);
    let flow = &flows(&report["jobs"][0])[0];
    // Frames of 9000 bytes, less the headers of IP, UDP and the transport, which are sent again
    // when they are lost.
    let packets: f64 = 40e6 / 8950.0 / 0.98;
    let (lost, expected) = (figure(&flow["lost"]), packets * 0.02);
    // A sound lab is further off once in 100 000 runs.
    let bound = 4.42 * (packets * 0.02 * 0.98).sqrt();
    assert!(
        (lost - expected).abs() <= bound,
        "{lost} lost of {packets:.0}, not {expected:.0}"
    );
    assert_eq!(
        (&flow["corrupted"], &flow["resets"]),
        (&0.into(), &0.into())
    );
}

fn failed_expectation_keeps_artifacts() {
    let text = text_of("collision");
    let text = text.replace("min_iteration_ms = 300", "max_iteration_ms = 1");
    let home = Home::new();
    let report = report(&home, &home.file("hopeless.toml", &text), 1);
    assert_eq!(report["passed"], false);
    let folder = home
        .path
        .join(report["artifacts"].as_str().expect("artifacts are kept"));
    let kept = |name: &str| std::fs::read_to_string(folder.join(name)).expect(name);
    assert!(
        kept("leaf0.txt").contains("qdisc tbf"),
        "tc -s qdisc of leaf0"
    );
    assert!(kept("report.txt").contains("NOT MET"));
    assert!(kept("scenario.toml").contains("max_iteration_ms"));
    assert!(kept("train-rank0.jsonl").contains("iteration"));
}
