//! A lab whose faults are being played, and what it says of them.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::iter;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::support::{Home, Lab, Said, finish, run, wait_until};

/// All faults of these tests come within this time.
const FAULT_TIMEOUT: Duration = Duration::from_mins(2);

pub(crate) struct Play {
    pub(crate) lab: Lab,
    up: Option<Child>,
    lines: Receiver<String>,
}

impl Play {
    /// Brings up the scenario, whose faults begin and end step by step.
    pub(crate) fn begin(scenario: &str) -> Self {
        Self::begin_with(scenario, |up, _| {
            up.arg("--stepped");
        })
    }

    /// The next faults begin or end; returns what happened.
    #[track_caller]
    pub(crate) fn step(&self) -> Vec<String> {
        let said = run(self.lab.home.lab(&["step", "--output", "json"])).expect_code(0);
        let events = said.json();
        let events = events
            .as_array()
            .expect("a step is a list of events")
            .iter();
        let what = |event: &Value| event["what"].as_str().map(str::to_owned);
        events.filter_map(what).collect()
    }

    /// Asserts that all faults have begun and ended.
    #[track_caller]
    pub(crate) fn expect_timeline_finished(&self) {
        let said = run(self.lab.home.lab(&["step"])).expect_code(1);
        let error = "error: all faults of lab play have been played";
        assert_eq!(said.stderr.trim(), error);
    }

    /// Brings up the scenario, whose faults come at their times, with changes to the command; it runs in the folder of its home.
    pub(crate) fn begin_with(scenario: &str, change: impl FnOnce(&mut Command, &Home)) -> Self {
        let home = Home::new();
        let file = home.file("play.toml", scenario);
        let mut command = home.lab(&["up", "--output", "json"]);
        command.arg(file).current_dir(&home.path);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        change(&mut command, &home);
        let mut up = command.spawn().expect("reweave-lab can be run");
        let stderr = up.stderr.take().expect("it was piped");
        let came_up = first_line(up.stdout.take().expect("it was piped"));
        let lines = lines_of(stderr);
        let came_up: Value = serde_json::from_str(&came_up)
            .unwrap_or_else(|_| panic!("not up: {:?}", lines.iter().collect::<Vec<_>>()));
        let lab = Lab {
            home,
            name: "play".into(),
            came_up,
        };
        Self {
            lab,
            up: Some(up),
            lines,
        }
    }

    /// Waits until the lab has reported this event, and returns the second in which it happened.
    #[track_caller]
    pub(crate) fn wait_for(&self, event: &str) -> f64 {
        let deadline = Instant::now() + FAULT_TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.unwrap_or_else(|_| panic!("no event says {event:?}"));
            assert!(!line.contains("FAILED"), "{line}");
            if let Some((second, said)) = line.split_once(" s: ")
                && said == event
            {
                return second.parse().expect("an event begins with its time");
            }
        }
    }

    /// Whether the kernel has a feature that a lab may use.
    pub(crate) fn kernel_has(&self, feature: &str) -> bool {
        let features = self.lab.came_up["features"].as_array();
        features.is_some_and(|features| features.iter().any(|known| known == feature))
    }

    /// Returns the mechanisms by which the lab impairs links.
    pub(crate) fn means(&self) -> Vec<&str> {
        let means = self.lab.came_up["means"].as_array().expect("it tells them");
        means.iter().filter_map(Value::as_str).collect()
    }

    /// Ends the lab as Ctrl-C does, and returns its exit code.
    pub(crate) fn end(&mut self) -> i32 {
        let mut up = self.up.take().expect("it ends once");
        kill(Pid::from_raw(up.id() as i32), Signal::SIGINT).expect("it is there");
        let mut ended = None;
        wait_until("the lab ends", || {
            ended = up.try_wait().expect("it is our child");
            ended.is_some()
        });
        ended
            .and_then(|status| status.code())
            .expect("it ended by itself")
    }
}

fn first_line(stdout: impl Read) -> String {
    let mut line = String::new();
    let _ = BufReader::new(stdout).read_line(&mut line);
    line
}

fn lines_of(stderr: impl Read + Send + 'static) -> Receiver<String> {
    let (tell, report) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            let _ = tell.send(line);
        }
    });
    report
}

/// A background program that is killed with the test.
pub(crate) struct Beside(Option<Child>);

impl Beside {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(Some(command.spawn().expect("it can be run")))
    }

    /// Waits for its end.
    pub(crate) fn finish(mut self) -> Said {
        finish(self.0.take().expect("it runs"), "a program beside the test")
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns the result of iperf3 from one node to another, with further arguments.
pub(crate) fn iperf(lab: &Lab, from: &str, to: &str, arguments: &[&str]) -> Value {
    let server = Beside::start(lab.command(to, &["iperf3", "-s", "-1"]));
    let listens = "grep -q ':1451 .* 0A ' /proc/net/tcp /proc/net/tcp6";
    wait_until("iperf3 listens", || {
        lab.exec(to, &["sh", "-c", listens]).code == Some(0)
    });
    let address = address(lab, to);
    let client = [&["iperf3", "-J", "-c", &address], arguments].concat();
    let measured = lab.json(from, &client);
    server.finish();
    measured
}

pub(crate) fn address(lab: &Lab, node: &str) -> String {
    let nodes = lab.came_up["nodes"].as_array().expect("a lab has nodes");
    let node = nodes.iter().find(|known| known["name"] == node);
    let address = &node.expect("the node is one of the lab")["address"];
    address.as_str().expect("it has an address").to_owned()
}

/// Packets and bytes that an interface has sent and received.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counters {
    pub(crate) sent: f64,
    pub(crate) received: f64,
    pub(crate) bytes_received: f64,
}

impl Counters {
    pub(crate) fn of(lab: &Lab, node: &str, interface: &str) -> Self {
        let shown = lab.json(node, &["ip", "-j", "-s", "link", "show", "dev", interface]);
        let count = |way: &str, what: &str| {
            let count = &shown[0]["stats64"][way][what];
            count.as_f64().unwrap_or_else(|| panic!("{shown}"))
        };
        Self {
            sent: count("tx", "packets"),
            received: count("rx", "packets"),
            bytes_received: count("rx", "bytes"),
        }
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            sent: self.sent - before.sent,
            received: self.received - before.received,
            bytes_received: self.bytes_received - before.bytes_received,
        }
    }
}

/// Makes the command find a program that fails at any request.
pub(crate) fn break_program(command: &mut Command, home: &Home, program: &str) {
    let file = home.file(program, "#!/bin/sh\necho not today >&2\nexit 1\n");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = iter::once(home.path.clone()).chain(env::split_paths(&path));
    command.env(
        "PATH",
        env::join_paths(folders).expect("they were joined before"),
    );
}
