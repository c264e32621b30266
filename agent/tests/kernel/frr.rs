//! A switch whose routes come from FRR, and the agent beside it: neither touches what the other holds, also when FRR
//! ends.

use std::fs;
use std::net::Ipv4Addr;
use std::process::{Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reweave_common::forwarding_state::RouteRule;

use crate::fabric::{Fabric, host, ip_in, pin, spine_at, wait_for, within};
use crate::pins::{self, moved_over};
use crate::routes::{self, hop, route};
use crate::tests;
use crate::traffic::Session;

tests! {
    held_routes_survive_daemon_restart needs "vtysh",
    frr_weight_route_installs_nothing needs "vtysh",
}

const FRR_DAEMONS_PATH: &str = "/usr/lib/frr";
/// Sockets, process numbers, and an empty configuration.
pub(crate) const FRR_STATE_PATH: &str = "/run/frr";

/// The daemons of leaf 0, until dropped.
pub(crate) struct Frr(&'static [&'static str]);

impl Frr {
    pub(crate) fn start() -> Self {
        Self::start_with(&["zebra", "staticd"])
    }

    /// The first is the one the others need.
    pub(crate) fn start_with(daemons: &'static [&'static str]) -> Self {
        fs::create_dir_all(FRR_STATE_PATH).expect("a folder");
        let owner = Command::new("chown")
            .args(["frr:frr", FRR_STATE_PATH])
            .status();
        assert!(owner.is_ok_and(|it| it.success()), "a user frr");
        fs::write(format!("{FRR_STATE_PATH}/empty"), "").expect("a file");
        for daemon in daemons {
            let mut command = Command::new(format!("{FRR_DAEMONS_PATH}/{daemon}"));
            command.args([
                "-d",
                "-u",
                "frr",
                "-g",
                "frr",
                "--vty_socket",
                FRR_STATE_PATH,
            ]);
            command.args(["-f", &format!("{FRR_STATE_PATH}/empty")]);
            command.args(["-z", &format!("{FRR_STATE_PATH}/zserv.api")]);
            command.args(["-i", &format!("{FRR_STATE_PATH}/{daemon}.pid")]);
            let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
            let status = within("leaf0", || quiet.status());
            assert!(status.is_ok_and(|it| it.success()), "{daemon} starts");
        }
        Self(daemons)
    }

    /// Two routes, by which it shows that it is at work.
    fn configure(&self) {
        let spine = spine_at(0, 0);
        tell(&[
            &format!("ip route {WEIGHTED_DESTINATION}/32 {spine} weight 5"),
            &format!("ip route {PLAIN_DESTINATION}/32 {spine}"),
        ]);
        wait_for("FRR's route", || {
            routes_to(PLAIN_DESTINATION)
                .contains("proto static")
                .then_some(())
        });
    }
}

impl Frr {
    /// Sends a signal to a daemon's process.
    pub(crate) fn signal(daemon: &str, signal: Signal) {
        kill(Self::process(daemon), signal).expect("the daemon runs");
    }

    fn process(daemon: &str) -> Pid {
        let number =
            fs::read_to_string(format!("{FRR_STATE_PATH}/{daemon}.pid")).unwrap_or_default();
        Pid::from_raw(number.trim().parse().expect("a process number"))
    }
}

impl Drop for Frr {
    /// As if they had crashed.
    fn drop(&mut self) {
        for daemon in self.0.iter().rev() {
            let process = Self::process(daemon);
            let _ = kill(process, Signal::SIGKILL);
            let gone = || (!fs::exists(format!("/proc/{process}/fd/0")).ok()?).then_some(());
            wait_for("the end of a daemon", gone);
        }
    }
}

const WEIGHTED_DESTINATION: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 1);
const PLAIN_DESTINATION: Ipv4Addr = Ipv4Addr::new(10, 88, 0, 2);

pub(crate) fn vtysh(commands: &[&str]) -> Output {
    let mut vtysh = Command::new("vtysh");
    vtysh.args(["--vty_socket", FRR_STATE_PATH]);
    for command in commands {
        vtysh.args(["-c", command]);
    }
    within("leaf0", || vtysh.output()).expect("vtysh runs")
}

pub(crate) fn tell(lines: &[&str]) {
    let output = vtysh(&[&["configure terminal"], lines].concat());
    assert!(output.status.success(), "{lines:?}: {output:?}");
}

fn routes_to(destination: Ipv4Addr) -> String {
    ip_in("leaf0", &["route", "show", &destination.to_string()])
}

fn wanted() -> Vec<RouteRule> {
    vec![
        route(host(2), &[hop(0, 3), hop(1, 1)]),
        route(host(3), &[hop(1, 1)]),
    ]
}

fn held_routes_survive_daemon_restart() {
    let _fabric = Fabric::new();
    let frr = Frr::start();
    frr.configure();
    assert_eq!(
        routes::hold(&wanted()).expect("the kernel takes them"),
        wanted()
    );
    let mut session = Session::new(0, 3);
    let over_spine_1 =
        |moved: [u64; 2]| assert!(moved[1] > TRANSFER_BYTES && moved[0] < 1000, "{moved:?}");
    over_spine_1(moved_over(|| session.transfer(TRANSFER_BYTES as usize)));
    drop(frr);
    over_spine_1(moved_over(|| session.transfer(TRANSFER_BYTES as usize)));
    let frr = Frr::start();
    frr.configure();
    over_spine_1(moved_over(|| session.transfer(TRANSFER_BYTES as usize)));
    let pinned = [pin(session.flow, 0)];
    assert_eq!(pins::hold(&pinned).expect("and a pin"), pinned);
    let moved = moved_over(|| session.transfer(TRANSFER_BYTES as usize));
    assert!(moved[0] > TRANSFER_BYTES && moved[1] < 1000, "{moved:?}");
    pins::hold(&[]).expect("it goes");
    assert_eq!(routes::hold(&wanted()).expect("all is as it was"), wanted());
    assert_eq!(routes::hold(&[]).expect("and goes"), []);
    assert!(
        routes_to(PLAIN_DESTINATION).contains("proto static"),
        "FRR's own stays"
    );
}

const TRANSFER_BYTES: u64 = 1 << 20;

/// Why each hop that is sent to FRR names its interface: it takes the word `weight` for one, and the route is taken,
/// kept and of no effect.
fn frr_weight_route_installs_nothing() {
    let _fabric = Fabric::new();
    let frr = Frr::start();
    frr.configure();
    let kept = vtysh(&["show running-config"]);
    let kept = String::from_utf8_lossy(&kept.stdout).into_owned();
    let line = format!(
        "ip route {WEIGHTED_DESTINATION}/32 {} weight 5",
        spine_at(0, 0)
    );
    assert!(kept.contains(&line), "{kept}");
    assert_eq!(routes_to(WEIGHTED_DESTINATION), "");
    let by_kernel = [route(WEIGHTED_DESTINATION, &[hop(0, 5), hop(1, 1)])];
    assert_eq!(
        routes::hold(&by_kernel).expect("the kernel does"),
        by_kernel
    );
}
