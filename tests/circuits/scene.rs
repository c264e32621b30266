//! Four hosts in a ring, each with a third fibre: through the optical switch, these lead across the ring or along it.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use reweave_common::circuit::CircuitSet;
use reweave_common::forwarding_state::{ForwardingState, RouteHop, RouteRule};
use reweave_tests::{Labs, STAGE_TIMEOUT, Setting, Stage, wait_for};

use crate::helper::HOLD_ARGUMENT;
use crate::session_jobs::JOB_TABLES;

const FABRIC: &str = include_str!("thirds.toml");
/// Jobs whose packets never cross fibres of h1, wherever the third fibres lead. Jobs of all hosts are added to them.
const SCENARIO: &str = r#"
name = "circuits"
management = true
fabric = "two-leaves.toml"
[[job]]
name = "others-tcp"
pattern = "streams"
hosts = ["h0", "h2", "h3"]
pairs = [[0, 2], [2, 0], [1, 2], [2, 1]]
bytes = 10_000
compute_ms = 5
iterations = 1_000_000
[[job]]
name = "others-udp"
pattern = "streams"
transport = "udp"
hosts = ["h0", "h2", "h3"]
pairs = [[0, 2], [2, 0], [1, 2], [2, 1]]
bytes = 10_000
compute_ms = 5
iterations = 1_000_000
"#;

/// The protocol between the driver and the switch.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Over {
    Restconf,
    Tl1,
}

/// The circuits of the ring, which never move.
const RING_CIRCUITS: &str = "2-3,5-6,8-9,11-12";

/// Where the third fibres lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Thirds {
    /// Between ports that carry no packets.
    Unused,
    /// h0 to h2 and h1 to h3.
    Across,
    /// h0 to h1 and h2 to h3.
    Along,
}

impl Thirds {
    pub(crate) fn circuits(self) -> String {
        match self {
            Self::Unused => RING_CIRCUITS.to_owned(),
            Self::Across => format!("{RING_CIRCUITS},1-7,4-10"),
            Self::Along => format!("{RING_CIRCUITS},1-4,7-10"),
        }
    }

    /// In the order of the driver's output.
    pub(crate) fn circuits_in_order(self) -> String {
        let set = CircuitSet::from_text(&self.circuits());
        set.expect("they are circuits").to_string()
    }

    pub(crate) fn other(self) -> Self {
        match self {
            Self::Along => Self::Across,
            _ => Self::Along,
        }
    }

    /// The host at the other end of a host's third fibre.
    fn far(self, host: usize) -> Option<usize> {
        match self {
            Self::Unused => None,
            Self::Across => Some((host + 2) % 4),
            Self::Along => Some(host ^ 1),
        }
    }

    /// All routes of a host: direct to its neighbours; to the opposite host by the third fibre, if it leads there,
    /// otherwise along the ring.
    pub(crate) fn holding(self, host: usize) -> ForwardingState {
        let third = self.far(host).map(|far| (2, far));
        let ring = [(0, (host + 3) % 4), (1, (host + 1) % 4)];
        let to = |destination: usize| {
            let straight = ring.into_iter().chain(third);
            let straight: Vec<_> = straight.filter(|(_, far)| *far == destination).collect();
            // All hosts go around the same way, or packets could loop.
            let around = vec![ring[1]];
            let hops = if straight.is_empty() {
                around
            } else {
                straight
            };
            let mut hops: Vec<_> = hops
                .into_iter()
                .map(|(fibre, far)| hop(fibre, far))
                .collect();
            hops.sort();
            let destination = address(destination);
            RouteRule { destination, hops }
        };
        let others = (0..4).filter(|other| *other != host);
        ForwardingState {
            rules: vec![],
            routes: others.map(to).collect(),
        }
    }
}

fn hop(fibre: usize, far: usize) -> RouteHop {
    RouteHop {
        interface: format!("fab{fibre}"),
        next_hop: address(far),
        weight: 1,
    }
}

fn address(host: usize) -> std::net::Ipv4Addr {
    [10, 0, 0, host as u8 + 1].into()
}

pub(crate) struct Scene(pub(crate) Stage);

impl Scene {
    pub(crate) fn up(over: Over) -> Self {
        let scenario = format!("{SCENARIO}{JOB_TABLES}");
        let setting = Setting {
            scenario: &scenario,
            fabric: FABRIC,
        };
        Self::of(setting, over)
    }

    pub(crate) fn of(setting: Setting<'_>, over: Over) -> Self {
        let stage = Stage::up(setting, Labs::Hidden).expect("the lab comes up");
        stage.write("password", "light").expect("a file");
        let speaks = match over {
            Over::Restconf => "restconf.url = \"http://ocs0.mgmt\"".to_owned(),
            Over::Tl1 => format!(
                "tl1 = {{ host = \"ocs0.mgmt\", user = \"reweave\", password_file = {:?} }}",
                stage.path("password")
            ),
        };
        let ports = stage.fabric().opticals().map(|(_, switch)| switch.ports);
        let config = format!(
            "state = {:?}\n[[optical]]\nname = \"ocs0\"\nports = {}\nspeaks.{speaks}\n",
            stage.path("driver"),
            ports.sum::<u16>()
        );
        stage.write("driver.toml", &config).expect("a file");
        Self(stage)
    }

    /// `reweave-driver` in the station.
    pub(crate) fn driver(&self, words: &[&str]) -> std::process::Output {
        let mut command = self
            .0
            .inside(Stage::STATION_NAME, self.0.programs().driver());
        command.arg("--config").arg(self.0.path("driver.toml"));
        command.args(words).output().expect("the driver starts")
    }

    /// The output of the driver's command, which must succeed.
    #[track_caller]
    pub(crate) fn drive(&self, words: &[&str]) -> String {
        let output = self.driver(words);
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout)
            .expect("words")
            .trim()
            .to_owned()
    }

    pub(crate) fn goes_wrong(&self, how: &str) {
        let wish = format!("{{\"mishap\":{how}}}");
        let json = "content-type: application/json";
        let words = [
            "curl",
            "-sSf",
            "-X",
            "PUT",
            "-H",
            json,
            "-d",
            &wish,
            "http://ocs0.mgmt/lab/mishap",
        ];
        self.0
            .output(Stage::STATION_NAME, &words)
            .expect("the switch takes the request");
    }

    /// Deletes the circuit that begins at this port, as a person does on the device.
    pub(crate) fn delete_circuit(&self, port: u16) {
        let url = format!("http://ocs0.mgmt/api/data/optical-switch:cross-connects/pair={port}");
        let words = ["curl", "-sSf", "-X", "DELETE", &url];
        self.0
            .output(Stage::STATION_NAME, &words)
            .expect("the switch takes the request");
    }

    /// Installs these routes on all hosts, and reads them back.
    pub(crate) fn route(&self, thirds: Thirds) {
        thread::scope(|scope| {
            for host in 0..4 {
                scope.spawn(move || self.hold(host, &thirds.holding(host)));
            }
        });
    }

    fn hold(&self, host: usize, desired: &ForwardingState) {
        let this = std::env::current_exe().expect("this program has a path");
        let mut command: Command = self.0.inside(&format!("h{host}"), this);
        command
            .arg(HOLD_ARGUMENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("the helper starts");
        let mut input = child.stdin.take().expect("piped");
        let text = serde_json::to_vec(desired).expect("it is plain data");
        input.write_all(&text).expect("it reads");
        drop(input);
        let output = child.wait_with_output().expect("it ends");
        let held: ForwardingState = serde_json::from_slice(&output.stdout).expect("it answers");
        assert!(held.is_same_as(desired), "h{host} holds {held:?}");
    }

    /// Waits until the third fibres are proven idle.
    pub(crate) fn wait_until_drained(&self) {
        let quiet = Duration::from_millis(200);
        let (mut seen, mut since) = (self.passed(), Instant::now());
        wait_for("nothing passes the fibres", STAGE_TIMEOUT, || {
            let now = self.passed();
            if now != seen {
                (seen, since) = (now, Instant::now());
            }
            Ok((since.elapsed() >= quiet).then_some(()))
        })
        .expect("they are drained");
    }

    fn passed(&self) -> Vec<String> {
        let read = ["cat", "/sys/class/net/fab2/statistics/tx_packets"];
        let of = |host| {
            self.0
                .output(&format!("h{host}"), &read)
                .expect("a counter")
        };
        (0..4).map(of).collect()
    }

    /// The number of packets that kernels and queues of hosts dropped, for any reason.
    pub(crate) fn thrown_away(&self) -> Vec<u64> {
        // The IP counters of discards, address errors and missing routes. Header errors are not counted: packets of
        // agents' traces expire on purpose.
        let script = "awk '/^Ip:/ && !/Forw/ {print $6+$8+$9+$12+$13}' /proc/net/snmp; \
                      tc -s qdisc | sed -n 's/.*(dropped \\([0-9]*\\),.*/\\1/p'; \
                      cat /sys/class/net/fab*/statistics/?x_dropped";
        let of = |host| -> u64 {
            let counts = self.0.output(&format!("h{host}"), &["sh", "-c", script]);
            let counts = counts.expect("counters");
            counts
                .lines()
                .map(|line| line.parse::<u64>().expect("a count"))
                .sum()
        };
        (0..4).map(of).collect()
    }

    /// The hardware address and MTU of each interface, and all addresses of hosts.
    pub(crate) fn identities(&self) -> Vec<String> {
        let script = "for it in /sys/class/net/*; do echo $it $(cat $it/address $it/mtu); done; \
                      ip -o address | awk '{print $2, $3, $4}'";
        let of = |host| self.0.output(&format!("h{host}"), &["sh", "-c", script]);
        (0..4)
            .map(|host| of(host).expect("it is reported"))
            .collect()
    }

    pub(crate) fn wait_for_light(&self) {
        let read = ["cat", "/sys/class/net/fab2/carrier"];
        wait_for("the fibres have light", STAGE_TIMEOUT, || {
            let lit = |host| self.0.output(&format!("h{host}"), &read);
            let lit: Result<Vec<_>, _> = (0..4).map(lit).collect();
            Ok(lit?.iter().all(|it| it.trim() == "1").then_some(()))
        })
        .expect("they have");
    }
}
