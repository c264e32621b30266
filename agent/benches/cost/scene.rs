//! Three network namespaces at one switch: the agent's host, another host, and all peers. The link to the
//! peers carries a gigabit.

use std::fs::File;
use std::net::Ipv4Addr;
use std::process::Command;
use std::thread;

use nix::sched::{CloneFlags, setns};

pub(crate) const HOST_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub(crate) const OTHER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const PEER_COUNT: u8 = 64;
const NAMESPACES: [&str; 4] = ["switch", "host", "other", "peers"];
/// As the lab shapes it.
const SHAPER: &str = "root tbf rate 1gbit burst 125000 limit 4000000";

pub(crate) fn peers() -> impl Iterator<Item = Ipv4Addr> {
    (1..=PEER_COUNT).map(|number| Ipv4Addr::new(10, 0, 1, number))
}

pub(crate) fn connect() {
    for space in NAMESPACES {
        ip(&format!("netns add {space}"));
        ip(&format!("-n {space} link set lo up"));
    }
    ip("-n switch link add br0 type bridge");
    ip("-n switch link set br0 up");
    for space in &NAMESPACES[1..] {
        ip(&format!(
            "link add eth0 netns {space} type veth peer name {space} netns switch"
        ));
        ip(&format!("-n switch link set {space} master br0 up"));
        ip(&format!("-n {space} link set eth0 up"));
        take_in_elsewhere("switch", space);
    }
    for (space, address) in [("host", HOST_ADDRESS), ("other", OTHER_ADDRESS)] {
        ip(&format!("-n {space} address add {address}/16 dev eth0"));
    }
    for peer in peers() {
        ip(&format!("-n peers address add {peer}/16 dev eth0"));
    }
    run(&format!("tc -n switch qdisc add dev peers {SHAPER}"));
}

/// What arrives there is taken in by another core than the agent's: else who sends on this machine would
/// be charged with the work of who receives.
fn take_in_elsewhere(space: &str, interface: &str) {
    let steer = format!("echo 2 > /sys/class/net/{interface}/queues/rx-0/rps_cpus");
    let mut command = Command::new("ip");
    let status = command
        .args(["netns", "exec", space, "sh", "-c", &steer])
        .status();
    assert!(
        status.is_ok_and(|it| it.success()),
        "{command:?}: are there two cores?"
    );
}

fn ip(words: &str) {
    run(&format!("ip {words}"));
}

fn run(words: &str) {
    let mut words = words.split(' ');
    let mut command = Command::new(words.next().unwrap_or_default());
    let status = command.args(words).status();
    assert!(status.is_ok_and(|it| it.success()), "{command:?}");
}

pub(crate) fn within<T: Send>(space: &str, work: impl FnOnce() -> T + Send) -> T {
    let enter_and_work = || {
        let space = File::open(format!("/run/netns/{space}")).expect("it is there");
        setns(space, CloneFlags::CLONE_NEWNET).expect("and can be entered");
        work()
    };
    let outcome = thread::scope(|scope| scope.spawn(enter_and_work).join());
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
